"""From a prepared model to a frozen plan: pilot, reference, ladder, checks."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from pymc_logz.errors import says_if_interrupted
from pymc_logz.kernels.compose import for_variables
from pymc_logz.models.flat import FlatModel, open_path, unconstrain
from pymc_logz.models.preparation import Prepared
from pymc_logz.paths.funnels import fitted_funnel
from pymc_logz.pilot.checks import (
    are_uneven,
    lost_part,
    stuck_stages,
    warn_of_lost_part,
    warn_of_stuck,
)
from pymc_logz.pilot.exchanges import dealt_out
from pymc_logz.pilot.ladder import MAX_GROWTH, choose_plan, first_ladder, settled
from pymc_logz.pilot.learned import (
    COVERED,
    apart,
    learned_reference,
    n_target_rows,
    objection,
)
from pymc_logz.pilot.nested import nested_laplace
from pymc_logz.pilot.population import Stages, run_pilot
from pymc_logz.pilot.posterior import is_sampled, objection_to_draws, sampled_reference
from pymc_logz.pilot.reference import (
    ASKED_FOR,
    OF_INTEGERS,
    Reference,
    at_mode,
    check_start,
    look_at_prior,
    reference_of_draws,
)
from pymc_logz.pilot.settings import RunSettings
from pymc_logz.runners.anneal import Annealed, Plan
from pymc_logz.runners.block import Block
from pymc_logz.trees.doubts import Doubt
from pymc_logz.trees.posterior import posterior_of

PORTIONS, MORE_ROWS = 2, 4
"""Portions of rows of a pilot whose stages the run follows (of the others only the end is used),
and factor in the rows of a pilot that is repeated."""


@dataclass(frozen=True)
class Planned:
    """What a run is made of, frozen."""

    block: Block
    """Compiled moves on the path from the reference that is taken."""
    plan: Plan
    reference: Reference
    stages: Stages | None = None
    """What the plan is a refinement of; None where the user fixed the ladder."""
    contradicted: tuple[Doubt, ...] = ()
    """That draws of ``pm.sample`` and rows of the pilot are elsewhere, if they are."""

    def doubted(self, doubt: Doubt) -> "Planned":
        """The same, under a doubt that is more than draws which lack what it has."""
        return replace(self, contradicted=(doubt,)) if doubt.status == "disagrees" else self

    def longer(self, factor: int) -> "Planned":
        """The same with so many times the temperatures."""
        if self.stages is None:
            return self
        return replace(self, plan=self.stages.plan(factor * self.plan.n_temperatures))


def block_for(
    prepared: Prepared, settings: RunSettings, compile_kwargs: Mapping[str, Any] | None
) -> Block:
    """Moves of a model, compiled once for the prior and for whatever is learned."""
    flat = prepared.flat
    check_reference_of(flat, settings)
    path = open_path(flat, prepared.prior)
    independent = flat.entries.sites if flat.entries else ()
    asked = settings.kernel_for(path.n_dims)
    kernel = for_variables(asked, flat.owners, flat.sites, independent)
    return Block(path, kernel.resolved(path.n_dims), settings.pilot_rows, compile_kwargs)


def check_reference_of(flat: FlatModel, settings: RunSettings) -> None:
    """Raise a ValueError if a reference is asked for that has no whole numbers."""
    asked = settings.reference
    if flat.sites and asked not in (None, "prior"):
        names = sorted({flat.owners[site.column] for site in flat.sites})
        what = repr(asked) if isinstance(asked, str) else "a DataTree"
        raise ValueError(
            f"reference={what} is a fit by continuous densities, but {names} are discrete: leave "
            "reference out, and the path starts at the prior"
        )


@says_if_interrupted("the pilot was choosing temperatures and step sizes")
def plan_run(
    prepared: Prepared,
    block: Block,
    settings: RunSettings,
    rng: np.random.Generator,
    report: Any = None,
    *,
    local: bool = False,
) -> Planned:
    """Choose the reference, and freeze the temperatures and the kernel's settings.

    Parameters
    ----------
    prepared
        The model.
    block
        From `block_for`.
    settings
        What the user asked for, and left open.
    rng
        Generator of the pilot, of fits, and of trial rows.
    report
        Told of each beta that the pilot reaches.
    local
        Whether the reference may be fitted to gradients; see `learned_reference`.
    """
    learned = settings.reference_asked == "learned"
    if learned and (nested := plan_nested(prepared, block, settings, rng, report)) is not None:
        return nested
    planned, stages = plan_from_pilot(prepared, block, settings, rng, report, local=local)
    if not learned or stages is None:
        return planned
    return shortened(prepared, block, settings, planned, stages, rng, report)


def plan_from_pilot(
    prepared: Prepared,
    block: Block,
    settings: RunSettings,
    rng: np.random.Generator,
    report: Any = None,
    *,
    local: bool = False,
) -> tuple[Planned, Stages | None]:
    """Plan from what a pilot's rows, or what was asked for, make the reference; and this pilot.

    It comes without the pilot where there was none, or ``pm.sample`` may have been asked.
    """
    for more in (1, MORE_ROWS):
        stages, reference = look(prepared, block, settings, rng, report, more=more, local=local)
        moved = reference.start(block)
        if stages is None:
            start = moved.path.sample_reference(rng, n_followed(block))
            return make_plan(moved, settings, start, rng, report, reference), None
        if reference.mixture is None:
            break
        rows = apart(stages)[1].position if stages.rows else None
        planned, trial = refine(moved, settings, settled(stages), rng, reference, rows)
        against = None if trial is None else objection(stages, trial)
        if against is None:
            warn_of_stuck(stuck_stages(stages))
            return planned, stages
        reason = f"a fit to the pilot's rows was dropped, since {against}"
        reference = Reference("prior", reason, funnel=reference.funnel, poor_fit=True)
        if is_sampled(prepared):
            break
    assert stages is not None
    moved = reference.start(block)
    # from the prior hardly any posterior is content with the first ladder that is tried
    n_moves = settings.aim.n_rows * MAX_GROWTH * first_ladder(stages)
    sampled = sampled_reference(prepared, block, reference, stages, n_moves, rng)
    if sampled is not None:
        found = plan_sampled(sampled, block, settings, stages, rng, report)
        if isinstance(found, Planned):
            return found, None
        reason = f"a fit to draws of pm.sample was dropped, since {found.reason}"
        reference = replace(reference, reason=reason)
        # the path from the prior that is left deserves the pilot that these draws had replaced
        start = moved.path.sample_reference(rng, MORE_ROWS * block.n_rows)
        stages = walk(moved, settings, start, rng, report)
        return from_stages(moved, settings, stages, rng, reference).doubted(found), None
    return from_stages(moved, settings, stages, rng, reference), None


def shortened(
    prepared: Prepared,
    block: Block,
    settings: RunSettings,
    planned: Planned,
    stages: Stages,
    rng: np.random.Generator,
    report: Any = None,
) -> Planned:
    """A plan, or where it is long a shorter one from draws of ``pm.sample``, if there is one."""
    n_moves = settings.aim.n_rows * planned.plan.n_temperatures
    sampled = sampled_reference(prepared, block, planned.reference, stages, n_moves, rng)
    if sampled is None:
        return planned
    found = plan_sampled(sampled, block, settings, stages, rng, report)
    if isinstance(found, Doubt):
        return planned.doubted(found)
    long = found.plan.n_temperatures >= planned.plan.n_temperatures
    return planned if long and not found.contradicted else found


def plan_sampled(
    sampled: Reference,
    block: Block,
    settings: RunSettings,
    stages: Stages,
    rng: np.random.Generator,
    report: Any = None,
) -> Planned | Doubt:
    """Plan from a fit to draws of ``pm.sample``, or what speaks against it."""
    moved = sampled.start(block)
    start = moved.path.sample_reference(rng, n_followed(block))
    followed = walk(moved, settings, start, rng, report)
    if against := objection_to_draws(sampled, stages, followed):
        return against
    planned = from_stages(moved, settings, followed, rng, sampled)
    if sampled.covered < COVERED:  # the pilot got lost, and where it is hard to get draws may lack
        return planned.doubted(Doubt("disagrees", "pm.sample and the pilot were far apart"))
    return planned


def plan_nested(
    prepared: Prepared,
    block: Block,
    settings: RunSettings,
    rng: np.random.Generator,
    report: Any = None,
) -> Planned | None:
    """Plan from nested Laplace approximations; None where the model has none that hold."""
    found = nested_laplace(prepared, block, rng)
    if found is None:
        return None
    check_start(prepared, block, prepared.prior(rng, block.n_rows))
    reference, ends = found
    moved = reference.start(block)
    stages = walk(moved, settings, moved.path.sample_reference(rng, block.n_rows), rng, report)
    return refine(moved, settings, stages, rng, reference, stages.end if ends is None else ends)[0]


def look(
    prepared: Prepared,
    block: Block,
    settings: RunSettings,
    rng: np.random.Generator,
    report: Any = None,
    *,
    even: bool = True,
    more: int = 1,
    local: bool = False,
) -> tuple[Stages | None, Reference]:
    """What the path is to start from, and the pilot from the prior that this was learned from.

    There is no such pilot where the reference was given. Rows of a funnel are evened out, unless
    ``even`` is false. The pilot has ``more`` times the rows of a portion, or as many as
    `MORE_ROWS` where no fit to fewer rows covers them, or they needed steps of very uneven length.
    """
    start = prepared.prior(rng, more * block.n_rows)
    check_start(prepared, block, start)
    if prepared.flat.sites:
        return None, OF_INTEGERS
    asked = settings.reference_asked
    if isinstance(asked, xr.DataTree):
        draws = unconstrain(prepared.flat, posterior_of(asked, "reference"))
        given = fitted_funnel(draws, look_at_prior(prepared, rng)) if even else None
        return None, reference_of_draws(prepared, draws, rng, given)
    if asked == "prior":
        return None, ASKED_FOR
    n_rows, funnel = n_target_rows(prepared.n_dims), None
    stages = walk(block, settings, start, rng, report, n_rows)
    if asked == "laplace":
        mode = at_mode(prepared, start, block.compile_kwargs)
        return stages, learned_reference(prepared, stages, rng, mode=mode)
    if even and stages.rows:
        funnel = fitted_funnel(stages.rows.position, look_at_prior(prepared, rng))
    if funnel is not None:
        # the narrow end of a funnel is where rows that move in it as it is do not get
        evened = Reference("prior", "", funnel=funnel).start(block)
        start = evened.path.sample_reference(rng, len(start))
        stages = walk(evened, settings, start, rng, report, n_rows)
    if stages.rows:
        walked = block if funnel is None else evened
        rows = dealt_out(walked, prepared.flat.shapes, stages.rows, rng)
        stages = replace(stages, rows=rows)
    reference = learned_reference(prepared, stages, rng, funnel=funnel, local=local)
    poor = reference.poor_fit or (settings.kernel.step_size is None and are_uneven(stages))
    if poor and more < MORE_ROWS and not (reference.poor_fit and is_sampled(prepared)):
        more = MORE_ROWS
        return look(prepared, block, settings, rng, report, even=even, more=more, local=local)
    return stages, reference


def n_followed(block: Block) -> int:
    """Rows of a pilot whose stages a run follows; those that bring data along are one portion."""
    return block.n_rows if block.row_data else PORTIONS * block.n_rows


def make_plan(
    block: Block,
    settings: RunSettings,
    start: np.ndarray,
    rng: np.random.Generator,
    report: Any = None,
    reference: Reference = ASKED_FOR,
) -> Planned:
    """Freeze the temperatures and the kernel's settings on a path whose reference is given.

    Parameters
    ----------
    block
        Compiled moves.
    settings
        What the user asked for, and left open.
    start
        Rows of the reference for the pilot, shape (n, d).
    rng
        Generator of the pilot and of trial rows.
    report
        Told of each beta that the pilot reaches.
    reference
        Where the path starts.
    """
    ladder = settings.ladder()
    if ladder is not None and (plan := fixed_plan(block, ladder)) is not None:
        return Planned(block, plan, reference)
    stages = walk(block, settings, start, rng, report)
    return from_stages(block, settings, stages, rng, reference)


def walk(
    block: Block,
    settings: RunSettings,
    start: np.ndarray,
    rng: np.random.Generator,
    report: Any = None,
    n_target_rows: int = 0,
) -> Stages:
    """The pilot; see `run_pilot`."""
    return run_pilot(
        block,
        start,
        rng,
        target_accept=settings.target_accept,
        tune=settings.tune,
        report=report,
        n_target_rows=n_target_rows,
    )


def from_stages(
    block: Block,
    settings: RunSettings,
    stages: Stages,
    rng: np.random.Generator,
    reference: Reference,
) -> Planned:
    """Plan along the path that the pilot walked, which walks again if it lost something."""
    planned, trial = refine(block, settings, stages, rng, reference)
    if trial is not None and block.n_groups == 1 and lost_part(stages, trial):
        # a mode died out by chance, which is less likely among more rows
        rows = block.path.sample_reference(rng, MORE_ROWS * n_followed(block))
        stages = walk(block, settings, rows, rng)
        planned, trial = refine(block, settings, stages, rng, reference)
        warn_of_lost_part(0.0 if trial is None else lost_part(stages, trial))
    warn_of_stuck(stuck_stages(stages))
    return planned


def refine(
    block: Block,
    settings: RunSettings,
    stages: Stages,
    rng: np.random.Generator,
    reference: Reference,
    target_rows: np.ndarray | None = None,
) -> tuple[Planned, Annealed | None]:
    """Plan along stages, and the trial rows that it was read from if it was not given."""
    ladder = settings.ladder()
    if ladder is not None:
        return Planned(block, stages.plan_for(ladder), reference), None
    n_rows = n_followed(block) if target_rows is None else block.n_rows
    draw_start = partial(block.path.sample_reference, rng, n_rows)
    plan, trial = choose_plan(block, stages, draw_start, rng, settings.aim_for(block), target_rows)
    return Planned(block, plan, reference, stages), trial


def fixed_plan(block: Block, betas: np.ndarray) -> Plan | None:
    """Plan of a kernel that leaves nothing to the pilot; None if it leaves something."""
    step_size, scale = block.kernel.step_size, block.kernel.scale
    if step_size is None or scale is None:
        return None
    scale = np.broadcast_to(scale, (betas.size, block.path.n_dims)).astype(float)
    return Plan(betas, np.full(betas.size, float(step_size)), scale)
