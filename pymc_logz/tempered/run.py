"""One tempered run: from a prepared model to frozen levels, chains of walkers, and a DataTree."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from pymc_logz.checks.missed_modes import larger, log_z_from_prior, log_z_of_blend
from pymc_logz.checks.symmetry import symmetry_doubts
from pymc_logz.checks.tails import tail_doubts
from pymc_logz.errors import says_if_interrupted, warn
from pymc_logz.kernels.compose import sums_out
from pymc_logz.kernels.hamiltonian import walls_of
from pymc_logz.loop.calls import Call, Subject, begun, ready
from pymc_logz.loop.from_prior import look
from pymc_logz.loop.frozen import Planned, fixed_plan, walk
from pymc_logz.models.preparation import Prepared
from pymc_logz.references.blend import Target
from pymc_logz.references.reference import Reference
from pymc_logz.runners.block import Block
from pymc_logz.runners.progress import Evaluations, line, report_count, says_time_left
from pymc_logz.runners.running import state_of
from pymc_logz.runners.temper import TemperBlock
from pymc_logz.seeds import spawn_generators
from pymc_logz.tempered.chains import Chains, TemperJob, WalkedChains, chains_of, course_of
from pymc_logz.tempered.results import (
    Measured,
    measured,
    posterior_datasets,
    some_draws,
    walker_doubts,
)
from pymc_logz.tempered.settings import TemperedSettings
from pymc_logz.tempered.warm_up import Ladder, Rounds, climb, make_ladder, run_rounds
from pymc_logz.trees.doubts import Doubt, agrees, with_doubts
from pymc_logz.trees.kinds import SOME_DRAWS, TEMPERED, TEMPERED_SUMS
from pymc_logz.trees.layout import evidence_dataset, make_tree

if TYPE_CHECKING:
    import pymc as pm

LARGE_DEVIATION = 0.5
"""Of a level's share from its prior, times the number of levels: beyond it a warning says so."""


def run_tempered(model: "pm.Model", settings: TemperedSettings, **shown: Any) -> xr.DataTree:
    """Temper a PyMC model; ``shown`` are arguments of `begun`."""
    with begun(settings, **shown) as call:
        subject = ready(model, call, sum_out=sums_out(settings.sum_out, settings.kernel))
        place = partial(place_levels, subject.what, subject.block, blended=True)
        return run_subject(call, subject, place)


def run_subject(
    call: Call[TemperedSettings],
    subject: Subject,
    place: Callable[[Call[TemperedSettings]], Planned],
) -> xr.DataTree:
    """Warm up, freeze, run, collect."""
    watch = call.watch
    watch.end("compile_time")
    with call.kept(subject.what, subject.block) as call:
        planned = call.planned_once(subject, "levels", partial(place, call))
        block, rounds = warm_up(planned, call, subject.prepared)
        watch.end("tuning_time", block.work)
        chains = run_chains(block, rounds.ladder, call, subject.prepared)
    watch.end("sampling_time", block.work)
    with line("Estimating log Z of all temperatures"):
        found = measured(rounds, chains, call.settings)
    with line("Checking the result"):
        doubts = doubts_of(subject, planned, chains, found, call.rngs.checks)
    watch.end("checking_time")
    return collect(call, subject, planned.reference, block, rounds, chains, found, doubts)


