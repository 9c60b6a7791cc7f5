"""Ways to look at the mass of a prior: what a density integrates to, from draws and their density.

Three kinds. Quadrature, or a sum, is exact but for its grid, and serves one dimension. A bridge
needs a density that can be drawn from and is like the prior, and its error can be trusted; it sees
too when draws follow another distribution. In one dimension that is left to the mean of g / density
over draws, which is 1 / mass for any g that sums to one where draws are; where g reaches into gaps,
it makes too much of the mass.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from pymc_logz.errors import ModelError
from pymc_logz.estimators import bridge_log_z
from pymc_logz.paths.elliptical import fitted_normal

MIN_BINS = 20
"""Between quantiles of the draws: fewer would hide a mode."""
PER_CALL = 10**6
"""Values of a density in one call."""
MAX_ERROR = 0.15
"""Nats of error above which a look says nothing; twice that for all priors together."""

Evaluate = Callable[[np.ndarray], np.ndarray]


class Look(NamedTuple):
    """An estimate of the mean log mass of the elements of a variable."""

    log_mass: float
    mcse: float
    slack: float
    """What the estimate may be off by beyond its error."""

    @property
    def is_sharp(self) -> bool:
        """Whether it says something."""
        is_known = np.isfinite(self.log_mass) and self.mcse < MAX_ERROR
        return bool(is_known and self.slack < MAX_ERROR)


UNKNOWN = Look(np.nan, np.inf, np.inf)


class Bounds(NamedTuple):
    """What the mean log mass lies between, if the draws follow the density."""

    lower: float
    upper: float
    error: float


def quadrature(values: np.ndarray, evaluate: Evaluate) -> Look:
    """Mean log mass of elements in one dimension, integrated between and beyond draws (n, k)."""
    k = values.shape[1]
    nodes, weights = np.polynomial.legendre.leggauss(5)
    # of lower order, from nodes of the first: the difference bounds the error
    outer = 1.0 / (3.0 * nodes[0] ** 2)
    lesser = np.array([outer, 0.0, 2.0 - 2.0 * outer, 0.0, outer])
    n_bins = int(np.clip(PER_CALL // (5 * k), MIN_BINS, 200))
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
    # a bin where a narrow mode ends, ten times as wide as its neighbour, may hide what is left
    n_outer = (len(half) - n_bins) // 2
    inner = half[n_outer:-n_outer]
    least = np.minimum(inner[:-2], inner[2:])
    hidden = np.mean(inner[1:-1] > 10.0 * least, axis=0).mean()
    return Look(float(np.log(mass).mean()), 0.0, float(max(error, hidden)))


def counted(values: np.ndarray, evaluate: Evaluate) -> Look:
    """Mean log mass of discrete elements, summed over values at and around draws (n, k)."""
    k = values.shape[1]
    lowest, highest = int(values.min()), int(values.max())
    most = max(PER_CALL // k, MIN_BINS)
    # what is left out is beyond four times the range of all draws, unless that is too long
    beyond, slack = 4 * (highest - lowest) + MIN_BINS, 0.0
    if highest - lowest + 2 * beyond + 1 > most:
        beyond, slack = 0, 1.0 / len(values)
    if highest - lowest + 1 > most:
        return UNKNOWN
    grid = np.arange(lowest - beyond, highest + beyond + 1)[:, None]
    grid = np.tile(grid, (1, k)).astype(values.dtype)
    log_mass = logsumexp(np.nan_to_num(evaluate(grid), nan=-np.inf, neginf=-np.inf), axis=0)
    return Look(float(log_mass.mean()), 0.0, slack)


def _edges(draws: np.ndarray, n_bins: int) -> np.ndarray:
    """Edges of bins between quantiles of draws (n,), and of wider ones out to 1e18 times these."""
    quantiles = np.quantile(draws, np.linspace(0.0, 1.0, n_bins + 1))
    width = max(np.subtract(*np.quantile(draws, [0.75, 0.25])), 1e-300)
    steps = width / 16.0 * (3.0 ** np.arange(1, 41) - 1.0)
    return np.concatenate([quantiles[0] - steps[::-1], quantiles, quantiles[-1] + steps])


def bridge(
    draws: np.ndarray, log_density: np.ndarray, evaluate: Evaluate, rng: np.random.Generator
) -> tuple[Look, Bounds | None]:
    """Mean log mass of elements of draws (n, k, e), and its bounds; unknown without a fit."""
    finite, k = np.all(np.isfinite(draws), axis=2), draws.shape[1]
    n = int(finite.sum(axis=0).min())
    if n < 100:
        return UNKNOWN, None
    places = np.argsort(~finite, axis=0, kind="stable")[:n]
    draws = np.take_along_axis(draws, places[..., None], axis=0)
    log_density = np.take_along_axis(log_density, places, axis=0)
    half = n // 2
    try:
        fits = [fitted_normal(draws[:half, j]).with_heavy_tails() for j in range(k)]
    except ModelError:
        return UNKNOWN, None
    proposed = np.stack([fit(rng, n - half) for fit in fits], axis=1)
    at_proposed = np.nan_to_num(evaluate(proposed), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
    log_mass, variance, lower, upper, noise = np.empty((5, k))
    for j, fit in enumerate(fits):
        g_here, g_there = fit.log_density_of(draws[half:, j]), fit.log_density_of(proposed[:, j])
        f_here, f_there = log_density[half:, j], at_proposed[:, j]
        if not np.all(np.isfinite(f_here)) or np.any(np.isposinf(f_there)):
            return UNKNOWN, None
        estimate = bridge_log_z(f_here, g_here, f_there, g_there)
        log_mass[j], variance[j] = estimate.log_z, estimate.mcse**2
        above, below = f_here - g_here, f_there - g_there
        upper[j], lower[j] = above.mean(), below.mean()
        noise[j] = (above.var() + (below.var() if np.isfinite(lower[j]) else 0.0)) / half
    look = Look(float(log_mass.mean()), float(np.sqrt(variance.sum()) / k), 0.0)
    error = float(np.sqrt(noise.sum()) / k)
    return look, Bounds(float(lower.mean()), float(upper.mean()), error)


def mean_ratio(values: np.ndarray, log_density: np.ndarray) -> Look:
    """Log of 1 / mean of g / density, pooled over elements of draws (n, k) in one dimension."""
    # g is made of half of an element's draws, and compared at the other half
    ratios = []
    for draws, height in zip(values.T, log_density.T, strict=True):
        finite = np.isfinite(draws)
        draws, height, half = draws[finite], height[finite], int(finite.sum()) // 2
        if half >= 50:
            choice = _frequencies if draws.dtype.kind in "iub" else _histogram
            log_g = choice(draws[:half], draws[half:])
            ratios.append(np.exp(log_g - height[half:][: log_g.size]))
    ratio = np.concatenate([*ratios, np.empty(0)])
    if ratio.size < 50 or not np.all(np.isfinite(ratio)) or ratio.mean() <= 0:
        return UNKNOWN
    error = ratio.std() / (ratio.mean() * np.sqrt(ratio.size))
    return Look(float(-np.log(ratio.mean())), float(error), 0.1)  # what binning may cost


def _frequencies(fitted: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Log of how often draws have the same value."""
    known, counts = np.unique(fitted, return_counts=True)
    place = np.clip(np.searchsorted(known, x), 0, known.size - 1)
    return np.where(known[place] == x, np.log(counts[place] / fitted.size), -np.inf)


def _histogram(fitted: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Log density of bins of equal mass between outer quantiles: it follows separate modes."""
    edges = np.quantile(fitted, np.linspace(0.02, 0.98, MIN_BINS + 1))
    widths = np.diff(edges)
    if np.any(widths <= 0):  # repeated draws leave a bin without width
        return np.empty(0)
    bins = np.searchsorted(edges, x, side="right") - 1
    inside = (bins >= 0) & (bins < MIN_BINS)
    heights = -np.log(MIN_BINS * widths[np.clip(bins, 0, MIN_BINS - 1)])
    return np.where(inside, heights, -np.inf)
