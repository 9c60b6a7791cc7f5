"""Components at modes that a search lacks: where rows of the prior climb to by gradients."""

import numpy as np

from pymc_logz.loop.search import HEAVY, Search
from pymc_logz.models.context import n_affordable, n_numbers
from pymc_logz.references.blend import N_ROWS, Component, Evaluated
from pymc_logz.references.modes import modes_of
from pymc_logz.runners.anneal import Annealed
from pymc_logz.runners.block import Block
from pymc_logz.runners.climb import climbed, towards_data
from pymc_logz.weights import NEGLIGIBLE, TOLERANCE, relative

OF_CLIMBS = "modes that particles climbed to"


def tops_of_prior(search: Search) -> Evaluated:
    """Where rows of the prior climb to; those that are still on their way are left out.

    They are never resampled: whichever basin holds a row of the prior is found, however little of
    the posterior is there half way. One in eight goes to where it fits the data first.
    """
    look = search.look
    if look is None or not can_climb(look.walked):
        return search.tops
    # fewer rows where one costs more
    flat = search.target.prepared.flat
    least = n_affordable(flat, look.walked.n_rows, N_ROWS[0])
    n_rows = int(np.clip(2**17 // n_numbers(flat), least, N_ROWS[1]))
    start = look.walked.path.sample_reference(search.rng, n_rows)
    start[: n_rows // 8] = towards_data(look.walked, start[: n_rows // 8])
    ends, height = climbed(look.walked.target_and_gradient, start, look.scale)
    arrived = ends[np.isfinite(height)]
    return search.target(look.restored(arrived)) if len(arrived) else search.tops


def lacking_modes(
    search: Search, shares: np.ndarray, heavy: float = HEAVY, most: int = N_ROWS[1]
) -> list[Component]:
    """Components with the curvature at tops where parts in these shares have too little density.

    At most so many tops are looked at. Weights above ``heavy`` are too large.
    """
    tops, look = search.tops.chosen(slice(most)), search.look
    if look is None or not len(tops.position):
        return []
    rows = tops.position[search.log_weight_at(tops, shares) > np.log(heavy)]
    if not len(rows):
        return []
    rows = look.whitened(rows)
    return _lacking(search, rows, look.walked.log_target(rows), shares, heavy)


def modes_of_heavy(search: Search, tried: Annealed, most: int = 64) -> list[Component]:
    """Components with the curvature at modes that heavy rows of a blend climb to.

    Few rows of a region say that it is there, and not how wide it is. At most ``most`` of the rows
    that were ``tried`` climb.
    """
    look = search.look
    if look is None or not can_climb(look.walked):
        return []
    weight = relative(tried.log_weight)
    order = np.argsort(-weight)[:most]
    rows = tried.position[order[weight[order] > HEAVY * weight.mean()]]
    if not len(rows):
        return []
    ends, height = climbed(look.walked.target_and_gradient, look.whitened(rows), look.scale)
    found = np.isfinite(height)
    return _lacking(search, ends[found], height[found], search.shares())


def can_climb(block: Block, most: int = 2**8) -> bool:
    """Whether there are gradients, and not too many: each mode takes two for each dimension."""
    return block.follows_whole_gradient and block.path.n_dims <= most


def _lacking(
    search: Search,
    rows: np.ndarray,
    height: np.ndarray,
    shares: np.ndarray,
    heavy: float = HEAVY,
    n: int = 64,
) -> list[Component]:
    """Components at modes near rows (m, d), as they move, where parts in these shares lack mass.

    There are none if that mass may be missing. It is counted in rows that would have weights above
    ``heavy``, by n draws of each component.
    """
    look = search.look
    assert look is not None
    modes = modes_of(look.walked, rows, height, look.scale)
    parts = [Component(one.component, look.funnel, OF_CLIMBS) for one in modes]
    if not parts:
        return []
    draws = [part.draw(search.target, search.rng, n)[0] for part in parts]
    seen = search.target(np.concatenate(draws))
    own = [
        part.log_density_of(search.target, *both)
        for part, *both in zip(parts, draws, np.split(seen.log_prior, len(parts)), strict=True)
    ]
    with np.errstate(invalid="ignore", over="ignore"):
        mass = np.exp(seen.log_target - np.concatenate(own) - search.log_z)
    mass[~(search.log_weight_at(seen, shares) > np.log(heavy))] = 0.0
    lacks = mass.reshape(-1, n).mean(axis=1)
    if lacks.sum() <= TOLERANCE:
        return []
    return [part for part, one in zip(parts, lacks, strict=True) if one > NEGLIGIBLE / 5]
