"""The search for modes of a level set that no chain has been to."""

from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import bdtrc

from pymc_logz.errors import ModelError
from pymc_logz.manifold.charts import Atlas, Chart, fitted_charts
from pymc_logz.manifold.model import MAX_TRANSITIONS
from pymc_logz.manifold.starting_points import SETTLING, settled
from pymc_logz.manifold.transitions import TransitionInput
from pymc_logz.weights import DEGENERATE_ESS, normalise, shares_beyond, weight_ess

N_SEARCHES = 96
"""From prior draws: a mode to which 5% of them lead is missed 1 time in 138."""
N_FOLLOWED = 8
"""Places that no chain has been to from which chains of their own are made."""
N_BLOCKS = 6
"""Calls of `MAX_TRANSITIONS` transitions of such a chain, after it has settled."""
N_PROPOSED = 512
"""Draws that tell the mass around such a place."""
FAR = 5.0
"""Log ratio of target and proposal, beyond the usual one, at which a place is not covered."""
LIKE = 4.0
"""Log density below that of the draws at which a mode may be left out."""
MIN_SHARE = 0.02
"""Mass beyond the charts, in units of that of the draws, above which it is a mode of its own."""
MIN_PROBABILITY = 1e-3
"""Of as many uncovered places by chance, below which a mode counts as missed."""
N_ROWS = 512
"""Draws that tell which share of the posterior is not covered."""
EDGE, BEYOND, ERRORS = 0.01, 0.1, 4.0
"""Share of the draws beyond an edge, by how much more of the proposal's weight may be there, and
by how many errors: right chains of 1,200 draws have up to 0.02 more."""


def share_unvisited(draws: np.ndarray, proposed: np.ndarray, log_weight: np.ndarray) -> float:
    """Share of the posterior beyond nearly all draws, by weights of a proposal; 0 if it is small.

    Charts of one branch may reach another one that is near, where no chain has been.

    Parameters
    ----------
    draws
        Of the chains, shape (n, d).
    proposed, log_weight
        Draws of the proposal, shape (k, d), and their weights, -inf where a lift failed.
    """
    found = np.isfinite(log_weight)
    if weight_ess(log_weight[found]) <= DEGENERATE_ESS:
        return 0.0
    edges = np.quantile(draws, [EDGE, 1 - EDGE], axis=0)
    share, error = shares_beyond(proposed[found], normalise(log_weight[found]), edges)
    return float(np.max(np.where(share - EDGE > np.maximum(BEYOND, ERRORS * error), share, 0.0)))


def misses_a_mode(
    atlas: Atlas, charts: Sequence[Chart], position: np.ndarray, rng: np.random.Generator
) -> bool:
    """Whether searches from prior draws lead to mass that no chain has been to.

    Draws of one mode and charts fitted to them know nothing of another. Searches like those that
    chains start from do: `N_SEARCHES` are made. Where one ends in a place that the charts do not
    cover, a chain of its own is made there, and charts fitted to it tell the mass beyond the old
    ones. If this is more than `MIN_SHARE` of that of the draws, a mode is missed; or if more
    searches than draws end where no chart goes, in places of like density.

    A mode whose basin, the inputs from which a search leads there, holds a share s of the prior is
    found with probability 1 - (1 - s)**n by n searches: with 96 that is above 0.9999 for s = 0.12,
    0.99 for 0.05, 0.62 for 0.01. What hardly any prior draw leads to, such as a small sheet far
    from all of them, is not found by this or any other local search.

    Parameters
    ----------
    atlas
        The level set.
    charts
        What the proposal is made of.
    position
        Draws, shape (chains, draws, d).
    rng
        Generator of the searches.
    """
    rows = position[:, position.shape[1] // 2 :].reshape(-1, position.shape[-1])
    rows = rng.permutation(rows)[:N_ROWS]
    log_target = atlas.log_target(rows)
    ratio = log_target - atlas.log_density(charts, rows)
    # the target over its own normalised density is Z
    log_z = float(np.median(ratio))
    share = (np.sum(~(ratio < log_z + FAR)) + 1) / (len(rows) + 2)

    def not_covered(places: np.ndarray) -> np.ndarray:
        return ~(atlas.log_target(places) - atlas.log_density(charts, places) < log_z + FAR)

    def too_many(n: int) -> bool:
        return bool(bdtrc(n - 1, N_SEARCHES, share) < MIN_PROBABILITY)

    try:
        places = np.array(
            [atlas.model.level_set.find_point(rng).position for _ in range(N_SEARCHES)]
        )
    except ModelError:
        return False
    places = places[not_covered(places)]
    n_places, places = len(places), rng.permutation(places)[:N_FOLLOWED]
    n_like = 0
    for place in places:
        # a search may end in a corner, so they move on before they are judged
        height, settled_at = settled(atlas.model, place, rng)
        if not_covered(settled_at[None])[0]:
            n_like += int(height > log_target.mean() - LIKE)
            if _mass_at(atlas, settled_at, not_covered, rng) > log_z + np.log(MIN_SHARE):
                return True
    # of those that were not followed, as many are like the draws
    return n_like > 0 and too_many(round(n_like * n_places / len(places)))


def _mass_at(
    atlas: Atlas,
    place: np.ndarray,
    not_covered: Callable[[np.ndarray], np.ndarray],
    rng: np.random.Generator,
) -> float:
    """Log mass around a place that is not covered, from charts fitted to a chain that starts there.

    It is too low where the chain is short for the number of dimensions.
    """
    state, chain = atlas.model.state_at(place), []
    for _ in range(N_BLOCKS):
        given = [
            TransitionInput(rng.standard_normal(place.size), np.log(rng.random()), *SETTLING)
            for _ in range(MAX_TRANSITIONS)
        ]
        state, records = atlas.model.transitions(state, given)
        chain += [record.position for record in records]
    rows = np.array(chain)
    rows = rows[not_covered(rows)]
    # a chain that soon is where others have been shows no mode of its own
    if len(rows) < len(chain) // 2:
        return -np.inf
    try:
        charts, _ = fitted_charts(atlas, rows)
    except ModelError:
        return -np.inf
    proposed, log_target = atlas.draw(charts, rng, N_PROPOSED)
    found = np.isfinite(log_target)
    weight = np.zeros(N_PROPOSED)
    log_weight = log_target[found] - atlas.log_density(charts, proposed[found])
    weight[found] = np.exp(log_weight) * not_covered(proposed[found])
    weight[~np.isfinite(weight)] = 0.0
    # one weight is no mass
    mean = np.delete(weight, np.argmax(weight)).mean()
    return float(np.log(mean)) if mean > 0 else -np.inf
