"""Components at modes that a search lacks: where rows of the prior climb to by gradients."""

from collections.abc import Sequence

import numpy as np

from pymc_logz.models.context import n_affordable, n_numbers
from pymc_logz.models.flat import FlatModel
from pymc_logz.paths.funnels import Funnel
from pymc_logz.references.blend import Component
from pymc_logz.references.modes import MAX_DIMS, Mode, modes_of
from pymc_logz.references.search import HEAVY, LARGE, Search
from pymc_logz.runners.anneal import Annealed
from pymc_logz.runners.block import Block
from pymc_logz.runners.climb import climbed
from pymc_logz.weights import relative

N_CLIMB, CHEAP = (512, 4096), 2**17
"""Fewest and most rows of the prior that climb, and numbers in all of them up to which they are
cheap: of a basin with a hundredth of the prior 512 miss one time in 170, 4,096 a thousandth one in
sixty. There may be fewer where a row costs much."""

N_OF_MODE = 64
"""Draws of a mode's component by which its mass is estimated."""


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
    shares: np.ndarray,
    heavy: float = HEAVY,
    most: int = N_CLIMB[1],
) -> list[Component]:
    """Components with the curvature at modes where parts in these shares have too little density.

    Rows that climb are never resampled: whichever basin holds a row of the prior is found, however
    little of the posterior is there half way.

    ``walked`` moved from the prior in the coordinates of ``funnel``; ``scale`` are standard
    deviations of the posterior there, as far as known, shape (d,). At most ``most`` rows climb;
    weights above ``heavy`` are too large.
    """
    prepared = search.target.prepared
    if not can_climb(search, walked):
        return []
    n_rows = min(n_climbing(prepared.flat, walked.n_rows), most)
    ends, height = climbed(walked, walked.path.sample_reference(rng, n_rows), scale)
    rows = ends if funnel is None else funnel.restored(ends)
    log_weight = search.log_weight_at(search.target(rows), shares)
    lacking = np.isfinite(height) & (log_weight > np.log(heavy))
    modes = modes_of(walked, ends[lacking], height[lacking], scale)
    return components_lacking(search, modes, funnel, shares, rng, heavy)


def modes_of_heavy(
    search: Search,
    walked: Block,
    funnel: Funnel | None,
    scale: np.ndarray,
    tried: Annealed,
    rng: np.random.Generator,
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
    modes = modes_of(walked, ends[found], height[found], scale)
    return components_lacking(search, modes, funnel, search.shares(), rng)


def can_climb(search: Search, walked: Block) -> bool:
    """Whether there are gradients, and matrices of second derivatives are small."""
    return walked.follows_whole_gradient and search.target.prepared.n_dims <= MAX_DIMS


def components_lacking(
    search: Search,
    modes: Sequence[Mode],
    funnel: Funnel | None,
    shares: np.ndarray,
    rng: np.random.Generator,
    heavy: float = HEAVY,
) -> list[Component]:
    """Components at those modes where parts in these shares lack mass; none if that may be missing.

    Mass is counted in rows that would have weights above ``heavy``, and by draws of the components.
    """
    parts = [Component(one.component, funnel, "modes that particles climbed to") for one in modes]
    if not parts:
        return []
    target, n = search.target, N_OF_MODE
    seen = target(np.concatenate([part.draw(target, rng, n) for part in parts]))
    own = [
        part.log_density_of(target, seen.position[k * n : (k + 1) * n], np.zeros(n))
        for k, part in enumerate(parts)
    ]
    with np.errstate(invalid="ignore"):
        log_mass = seen.log_target - np.concatenate(own) - search.log_z
    is_heavy = search.log_weight_at(seen, shares) > np.log(heavy)
    mass = np.where(is_heavy, np.exp(np.minimum(log_mass, LARGE)), 0.0).reshape(-1, n).mean(axis=1)
    least = search.policy.tolerance
    if mass.sum() <= least:
        return []
    return [part for part, lacks in zip(parts, mass, strict=True) if lacks > least / 10]
