"""From a prepared model to a frozen plan: pilot, reference, ladder, checks."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from pymc_logz.errors import says_if_interrupted
from pymc_logz.kernels.compose import for_variables
from pymc_logz.models.flat import FlatModel, model_path, open_path, unconstrain
from pymc_logz.models.gradients import lacks_gradient
from pymc_logz.models.preparation import Prepared
from pymc_logz.paths.funnels import fitted_funnel
from pymc_logz.pilot.checks import stuck_stages, warn_of_stuck
from pymc_logz.pilot.conditional import (
    has_conditional_normals,
    plan_of_one_step,
    weighted_at_once,
)
from pymc_logz.pilot.exchanges import dealt_out
from pymc_logz.pilot.frozen import (
    MORE_ROWS,
    Planned,
    from_stages,
    make_plan,
    n_followed,
    refine,
    walk,
)
from pymc_logz.pilot.ladder import MAX_GROWTH, first_ladder, settled
from pymc_logz.pilot.learned import (
    COVERED,
    apart,
    falls_short,
    islands_log_z,
    learned_reference,
    mode_or_rows,
    n_target_rows,
    objection,
)
from pymc_logz.pilot.nested import nested_laplace
from pymc_logz.pilot.population import Stages
from pymc_logz.pilot.posterior import (
    LONG,
    is_asked_if_long,
    is_sampled,
    objection_to_draws,
    sampled_reference,
)
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
from pymc_logz.runners.block import Block
from pymc_logz.trees.doubts import Doubt
from pymc_logz.trees.posterior import posterior_of

N_LOOK = 1024
"""Rows of the prior that are carried to the posterior."""


def block_for(
    prepared: Prepared, settings: RunSettings, compile_kwargs: Mapping[str, Any] | None
) -> Block:
    """Moves of a model, compiled once for the prior and for whatever is learned."""
    flat = prepared.flat
    check_reference_of(flat, settings)
    # what may yet become a mixture costs a cheap model half as much again
    start = model_path if settings.asks_for("prior") else open_path
    path = start(flat, prepared.prior)
    independent = flat.entries.sites if flat.entries else ()
    asked = settings.kernel_for(path.n_dims)
    kernel = for_variables(asked, flat.owners, flat.sites, independent)
    return Block(path, kernel.resolved(path.n_dims), settings.pilot_rows, compile_kwargs)


def check_reference_of(flat: FlatModel, settings: RunSettings) -> None:
    """Raise a ValueError if a reference is asked for that has no whole numbers."""
    asked = settings.reference
    if flat.sites and asked is not None and not settings.asks_for("prior"):
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
    direct: bool = False,
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
    direct
        Whether rows may be weighted at once, without a path.
    """
    learned = settings.asks_for("learned")
    at_once = direct and settings.mcse_at_once is not None and has_conditional_normals(prepared)
    if learned and not at_once:
        nested = plan_nested(prepared, block, settings, rng, report)
        if nested is not None:
            return nested
    planned, stages = plan_from_pilot(prepared, block, settings, rng, report, direct=direct)
    if not learned or stages is None:
        return planned
    return shortened(prepared, block, settings, planned, stages, rng, report, direct=direct)


def plan_from_pilot(
    prepared: Prepared,
    block: Block,
    settings: RunSettings,
    rng: np.random.Generator,
    report: Any = None,
    *,
    direct: bool = False,
) -> tuple[Planned, Stages | None]:
    """Plan from what a pilot's rows, or what was asked for, make the reference; and this pilot.

    It comes without the pilot where there was none, or ``pm.sample`` may have been asked.
    """
    for more in (1, MORE_ROWS):
        stages, reference = look(prepared, block, settings, rng, report, more=more)
        moved = reference.start(block)
        if stages is None:
            start = moved.path.sample_reference(rng, n_followed(block))
            return make_plan(moved, settings, start, rng, report, reference), None
        if direct and settings.asks_for("learned") and stages.rows is not None:
            short = plan_without_path(prepared, block, settings, stages, reference, rng, report)
            if short is not None:
                return short, None
        if reference.mixture is None:
            break
        rows = apart(stages)[1].position if stages.rows else None
        asked = settings.asks_for("learned") and rows is not None
        limit = LONG if asked and is_asked_if_long(prepared) else np.inf
        planned, trial = refine(moved, settings, settled(stages), rng, reference, rows, limit)
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
        planned_or_doubt = plan_sampled(
            prepared, sampled, block, settings, stages, rng, report, direct=direct
        )
        if isinstance(planned_or_doubt, Planned):
            return planned_or_doubt, None
        reason = f"a fit to draws of pm.sample was dropped, since {planned_or_doubt.reason}"
        reference = replace(reference, reason=reason)
        return from_stages(moved, settings, stages, rng, reference).doubted(planned_or_doubt), None
    return from_stages(moved, settings, stages, rng, reference), None


def plan_without_path(
    prepared: Prepared,
    block: Block,
    settings: RunSettings,
    stages: Stages,
    reference: Reference,
    rng: np.random.Generator,
    report: Any = None,
) -> Planned | None:
    """Plan of rows that are weighted at once, or nearly so; None where none has what was seen."""
    assert stages.rows is not None
    known = reference.restored(stages.rows.position)
    found = planned_at_once(prepared, known, reference, block, settings, rng)
    if found is not None and not falls_short(stages, *found[1:]):
        return found[0]
    if settings.mcse_at_once is None or not has_conditional_normals(prepared):
        return None  # nested Laplace approximations were tried before
    return plan_nested(prepared, block, settings, rng, report)


