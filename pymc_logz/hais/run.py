"""One HAIS run: from a prepared model to a frozen plan, weighted rows, and a DataTree."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from pymc_logz.errors import STATUS_SENTENCES, warn
from pymc_logz.estimators import LogZEstimate
from pymc_logz.hais.directions import Directions, estimates_of, forward_estimate, of_model
from pymc_logz.hais.enumerated import exact_tree
from pymc_logz.hais.judging import doubts_of, doubts_of_run
from pymc_logz.hais.results import annealing_dataset, draw_datasets, finish_groups
from pymc_logz.hais.settings import DEFAULT_MCSE, HaisSettings
from pymc_logz.loop.frozen import Planned
from pymc_logz.loop.planning import block_for
from pymc_logz.loop.stored_plans import kept, planned_once
from pymc_logz.models.context import model_labels
from pymc_logz.models.flat import constrain, unconstrain
from pymc_logz.models.preparation import Prepared, prepare
from pymc_logz.pilot.ladder import MAX_GROWTH
from pymc_logz.runners.anneal import Annealed, Plan, merge
from pymc_logz.runners.moves_of_rows import Stopwatch
from pymc_logz.runners.progress import line, progress_bar, report_beta, report_count
from pymc_logz.runners.running import AnnealCourse, Running, anneal_all, finished, run_tasks
from pymc_logz.seeds import generators_from, spawn_generators
from pymc_logz.trees.doubts import Doubt, doubted, noted, prior_doubts, warn_of_doubts
from pymc_logz.trees.layout import RunRecord, data_datasets, evidence_dataset, make_tree
from pymc_logz.trees.posterior import posterior_of
from pymc_logz.weights import resampled

if TYPE_CHECKING:
    import pymc as pm

logger = logging.getLogger("pymc.pymc_logz")

ONE_TEMPERATURE = "plain importance sampling: one temperature, so nothing is annealed"
MOST_MOVES = 2**24
"""Moves of all rows together beyond which no second try is made: minutes for most models."""


def run_hais(
    model: "pm.Model",
    settings: HaisSettings,
    *,
    posterior_draws: xr.DataTree | None = None,
    simulate_data: bool = False,
    random_seed: Any = None,
    progressbar: bool = True,
    compile_kwargs: Mapping[str, Any] | None = None,
) -> xr.DataTree:
    """Prepare, tune, freeze, run, collect.

    With ``simulate_data`` the data are simulated from the model, and reverse rows start at the draw
    of the prior that they came from.
    """
    watch, rngs = Stopwatch(), generators_from(random_seed)
    sum_out = False if simulate_data else settings.sum_out
    if sum_out is not False and (exact := exact_tree(model, settings, rngs)) is not None:
        return exact
    with line("Compiling the model"):
        prepared = prepare(
            model, rngs.checks, simulate_data=simulate_data, integers=True, sum_out=sum_out
        )
        block = settings.within_memory(block_for(prepared, settings, compile_kwargs))
        block.compile()
    target_rows = prepared.exact_row
    if posterior_draws is not None:
        target_rows = unconstrain(prepared.flat, posterior_of(posterior_draws, "posterior_draws"))
    watch.end("compile_time")
    with (
        kept(settings, prepared, block, rngs.run, posterior_draws=target_rows) as settings,
        progress_bar(progressbar) as progress,
    ):
        plan = partial(planned_once, prepared, block, settings, rngs.pilot, report_beta(progress))
        planned = plan("plan", direct=True)
        watch.end("tuning_time")
        pilot_work = block.work.done
        # fresh rows from the prior may see what the first ones did not, before a path is taken
        others = partial(plan, "plan-again", direct=True), partial(plan, "plan-path")
        planned, forward = run_twice(planned, settings, rngs.run, progress, others)
        directions = Directions(forward, planned.reference)
        if settings.direction == "both":
            add_reverse(directions, planned, settings, target_rows, rngs.run, progress)
        add_rows(directions, planned, settings, target_rows, rngs.run, progress)
    watch.end("sampling_time")
    run_work = block.work.done
    with line("Checking the result"):
        doubts = doubts_of_run(prepared, block, planned, directions, rngs.checks)
    watch.end("checking_time")
    cost = {**watch.seconds, **block.work.record(pilot_work, block.kernel, run_work)}
    return collect(prepared, planned, directions, settings, rngs.run, cost, doubts)


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
    return anneal_all(name, AnnealCourse(block, plan), starts, generators, running, report)


def run_twice(
    planned: Planned,
    settings: HaisSettings,
    rng: np.random.Generator,
    progress: Any,
    others: Sequence[Callable[[Planned], Planned]] = (),
) -> tuple[Planned, list[Annealed]]:
    """Chains, run again along a longer ladder if they are not good enough, and what they ran on.

    The second run has fresh rows, and is the one that counts. Where rows had no path, the blend is
    not what it seemed, and all is planned anew with one.
    """
    runs = run_until(planned, settings, rng, progress)
    estimate = forward_estimate(Directions(runs, planned.reference))
    sound = estimate.status == "ok" and not doubts_of(estimate, planned, runs)
    # tails of nested approximations are those of normal laws, so that few temperatures leave
    # weights whose errors are too small
    most = 0.03 if planned.reference.taken == "nested_laplace" else DEFAULT_MCSE[1]
    good = sound and estimate.mcse <= max(most, settings.target_mcse or 0.0)
    whole = len(runs) == settings.chains
    tried = planned.blend is not None and not sound
    if tried and others and whole and not good:
        ran = replace(planned, ran=tuple(runs))
        logger.info("A blend that was tried gave status %r: another plan.", estimate.status)
        return run_twice(others[0](ran), settings, rng, progress, others[1:])
    longer = planned.longer(_growth(estimate.mcse / most) if sound else MAX_GROWTH)
    n_moves = settings.draws * settings.chains * longer.plan.n_temperatures
    asked = settings.target_mcse is not None or not whole
    if good or asked or longer is planned or n_moves > MOST_MOVES:
        return planned, runs
    before, after = planned.plan.n_temperatures, longer.plan.n_temperatures
    logger.info(
        "The error is %.2g with status %r after %d temperatures: trying %s.",
        estimate.mcse,
        estimate.status,
        before,
        after if after > before else "more particles",
    )
    return longer, run_until(longer, settings, rng, progress)


def _growth(excess: float, surplus: float = 1.2) -> int:
    """Factor in the temperatures of a sound run with so many times the error that is wanted.

    The variance falls as one over their number.
    """
    return int(np.clip(np.ceil(surplus * excess**2), 2, MAX_GROWTH))


def run_until(
    planned: Planned,
    settings: HaisSettings,
    rng: np.random.Generator,
    progress: Any,
    max_growth: int = 64,
) -> list[Annealed]:
    """Chains that grow until the error of log Z is met, or until that is out of reach."""
    plan = planned.plan
    draws, target_mcse = settings.draws, settings.target_mcse
    generators = spawn_generators(rng, settings.chains)
    runs: list[Annealed] = []
    n_next = draws
    while True:
        report = report_chains(progress, "Annealing", plan, settings, runs)
        more = run_chains(planned, generators, n_next, settings.how, report)
        interrupted = len(more) < len(generators)
        if not runs:
            runs = more
        elif not interrupted:
            runs = [merge(old, new) for old, new in zip(runs, more, strict=True)]
        if target_mcse is None or interrupted:
            return runs
        estimate = forward_estimate(Directions(runs, planned.reference))
        n_now = runs[0].log_weight.size
        wanted = n_now * (estimate.mcse / target_mcse) ** 2
        if estimate.mcse <= target_mcse:
            return runs
        if not np.isfinite(wanted) or n_now >= max_growth * draws:
            warn(
                f"target_mcse={target_mcse} is out of reach: {n_now} particles per chain gave an "
                f"error of {estimate.mcse:.3g} with status {estimate.status!r}. Use more "
                "temperatures (betas=<int>), another reference, or more draws"
            )
            return runs
        # a little more than the law of large numbers asks for, and no more than four times as many
        n_next = int(np.clip(1.1 * wanted - n_now, 0.1 * n_now, 3 * n_now)) + 1


def report_chains(
    progress: Any, what: str, plan: Plan, settings: HaisSettings, before: Sequence[Any] = ()
) -> Any:
    """A line of the progress bar for all chains; ``before`` are rows that grow by these."""
    chains, k = settings.chains, plan.n_temperatures
    grows = f" to meet target_mcse={settings.target_mcse}" if before else ""
    # at one temperature nothing is annealed: draws of the reference are weighted
    does = f"{what}{grows}: {k} temperatures" if k > 1 else f"Weighting{grows}"
    line = f"{does}, {chains} chains"
    return report_count(progress, line, chains * k, "; ".join(settings.cheaper()))


def add_reverse(
    directions: Directions,
    planned: Planned,
    settings: HaisSettings,
    target_rows: np.ndarray | None,
    rng: np.random.Generator,
    progress: Any,
) -> None:
    """Particles that go back, beside the forward ones, which count alone if an interrupt ends it.

    A run that is kept goes on from there another time, so that it ends.
    """
    try:
        forward = directions.forward
        directions.reverse = run_reverse(planned, settings, forward, target_rows, rng, progress)
        directions.exact_starts = target_rows is not None
    except KeyboardInterrupt:
        if settings.running.keeper is not None:
            raise
        warn("interrupted: no reverse chain is finished, and the result is of the forward ones")


def run_reverse(
    planned: Planned,
    settings: HaisSettings,
    forward: list[Annealed],
    target_rows: np.ndarray | None,
    rng: np.random.Generator,
    progress: Any,
) -> list[Annealed]:
    """Anneal from the target back to the reference, in as many chains as ran forward.

    Rows start at draws of the target: those given, or the ends of the forward rows of the same
    chain, resampled. Both are first moved on at beta = 1, which leaves draws of the target as such.
    """
    block, plan = planned.block, planned.plan
    backward = plan.reverse()
    if target_rows is not None:
        target_rows = planned.reference.whitened(target_rows)
    [dealer, *generators] = spawn_generators(rng, len(forward) + 1)
    sizes = [run.log_weight.size for run in forward]
    if target_rows is None:
        starts = [
            run.position[resampled(run.log_weight, rng, shuffled=True)]
            for run, rng in zip(forward, generators, strict=True)
        ]
    else:
        # shuffled before they are dealt out, as draws come in an order of their own
        dealt = np.resize(dealer.permutation(len(target_rows)), sum(sizes))
        starts = [target_rows[part] for part in np.split(dealt, np.cumsum(sizes)[:-1])]
    report = report_chains(progress, "Reverse", plan, settings)
    course = AnnealCourse(block, backward)
    return anneal_all("reverse", course, starts, generators, settings.how, report, settings.tune)


def add_rows(
    directions: Directions,
    planned: Planned,
    settings: HaisSettings,
    target_rows: np.ndarray | None,
    rng: np.random.Generator,
    progress: Any,
) -> None:
    """Give the chains of a run that is at its end the rows that were asked for since."""
    for draws in settings.more:
        generators = spawn_generators(rng, settings.chains)
        report = report_chains(progress, "More particles", planned.plan, settings)
        more = run_chains(planned, generators, draws, settings.how, report, f"more-{draws}")
        if len(more) < len(directions.forward):
            return
        directions.forward = list(map(merge, directions.forward, more))
        if directions.reverse is None:
            continue
        back = run_reverse(planned, settings, more, target_rows, rng, progress)
        if len(back) == len(directions.reverse):
            directions.reverse = list(map(merge, directions.reverse, back))


def collect(
    prepared: Prepared,
    planned: Planned,
    directions: Directions,
    settings: HaisSettings,
    rng: np.random.Generator,
    cost: Mapping[str, float],
    doubts: list[Doubt],
) -> xr.DataTree:
    """The DataTree of a run."""
    block, plan = planned.block, planned.plan
    runs = [of_model(run, planned.reference) for run in directions.forward]
    warn_of_doubts(doubts)
    doubts = [*doubts, *prior_doubts(prepared.prior_doubt)]  # of which the check has warned
    estimates = doubted(estimates_of(directions), doubts)
    warn_of_estimates(estimates, runs, doubts)
    log_weight = np.concatenate([run.log_weight for run in runs])
    values = constrain(prepared.flat, np.concatenate([run.position for run in runs]))
    share = prepared.prior.finite_share
    attrs = RunRecord(block.compiled, block.path.batching, share, cost).attrs(
        n_temperatures=plan.n_temperatures,
        **({"weights": ONE_TEMPERATURE} if plan.n_temperatures == 1 else {}),
        **planned.reference.record(),
        **planned.reference.record_of_errors(),
        **prepared.record(),
        **noted(doubts),
    )
    chosen = resampled(log_weight, rng, shuffled=True)
    groups = {
        **draw_datasets(runs, values, chosen, **model_labels(prepared.flat.model)),
        "annealing": annealing_dataset(runs, plan),
        "evidence": evidence_dataset(estimates, attrs),
        **data_datasets(prepared.flat),
    }
    finish_groups(groups, directions.reverse, plan, estimates, cost)
    tree = make_tree(groups, {**settings.record(), **attrs}, directions.kind)
    return settings.running.noted(tree)


def warn_of_estimates(
    estimates: list[LogZEstimate], runs: list[Annealed], doubts: list[Doubt]
) -> None:
    """Warn of a status that no doubt is about, and of log ratios that were NaN."""
    for estimate in estimates:
        if doubts and estimate.usable:  # the doubts were warned of
            continue
        if estimate.status not in ("ok", "approximate_starts", "upper_end"):
            sentence = STATUS_SENTENCES[estimate.status]
            warn(f"{estimate.method} has status {estimate.status!r}: {sentence}")
    n_nan = sum(run.n_nan for run in runs)
    if n_nan:
        warn(
            f"the log likelihood plus potentials was NaN {n_nan} times during annealing, and "
            "counted as a likelihood of zero; guard the expression, or restrict the prior"
        )
