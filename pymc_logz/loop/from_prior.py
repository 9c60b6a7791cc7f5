"""What a search from the prior leads to, for those who run something else than its plan."""

from contextlib import suppress
from dataclasses import replace

import numpy as np

from pymc_logz.loop.frozen import Planned
from pymc_logz.loop.looking import explore_prior, given_reference
from pymc_logz.loop.planning import Planner
from pymc_logz.loop.widening import components_of, searched
from pymc_logz.models.preparation import Prepared
from pymc_logz.pilot.population import Stages
from pymc_logz.pilot.settings import RunSettings
from pymc_logz.references.blend import AT_ONCE, Blend, Part, Target
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
    given, within = given_reference(target, settings, rng)
    if given is not None:
        return None, replace(given, funnel=None), None
    seen = explore_prior(target, settings, rng, within, even=False)
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
    blend, planner, parts = None, Planner(target, settings, rng, direct=True), list[Part]()
    if given is None:
        found = planner.nested()
        if isinstance(found, Planned):
            blend = found.blend
        else:
            parts = found
    if blend is None:
        seen = explore_prior(target, settings, rng, within, even=False)
        if given is None:
            search = searched(target, seen, settings, rng, more=parts)
            if tried := planner.tried(search):
                blend = tried[0]
        if blend is None:
            return seen.position
    rows = blend.weighted(target, rng, AT_ONCE)
    return rows.position[resampled(rows.log_weight, rng)]


def blend_from_prior(prepared: Prepared, block: Block, rng: np.random.Generator) -> Blend | None:
    """A blend that needs no path, if there is one, from rows of the prior that moved by a block."""
    target, settings = Target(prepared, block), RunSettings()
    given, within = given_reference(target, settings, rng)
    if given is not None:
        return None
    seen = explore_prior(target, settings, rng, within, even=False)
    return Planner(target, settings, rng).blend_to_compare_with(seen)
