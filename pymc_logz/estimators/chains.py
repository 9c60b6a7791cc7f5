"""What draws of Markov chains are worth for a mean."""

import numpy as np

MIN_CHAIN = 4
"""Fewest draws of a chain whose autocorrelation ArviZ estimates."""
ROUNDING = 1e-12
"""Relative range below which values differ by rounding only."""


def check_chains(**given: np.ndarray) -> None:
    """Raise a ValueError for chains (..., draws) that are too short to tell an error."""
    for name, values in given.items():
        if values.shape[-1] < MIN_CHAIN or values.size == 0:
            raise ValueError(
                f"{name} has shape {values.shape}; each chain needs at least {MIN_CHAIN} draws, so "
                "that its autocorrelation can be estimated"
            )


def effective_draws(values: np.ndarray, *, tails: bool = False) -> float:
    """Number of independent draws that chains are worth for the mean of these values.

    At most their number: a gain from negative autocorrelation is not trusted. ``values`` are one
    for each draw, shape (chains, draws). With ``tails`` absolute deviations count too: chains that
    are slow only in their tails show it there sooner. Where nothing can be estimated it is 1.

    References
    ----------
    Vehtari et al. (2021), Rank-normalization, folding, and localization, doi 10.1214/20-BA1221.
    """
    # ArviZ takes seconds to import, and few who import this module have chains
    from arviz_stats.base import array_stats

    if np.ptp(values) < ROUNDING * np.abs(values).max():
        return float(values.size)
    measured = (values, np.abs(values - values.mean())) if tails else (values,)
    sizes = [float(array_stats.ess(one, method="mean")) for one in measured]
    finite = [size for size in sizes if np.isfinite(size)]
    return min([*finite, float(values.size)]) if finite else 1.0
