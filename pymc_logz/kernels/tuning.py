"""Step sizes from acceptance rates, and length scales from a population."""

import numpy as np
from scipy.special import ndtri

MIN_STEP_SIZE, MAX_STEP_SIZE = 1e-6, 3.0


def leapfrog_step_size(step_size: float, acceptance_rate: float, target_accept: float) -> float:
    """Leapfrog step size expected to have the target acceptance rate.

    The energy error of one leapfrog step is of third order in the step size, and the rejection
    rate follows it; one correction changes the step size by at most a factor of three.
    """
    rejection = np.clip(1.0 - acceptance_rate, 1e-3, 1.0)
    factor = ((1.0 - target_accept) / rejection) ** (1.0 / 3.0)
    return _corrected(step_size, factor)


def random_walk_step_size(step_size: float, acceptance_rate: float, target_accept: float) -> float:
    """Step size of a random walk expected to have the target acceptance rate.

    In many dimensions the acceptance rate is ``2 Phi(-c step_size / 2)``: Roberts, Gelman & Gilks
    (1997), Weak convergence and optimal scaling of random walk Metropolis algorithms, theorem 1.1,
    doi 10.1214/aoap/1034625254. One correction is by at most a factor of three.
    """
    rate = np.clip(acceptance_rate, 1e-3, 1.0 - 1e-3)
    return _corrected(step_size, ndtri(0.5 * target_accept) / ndtri(0.5 * rate))


def _corrected(step_size: float, factor: float) -> float:
    if not np.isfinite(factor):
        factor = 0.5
    return float(np.clip(step_size * np.clip(factor, 1 / 3, 3), MIN_STEP_SIZE, MAX_STEP_SIZE))


def population_scale(position: np.ndarray, weight: np.ndarray, fallback: np.ndarray) -> np.ndarray:
    """Half the width of the central 68% of each dimension of a weighted population.

    Parameters
    ----------
    position
        Shape (n, d).
    weight
        Normalised weights, shape (n,).
    fallback
        What to use where the population has collapsed to a point, shape (d,).

    Returns
    -------
    np.ndarray
        Shape (d,). Quantiles rather than moments, so that a heavy tail does not stretch the scale.
    """
    order, cumulative = _weighted_ranks(position, weight)
    ordered = np.take_along_axis(position, order, axis=0)
    width = np.array(
        [
            np.diff(np.interp([0.1587, 0.8413], cumulative[:, j], ordered[:, j]))[0]
            for j in range(position.shape[1])
        ]
    )
    return np.where((width > 0) & np.isfinite(width), 0.5 * width, fallback)


def centred(position: np.ndarray, weight: np.ndarray, n_groups: int) -> np.ndarray:
    """Rows less the weighted median of their group, so that groups can be pooled for their scales.

    Parameters
    ----------
    position
        Shape (n, d); the rows of a group are next to each other.
    weight
        Shape (n,).
    n_groups
        Number of groups, of equal size. A single group is left where it is.
    """
    if n_groups == 1:
        return position
    parts = zip(np.split(position, n_groups), np.split(weight, n_groups), strict=True)
    return np.concatenate([rows - _weighted_median(rows, share) for rows, share in parts])


def _weighted_median(position: np.ndarray, weight: np.ndarray) -> np.ndarray:
    order, cumulative = _weighted_ranks(position, weight / weight.sum())
    ordered = np.take_along_axis(position, order, axis=0)
    return np.array([np.interp(0.5, *pair) for pair in zip(cumulative.T, ordered.T, strict=True)])


def population_correlation(position: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Lower triangular factor of the correlations of a weighted population, shape (d, d).

    Correlations of normal scores of the ranks, which no heavy tail distorts, shrunk towards none by
    as much as their number exceeds what the population can tell.

    Parameters
    ----------
    position
        Shape (n, d).
    weight
        Normalised weights, shape (n,).
    """
    n_dims = position.shape[1]
    order, cumulative = _weighted_ranks(position, weight)
    ranks = np.empty_like(cumulative)
    np.put_along_axis(ranks, order, cumulative, axis=0)
    scores = ndtri(np.clip(ranks, 1e-4, 1 - 1e-4))
    covariance = (weight[:, None] * scores).T @ scores
    sd = np.sqrt(np.diag(covariance))
    if not np.all(sd > 0):
        return np.eye(n_dims)
    shrinkage = n_dims / (n_dims + 1.0 / (weight**2).sum())
    correlation = (1 - shrinkage) * covariance / np.outer(sd, sd) + shrinkage * np.eye(n_dims)
    return np.linalg.cholesky(correlation)


def _weighted_ranks(position: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Order of each column of rows (n, d), and the share of weight below each row in that order."""
    order = np.argsort(position, axis=0)
    return order, np.cumsum(weight[order], axis=0) - 0.5 * weight[order]
