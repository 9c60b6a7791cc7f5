"""The search for modes of a level set that no chain has been to."""

from collections.abc import Sequence

import numpy as np
from scipy.special import bdtrc

from pymc_logz.errors import ModelError
from pymc_logz.manifold.charts import Atlas, Chart
from pymc_logz.manifold.starting_points import settled

N_FIRST, N_SEARCHES = 6, 16
"""Searches, if the first few lead only to what is covered, and if they do not."""
FAR = 5.0
"""Log ratio of target and proposal, beyond the usual one, at which a place is not covered."""
LIKE = 4.0
"""Log density below that of the draws at which a mode may be left out."""
MIN_PROBABILITY = 1e-3
"""Of as many uncovered places by chance, below which a mode counts as missed."""
N_ROWS = 512
"""Draws that tell which share of the posterior is not covered."""


def misses_a_mode(
    atlas: Atlas, charts: Sequence[Chart], position: np.ndarray, rng: np.random.Generator
) -> bool:
    """Whether searches from prior draws lead to places of like density that no chain has been to.

    Draws of one mode and charts fitted to them know nothing of another. Searches like those that
    chains start from do: too many of them end where the charts do not go.

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
    bound = np.median(ratio) + FAR
    share = (np.sum(~(ratio < bound)) + 1) / (len(rows) + 2)

    def not_covered(places: np.ndarray) -> np.ndarray:
        return ~(atlas.log_target(places) - atlas.log_density(charts, places) < bound)

    def too_many(places: np.ndarray) -> bool:
        return bool(bdtrc(np.sum(places) - 1, N_SEARCHES, share) < MIN_PROBABILITY)

    def searched(n: int) -> np.ndarray:
        return np.array([atlas.model.level_set.find_point(rng).position for _ in range(n)])

    try:
        places = searched(N_FIRST)
        if not np.any(not_covered(places)):
            return False
        places = np.concatenate([places, searched(N_SEARCHES - N_FIRST)])
    except ModelError:
        return False
    if not too_many(not_covered(places)):
        return False
    # a search may end in a corner, so they move on before they are judged
    heights, places = map(
        np.array, zip(*(settled(atlas.model, place, rng) for place in places), strict=True)
    )
    return too_many(not_covered(places) & (heights > log_target.mean() - LIKE))
