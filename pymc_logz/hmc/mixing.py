"""Whether chains have forgotten where they started: nested R-hat."""

import numpy as np
import xarray as xr

RANKED_DRAWS = 4
"""Draws of a chain from which on ArviZ ranks them."""


def largest_rhat(n_points: int, members: int, n_draws: int, n_dims: int) -> float:
    """Nested R-hat up to which chains are taken to have forgotten where they started."""
    # independent draws, one of each chain, would be as far apart on average; where there are hardly
    # more, one of d variables would be with a probability of 1 in 1,000
    apart = 1.0
    if n_draws < RANKED_DRAWS and members > 1:
        # takes a third of a second, and most who import this module never get here
        from scipy import stats

        apart = float(stats.f.isf(1e-3 / n_dims, n_points - 1, n_points * (members - 1)))
    return max(1.01, float(np.sqrt(1.0 + apart / members)))


def nested_rhat(posterior: xr.Dataset, names: list[str], members: np.ndarray) -> float:
    """The largest nested R-hat of these variables; 1 if none of them varies."""
    if posterior.sizes["draw"] < RANKED_DRAWS:
        arrays = [posterior[name].transpose("chain", "draw", ...).to_numpy() for name in names]
        arrays = [array.reshape(*array.shape[:2], -1) for array in arrays]
        found = [plain_nested_rhat(array, members) for array in arrays]
    else:
        from arviz_stats import rhat_nested

        with np.errstate(divide="ignore", invalid="ignore"):  # chains that never moved
            ranked = rhat_nested(posterior[names], superchain_ids=members.tolist())
        found = [np.ravel(ranked[name].values) for name in names]
    return float(np.nanmax(np.concatenate(found), initial=1.0))


def plain_nested_rhat(draws: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Nested R-hat (k,) of draws (chains, draws, k): Margossian et al. (2024), equations 6 to 8."""
    each = np.stack([draws[members == one] for one in np.unique(members)])
    means, within = each.mean(axis=2), np.zeros(draws.shape[2])
    between = means.mean(axis=1).var(axis=0, ddof=1)
    if means.shape[1] > 1:
        within += means.var(axis=1, ddof=1).mean(axis=0)
    if draws.shape[1] > 1:
        within += each.var(axis=2, ddof=1).mean(axis=(0, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt(1.0 + between / within)
