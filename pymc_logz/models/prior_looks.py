"""Ways to look at the mass of a prior: what a density integrates to, from draws and their density.

Three kinds. Quadrature is exact but for its grid, and serves one dimension. A bridge needs a
density that can be drawn from and is like the prior, and its error can be trusted. The mean of
g / density over draws is 1 / mass for any g that sums to one where draws are; it alone sees that
draws follow another law of the same mass, and where g reaches into gaps it makes too much of it.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import chdtri, logsumexp

from pymc_logz.errors import ModelError
from pymc_logz.estimators import bridge_log_z
from pymc_logz.paths.fitting import fitted_normal

N_BINS = 20
CENTRAL_SHARE = 0.75
MAX_BINS, MIN_BINS = 200, 20
"""Between quantiles of the draws, for quadrature."""
OUTER_BINS = 40
OUTER_GROWTH = 3.0
"""Of the bins outside all draws: together they go out to 1e18 quartile widths."""
JUMP = 10.0
"""Ratio of the widths of neighbouring bins beyond which one may hide the end of a mode."""
REACH_OF_SUM = 4
"""Ranges of all draws, beyond them, over which probabilities of whole numbers are added up."""
PER_CALL = 10**6
"""Values of a density in one call."""
ROUGH_SLACK = 0.1
"""Log mass that binning and kernels may cost."""

Evaluate = Callable[[np.ndarray], np.ndarray]
Density = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Look(NamedTuple):
    """An estimate of the mean log mass of the elements of a variable."""

    log_mass: float
    mcse: float
    slack: float
    """What the estimate may be off by beyond its error."""


class Bounds(NamedTuple):
    """What the mean log mass lies between, if the draws follow the density."""

    lower: float
    upper: float
    error: float


def quadrature(values: np.ndarray, evaluate: Evaluate) -> Look:
    """Mean log mass of elements in one dimension, integrated between and beyond their draws.

    Parameters
    ----------
    values
        Draws, shape (n, k), NaN or infinite where a transform could not take them.
    evaluate
        From values (m, k) to log densities (m, k).
    """
    k = values.shape[1]
    nodes, weights = np.polynomial.legendre.leggauss(5)
    # of lower order, from nodes of the first: the difference bounds the error
    outer = 1.0 / (3.0 * nodes[0] ** 2)
    lesser = np.array([outer, 0.0, 2.0 - 2.0 * outer, 0.0, outer])
    n_bins = int(np.clip(PER_CALL // (5 * k), MIN_BINS, MAX_BINS))
    edges = np.stack([_edges(column[np.isfinite(column)], n_bins) for column in values.T], axis=1)
    half = 0.5 * np.diff(edges, axis=0)
    at = (edges[:-1] + half)[:, None] + half[:, None] * nodes[:, None]
    rows, step = at.reshape(-1, k), max(1, PER_CALL // k)
    parts = [evaluate(rows[i : i + step]) for i in range(0, len(rows), step)]
    log_density = np.concatenate(parts).reshape(at.shape)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        density = np.exp(log_density)
        density[np.isnan(density)] = 0.0
        mass = np.einsum("bqk,q,bk->k", density, weights, half)
        other = np.einsum("bqk,q,bk->k", density, lesser, half)
        error = np.abs(np.log(mass) - np.log(other)).mean()
    # a bin where a narrow mode ends may hide what is left of it
    inner = half[OUTER_BINS:-OUTER_BINS]
    least = np.minimum(inner[:-2], inner[2:])
    hidden = np.mean(inner[1:-1] > JUMP * least, axis=0).mean()
    return Look(float(np.log(mass).mean()), 0.0, float(max(error, hidden)))


def counted(values: np.ndarray, evaluate: Evaluate) -> Look:
    """Mean log mass of elements that are whole numbers, summed over values at and around the draws.

    Parameters
    ----------
    values
        Draws, shape (n, k).
    evaluate
        From values (m, k) to log probabilities (m, k).
    """
    k = values.shape[1]
    lowest, highest = int(values.min()), int(values.max())
    beyond = REACH_OF_SUM * (highest - lowest) + MIN_BINS
    # what is left out is beyond four times the range of all draws, unless that is too long
    most = max(PER_CALL // k, MIN_BINS)
    first, last = lowest - beyond, highest + beyond
    slack = 0.0
    if last - first + 1 > most:
        first, last = lowest, highest
        slack = 1.0 / len(values)
    if last - first + 1 > most:
        return Look(np.nan, np.inf, ROUGH_SLACK)
    grid = np.tile(np.arange(first, last + 1)[:, None], (1, k)).astype(values.dtype)
    log_mass = logsumexp(np.nan_to_num(evaluate(grid), nan=-np.inf, neginf=-np.inf), axis=0)
    return Look(float(log_mass.mean()), 0.0, slack)


def frequencies(fitted: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Log share of draws that have the same value, for whole numbers."""
    known, counts = np.unique(fitted[:, 0], return_counts=True)
    place = np.clip(np.searchsorted(known, x[:, 0]), 0, known.size - 1)
    same = known[place] == x[:, 0]
    return np.where(same, np.log(counts[place] / len(fitted)), -np.inf)


def _edges(draws: np.ndarray, n_bins: int) -> np.ndarray:
    """Edges of bins between quantiles of draws (n,), and of ever wider ones beyond them."""
    quantiles = np.quantile(draws, np.linspace(0.0, 1.0, n_bins + 1))
    width = max(np.subtract(*np.quantile(draws, [0.75, 0.25])), 1e-300)
    steps = width / 16.0 * (OUTER_GROWTH ** np.arange(1, OUTER_BINS + 1) - 1.0)
    return np.concatenate([quantiles[0] - steps[::-1], quantiles, quantiles[-1] + steps])


