"""Components at modes that a search lacks: where rows of the prior climb to by gradients."""

import numpy as np

from pymc_logz.models.context import n_affordable, n_numbers
from pymc_logz.models.flat import FlatModel
from pymc_logz.paths.funnels import Funnel
from pymc_logz.references.blend import Component
from pymc_logz.references.modes import MAX_DIMS, modes_of
from pymc_logz.references.search import HEAVY, Search
from pymc_logz.runners.anneal import Annealed
from pymc_logz.runners.block import Block
from pymc_logz.runners.climb import climbed
from pymc_logz.weights import relative

N_CLIMB, CHEAP = (512, 4096), 2**17
"""Fewest and most rows of the prior that climb, and numbers in all of them up to which they are
cheap: of a basin with a hundredth of the prior 512 miss one time in 170, 4,096 a thousandth one in
sixty. There may be fewer where a row costs much."""


def n_climbing(flat: FlatModel, n_rows: int) -> int:
    """Rows of the prior that climb, fewer where one costs more; ``n_rows`` are moved at once."""
    least = n_affordable(flat, n_rows, N_CLIMB[0])
    return int(np.clip(CHEAP // n_numbers(flat), least, N_CLIMB[1]))


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

    ``walked`` moved from the prior in the coordinates of ``funnel``; ``scale`` are standard
    deviations of the posterior there, as far as known, shape (d,).
    """
    prepared = search.target.prepared
    if not can_climb(search, walked):
        return []
    start = walked.path.sample_reference(rng, n_climbing(prepared.flat, walked.n_rows))
    ends, height = climbed(walked, start, scale)
    rows = ends if funnel is None else funnel.restored(ends)
    shares = search.shares()
    log_weight = search.log_weight_at(search.target(rows), shares)
    lacking = np.isfinite(height) & (log_weight > np.log(HEAVY))
    return at_modes(search, walked, funnel, scale, ends[lacking], height[lacking])


def modes_of_heavy(
    search: Search,
    walked: Block,
    funnel: Funnel | None,
    scale: np.ndarray,
    tried: Annealed,
    most: int = 64,
) -> list[Component]:
    """Components with the curvature at modes that heavy rows of a blend climb to.

    Few rows of a region say that it is there, and not how wide it is.

    At most ``most`` of the rows that were ``tried`` climb; the others are as in `lacking_modes`.
    """
    if not can_climb(search, walked):
        return []
    weight = relative(tried.log_weight)
    order = np.argsort(-weight)[:most]
    rows = tried.position[order[weight[order] > HEAVY * weight.mean()]]
    if not len(rows):
        return []
    ends, height = climbed(walked, rows if funnel is None else funnel.whitened(rows), scale)
    found = np.isfinite(height)
    return at_modes(search, walked, funnel, scale, ends[found], height[found])


def can_climb(search: Search, walked: Block) -> bool:
    """Whether there are gradients, and matrices of second derivatives are small."""
    return walked.follows_whole_gradient and search.target.prepared.n_dims <= MAX_DIMS


def at_modes(
    search: Search,
    walked: Block,
    funnel: Funnel | None,
    scale: np.ndarray,
    ends: np.ndarray,
    height: np.ndarray,
) -> list[Component]:
    """Components at the modes that rows (n, d), at these heights, have climbed to or nearly so."""
    if not len(ends):
        return []
    modes = modes_of(walked, ends, height, scale)
    least = search.log_z + search.target.log_prior_mass + np.log(search.policy.tolerance / 10)
    return [
        Component(one.component, funnel, "modes that particles climbed to")
        for one in modes
        if one.log_mass > least
    ]