def doubts_of(
    subject: Subject,
    planned: Planned,
    chains: Chains,
    found: Measured,
    rng: np.random.Generator,
) -> list[Doubt]:
    """What rows at beta = 1, walkers, and rows that need no path say against log Z.

    Walkers that stay where they are may lack what is hard to find: not where log Z by the others
    agrees.
    """
    prepared, block, reference = subject.prepared, subject.block, planned.reference
    estimate, stuck = found[0].estimate, walker_doubts(found[1]["rhat"].to_numpy())
    if prepared is None or not len(rows := chains.at_the_end()):
        return stuck
    doubts = tail_doubts(prepared.flat, block.densities, rows, rng)
    if reference.taken == "draws":  # no pilot has come from the prior
        assert reference.mixture is not None
        # few walkers reach what the components lack, and those that do hide it
        of_components = replace(reference.mixture, prior_share=0.0)(rng, 2**11)
        doubts += symmetry_doubts(prepared.flat, block.densities, of_components)
    is_open = estimate.status == "ok" or stuck
    if is_open and planned.blend is not None and planned.target is not None:
        own = log_z_of_blend(planned.blend, planned.target, estimate, rng)
        doubts += larger(own, estimate)
        stuck = [] if agrees(estimate, own) else stuck
    elif not doubts and reference.is_given and not walls_of(block.kernel):
        from_prior = log_z_from_prior(prepared, estimate, rng, block.compile_kwargs, block)
        doubts += larger(from_prior, estimate)
    return [*doubts, *stuck]


