"""Log weights of rows: their effective number, the shape of their tail, smoothing, resampling."""

import numpy as np
from arviz_stats.base import array_stats


def conditional_ess(log_increment: np.ndarray) -> float:
    """Effective share of equally weighted rows after one reweighting, in [0, 1]."""
    top = log_increment.max(initial=-np.inf)
    if not np.isfinite(top):
        return 0.0
    weight = np.exp(log_increment - top)
    return float(weight.sum() ** 2 / (weight**2).sum() / weight.size)


def weight_ess(log_weight: np.ndarray) -> np.ndarray:
    """Effective number of rows, (sum w)^2 / sum w^2, over the last axis; 0 where all are zero."""
    top = log_weight.max(axis=-1, keepdims=True)
    weight = np.exp(log_weight - np.where(np.isfinite(top), top, 0.0))
    square = (weight**2).sum(axis=-1)
    return np.where(square > 0, weight.sum(axis=-1) ** 2 / np.where(square > 0, square, 1.0), 0.0)


def _weighted_mean(values: np.ndarray, log_weight: np.ndarray) -> np.ndarray:
    """Mean over the last axis; what has weight zero does not count, -inf makes it -inf."""
    top = log_weight.max(axis=-1, keepdims=True)
    weight = np.exp(log_weight - np.where(np.isfinite(top), top, 0.0))
    total = weight.sum(axis=-1)
    counted = np.multiply(weight, values, out=np.zeros_like(weight), where=weight > 0)
    return np.divide(counted.sum(axis=-1), total, out=np.full_like(total, np.nan), where=total > 0)


MIN_ROWS_FOR_KHAT = 20
DEGENERATE_ESS = 10.0
LOW_ESS = 50.0
LOW_ESS_SHARE = 0.05


def pareto_khat(log_weight: np.ndarray) -> float:
    """Pareto shape of the upper tail of ``exp(log_weight)``; NaN where there is none to fit."""
    finite = log_weight[np.isfinite(log_weight)]
    if finite.size < MIN_ROWS_FOR_KHAT or np.ptp(finite) == 0:
        return np.nan
    try:
        # draws of a Markov chain repeat, and a tail of few distinct values may fit no law
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # psislw takes log likelihoods, whose importance weights are their reciprocals
            return float(array_stats.psislw(-log_weight)[1])
    except ValueError:  # a tail of equal values
        return np.nan


def smoothed(log_weight: np.ndarray) -> np.ndarray:
    """Log weights with a Pareto-smoothed upper tail, on their own scale, shape (n,)."""
    finite = np.isfinite(log_weight)
    values = log_weight[finite]
    with np.errstate(over="ignore"):  # a tail without a mean, whose k-hat says so
        normalised = np.asarray(array_stats.psislw(-values)[0])
    # the body is left as it was, but for the constant that normalises
    body = int(np.argmin(values))
    result = log_weight.copy()
    result[finite] = normalised + (values[body] - normalised[body])
    return result


def khat_threshold(n_rows: int) -> float:
    """Largest k-hat with which n rows are trusted, as in ArviZ."""
    return min(1.0 - 1.0 / np.log10(max(n_rows, 20)), 0.7)


def weight_status(ess: float, khat: float, n_rows: int) -> str:
    """Verdict on a set of weights, a key of ``STATUS_SENTENCES``."""
    if ess <= min(DEGENERATE_ESS, 0.5 * n_rows):
        return "degenerate"
    if khat > khat_threshold(n_rows):
        return "high_khat"
    if ess < min(LOW_ESS, 0.5 * n_rows) or ess < LOW_ESS_SHARE * n_rows:
        return "low_weight_ess"
    return "ok"


def systematic_resample(weight: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Indices of n rows, each drawn in proportion to its normalised weight, shape (n,)."""
    points = (np.arange(n) + rng.random()) / n
    cumulative = np.cumsum(weight)
    return np.searchsorted(cumulative / cumulative[-1], points, side="right").clip(
        max=weight.size - 1
    )
