"""log Z from independent replicates, with the error that their differences show."""

import numpy as np
from scipy.special import logsumexp

from pymc_logz.arguments import check_log_weight
from pymc_logz.estimators.result import LogZEstimate
from pymc_logz.weights import DEGENERATE_ESS, ess_of_sums

MANY_REPLICATES = 30
"""Replicates from which on 1.96 errors cover 94% or more: Student-t with 29 degrees of freedom."""


def replicated_log_z(
    log_weight: np.ndarray, *, log_z_reference: float = 0.0, method: str = "replicated"
) -> LogZEstimate:
    """Log of the mean weight, with the error that differences between replicates show.

    The error is the standard error of the R mean weights, relative to their mean (delta method).
    Rows of one replicate may depend on each other; replicates may not.

    Parameters
    ----------
    log_weight
        Log weights in nats, shape (R, n); -inf is a weight of zero, and NaN is not allowed.
    log_z_reference
        Known log Z of the reference, in nats.
    method
        Name that the estimate goes by.

    Returns
    -------
    LogZEstimate
        Status ``"no_support"`` or ``"infinite_weight"`` without a number, if no weight is positive
        or one is infinite; ``"degenerate"`` without one, if 10 replicates or fewer carry the mean;
        ``"short_run"`` with one, if there are fewer than 30 of them.

    Raises
    ------
    ValueError
        If there are fewer than two replicates, or a weight is NaN.

    References
    ----------
    Gelman & Rubin (1992), doi 10.1214/ss/1177011136, for errors from independent replicates.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz.estimators.replicated import replicated_log_z
    >>> print(replicated_log_z(np.full((40, 10), 3.0)))
    log Z = 3.000 ± 0.000 (replicated, ok)
    """
    log_weight = np.asarray(log_weight, dtype=float)
    if log_weight.ndim != 2 or len(log_weight) < 2:
        raise ValueError(
            f"log_weight has shape {log_weight.shape}; it must be (replicates, rows) with at least "
            "2 replicates, whose difference is the error"
        )
    check_log_weight(log_weight=log_weight)
    top = log_weight.max()
    if not np.isfinite(top):
        status = "no_support" if top < 0 else "infinite_weight"
        return LogZEstimate(method, np.nan, np.nan, 0.0, np.nan, status)
    mean = np.exp(logsumexp(log_weight - top, axis=1) - np.log(log_weight.shape[1]))
    ess = float(ess_of_sums(mean.sum(), (mean**2).sum()))
    if ess <= DEGENERATE_ESS:
        return LogZEstimate(method, np.nan, np.nan, ess, np.nan, "degenerate")
    return LogZEstimate(
        method=method,
        log_z=float(log_z_reference + top + np.log(mean.mean())),
        mcse=float(mean.std(ddof=1) / (mean.mean() * np.sqrt(mean.size))),
        weight_ess=ess,
        khat=np.nan,
        status="ok" if len(mean) >= MANY_REPLICATES else "short_run",
    )
