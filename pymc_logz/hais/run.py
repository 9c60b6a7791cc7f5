"""One HAIS run: from a prepared model to a frozen plan, weighted rows, and a DataTree."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from pymc_logz.checks.missed_modes import larger, log_z_from_prior
from pymc_logz.checks.symmetry import symmetry_doubts
from pymc_logz.checks.tails import tail_doubts
from pymc_logz.errors import logger, warn
from pymc_logz.estimators import LogZEstimate
from pymc_logz.hais.results import (
    Directions,
    annealing_dataset,
    doubts_of_ends,
    draw_datasets,
    estimates_of,
    exact_tree,
    forward_estimate,
    of_model,
)
from pymc_logz.hais.settings import DEFAULT_MCSE, HaisSettings
from pymc_logz.kernels.compose import sums_out
from pymc_logz.kernels.hamiltonian import walls_of
from pymc_logz.loop.calls import Call, Subject, begun, ready
from pymc_logz.loop.frozen import Planned
from pymc_logz.loop.planning import plan_run
from pymc_logz.models.density import lacks_gradient
from pymc_logz.models.flat import unconstrain
from pymc_logz.models.preparation import Prepared
from pymc_logz.pilot.ladder import MAX_GROWTH
from pymc_logz.references.blend import AT_ONCE
from pymc_logz.references.reference import ERROR_FACTOR, REFERENCE_MCSE
from pymc_logz.runners.anneal import Annealed, merge, of_rows
from pymc_logz.runners.progress import line, report_count
from pymc_logz.runners.running import AnnealCourse, Running, anneal_each, finished, run_tasks
from pymc_logz.seeds import spawn_generators
from pymc_logz.trees.doubts import Doubt, disagreements, warn_of_nan, warn_of_status, with_doubts
from pymc_logz.trees.kinds import HAIS, HAIS_BOTH
from pymc_logz.trees.layout import evidence_dataset, make_tree, with_units
from pymc_logz.trees.posterior import posterior_of
from pymc_logz.weights import resampled

if TYPE_CHECKING:
    import pymc as pm

ONE_TEMPERATURE = "plain importance sampling: one temperature, so nothing is annealed"
MOST_MOVES = 2**24
"""Moves of all rows together beyond which no second try is made: minutes for most models."""

MakePlan = Callable[..., Planned]
"""Makes a plan for a call; the second and later ones take what was planned before, and tried."""


def run_hais(
    model: "pm.Model",
    settings: HaisSettings,
    *,
    posterior_draws: xr.DataTree | None = None,
    simulate_data: bool = False,
    random_seed: Any = None,
    **shown: Any,
) -> xr.DataTree:
    """Anneal to a PyMC model, or to data simulated from it; ``shown`` are arguments of `begun`."""
    # reverse rows start at the draw of the prior that the simulated data came from
    sum_out = False if simulate_data else sums_out(settings.sum_out, settings.kernel)
    if sum_out is not False and (exact := exact_tree(model, settings, random_seed)) is not None:
        return exact
    with begun(settings, random_seed, **shown) as call:
        subject = ready(model, call, simulate_data=simulate_data, sum_out=sum_out)
        prepared, block = subject.what, subject.block
        rows = prepared.exact_row
        if posterior_draws is not None:
            rows = unconstrain(prepared.flat, posterior_of(posterior_draws, "posterior_draws"))

        def plan(
            name: str, call: Call, tried: Planned | None = None, *, direct: bool = True
        ) -> Planned:
            of = prepared, block, settings, call.rngs.pilot, tried
            return call.planned_once(subject, name, partial(plan_run, *of, direct=direct))

        # fresh rows from the prior may see what the first ones did not, before a path is taken
        plans = [partial(plan, "plan"), partial(plan, "plan-again")]
        return run_subject(call, subject, [*plans, partial(plan, "plan-path", direct=False)], rows)


def run_subject(
    call: Call[HaisSettings],
    subject: Subject,
    plans: Sequence[MakePlan],
    target_rows: np.ndarray | None = None,
) -> xr.DataTree:
    """Tune, freeze, run, collect; reverse rows start from draws of the target, if there are any."""
    watch, block = call.watch, subject.block
    watch.end("compile_time")
    with call.kept(subject.what, block, posterior_draws=target_rows) as call:
        first, *others = (partial(plan, call) for plan in plans)
        planned = first()
        watch.end("tuning_time", block.work)
        chains = Chains(call, target_rows, subject.prepared)
        planned, forward = chains.twice(planned, others)
        directions = chains.both_ways(planned, forward)
    watch.end("sampling_time", block.work)
    with line("Checking the result"):
        before = [*planned.given_up, *chains.before]
        doubts = doubts_of_run(subject, directions, call.rngs.checks, before)
    watch.end("checking_time")
    return collect(call, subject, planned, directions, doubts)


def run_chains(
    planned: Planned,
    generators: list[np.random.Generator],
    draws: int,
    running: Running,
    report: Any,
    name: str = "forward",
) -> list[Annealed]:
    """Fresh rows in independent chains, one generator each, annealed unless they need no path."""
    if planned.blend is not None and planned.target is not None:
        weighted = partial(planned.blend.weighted, planned.target, n=draws, report=report)
        return finished(run_tasks([partial(weighted, rng) for rng in generators], 1))
    block, plan = planned.block, planned.plan
    # prior draws share one compiled function, so they are made here, chain by chain
    starts = [block.path.sample_reference(rng, draws) for rng in generators]
    course = AnnealCourse(block, plan)
    return finished(anneal_each(name, course, starts, generators, running, report))


@dataclass(frozen=True)
class Chains:
    """Chains of a run, as they are asked for."""

    call: Call[HaisSettings]
    target_rows: np.ndarray | None = None
    """Draws of the target that reverse rows start from, shape (n, d), if there are any."""
    prepared: Prepared | None = None
    """The model, if it is one whose evaluations are of interest."""
    before: list[LogZEstimate] = field(default_factory=list)
    """By runs whose weights were too uneven, after which all was planned anew."""

    def twice(
        self, planned: Planned, others: Sequence[MakePlan] = (), *, may_grow: bool = True
    ) -> tuple[Planned, list[Annealed]]:
        """Chains, run again along a longer ladder if they are not good enough, and their plan."""
        # the second run has fresh rows, and is the one that counts; where the plan is not what it
        # seemed, all is planned anew
        settings, runs = self.call.settings, self.until(planned)
        estimate = forward_estimate(runs, planned.reference)
        sound = estimate.status == "ok"
        # tails of nested approximations are those of normal laws, so that few temperatures leave
        # weights whose errors are too small
        most = 0.03 if planned.reference.taken == "nested_laplace" else DEFAULT_MCSE[1]
        good = sound and estimate.mcse <= max(most, settings.target_mcse or 0.0)
        whole = len(runs) == settings.chains
        if planned.target is not None and others and whole and not sound:
            ran = replace(planned, ran=tuple(runs))
            self.before.append(estimate)
            logger.info("The first attempt had status %r: trying another plan.", estimate.status)
            return self.twice(others[0](ran), others[1:])
        # the variance of a sound run falls as one over the number of temperatures
        growth = np.ceil(1.2 * (estimate.mcse / most) ** 2) if sound else MAX_GROWTH
        longer = planned.longer(int(np.clip(growth, 2, MAX_GROWTH)))
        n_moves = settings.draws * settings.chains * longer.plan.n_temperatures
        is_final = settings.target_mcse is not None or not whole
        if good or not may_grow or is_final or longer is planned or n_moves > MOST_MOVES:
            return planned, runs
        before, after = planned.plan.n_temperatures, longer.plan.n_temperatures
        logger.info(
            "The error is %.2g with status %r after %d temperatures: trying %s.",
            estimate.mcse,
            estimate.status,
            before,
            after if after > before else "more particles",
        )
        return self.twice(longer, others, may_grow=False)

    def until(self, planned: Planned) -> list[Annealed]:
        """Chains that grow until the error of log Z is met, or until that is out of reach."""
        settings = self.call.settings
        draws, target_mcse = settings.draws, settings.target_mcse
        generators = spawn_generators(self.call.rngs.run, settings.chains)
        runs: list[Annealed] = []
        n_next, k = draws, planned.plan.n_temperatures
        while True:
            n_moves = k if runs or settings.direction == "forward" else 2 * k + settings.tune
            report = self.report("Annealing", planned, n_next, n_moves, grows=bool(runs))
            more = run_chains(planned, generators, n_next, settings.running, report)
            interrupted = len(more) < len(generators)
            if not runs:
                runs = more
            elif not interrupted:
                runs = list(map(merge, runs, more))
            if target_mcse is None or interrupted:
                return runs
            estimate = forward_estimate(runs, planned.reference)
            n_now = runs[0].log_weight.size
            wanted = n_now * (estimate.mcse / target_mcse) ** 2
            if estimate.mcse <= target_mcse:
                return runs
            if not np.isfinite(wanted) or n_now >= 64 * draws:
                warn(
                    f"target_mcse={target_mcse} is out of reach: {n_now} particles per chain gave "
                    f"an error of {estimate.mcse:.3g} with status {estimate.status!r}. Use more "
                    "temperatures (betas=<int>), another reference, or more draws"
                )
                return runs
            # a little more than the law of large numbers asks for, and no more than four times as
            # many
            n_next = int(np.clip(1.1 * wanted - n_now, 0.1 * n_now, 3 * n_now)) + 1

    def report(
        self, what: str, planned: Planned, draws: int, n_moves: int, *, grows: bool = False
    ) -> Any:
        """A line of the progress bar for all chains, which may grow by these rows.

        Each row makes so many moves, on its way and on the way back if that comes next.
        """
        settings, block, k = self.call.settings, planned.block, planned.plan.n_temperatures
        more = f" to meet target_mcse={settings.target_mcse}" if grows else ""
        # at one temperature nothing is annealed: draws of the reference are weighted
        does = f"{what}{more}: {k} temperatures" if k > 1 else f"Weighting{more}"
        text = f"{does}, {settings.chains} chains"
        total = settings.chains * k
        each = n_moves * block.cost_of_move if planned.blend is None else planned.blend.tries
        needs = self.call.needs(self.prepared, block.work, settings.chains * draws * each)
        return report_count(text, total, "; ".join(settings.cheaper()), needs)

    def both_ways(self, planned: Planned, forward: list[Annealed]) -> Directions:
        """Forward rows with those that go back, if they are asked for, and all that were added."""
        directions, settings = Directions(forward, planned.reference), self.call.settings
        if settings.direction == "both":
            try:
                directions.reverse = self.back(planned, forward)
                directions.exact_starts = self.target_rows is not None
            except KeyboardInterrupt:
                if settings.running.keeper is not None:  # it goes on from there another time
                    raise
                warn(
                    "interrupted: no reverse chain is finished, and the result is of the forward "
                    "ones"
                )
        for draws in settings.more:
            generators = spawn_generators(self.call.rngs.run, settings.chains)
            k, name = planned.plan.n_temperatures, f"more-{draws}"
            report = self.report("More particles", planned, draws, k)
            more = run_chains(planned, generators, draws, settings.running, report, name)
            if len(more) < len(directions.forward):
                break
            directions.forward = list(map(merge, directions.forward, more))
            if directions.reverse is None:
                continue
            back = self.back(planned, more)
            if len(back) == len(directions.reverse):
                directions.reverse = list(map(merge, directions.reverse, back))
        return directions

    def back(self, planned: Planned, forward: list[Annealed]) -> list[Annealed]:
        """Anneal from the target back to the reference, in as many chains as ran forward.

        Rows start at draws of the target, which are first moved on at beta = 1: those given, or the
        ends of the forward rows of the same chain, resampled.
        """
        [shuffling, *generators] = spawn_generators(self.call.rngs.run, len(forward) + 1)
        sizes = [run.log_weight.size for run in forward]
        if self.target_rows is None:
            starts = [
                run.position[resampled(run.log_weight, rng, shuffled=True)]
                for run, rng in zip(forward, generators, strict=True)
            ]
        else:
            rows = planned.reference.whitened(self.target_rows)
            # shuffled before chains get a part each, as draws come in an order of their own
            order = np.resize(shuffling.permutation(len(rows)), sum(sizes))
            starts = [rows[part] for part in np.split(order, np.cumsum(sizes)[:-1])]
        course, tune = AnnealCourse(planned.block, planned.plan.reverse()), self.call.settings.tune
        n_moves, running = planned.plan.n_temperatures + tune, self.call.settings.running
        report = self.report("Reverse", planned, max(sizes), n_moves)
        return finished(anneal_each("reverse", course, starts, generators, running, report, tune))


def doubts_of_run(
    subject: Subject,
    directions: Directions,
    rng: np.random.Generator,
    before: Sequence[LogZEstimate] = (),
) -> list[Doubt]:
    """What rows say against a run, where its weights are good enough for them to be looked at.

    And what runs ``before`` it say, which were given up.
    """
    estimate = forward_estimate(directions.forward, directions.reference)
    ends = doubts_of_ends(directions)
    prepared, block = subject.prepared, subject.block
    if prepared is None or not estimate.usable:
        return ends
    runs = [of_model(run, directions.reference) for run in directions.forward]
    position, log_weight = of_rows("position", runs), of_rows("log_weight", runs)
    rows = position[resampled(log_weight, rng, AT_ONCE)]
    doubts = [*ends, *tail_doubts(prepared.flat, block.densities, rows, rng)]
    reference = directions.reference
    if reference.taken == "draws":  # no pilot has come from the prior
        drawn = position[np.unique(resampled(log_weight, rng))]
        doubts += symmetry_doubts(prepared.flat, block.densities, drawn)
    # nothing has been fitted where a reference was asked for, nor climbed where a kernel does not
    is_narrow = reference.is_given or not block.follows_whole_gradient
    # a walk through a black box takes a third of the evaluations of a run
    may_check = not walls_of(block.kernel) and lacks_gradient(prepared.flat) is None
    if not doubts and is_narrow and may_check:
        own = log_z_from_prior(prepared, estimate, rng, block.compile_kwargs, block)
        doubts += larger(own, estimate)
    return doubts or disagreements(estimate, before, only_higher=True)[:1]


def collect(
    call: Call[HaisSettings],
    subject: Subject,
    planned: Planned,
    directions: Directions,
    doubts: list[Doubt],
    n_temperatures: int | None = None,
) -> xr.DataTree:
    """The DataTree of a run; ``n_temperatures`` are those of the whole way, if it has parts."""
    settings, block, plan = call.settings, planned.block, planned.plan
    cost = call.watch.cost(block)
    runs = [of_model(run, planned.reference) for run in directions.forward]
    known = subject.prior_doubts()
    estimates, notes = with_doubts(estimates_of(directions), [*doubts, *known], known)
    for estimate in estimates:
        warned = notes and estimate.usable  # of the doubts
        if not warned and estimate.status not in ("approximate_starts", "upper_end"):
            warn_of_status(estimate)
    warn_of_nan(sum(run.n_nan for run in runs), "annealing")
    values = subject.named(of_rows("position", runs))
    attrs = subject.attrs(
        block,
        cost,
        n_temperatures=n_temperatures or plan.n_temperatures,
        **({"weights": ONE_TEMPERATURE} if plan.n_temperatures == 1 else {}),
        **planned.reference.record(),
        **{ERROR_FACTOR: planned.reference.error_factor, REFERENCE_MCSE: planned.reference.mcse},
        **planned.record(),
        **notes,
    )
    chosen = resampled(of_rows("log_weight", runs), call.rngs.run, shuffled=True)
    groups = {
        **draw_datasets(runs, values, chosen, **subject.labels),
        "annealing": annealing_dataset(runs, plan),
        "evidence": evidence_dataset(estimates, attrs),
        **subject.data(),
    }
    kind = HAIS if directions.reverse is None else HAIS_BOTH
    if (back := directions.reverse) is not None:
        reverse = annealing_dataset(back, plan.reverse())
        reverse["log_weight"] = ("chain", "draw"), np.stack([run.log_weight for run in back])
        groups["reverse_annealing"] = with_units(
            reverse.assign_coords(draw=np.arange(reverse.sizes["draw"]))
        )
        by_method = {estimate.method: estimate.log_z for estimate in estimates}
        groups["evidence"].attrs["gap"] = by_method["hais_reverse"] - by_method["hais"]
    groups["posterior"].attrs |= {"weight_ess": estimates[0].weight_ess, **cost}
    record = {**settings.record(), **subject.record, **attrs}
    return settings.running.noted(make_tree(groups, record, kind))
