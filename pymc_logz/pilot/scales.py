"""Length scales and correlations from a weighted population."""

import numpy as np
from scipy.special import ndtri

from pymc_logz.paths.elliptical import shrunk_correlation


def population_scale(position: np.ndarray, weight: np.ndarray, fallback: np.ndarray) -> np.ndarray:
    """Half the width of the central 68% of each dimension of a weighted population.

    ``fallback`` is used where the population of rows (n, d), of normalised weights (n,), has
    collapsed to a point. Quantiles rather than moments, so that a heavy tail does not stretch the
    scale.
    """
    width = _quantile(position, weight, 0.8413) - _quantile(position, weight, 0.1587)
    return np.where((width > 0) & np.isfinite(width), 0.5 * width, fallback)


def centred(position: np.ndarray, weight: np.ndarray, n_groups: int) -> np.ndarray:
    """Rows less the weighted median of their group, so that groups can be pooled for their scales.

    Rows (n, d) of a group are next to each other, and groups of equal size; a single one is left
    where it is.
    """
    if n_groups == 1:
        return position
    parts = zip(np.split(position, n_groups), np.split(weight, n_groups), strict=True)
    return np.concatenate(
        [rows - _quantile(rows, share / share.sum(), 0.5) for rows, share in parts]
    )


def _quantile(position: np.ndarray, weight: np.ndarray, level: float) -> np.ndarray:
    """Weighted quantile of each column of rows (n, d), shape (d,)."""
    order, cumulative = _weighted_ranks(position, weight)
    ordered = np.take_along_axis(position, order, axis=0)
    return np.array([np.interp(level, *pair) for pair in zip(cumulative.T, ordered.T, strict=True)])


def population_correlation(position: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Lower triangular factor of the correlations of a weighted population, shape (d, d).

    Correlations of normal scores of the ranks, which no heavy tail distorts, shrunk towards none by
    `shrunk_correlation`.
    """
    n_dims = position.shape[1]
    order, cumulative = _weighted_ranks(position, weight)
    ranks = np.empty_like(cumulative)
    np.put_along_axis(ranks, order, cumulative, axis=0)
    scores = ndtri(np.clip(ranks, 1e-4, 1 - 1e-4))
    covariance = (weight[:, None] * scores).T @ scores
    if not np.all(np.diag(covariance) > 0):
        return np.eye(n_dims)
    return np.linalg.cholesky(shrunk_correlation(covariance, 1.0 / (weight**2).sum()))


def _weighted_ranks(position: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Order of each column of rows (n, d), and the share of weight below each row in that order."""
    order = np.argsort(position, axis=0)
    return order, np.cumsum(weight[order], axis=0) - 0.5 * weight[order]
