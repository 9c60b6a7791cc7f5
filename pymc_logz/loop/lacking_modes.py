"""Components at modes that a search lacks: where rows of the prior climb to by gradients."""

import numpy as np

from pymc_logz.loop.looking import Look
from pymc_logz.models.context import n_affordable, n_numbers
from pymc_logz.references.blend import N_ROWS, Component
from pymc_logz.references.modes import MAX_DIMS, modes_of
from pymc_logz.references.search import HEAVY, Search
from pymc_logz.runners.anneal import Annealed
from pymc_logz.runners.climb import climbed
from pymc_logz.weights import NEGLIGIBLE, relative


def lacking_modes(search: Search, look: Look, rng: np.random.Generator) -> list[Component]:
    """Components with the curvature at modes where parts have too little density.

    Rows that climb are never resampled: whichever basin holds a row of the prior is found, however
    little of the posterior is there half way.
    """
    if not _can_climb(look):
        return []
    # fewer rows where one costs more
    flat = search.target.prepared.flat
    least = n_affordable(flat, look.walked.n_rows, N_ROWS[0])
    n_rows = int(np.clip(2**17 // n_numbers(flat), least, N_ROWS[1]))
    start = look.walked.path.sample_reference(rng, n_rows)
    ends, height = climbed(look.walked, start, look.scale)
    log_weight = search.log_weight_at(search.target(look.restored(ends)), search.shares())
    return _at_modes(search, look, ends, height, log_weight > np.log(HEAVY))


def modes_of_heavy(search: Search, look: Look, tried: Annealed, most: int = 64) -> list[Component]:
    """Components with the curvature at modes that heavy rows of a blend climb to.

    Few rows of a region say that it is there, and not how wide it is. At most ``most`` of the rows
    that were ``tried`` climb.
    """
    if not _can_climb(look):
        return []
    weight = relative(tried.log_weight)
    order = np.argsort(-weight)[:most]
    rows = tried.position[order[weight[order] > HEAVY * weight.mean()]]
    if not len(rows):
        return []
    ends, height = climbed(look.walked, look.whitened(rows), look.scale)
    return _at_modes(search, look, ends, height)


def _can_climb(look: Look) -> bool:
    """Whether there are gradients, and matrices of second derivatives are small."""
    return look.walked.follows_whole_gradient and look.walked.path.n_dims <= MAX_DIMS


def _at_modes(
    search: Search,
    look: Look,
    ends: np.ndarray,
    height: np.ndarray,
    chosen: np.ndarray | bool = True,
) -> list[Component]:
    """Components at modes that chosen rows (n, d), at these heights, have climbed to or nearly so.

    Those count that have, by Laplace's method, a fifth of a negligible share of Z.
    """
    chosen = np.isfinite(height) & chosen
    if not chosen.any():
        return []
    least = search.log_z + search.target.log_prior_mass + np.log(NEGLIGIBLE / 5)
    return [
        Component(one.component, look.funnel, "modes that particles climbed to")
        for one in modes_of(look.walked, ends[chosen], height[chosen], look.scale)
        if one.log_mass > least
    ]
