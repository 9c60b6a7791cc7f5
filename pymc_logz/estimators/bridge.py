"""log Z from weights of both directions: reverse annealing, and Bennett's acceptance ratio."""

import numpy as np
from scipy.special import expit

from pymc_logz.arguments import check_log_weight
from pymc_logz.estimators.importance import importance_log_z
from pymc_logz.estimators.result import LogZEstimate
from pymc_logz.weights import DEGENERATE_ESS, MIN_ROWS_FOR_KHAT, ess_of_sums, log_mean


def reverse_log_z(
    log_weight: np.ndarray, *, log_z_reference: float = 0.0, method: str = "hais_reverse"
) -> LogZEstimate:
    """Log Z from rows annealed from the target to the reference.

    The mean reverse weight is an unbiased estimate of Z_reference / Z, so this log Z is high on
    average where the forward one is low: the two enclose the truth (Grosse, Ghahramani & Adams
    2015, arXiv 1511.02543).

    Parameters
    ----------
    log_weight
        Log weights of reverse rows in nats, any shape: about minus log Z.
    log_z_reference
        Known log Z of the reference.
    method
        Name that the estimate goes by.

    Returns
    -------
    LogZEstimate
        Its status, weight ESS and k-hat are those of the reverse weights.

    Raises
    ------
    ValueError
        If there are fewer than two weights, or one is NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz.estimators import reverse_log_z
    >>> reverse = np.random.default_rng(1).normal(-3.125, 0.5, size=1000)  # log Z = 3
    >>> print(reverse_log_z(reverse))
    log Z = 3.030 ± 0.017 (hais_reverse, ok)
    """
    inverse = importance_log_z(log_weight, method=method)
    return LogZEstimate(
        method=method,
        log_z=log_z_reference - inverse.log_z,
        mcse=inverse.mcse,
        weight_ess=inverse.weight_ess,
        khat=inverse.khat,
        status=inverse.status,
        details=dict(inverse.details),
    )


def bar_log_z(
    forward: np.ndarray,
    reverse: np.ndarray,
    *,
    log_z_reference: float = 0.0,
    method: str = "bar",
) -> LogZEstimate:
    """Log Z from forward and reverse weights by Bennett's acceptance ratio.

    Solves Bennett's self-consistent equation, the estimate of least variance from the two sets of
    weights (the optimal bridge of Meng & Wong 1996 between the two path distributions). In terms of
    physics, work is minus the log weight and the free energy difference is minus log Z.

    Parameters
    ----------
    forward
        Log weights of rows annealed from the reference to the target, any shape.
    reverse
        Log weights of rows annealed from the target to the reference, any shape.
    log_z_reference
        Known log Z of the reference.
    method
        Name that the estimate goes by.

    Returns
    -------
    LogZEstimate
        ``weight_ess`` is the effective number of rows in the overlap of the two sets; without
        overlap the status is ``"no_overlap"`` and there is no number.

    Raises
    ------
    ValueError
        If there are fewer than two weights of a kind, or one is NaN.

    References
    ----------
    Bennett (1976), doi 10.1016/0021-9991(76)90078-4, eq. 12; Shirts & Chodera (2008), doi
    10.1063/1.2978177, for the error.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz.estimators import bar_log_z
    >>> rng = np.random.default_rng(1)
    >>> forward, reverse = rng.normal([[2.875], [-3.125]], 0.5, size=(2, 1000))  # log Z = 3
    >>> print(bar_log_z(forward, reverse))
    log Z = 2.980 ± 0.011 (bar, ok)
    """
    forward, reverse = (np.asarray(one, dtype=float).ravel() for one in (forward, reverse))
    check_log_weight(forward=forward, reverse=reverse)
    log_share = np.log(forward.size / reverse.size)

    def shares(log_z: float) -> tuple[np.ndarray, np.ndarray]:
        """Probability that a row of one kind could as well be of the other."""
        return expit(forward - log_z - log_share), expit(reverse + log_z + log_share)

    def imbalance(log_z: float) -> float:
        of_forward, of_reverse = shares(log_z)
        return float(of_forward.sum() - of_reverse.sum())

    # of_forward falls from its largest value as log_z grows, and of_reverse rises
    edges = np.concatenate([forward[np.isfinite(forward)], -reverse[np.isfinite(reverse)]])
    if edges.size == 0:
        return LogZEstimate(method, np.nan, np.nan, 0.0, np.nan, "no_overlap")
    low, high = edges.min() - 50.0, edges.max() + 50.0
    if not imbalance(low) > 0 > imbalance(high):
        return LogZEstimate(method, np.nan, np.nan, 0.0, np.nan, "no_overlap")
    # takes a third of a second, and most who import this module never get here
    from scipy.optimize import brentq

    # weights of 1e300 take a thousand halvings
    log_z = brentq(imbalance, low, high, xtol=1e-12, maxiter=4000)
    of_forward, of_reverse = shares(log_z)
    parts = (of_forward, of_reverse)
    overlap = float(of_forward.mean() + of_reverse.mean())
    details = {"overlap": overlap, "log_mean_forward": log_mean(forward)}
    if not overlap > 0.01:
        return LogZEstimate(method, np.nan, np.nan, 0.0, np.nan, "no_overlap", details)
    variance = sum(part.var(ddof=1) / part.mean() ** 2 / part.size for part in parts)
    ess = sum(ess_of_sums(part.sum(), (part**2).sum()) for part in parts)
    return LogZEstimate(
        method=method,
        log_z=log_z_reference + log_z,
        mcse=float(np.sqrt(variance)),
        weight_ess=float(ess),
        khat=np.nan,
        status=_status(float(ess), min(forward.size, reverse.size)),
        details=details,
    )


def above_upper_end(forward: np.ndarray, reverse: np.ndarray, log_z: float) -> tuple[float, float]:
    """By how many nats Bennett's log Z is above that of reverse rows alone, and the error of it."""
    # reverse rows that started at draws of the target put log Z at its upper end: too few of them
    # make it higher still, never lower; both numbers have the reverse rows
    log_share = np.log(forward.size / reverse.size)
    shares = expit(forward - log_z - log_share), expit(reverse + log_z + log_share)
    slope = sum(float((one * (1 - one)).sum()) for one in shares)
    weight = np.exp(reverse - log_mean(reverse))
    of_reverse = weight / reverse.size - shares[1] / slope
    variance = forward.size * np.var(shares[0]) / slope**2 + reverse.size * np.var(of_reverse)
    return float(log_z + log_mean(reverse)), float(np.sqrt(variance))


def _status(ess: float, n_rows: int) -> str:
    """Verdict from the effective rows in the overlap, and the rows of the smaller set."""
    if n_rows < MIN_ROWS_FOR_KHAT:
        return "few_rows"
    # measured: intervals cover from so many on
    return "ok" if ess >= DEGENERATE_ESS else "low_weight_ess"
