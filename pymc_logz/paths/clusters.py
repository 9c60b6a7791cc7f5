"""Mixtures of Student-t components fitted to rows: as many as a criterion finds worth while."""

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from pymc_logz.paths.elliptical import Elliptical
from pymc_logz.paths.shrinkage import shrunk_covariances

MAX_COMPONENTS = 8
"""More would be dear to evaluate, and hard to tell apart by a few hundred rows."""


class Clusters(NamedTuple):
    """A fitted mixture."""

    components: tuple[Elliptical, ...]
    shares: np.ndarray
    """Shape (K,), with sum 1."""
    log_likelihood: float
    """Of all rows."""


def fitted_clusters(rows: np.ndarray, n_effective: float, rng: np.random.Generator) -> Clusters:
    """Mixture of the number of components, and the tails, with the best information criterion.

    Components are added as long as the criterion gains. The rows (n, d) are worth ``n_effective``
    independent ones.

    References
    ----------
    Schwarz (1978), Estimating the dimension of a model, doi 10.1214/aos/1176344136.
    """
    best, highest = None, -np.inf
    for k in range(1, MAX_COMPONENTS + 1):
        fit = best_tails(rows, k, n_effective, rng)
        criterion = _criterion(fit, rows.shape, n_effective)
        if criterion <= highest and best is not None:
            return best
        best, highest = fit, criterion
    assert best is not None
    return best


def best_tails(rows: np.ndarray, k: int, n_effective: float, rng: np.random.Generator) -> Clusters:
    """Mixture of k components with the degrees of freedom that fit best; see `fitted_clusters`.

    Either with heavy tails, or nearly normal.
    """
    fits = [fit_clusters(rows, k, df, n_effective / len(rows), rng) for df in (5.0, 20.0)]
    return max(fits, key=lambda one: one.log_likelihood)


def _criterion(fit: Clusters, shape: tuple[int, ...], n_effective: float) -> float:
    """Minus half of the Bayesian information criterion."""
    n, d = shape
    n_parameters = len(fit.components) * (1 + d + d * (d + 1) / 2)
    return float(n_effective / n * fit.log_likelihood - 0.5 * n_parameters * np.log(n_effective))


def fit_clusters(
    rows: np.ndarray,
    k: int,
    df: float,
    independent: float,
    rng: np.random.Generator,
    max_iterations: int = 60,
    tolerance: float = 1e-3,
) -> Clusters:
    """Mixture of k Student-t components, by expectation maximisation.

    The fraction ``independent`` of the rows is for the shrinkage of covariances. It has converged
    when the log likelihood per row gains less than ``tolerance``.

    References
    ----------
    Peel & McLachlan (2000), Robust mixture modelling using the t distribution, section 4,
    doi 10.1023/A:1008981510081.
    """
    centre, spread = np.median(rows, axis=0), rows.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    standard = (rows - centre) / spread
    belongs, weight = _first_guess(standard, k, rng), np.ones((k, len(rows)))
    before = -np.inf
    for _ in range(max_iterations):
        components = [
            _fitted(standard, share, by, df, independent)
            for share, by in zip(belongs, weight, strict=True)
        ]
        shares = np.maximum(belongs.mean(axis=1), 1e-12)
        shares /= shares.sum()
        square = np.array([one.square_distance(standard) for one in components])
        pairs = zip(components, square, strict=True)
        parts = np.array([one.log_density_at(apart) for one, apart in pairs])
        parts += np.log(shares)[:, None]
        total = logsumexp(parts, axis=0)
        belongs = np.exp(parts - total)
        # rows count less, the further out they are
        weight = (df + standard.shape[1]) / (df + square)
        now = float(total.sum())
        if now - before < tolerance * len(rows):
            break
        before = now
    log_likelihood = now - len(rows) * float(np.log(spread).sum())
    placed = tuple(
        Elliptical(centre + spread * one.centre, spread[:, None] * one.factor, df)
        for one in components
    )
    return Clusters(placed, shares, log_likelihood)


def _first_guess(standard: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """Each row with the nearest of k rows that lie far apart; 0 or 1, shape (k, n).

    Arthur & Vassilvitskii (2007), k-means++: the advantages of careful seeding.
    """
    centres = [standard[rng.integers(len(standard))]]
    distance = [((standard - centres[0]) ** 2).sum(axis=1)]
    for _ in range(k - 1):
        nearest = np.min(distance, axis=0)
        total = nearest.sum()
        chosen = rng.choice(len(standard), p=nearest / total if total > 0 else None)
        centres.append(standard[chosen])
        distance.append(((standard - centres[-1]) ** 2).sum(axis=1))
    return np.eye(k)[np.argmin(distance, axis=0)].T


def _fitted(
    standard: np.ndarray, share: np.ndarray, weight: np.ndarray, df: float, independent: float
) -> Elliptical:
    """Component of the rows that belong to it, shape (n,), each with the weight of its distance."""
    counted = share * weight
    mean = counted @ standard / max(counted.sum(), 1e-300)
    apart = standard - mean
    n_rows = max(float(share.sum()), 1e-300)
    covariance = (counted[:, None] * apart).T @ apart / n_rows
    covariance = shrunk_covariances(covariance[None], max(n_rows * independent, 1.0))[0]
    # copies of one row have no spread
    covariance += 1e-6**2 * np.eye(len(mean))
    return Elliptical(mean, np.linalg.cholesky(covariance), df)
