"""Log weights of rows: normalised, averaged, counted, judged, smoothed, resampled.

Log weights are in nats and known up to a constant; -inf is a weight of zero. The functions here
take and return arrays, and are the only ones of their kind in the package.
"""

import numpy as np
from scipy.special import logsumexp

TOLERANCE = 0.02
"""Share of Z, about as many nats, that may be missing: statuses and searches follow from it."""
NEGLIGIBLE = TOLERANCE / 2
"""Share that nobody has to look for: half of that."""
ALPHA = 1e-3
"""Probability that one of the tests of a call accuses a right number."""
MIN_ROWS_FOR_KHAT = 20
"""Fewest finite weights that a tail is fitted to: the tail is then four of them. Of fewer rows the
error says little: of two it is below a third of what it should be in one run of four."""
DEGENERATE_ESS = 10.0
"""Effective rows up to which there is no number: its error would be one from ten values."""
LOW_ESS = 50.0
"""Effective rows below which the error is a rough guess: docs/theory/errors.md."""
MAX_KHAT = 0.7
"""k-hat beyond which no number of rows helps: Vehtari et al. (2024), arXiv 1507.02646."""


def relative(log_weight: np.ndarray) -> np.ndarray:
    """Weights in units of the largest one along the last axis; zeros where all are zero."""
    top = log_weight.max(axis=-1, keepdims=True)
    return np.exp(log_weight - np.where(np.isfinite(top), top, 0.0))


def normalise(log_weight: np.ndarray) -> np.ndarray:
    """Weights as shares of their sum along the last axis; zeros where all are zero."""
    # SciPy's softmax makes NaN of rows that are all lost
    weight = relative(log_weight)
    total = weight.sum(axis=-1, keepdims=True)
    return np.divide(weight, total, out=np.zeros_like(weight), where=total > 0)


def log_mean(log_weight: np.ndarray) -> float:
    """Log of the mean weight of all rows; -inf if all are zero."""
    return float(logsumexp(log_weight) - np.log(log_weight.size))


def weighted_mean(values: np.ndarray, log_weight: np.ndarray) -> np.ndarray:
    """Weighted mean over the last axis, without what has weight zero; NaN where all have."""
    weight = relative(log_weight)
    total = weight.sum(axis=-1)
    counted = np.multiply(weight, values, out=np.zeros_like(weight), where=weight > 0)
    return np.divide(counted.sum(axis=-1), total, out=np.full_like(total, np.nan), where=total > 0)


def ess_of_sums(
    total: np.ndarray | np.floating, total_squares: np.ndarray | np.floating
) -> np.ndarray:
    """Effective number of rows from sums of weights and of their squares: Kong (1992)."""
    size = np.zeros(np.shape(total))
    return np.divide(total**2, total_squares, out=size, where=np.greater(total_squares, 0))


def weight_ess(log_weight: np.ndarray) -> np.ndarray:
    """Effective number of rows, (sum w)^2 / sum w^2, over the last axis; 0 where all are zero."""
    weight = relative(log_weight)
    return ess_of_sums(weight.sum(axis=-1), (weight**2).sum(axis=-1))


def conditional_ess(log_increment: np.ndarray) -> float:
    """Effective fraction of equally weighted rows after they gain log weights (n,), in [0, 1]."""
    # Zhou, Johansen & Aston (2016), doi 10.1080/10618600.2015.1060885
    if not np.isfinite(log_increment.max(initial=-np.inf)):
        return 0.0
    return float(weight_ess(log_increment) / log_increment.size)


def pareto_khat(log_weight: np.ndarray) -> float:
    """Pareto shape of the upper tail of ``exp(log_weight)``; NaN where there is none to fit."""
    # a weight that is zero beside the largest one does not count, -inf or not
    counted = log_weight[relative(log_weight) > 0]
    # of a largest weight of 1.5, where the mean is one, the shape says nothing: of 1,000 rows less
    # than 0.002 of the sum is above, and with a shape of 0.8 less than 0.01 is unseen
    if counted.size < MIN_ROWS_FOR_KHAT or counted.max() - log_mean(counted) < np.log(1.5):
        return np.nan
    khat, n = float(_smoothed_tail(counted)[2]), counted.size
    if not khat > khat_threshold(n):
        return khat
    # nor is a shape given beyond the threshold where what a tail of any shape up to one has not
    # shown yet is less than the error, and does no harm: with a shape of one, nine times as many
    # rows again add log(10) of the largest weight beyond it
    error = np.sqrt((n / weight_ess(counted) - 1) / n)
    unseen = np.log(10) * np.exp(counted.max() - log_mean(counted)) / n
    return np.nan if unseen < min(error, 0.01) else khat


def smoothed(log_weight: np.ndarray) -> np.ndarray:
    """Log weights with a Pareto-smoothed upper tail, on their own scale; `pareto_khat` is known."""
    counted = np.flatnonzero(relative(log_weight) > 0)
    rows, tail, _ = _smoothed_tail(log_weight[counted])
    result = log_weight.copy()
    # the body is never touched: no constant is taken from it that a far value could swallow
    result[counted[rows]] = tail
    return result