def shortened(
    prepared: Prepared,
    block: Block,
    settings: RunSettings,
    planned: Planned,
    stages: Stages,
    rng: np.random.Generator,
    report: Any = None,
    *,
    direct: bool = False,
) -> Planned:
    """A plan, or where it is long a shorter one from draws of ``pm.sample``, if there is one."""
    n_moves = settings.aim.n_rows * planned.plan.n_temperatures
    sampled = sampled_reference(prepared, block, planned.reference, stages, n_moves, rng)
    found = sampled and plan_sampled(
        prepared, sampled, block, settings, stages, rng, report, direct=direct
    )
    if isinstance(found, Planned) and found.is_before(planned):
        return found
    if n_moves > LONG and is_asked_if_long(prepared) and stages.rows is not None:
        planned = _at_its_length(planned, settings, stages, rng)
    if isinstance(found, Planned) and found.is_before(planned):
        return found
    return planned.doubted(found) if isinstance(found, Doubt) else planned


def _at_its_length(
    planned: Planned, settings: RunSettings, stages: Stages, rng: np.random.Generator
) -> Planned:
    """A plan whose ladder was not tried as long as it is, in case that draws make it needless."""
    rows, ladder = apart(stages)[1].position, planned.stages or settled(stages)
    planned, trial = refine(planned.block, settings, ladder, rng, planned.reference, rows)
    against = None if trial is None else objection(stages, trial)
    return planned.doubted(Doubt("disagrees", against)) if against else planned


def plan_sampled(
    prepared: Prepared,
    sampled: Reference,
    block: Block,
    settings: RunSettings,
    stages: Stages,
    rng: np.random.Generator,
    report: Any = None,
    *,
    direct: bool = False,
) -> Planned | Doubt:
    """Plan from a fit to draws of ``pm.sample``, or what speaks against it."""
    reference = replace(sampled, draws=None)
    at_once = None
    if direct and sampled.draws is not None:
        at_once = planned_at_once(prepared, sampled.draws, reference, block, settings, rng)
    if at_once is not None:
        planned, *seen = at_once
        if against := objection_to_draws(sampled, stages, *seen):
            return against
    else:
        moved = reference.start(block)
        start = moved.path.sample_reference(rng, n_followed(block))
        followed = walk(moved, settings, start, rng, report)
        if against := objection_to_draws(sampled, stages, *islands_log_z(followed)):
            return against
        planned = from_stages(moved, settings, followed, rng, reference)
    if sampled.covered < COVERED:  # the pilot got lost, and where it is hard to get draws may lack
        return planned.doubted(Doubt("disagrees", "pm.sample and the pilot were far apart"))
    return planned


def planned_at_once(
    prepared: Prepared,
    known: np.ndarray,
    beside: Reference,
    block: Block,
    settings: RunSettings,
    rng: np.random.Generator,
) -> tuple[Planned, float, float] | None:
    """Plan of rows that need no path, log Z of such rows and its error; None if there is none.

    Parameters
    ----------
    prepared, block, settings, rng
        As in `plan_run`.
    known
        Rows of the posterior, as far as it is known, shape (n, d).
    beside
        What was fitted to them.
    """
    aim = settings.mcse_at_once
    n_rows = settings.draws * settings.chains
    found = aim and weighted_at_once(prepared, block, known, beside, n_rows, aim, rng)
    if not found:
        return None
    proposal, estimate, reason = found
    reference = Reference("learned", reason, mcse=beside.mcse, is_sampled=beside.is_sampled)
    planned = Planned(block, plan_of_one_step(block, known), reference, proposal=proposal)
    return planned, estimate.log_z, estimate.mcse


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
) -> tuple[Stages | None, Reference]:
    """What the path is to start from, and the pilot from the prior that this was learned from.

    There is no such pilot where the reference was given. Rows of a funnel are evened out, unless
    ``even`` is false. The pilot has ``more`` times the rows, or `MORE_ROWS` times where no fit to
    fewer rows covers them.
    """
    asked = settings.reference_asked
    is_walked = isinstance(asked, str) and asked != "prior" and not prepared.flat.sites
    start = prepared.prior(rng, more * N_LOOK if is_walked else block.n_rows)
    check_start(prepared, block, start)
    if prepared.flat.sites:
        return None, OF_INTEGERS
    if isinstance(asked, xr.DataTree):
        draws = unconstrain(prepared.flat, posterior_of(asked, "reference"))
        given = fitted_funnel(draws, look_at_prior(prepared, rng)) if even else None
        return None, reference_of_draws(prepared, draws, rng, given)
    if asked == "prior":
        return None, ASKED_FOR
    n_rows, funnel, walked = n_target_rows(prepared.n_dims), None, block
    stages = walk(block, settings, start, rng, report, n_rows)
    # without a gradient a mode is not looked for, and what is fitted to the rows is taken
    if asked == "laplace" and lacks_gradient(prepared.flat) is None:
        mode = at_mode(prepared, start, block.compile_kwargs)
        return stages, mode_or_rows(prepared, stages, mode, rng)
    if even and stages.rows:
        funnel = fitted_funnel(stages.rows.position, look_at_prior(prepared, rng))
    if funnel is not None:
        # the narrow end of a funnel is where rows that move in it as it is do not get
        walked = Reference("prior", "", funnel=funnel).start(block)
        start = walked.path.sample_reference(rng, len(start))
        stages = walk(walked, settings, start, rng, report, n_rows)
    if stages.rows:
        rows = dealt_out(walked, prepared.flat.shapes, stages.rows, rng)
        stages = replace(stages, rows=rows)
    reference = learned_reference(prepared, stages, rng, funnel=funnel, walked=walked)
    if reference.poor_fit and more < MORE_ROWS and not is_sampled(prepared):
        return look(prepared, block, settings, rng, report, even=even, more=MORE_ROWS)
    return stages, reference
