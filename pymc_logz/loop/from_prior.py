"""What a search from the prior leads to, for those who run something else than its plan."""

from contextlib import suppress

import numpy as np

from pymc_logz.loop.frozen import Planned
from pymc_logz.loop.looking import Look, explore_prior, given_reference
from pymc_logz.loop.planning import Planner
from pymc_logz.loop.widening import components_of, searched
from pymc_logz.models.preparation import Prepared
from pymc_logz.pilot.population import Stages
from pymc_logz.pilot.settings import RunSettings
from pymc_logz.references.blend import AT_ONCE, Blend, Target
from pymc_logz.references.reference import Reference
from pymc_logz.runners.block import Block
from pymc_logz.weights import resampled


def look(
    prepared: Prepared,
    block: Block,
    settings: RunSettings,
    rng: np.random.Generator,
    *,
    blended: bool = False,
) -> tuple[Stages | None, Reference, Blend | None]:
    """What a tempered path is to start from, and the pilot that this was learned from, if any.

    With ``blended`` also a blend that needs no path, if there is one, to hold a run against.
    """
    target = Target(prepared, block)
    seen = _seen(target, settings, rng)
    if isinstance(seen, Reference):
        return None, seen, None
    search = searched(target, seen, settings, rng, alone=True)
    blend, [own] = None, rng.spawn(1)
    if blended:  # a run is the same with it or without
        with suppress(np.linalg.LinAlgError):
            blend = Planner(target, settings, own).blend_to_compare_with(seen)
    return seen.stages, components_of(search), blend


def posterior_rows(
    prepared: Prepared, block: Block, settings: RunSettings, rng: np.random.Generator
) -> np.ndarray:
    """Rows of the posterior, shape (n, d): by the weights of a blend that needs no path.

    Where there is none they are where rows that walked from the prior ended.
    """
    target = Target(prepared, block)
    given, within = given_reference(target, settings, rng)
    planner = Planner(target, settings, rng, direct=True)
    found = planner.nested() if given is None else []
    blend, parts = (found.blend, []) if isinstance(found, Planned) else (None, found)
    if blend is None:
        seen, tried = explore_prior(target, settings, rng, within, even=False), None
        if given is None:
            tried = planner.tried(searched(target, seen, settings, rng, more=parts))
        if tried is None:
            return seen.position
        blend = tried[0]
    rows = blend.weighted(target, rng, AT_ONCE)
    return rows.position[resampled(rows.log_weight, rng)]


def blend_from_prior(prepared: Prepared, block: Block, rng: np.random.Generator) -> Blend | None:
    """A blend that needs no path, if there is one, from rows of the prior that moved by a block."""
    target, settings = Target(prepared, block), RunSettings()
    seen = _seen(target, settings, rng)
    if isinstance(seen, Reference):
        return None
    return Planner(target, settings, rng).blend_to_compare_with(seen)


def _seen(target: Target, settings: RunSettings, rng: np.random.Generator) -> Look | Reference:
    """Rows that walked from the prior, or what is given in their place."""
    given, within = given_reference(target, settings, rng, even=False)
    return given or explore_prior(target, settings, rng, within, even=False)