def _smoothed_tail(log_weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Rows of the upper tail, their smoothed log weights on the scale given, and its shape."""
    # as arviz_stats.psislw (Vehtari et al. 2024, arXiv 1507.02646), whose import takes longer than
    # most runs, but for the constant that normalises there
    n = log_weight.size
    n_tail = int(3 * np.sqrt(n)) if n > 225 else n // 5
    order = np.argsort(log_weight)
    rows, top = order[-n_tail:], log_weight[order[-1]]
    tail, cutoff = log_weight[rows] - top, np.exp(log_weight[order[-n_tail - 1]] - top)
    if n_tail < 5 or tail[-1] - tail[0] < np.finfo(float).tiny:
        return rows, log_weight[rows], np.nan  # too few, or equal values
    # draws of a Markov chain repeat, and a tail of few distinct values may fit no distribution; one
    # without a mean overflows, as its shape says
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        shape, scale = _fitted_pareto(np.exp(tail) - cutoff)
        if not np.isfinite(shape):
            return rows, log_weight[rows], shape
        quantile = np.full(n_tail, np.nan)
        if scale > 0:
            below = np.arange(0.5, n_tail) / n_tail
            quantile = scale * np.expm1(-shape * np.log1p(-below)) / shape
        # no row may count for more than the largest weight that was seen
        return rows, top + np.minimum(np.log(cutoff + quantile), 0.0), shape


def _fitted_pareto(excess: np.ndarray) -> tuple[float, float]:
    """Shape and scale of a generalised Pareto, of rising values above 0; NaN far from any such."""
    # Zhang & Stephens (2009), doi 10.1198/tech.2009.08017; prior of the shape: Vehtari et al.
    # (2024), appendix G, arXiv 1507.02646
    n = excess.size
    quartile = excess[int(n / 4 - 0.5)]
    if quartile <= excess[0]:
        return np.nan, np.nan
    n_points = 30 + int(np.sqrt(n))
    ranks = np.arange(0.5, n_points)
    rates = 1.0 / excess[-1] + (1.0 - np.sqrt(n_points / ranks)) / (3.0 * quartile)
    shapes = np.log1p(-rates[:, None] * excess).mean(axis=1)
    log_share = n * (np.log(-rates / shapes) - shapes - 1.0)
    # zero by zero, at a rate of zero
    share = normalise(np.where(np.isnan(log_share), -np.inf, log_share))
    share = np.where(share < 10 * np.finfo(float).eps, 0.0, share)
    rate = float((rates * share).sum() / share.sum())
    shape = float(np.log1p(-rate * excess).mean())
    pooled = (n * shape + 10 * 0.5) / (n + 10)  # a prior around 0.5 that is worth ten rows
    return (np.inf, np.nan) if np.isnan(pooled) else (pooled, -shape / rate)


def khat_threshold(n_rows: int) -> float:
    """Largest k-hat with which n rows are trusted, as in ArviZ."""
    return min(1.0 - 1.0 / np.log10(max(n_rows, MIN_ROWS_FOR_KHAT)), MAX_KHAT)


def weight_status(ess: float, khat: float, n_rows: int) -> str:
    """Verdict on a set of weights, a key of ``STATUS_SENTENCES``; a k-hat of NaN accuses nobody."""
    if ess <= min(DEGENERATE_ESS, 0.5 * n_rows):
        return "degenerate"
    if n_rows < MIN_ROWS_FOR_KHAT:
        return "few_rows"
    if khat > khat_threshold(n_rows):
        return "high_khat"
    # of less than a twentieth of the rows a better path is worth more than more of them
    if ess < min(LOW_ESS, 0.5 * n_rows) or ess < 0.05 * n_rows:
        return "low_weight_ess"
    return "ok"


def systematic_resample(weight: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Indices of n rows in rising order, in proportion to weights, copies off by less than one."""
    # Carpenter, Clifford & Fearnhead (1999), doi 10.1049/ip-rsn:19990255
    points = (np.arange(n) + rng.random()) / n
    cumulative = np.cumsum(weight)
    return np.searchsorted(cumulative / cumulative[-1], points, side="right").clip(
        max=weight.size - 1
    )


def origins(shares: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Which of K parts each of n rows is of, in random order: by shares, to within one row."""
    # each is drawn by the shares; together they leave out the noise of counts
    level = (rng.permutation(n) + rng.random(n)) / max(n, 1)
    edges = np.cumsum(shares)
    return np.searchsorted(edges[:-1] / edges[-1], level, side="right")


def resampled(
    log_weight: np.ndarray,
    rng: np.random.Generator,
    n: int | None = None,
    *,
    shuffled: bool = False,
) -> np.ndarray:
    """Indices (n,) of rows that count as equally weighted, in order of time unless ``shuffled``."""
    # where no row has a finite weight all count alike, at even distances
    flat = log_weight.ravel()
    n = flat.size if n is None else n
    if not np.isfinite(flat.max()):
        return np.linspace(0, flat.size - 1, n).astype(int)
    chosen = systematic_resample(normalise(flat), n, rng)
    return rng.permutation(chosen) if shuffled else chosen
