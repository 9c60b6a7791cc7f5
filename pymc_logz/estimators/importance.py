"""log Z from importance weights, those of annealing among them, and means under other weights."""

import numpy as np

from pymc_logz.arguments import check_log_density, check_log_weight
from pymc_logz.estimators.draws import check_chains, effective_draws
from pymc_logz.estimators.result import LogZEstimate
from pymc_logz.weights import (
    DEGENERATE_ESS,
    ess_of_sums,
    khat_threshold,
    pareto_khat,
    smoothed,
    weight_status,
)


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


def reweighted_log_z(
    log_change: np.ndarray, log_weight: np.ndarray | None = None, *, method: str = "reweighted"
) -> LogZEstimate:
    """Log Z of a changed target minus log Z of the one that the draws are of.

    The mean of exp(log_change) over draws of the first target is the ratio of the two constants.
    The largest weights are smoothed (PSIS); where Pareto k-hat says that the draws do not cover the
    changed target, there is no number.

    Parameters
    ----------
    log_change
        Log density of the changed target minus that of the first, at the draws, shape (chains,
        draws) in the order of the chains; -inf where the changed target is zero.
    log_weight
        Log weights of the draws for the first target, same shape, up to a constant; None if they
        are equally weighted.
    method
        Name that the estimate goes by.

    Returns
    -------
    LogZEstimate
        Status ``"too_far"``, and no number, if k-hat is above its threshold or a handful of draws
        carries all the weight. ``mcse`` knows about autocorrelation.

    Raises
    ------
    ValueError
        If shapes do not fit, a chain has fewer than 4 draws, or a value is NaN or +inf.

    References
    ----------
    Vehtari et al. (2024), Pareto smoothed importance sampling, arXiv 1507.02646; ratio of
    constants: Gelman & Meng (1998), doi 10.1214/ss/1028905934, eq. 8.

    Examples
    --------
    Draws of a standard normal, whose density is multiplied by ``exp(-x**2 / 4)``:

    >>> import numpy as np
    >>> from pymc_logz.estimators import reweighted_log_z
    >>> x = np.random.default_rng(1).normal(size=(4, 1000))
    >>> print(reweighted_log_z(-(x**2) / 4))  # change of log Z: -log(1.5) / 2 = -0.203
    log Z = -0.203 ± 0.004 (reweighted, ok)
    """
    log_change = np.asarray(log_change, dtype=float)
    base = np.zeros_like(log_change) if log_weight is None else np.asarray(log_weight, dtype=float)
    if log_change.ndim != 2 or log_change.shape != base.shape:
        raise ValueError(
            f"log_change has shape {log_change.shape} and log_weight {base.shape}; both must be "
            "(chains, draws)"
        )
    check_chains(log_change=log_change)
    check_log_density(may_be_zero=True, log_change=log_change, log_weight=base)
    base = base - base.max()
    combined = log_change + base
    if not np.any(np.isfinite(combined)):
        return LogZEstimate(method, np.nan, np.nan, 0.0, np.nan, "too_far")
    khat = pareto_khat(combined.ravel())
    if np.isfinite(khat):
        combined = smoothed(combined.ravel()).reshape(combined.shape)
    top = combined.max()
    weight, base_weight = np.exp(combined - top), np.exp(base)
    mean, base_mean = weight.mean(), base_weight.mean()
    # linear terms of the ratio of two means over the same draws
    influence = weight / mean - base_weight / base_mean
    mcse = float(influence.std() / np.sqrt(effective_draws(influence)))
    ess = float(ess_of_sums(mean, np.mean(weight**2)) * effective_draws(weight))
    log_z = float(top + np.log(mean) - np.log(base_mean))
    if khat > khat_threshold(weight.size) or ess <= DEGENERATE_ESS:
        return LogZEstimate(method, np.nan, np.nan, ess, khat, "too_far")
    return LogZEstimate(method, log_z, mcse, ess, khat, "ok")
