"""Components at modes that a search lacks: where rows of the prior climb to by gradients."""

import numpy as np

from pymc_logz.models.context import n_data
from pymc_logz.models.preparation import Prepared
from pymc_logz.paths.funnels import Funnel
from pymc_logz.references.blend import Component
from pymc_logz.references.modes import MAX_DIMS, modes_of
from pymc_logz.references.search import HEAVY, Search
from pymc_logz.runners.block import Block
from pymc_logz.runners.climb import climbed

N_CLIMB, NUMBERS = (512, 4096), 2**17
"""Fewest and most rows of the prior that climb, and data times rows where there are more data: of a
basin with a hundredth of the prior 512 miss one time in 170, 4,096 a thousandth one in sixty."""


def n_climbing(prepared: Prepared) -> int:
    """Rows of the prior that climb to the modes of a model: fewer, the more data it has."""
    return int(np.clip(NUMBERS // (n_data(prepared.flat) + prepared.n_dims), *N_CLIMB))


def lacking_modes(
    search: Search,
    walked: Block,
    funnel: Funnel | None,
    scale: np.ndarray,
    rng: np.random.Generator,
) -> list[Component]:
    """Components with the curvature at modes where parts have too little density.

    Rows that climb are never resampled: whichever basin holds a row of the prior is found, however
    little of the posterior is there half way. Modes count that have, by Laplace's method, a tenth
    of the share of Z that may be missing.

    Parameters
    ----------
    search
        What is known of the posterior; the rows of the prior are added to it.
    walked, funnel
        Moves from the prior, and the coordinates that they are in.
    scale
        Standard deviations of the posterior in these coordinates, as far as known, shape (d,).
    rng
        Generator of the rows.
    """
    prepared = search.target.prepared
    if not walked.kernel.needs_gradient or prepared.n_dims > MAX_DIMS:
        return []
    start = walked.path.sample_reference(rng, n_climbing(prepared))
    ends, height = climbed(walked, start, scale)
    rows = ends if funnel is None else funnel.restored(ends)
    shares = search.shares()
    log_weight = search.log_weight_at(search.target(rows), shares)
    lacking = np.isfinite(height) & (log_weight > np.log(HEAVY))
    if not lacking.any():
        return []
    modes = modes_of(walked, ends[lacking], height[lacking], scale)
    least = search.log_z + search.target.log_prior_mass + np.log(search.policy.tolerance / 10)
    return [
        Component(one.component, funnel, "modes that particles climbed to")
        for one in modes
        if one.log_mass > least
    ]
