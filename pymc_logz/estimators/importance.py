"""log Z from importance weights, those of annealing among them."""

import numpy as np

from pymc_logz.arguments import check_log_weight
from pymc_logz.estimators.result import LogZEstimate
from pymc_logz.weights import ess_of_sums, pareto_khat, smoothed, weight_status


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
        ``weight_ess`` is that of the rows. Status ``"low_weight_ess"`` or ``"high_khat"`` where
        the error is a rough guess; ``"degenerate"``, ``"no_support"`` or ``"infinite_weight"``,
        and no number, where there is none.

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
    check_log_weight(log_weight=log_weight)
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
    ess = float(ess_of_sums(weight.sum(), (weight**2).sum()))
    log_z = float(log_z_reference + top + np.log(mean))
    status = weight_status(ess, khat, weight.size)
    details = {"log_mean_weight": log_z - log_z_reference, "n_rows": float(weight.size)}
    if status == "degenerate":
        log_z = mcse = np.nan
    return LogZEstimate(method, log_z, mcse, ess, khat, status, details)
