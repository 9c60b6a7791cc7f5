"""log Z from importance weights, those of annealing among them."""

import numpy as np
from arviz_stats.base import array_stats

from pymc_logz.estimators.result import LogZEstimate

MIN_ROWS_FOR_KHAT = 20
DEGENERATE_ESS = 10.0
LOW_ESS = 50.0
LOW_ESS_SHARE = 0.05


def importance_log_z(
    log_weight: np.ndarray,
    *,
    log_z_reference: float = 0.0,
    method: str = "importance",
    smooth: bool = False,
) -> LogZEstimate:
    """Log of the mean weight, with its error.

    The mean weight is an unbiased estimate of Z, so log Z is low by about ``mcse**2 / 2`` on
    average. The error is that of the mean weight, relative to it (delta method).

    Parameters
    ----------
    log_weight
        Log weights of independent rows in nats, any shape; -inf is a weight of zero, and NaN is
        not allowed.
    log_z_reference
        Known log Z of the reference.
    method
        Name that the estimate goes by.
    smooth
        Whether to replace the largest weights by what their generalised Pareto fit expects of them
        (PSIS): less noise for a small bias, at the same k-hat. The mean is then no longer unbiased.

    Returns
    -------
    LogZEstimate

    Raises
    ------
    ValueError
        If there are fewer than two weights, or one is NaN.

    References
    ----------
    Neal (2001), Annealed importance sampling; Sohl-Dickstein & Culpepper (2012), eq. 10, arXiv
    1205.1925. Pareto k-hat: Vehtari et al. (2024), arXiv 1507.02646.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz.estimators import importance_log_z
    >>> log_weight = np.random.default_rng(1).normal(3.0, 0.5, size=1000)
    >>> print(importance_log_z(log_weight))
    log Z = 3.095 ± 0.017 (importance, ok)
    """
    log_weight = np.asarray(log_weight, dtype=float).ravel()
    if log_weight.size < 2:
        raise ValueError(f"log_weight has {log_weight.size} entries; an error needs at least 2")
    if np.any(np.isnan(log_weight)):
        raise ValueError(
            f"{np.isnan(log_weight).sum()} of {log_weight.size} entries of log_weight are NaN; "
            "a row outside the support has weight zero, log_weight=-inf"
        )
    top = log_weight.max()
    if not np.isfinite(top):
        status = "no_support" if top < 0 else "infinite_weight"
        return LogZEstimate(method, np.nan, np.nan, 0.0, np.nan, status)
    khat = pareto_khat(log_weight)
    if smooth and np.isfinite(khat):
        log_weight = smoothed(log_weight)
    weight = np.exp(log_weight - top)
    mean = weight.mean()
    mcse = float(weight.std(ddof=1) / (mean * np.sqrt(weight.size)))
    ess = float(weight.sum() ** 2 / (weight**2).sum())
    log_z = float(log_z_reference + top + np.log(mean))
    status = weight_status(ess, khat, weight.size)
    details = {"log_mean_weight": log_z - log_z_reference, "n_rows": float(weight.size)}
    if status == "degenerate":
        log_z = mcse = np.nan
    return LogZEstimate(method, log_z, mcse, ess, khat, status, details)


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
