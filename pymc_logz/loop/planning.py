"""From a prepared model to a frozen plan: one loop that looks, proposes, blends, tries and widens.

1. Look: rows of the prior walk to the posterior as a resampled population, and others climb.
2. Propose: each way of making a density sees all rows so far, and hands over parts of a blend.
3. Blend: shares of all parts, the prior among them, by which the variance of the weights is least.
4. Try: fresh rows of the blend are weighted by all parts.
5. Widen: rows that the parts do not explain become parts of the next blend.

Where the weights are even enough the run is fresh rows of the blend; else it is annealed from the
components that explain the most.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pymc_logz.errors import says_if_interrupted
from pymc_logz.estimators import importance_log_z
from pymc_logz.kernels.compose import for_variables
from pymc_logz.loop.frozen import (
    Planned,
    from_stages,
    make_plan,
    n_followed,
    plan_of_one_step,
    refine,
    walk,
)
from pymc_logz.loop.looking import Look, given_reference, look_around
from pymc_logz.loop.widening import (
    LEAST,
    N_TRIED,
    OF_MODE,
    add_draws,
    add_lacking,
    add_modes,
    searched,
)
from pymc_logz.models.flat import FlatModel, model_path, open_path
from pymc_logz.models.preparation import Prepared
from pymc_logz.paths.funnels import Funnel
from pymc_logz.paths.mixture import Mixture
from pymc_logz.pilot.checks import exceeds, stuck_stages, warn_of_stuck
from pymc_logz.pilot.ladder import MAX_GROWTH, first_ladder, settled
from pymc_logz.pilot.population import Stages
from pymc_logz.pilot.settings import RunSettings
from pymc_logz.references.blend import Component, Prior, target_of
from pymc_logz.references.conditional import has_conditional_normals
from pymc_logz.references.lacking_modes import N_CLIMB
from pymc_logz.references.nested import conditional_at_peak, nested_laplace
from pymc_logz.references.peak import highest_marginal
from pymc_logz.references.reference import Reference, components_in_words, whitened_draws
from pymc_logz.references.search import HEAVY, Search
from pymc_logz.runners.block import Block
from pymc_logz.runners.progress import BRIDGE, line
from pymc_logz.weights import log_mean

N_TRIALS = 6
"""Blends that are tried at most, each with the modes that the one before lacked."""
MOST_TRIES = 32
"""Rows that each row of a run is chosen from, at most."""
FINE = 0.025
"""Error of log Z, in nats, that is aimed at where that is cheap."""
SLACK = 1.25
"""Factor by which rows that were looked at may flatter."""
FEW_DIMENSIONS = 8
"""Dimensions up to which ``pm.sample`` is never asked: there it costs more than the path from the
prior, whose rows lose no mode."""
LONG = 2**18
"""Moves of all rows of a run beyond which it is asked: about as many as it makes itself where a
posterior is difficult."""


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
    tried: Planned | None = None,
    *,
    direct: bool = False,
) -> Planned:
    """Choose the reference, and freeze the temperatures and the kernel's settings.

    ``block`` is from `block_for`; ``report`` is called with each beta that the pilot reaches.
    ``tried`` is what was planned before, and did not hold when it ran; ``direct`` whether rows may
    be weighted without a path.
    """
    given = given_reference(prepared, block, settings, rng)
    if given is not None:
        moved = given.start(block)
        start = moved.path.sample_reference(rng, n_followed(block))
        return make_plan(moved, settings, start, rng, report, given)
    if settings.asks_for("learned") and not has_conditional_normals(prepared):
        nested = plan_nested(prepared, block, settings, rng, report, direct=direct)
        if nested is not None:
            return nested
    look = look_around(prepared, block, settings, rng, report)
    with line("Fitting a reference, looking for modes", BRIDGE):
        search = searched(prepared, block, look, settings, rng, tried)
    return plan_searched(search, look, settings, rng, report, direct=direct)


def plan_searched(
    search: Search,
    look: Look,
    settings: RunSettings,
    rng: np.random.Generator,
    report: Any,
    *,
    direct: bool,
) -> Planned:
    """Rows of the blend where their weights are even; else a path, or what draws of NUTS add."""
    prepared = search.target.prepared
    if direct and (found := plan_without_path(search, look, settings, rng)) is not None:
        return found
    may_ask = prepared.n_dims > FEW_DIMENSIONS and prepared.exact_row is None
    may_ask = may_ask and settings.asks_for("learned")
    planned = plan_path(search, look, settings, rng, report, LONG if may_ask else np.inf)
    if not may_ask or settings.aim.n_rows * planned.plan.n_temperatures <= LONG:
        return planned
    with line("Fitting a reference to draws of pm.sample"):
        is_drawn = add_draws(search, rng)
    if is_drawn:
        if direct and (found := plan_without_path(search, look, settings, rng)) is not None:
            return found
        shorter = plan_path(search, look, settings, rng, report, LONG)
        if settings.aim.n_rows * shorter.plan.n_temperatures <= LONG:
            return shorter
    return plan_path(search, look, settings, rng, report)


def plan_without_path(
    search: Search, look: Look | None, settings: RunSettings, rng: np.random.Generator
) -> Planned | None:
    """Rows of the blend that need no path; None where their weights are too uneven.

    Without a look no rows of its own say what the blend lacks.
    """
    aim, target = settings.mcse_without_path, search.target
    if aim is None:
        return None
    for _ in range(N_TRIALS):
        shares = search.shares_to_keep()
        blend = search.blend(shares)
        rows = blend.weighted(target, rng, N_TRIED)
        trial = importance_log_z(rows.log_weight, method="hais")
        if trial.status == "ok":
            # rows of the blend do not tell what none of them is near
            heavy = HEAVY * N_TRIED / trial.weight_ess
            if look is None or not add_lacking(search, look, rng, shares, heavy, N_CLIMB[0]):
                break
            continue
        hopeless = search.effective_share(shares) < LEAST
        if look is None or hopeless or not add_modes(search, look, rows, rng):
            return None
    else:
        return None
    if look and exceeds(look.stages, trial.log_z, trial.mcse, search.policy.alpha):
        return None
    even = min(search.effective_share(shares), trial.weight_ess / N_TRIED)
    n_rows = settings.draws * settings.chains
    n_wanted = [
        max(1, int(np.ceil((1 / even - 1) / (n_rows * (mcse / SLACK) ** 2))))
        for mcse in (FINE, aim)
    ]
    if min(n_wanted) > MOST_TRIES:
        return None
    tries = min(max(n_wanted), MOST_TRIES)
    reason = f"{blend.in_words()}: weights have an effective share of {even:.2g}"
    reason += f"; each particle is one of {tries}" if tries > 1 else ""
    is_mode = all(part.in_words() in (OF_MODE, Prior().in_words()) for part in blend.parts)
    taken = "laplace" if is_mode and settings.asks_for("laplace") else "learned"
    known = search.witnesses.position if look else search.known(rng)[0]
    plan = plan_of_one_step(target.block, known)
    return Planned(
        target.block,
        plan,
        Reference(taken, reason),
        target=target,
        blend=replace(blend, tries=tries),
    )


def plan_path(
    search: Search,
    look: Look,
    settings: RunSettings,
    rng: np.random.Generator,
    report: Any = None,
    limit: float = np.inf,
) -> Planned:
    """A path from the components that explain the most in coordinates of their own; or the prior.

    Where a run would make more moves than a limit, no longer ladder is tried.
    """
    block, alpha = search.target.block, search.policy.alpha
    reference = components_of(search)
    if reference.mixture is not None:
        moved = reference.start(block)
        rows = reference.whitened(search.witnesses.position)
        if reference.funnel is look.funnel:
            stages = settled(look.stages)
        else:
            start = moved.path.sample_reference(rng, n_followed(block))
            stages = walk(moved, settings, start, rng, report)
        planned, trial = refine(moved, settings, stages, rng, reference, rows, limit)
        if trial is None:
            return planned
        found = importance_log_z(trial.log_weight, method="hais")
        if not exceeds(look.stages, log_mean(trial.log_weight), found.mcse, alpha):
            warn_of_stuck(stuck_stages(look.stages))
            return planned
        reason = "a path from components found less than particles that walked from the prior"
        reference = Reference("prior", reason, funnel=look.funnel)
    moved = reference.start(block)
    if settings.aim.n_rows * MAX_GROWTH * first_ladder(look.stages) > limit:
        # hardly any posterior is content with the first ladder that is tried from the prior
        return Planned(moved, look.stages.plan(MAX_GROWTH * first_ladder(look.stages)), reference)
    return from_stages(moved, settings, look.stages, rng, reference)


def components_of(search: Search) -> Reference:
    """Components of the coordinates whose blend with the prior has the most even weights."""
    best = Reference("prior", "no components were found that explain the particles from the prior")
    most = LEAST
    is_prior = np.array([isinstance(part, Prior) for part in search.parts])
    funnels = {id(one.funnel): one.funnel for one in search.parts if isinstance(one, Component)}
    for funnel in funnels.values():
        own = [isinstance(one, Component) and one.funnel is funnel for one in search.parts]
        shares = search.shares(is_prior | np.array(own))
        even = search.effective_share(shares)
        best = replace(best, funnel=best.funnel or funnel)
        if even <= most:
            continue
        most = even
        kept = [k for k, mine in enumerate(own) if mine and shares[k]]
        best = learned(search, kept, shares, funnel, even)
    return best


def learned(
    search: Search, kept: list[int], shares: np.ndarray, funnel: Funnel | None, even: float
) -> Reference:
    """Components of a search as a reference."""
    prepared = search.target.prepared
    log_mass, error = prepared.prior.log_share()
    draw = prepared.prior if funnel is None else whitened_draws(prepared.prior, funnel)
    parts = [search.parts[k] for k in kept]
    components = tuple(part.density for part in parts if isinstance(part, Component))
    own = shares[kept]
    mixture = Mixture(components, own, 1 - float(own.sum()), draw, log_mass)
    is_mode = all(part.in_words() == OF_MODE for part in parts)
    shape = " in the coordinates of a funnel" if funnel else ""
    reason = (
        f"{components_in_words(len(components))}{shape} explain the particles that walked from the "
        f"prior with an effective share of {even:.2g}"
    )
    taken = "laplace" if is_mode else "learned"
    return Reference(taken, reason, mixture, error, funnel, covered=even)


def plan_nested(
    prepared: Prepared,
    block: Block,
    settings: RunSettings,
    rng: np.random.Generator,
    report: Any = None,
    *,
    direct: bool,
) -> Planned | None:
    """Plan from nested Laplace approximations; None where the model has none that hold."""
    with line("Fitting nested Laplace approximations", BRIDGE):
        start = highest_marginal(prepared, block, rng)
        if start is None:
            return None
        if direct and (part := conditional_at_peak(start, rng)) is not None:
            search = Search(target_of(prepared, block))
            search.add_parts([Prior(), part])
            search.draw(rng, N_TRIED)
            search.draw(rng, N_TRIED)
            if (planned := plan_without_path(search, None, settings, rng)) is not None:
                return planned
        found = nested_laplace(prepared, block, start, rng)
    if found is None:
        return None
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
) -> tuple[Stages | None, Reference]:
    """What a tempered path is to start from, and the pilot that this was learned from, if any."""
    given = given_reference(prepared, block, settings, rng)
    if given is not None:
        return None, replace(given, funnel=None)
    seen = look_around(prepared, block, settings, rng, report, even=False)
    search = searched(prepared, block, seen, settings, rng, alone=True)
    return seen.stages, components_of(search)