def bridge(
    draws: np.ndarray, log_density: np.ndarray, evaluate: Evaluate, rng: np.random.Generator
) -> tuple[Look, Bounds] | None:
    """Mean log mass of elements in several dimensions, and what it lies between; None without fit.

    Parameters
    ----------
    draws
        Shape (n, k, e), finite.
    log_density
        Of these draws, shape (n, k).
    evaluate
        From values (m, k, e) to log densities (m, k).
    rng
        Generator of the proposals.
    """
    n, k, _ = draws.shape
    half = n // 2
    try:
        fits = [fitted_normal(draws[:half, j]).with_heavy_tails() for j in range(k)]
    except ModelError:
        return None
    proposed = np.stack([fit(rng, n - half) for fit in fits], axis=1)
    at_proposed = np.nan_to_num(evaluate(proposed), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
    log_mass, variance, lower, upper, noise = np.empty((5, k))
    for j, fit in enumerate(fits):
        g_here, g_there = fit.log_density_of(draws[half:, j]), fit.log_density_of(proposed[:, j])
        f_here, f_there = log_density[half:, j], at_proposed[:, j]
        if not np.all(np.isfinite(f_here)) or np.any(np.isposinf(f_there)):
            return None
        estimate = bridge_log_z(f_here, g_here, f_there, g_there)
        log_mass[j], variance[j] = estimate.log_z, estimate.mcse**2
        above, below = f_here - g_here, f_there - g_there
        upper[j], lower[j] = above.mean(), below.mean()
        noise[j] = (above.var() + (below.var() if np.isfinite(lower[j]) else 0.0)) / half
    look = Look(float(log_mass.mean()), float(np.sqrt(variance.sum()) / k), 0.0)
    error = float(np.sqrt(noise.sum()) / k)
    return look, Bounds(float(lower.mean()), float(upper.mean()), error)


def mean_ratio(
    values: np.ndarray, log_density: np.ndarray, finite: np.ndarray, choice: Density
) -> Look:
    """Log of 1 / mean of g / density, pooled over elements.

    Parameters
    ----------
    values
        Draws, shape (n, k, e).
    log_density
        Of these draws, shape (n, k).
    finite
        Which of them the transform could take, shape (n, k).
    choice
        From draws (m, e) and values (l, e) to the log of g at the latter.
    """
    ratio = np.concatenate(
        [
            _density_ratios(values[finite[:, j], j], log_density[finite[:, j], j], choice)
            for j in range(values.shape[1])
        ]
    )
    if ratio.size < 50 or not np.all(np.isfinite(ratio)) or ratio.mean() <= 0:
        return Look(np.nan, np.inf, ROUGH_SLACK)
    error = ratio.std() / (ratio.mean() * np.sqrt(ratio.size))
    return Look(float(-np.log(ratio.mean())), float(error), ROUGH_SLACK)


def _density_ratios(values: np.ndarray, log_density: np.ndarray, choice: Density) -> np.ndarray:
    """g(x) / density(x) over half of the draws (n, e), with g made of the other half."""
    half = len(values) // 2
    fitted, held_out = values[:half], values[half:]
    if values.dtype.kind in "iub":
        if half < 50:
            return np.empty(0)
        return np.exp(choice(fitted, held_out) - log_density[half:])
    centre = np.median(fitted, axis=0) if half else 0.0
    width = np.subtract(*np.percentile(fitted, [75, 25], axis=0)) if half else 0.0
    if half < 50 or np.any(width <= 0):
        return np.empty(0)
    try:
        log_g = choice((fitted - centre) / width, (held_out - centre) / width)
    except np.linalg.LinAlgError:
        return np.empty(0)
    return np.exp(log_g - np.log(width).sum() - log_density[half:])


def histogram(fitted: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Log density of bins of equal mass between outer quantiles: it follows separate modes."""
    edges = np.quantile(fitted[:, 0], np.linspace(0.02, 0.98, N_BINS + 1))
    bins = np.searchsorted(edges, x[:, 0], side="right") - 1
    inside = (bins >= 0) & (bins < N_BINS)
    widths = np.diff(edges)
    if np.any(widths <= 0):
        raise np.linalg.LinAlgError("repeated draws leave a bin without width")
    return np.where(inside, -np.log(N_BINS * widths[np.clip(bins, 0, N_BINS - 1)]), -np.inf)


def kernels(fitted: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Log density of kernels at the central draws: a heavy tail would widen them all."""
    distance = (fitted**2).sum(axis=1)
    central = fitted[distance <= np.quantile(distance, CENTRAL_SHARE)]
    n, e = central.shape
    # Scott's rule: as wide as the draws, less the more there are
    factor = np.linalg.cholesky(np.cov(central.T)) * n ** (-1.0 / (e + 4))
    whitened, at = (np.linalg.solve(factor, points.T).T for points in (central, x))
    square = (at**2).sum(axis=1)[:, None] + (whitened**2).sum(axis=1) - 2.0 * at @ whitened.T
    log_constant = np.log(n) + 0.5 * e * np.log(2 * np.pi) + np.log(np.diag(factor)).sum()
    return logsumexp(-0.5 * square, axis=1) - log_constant


def central_normal(fitted: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Log density of a normal of the draws' mean and covariance, cut off at half of its mass."""
    factor = np.linalg.cholesky(np.cov(fitted.T))
    whitened = np.linalg.solve(factor, (x - fitted.mean(axis=0)).T)
    square = (whitened**2).sum(axis=0)
    e = x.shape[1]
    log_density = -0.5 * square - 0.5 * e * np.log(2 * np.pi) - np.log(np.diag(factor)).sum()
    return np.where(square < chdtri(e, 0.5), log_density + np.log(2.0), -np.inf)