@says_if_interrupted("levels were being tuned")
def warm_up(
    planned: Planned, call: Call[TemperedSettings], prepared: Prepared | None = None
) -> tuple[TemperBlock, Rounds]:
    """Moves of walkers, and tuned levels that are frozen then, or found where they were kept."""
    block, plan, settings, rng = planned.block, planned.plan, call.settings, call.rngs.pilot
    call.watch.end("tuning_time")
    with line("Compiling the moves of walkers"):
        n_walkers, n_levels = settings.walkers, plan.betas.size
        if settings.exchange == "swap":  # as many at each level
            n_walkers = n_levels * -(-n_walkers // n_levels)
        walking = TemperBlock(block, n_levels, n_walkers, settings.exchange)
    call.watch.end("compile_time")

    def tuned() -> Rounds:
        ladder = make_ladder(plan, settings.log_prior(plan.betas))
        if (needs := _needs(walking, call, prepared, to_warm_up=True)) is not None:
            ways = "; ".join(settings.cheaper())
            says_time_left("Warm-up and chains", needs.n * needs.pace, needs.n, ways)
        start = block.path.sample_reference(rng, n_walkers)
        walkers, log_z_hat = climb(walking, ladder, start, settings.tune, rng)
        return run_rounds(
            walking,
            replace(ladder, log_z_hat=log_z_hat),
            walkers,
            rng,
            length=settings.tune,
            target_accept=settings.target_accept,
            update=settings.update,
        )

    rounds: Rounds = call.once("warm-up", tuned, prepared, block)
    deviation = rounds.history[-1].deviation
    if settings.exchange == "gibbs" and deviation > LARGE_DEVIATION:
        warn(
            f"after {rounds.n_iterations} warm-up iterations the fraction of time at one "
            f"temperature still differs from its prior by {deviation:.1f} / K "
            f"({settings.update!r} aims at 0.1 / K). log Z is correct, but its error is larger "
            "than necessary. Use a larger tune, more walkers, or more temperatures (betas=<int>)"
        )
    return walking, rounds


@says_if_interrupted("levels were being placed")
def place_levels(
    prepared: Prepared, block: Block, call: Call[TemperedSettings], *, blended: bool = False
) -> Planned:
    """The path, and betas with the kernel's settings there: given ones, or what a pilot finds."""
    settings, rng, ladder = call.settings, call.rngs.pilot, call.settings.ladder()
    pilot, reference, blend = look(prepared, block, settings, rng, blended=blended)
    plans = partial(Planned, blend=blend, target=Target(prepared, block) if blend else None)
    reference = without_gaps(reference)
    moved = reference.start(block)
    if ladder is not None and (plan := fixed_plan(moved, ladder)) is not None:
        return plans(moved, plan, reference)
    stages = pilot
    if pilot is None or reference.mixture is not None:
        stages = walk(moved, settings, rng)
        if pilot is not None and pilot.exceeds(*stages.islands_log_z()):
            reason = "draws of a fit found less than particles that walked from the prior"
            reference = Reference("prior", reason)
            moved, stages = block, pilot
    assert stages is not None
    stages.warn_of_stuck()
    plan = settings.plan_on(stages) if ladder is None else stages.plan_for(ladder)
    return plans(moved, plan, reference)


def without_gaps(reference: Reference) -> Reference:
    """The reference, or the prior in place of several components that leave gaps between them."""
    # walkers get from one component to another at level 0, where each is drawn afresh; into a gap,
    # or a bent tail, they get by moves alone, and too seldom
    if reference.taken != "learned" or reference.mixture is None:
        return reference
    n_parts = len(reference.mixture.components)
    if n_parts == 1 or reference.covered >= 0.5:
        return reference
    return Reference(
        "prior",
        f"{n_parts} components cover the pilot's particles with an effective share of "
        f"{reference.covered:.2f}, and walkers seldom get to what is between them",
    )


def _needs(
    block: TemperBlock,
    call: Call[TemperedSettings],
    prepared: Prepared | None,
    *,
    to_warm_up: bool = False,
) -> Evaluations | None:
    """Evaluations to come: of chains and checks, and of a climb and one round before them."""
    settings = call.settings
    on_the_way = (block.n_levels + 1) * settings.tune
    n_moves = settings.chains * (on_the_way + settings.n_kept) + to_warm_up * on_the_way
    return call.needs(prepared, block.work, n_moves * block.n_walkers * block.cost_of_move)


def run_chains(
    block: TemperBlock, ladder: Ladder, call: Call[TemperedSettings], prepared: Prepared | None
) -> Chains:
    """Walk in independent chains from fresh draws of the reference, one generator each."""
    settings = call.settings
    generators = spawn_generators(call.rngs.run, settings.chains)
    # prior draws share one compiled function, so they are made here, chain by chain
    starts = [block.path.sample_reference(rng, block.n_walkers) for rng in generators]
    k, course = ladder.n_levels, course_of(block, ladder, settings)
    jobs = [
        TemperJob(start, state_of(rng), k, settings.tune, settings.n_kept)
        for start, rng in zip(starts, generators, strict=True)
    ]
    what = f"Tempering: {k} levels, {block.n_walkers} walkers, {settings.chains} chains"
    total = sum(job.n_total for job in jobs)
    needs = _needs(block, call, prepared)
    report = report_count(what, total, "; ".join(settings.cheaper()), needs)
    outcomes = settings.running.run("chains", course, jobs, report)
    return chains_of(outcomes, course, settings.n_kept)


def collect(
    call: Call[TemperedSettings],
    subject: Subject,
    reference: Reference,
    block: TemperBlock,
    rounds: Rounds,
    chains: Chains,
    found: Measured,
    doubts: list[Doubt],
) -> xr.DataTree:
    """The DataTree of a run."""
    settings, cost, (curve, tempering, draws) = call.settings, call.watch.cost(block), found
    known, estimate = subject.prior_doubts(), curve.estimate.less(0.0, reference.mcse)
    estimates, notes = with_doubts([estimate], [*doubts, *known], known)
    attrs = subject.attrs(
        block,
        cost,
        n_levels=rounds.ladder.n_levels,
        n_walkers=block.n_walkers,
        n_warm_up=rounds.n_iterations,
        **reference.record(),
        **notes,
    )
    kind, groups = TEMPERED_SUMS, dict[str, xr.Dataset]()
    if isinstance(chains, WalkedChains) and draws is not None:
        kind, groups = TEMPERED, posterior_datasets(call, subject, chains, draws)
        groups["posterior"].attrs |= {"weight_ess": curve.weight_ess, **cost}
    elif subject.prepared is not None and len(rows := chains.at_the_end()):
        groups[SOME_DRAWS] = some_draws(subject, rows)
    groups |= {"tempering": tempering, "evidence": evidence_dataset(estimates, attrs)}
    record = {**settings.record(), **subject.record, **attrs}
    return settings.running.noted(make_tree({**groups, **subject.data()}, record, kind))
