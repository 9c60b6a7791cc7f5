"""log Z by thermodynamic integration along the ladder."""

from functools import partial

import numpy as np

from pymc_logz.estimators.draws import TemperedDraws
from pymc_logz.estimators.multistate import bar_of, judged
from pymc_logz.estimators.result import (
    LogZCurve,
    estimator,
    level_mean_errors,
    make_curve,
    visit_status,
)
from pymc_logz.estimators.tempering import SIMULATED, level_status, rts
from pymc_logz.weights import ess_of_sums

rule = partial(
    estimator,
    returns="""``details`` has ``mean_log_ratio`` of each level, shape (K,). No number where a level
    has no draws (``"unvisited_level"``), a log ratio is -inf (``"partial_support"``), or the levels
    are too far apart for the rule (``"coarse_ladder"``); ``mcse`` counts the distance from
    `bar_chain` on the same draws, ``apart`` in ``details``, and the status is ``"rule_error"``
    where that is more than the ``noise``.""",
    every_level=True,
    full_support=True,
)
"""What rules of integration need, and what comes back."""


@rule("log Z = -0.760 ± 0.072 (ti_left, rule_error)")
def ti_left(draws: TemperedDraws) -> LogZCurve:
    """Log Z by thermodynamic integration with the left Riemann sum: always low but for noise.

    References
    ----------
    Gelman & Meng (1998), doi 10.1214/ss/1028905934; eq. 20 of Carlson et al. (2016).
    """
    return _integral(draws, _weights(draws.betas, of_lower=1.0))


@rule("log Z = -0.626 ± 0.064 (ti_right, rule_error)")
def ti_right(draws: TemperedDraws) -> LogZCurve:
    """Log Z by thermodynamic integration with the right Riemann sum: always high but for noise.

    References
    ----------
    Gelman & Meng (1998), doi 10.1214/ss/1028905934; eq. 20 of Carlson et al. (2016).
    """
    return _integral(draws, _weights(draws.betas, of_lower=0.0))


@rule("log Z = -0.693 ± 0.012 (ti_trapezoid, ok)")
def ti_trapezoid(draws: TemperedDraws) -> LogZCurve:
    """Log Z by thermodynamic integration with the trapezoidal rule.

    The error of the rule is in ``mcse``, as far as the draws tell it.

    References
    ----------
    Friel & Pettitt (2008), doi 10.1111/j.1467-9868.2007.00650.x.
    """
    return _integral(draws, _weights(draws.betas))


@rule("log Z = -0.690 ± 0.011 (ti_corrected, ok)")
def ti_corrected(draws: TemperedDraws) -> LogZCurve:
    """Log Z by thermodynamic integration with the trapezoidal rule, corrected by the variances.

    The derivative of the mean log ratio by beta is the variance of the log ratio, which gives the
    leading term of the rule's error.

    References
    ----------
    Friel, Hurn & Wyse (2014), doi 10.1007/s11222-013-9397-1.
    """
    change = np.diff(draws.betas) ** 2 / 12
    return _integral(draws, _weights(draws.betas), _up_to_each(change, -change))


@rule("log Z = -0.692 ± 0.013 (ti_simpson, ok)")
def ti_simpson(draws: TemperedDraws) -> LogZCurve:
    """Log Z by thermodynamic integration with Simpson's rule, for levels at any distances.

    Exact where the mean log ratio is a parabola in beta between any three neighbours; two levels
    have the trapezoidal rule.

    References
    ----------
    Carlson et al. (2016), arXiv 1603.01912, section 3.4; Cartwright (2017), Simpson's rule
    cumulative integration with MS Excel and irregularly-spaced data, eq. 7 and 8.
    """
    if draws.n_levels < 3:
        return _integral(draws, _weights(draws.betas))
    # takes long to import, and few who import this module get here
    from scipy.integrate import cumulative_simpson

    of_each = cumulative_simpson(np.eye(draws.n_levels), x=draws.betas, axis=1, initial=0.0)
    return _integral(draws, np.asarray(of_each).T)


@estimator(
    "log Z = -0.692 ± 0.011 (ti_marginal, ok)", SIMULATED, every_level=True, full_support=True
)
def ti_marginal(draws: TemperedDraws) -> LogZCurve:
    r"""Log Z by thermodynamic integration over draws whose beta is random: no mean at any level.

    Each draw counts with :math:`r_i / p(\beta_i)`, where r is its log ratio and p the density of
    its beta: the fraction of its level, from all draws as in `rts`, over the width that the
    trapezoidal rule gives it. Log ratios are taken from their common mean, which the integral of
    one over beta puts back. Counting which draw fell on which level is noise that `ti_trapezoid`
    does not have.

    Returns
    -------
    LogZCurve
        No number where a log ratio is -inf (``"partial_support"``); ``"rule_error"`` and
        ``"coarse_ladder"`` as of `ti_trapezoid`, by `rts`.

    References
    ----------
    Carlson et al. (2016), arXiv 1603.01912, section 3.4, the equation after 20; Gelman & Meng
    (1998), doi 10.1214/ss/1028905934.
    """
    middle = float(np.mean(draws.log_ratio))
    q = draws.block_sums(draws.level_given, draws.n_levels)
    status = level_status(float(draws.visits[[0, -1]].min()))
    if status == "degenerate":
        return make_curve(draws, status=status)
    ratio, ess = draws.level_block_sums(draws.log_ratio - middle), float(draws.visits.min())
    return _by_probabilities(draws, (q, ratio), middle, status, ess, {})


@estimator("log Z = -0.694 ± 0.011 (ti_rb, ok)", SIMULATED, full_support=True)
def ti_rb(draws: TemperedDraws) -> LogZCurve:
    """Log Z by Rao-Blackwellized thermodynamic integration, with the trapezoidal rule.

    The mean log ratio at a level is taken over all draws, weighted by q(level | x). It tends to
    `rts` as the ladder gets finer, and rests on levels drawn as that does.

    Returns
    -------
    LogZCurve
        ``details`` has ``mean_log_ratio`` of each level, shape (K,). No number where a log ratio
        is -inf (``"partial_support"``); ``"rule_error"`` and ``"coarse_ladder"`` as of
        `ti_trapezoid`, by `rts`.

    References
    ----------
    Carlson et al. (2016), arXiv 1603.01912, eq. 21.
    """
    n_levels, middle = draws.n_levels, float(np.mean(draws.log_ratio))

    def statistic(log_ratio: np.ndarray, segment: np.ndarray) -> np.ndarray:
        q = draws.level_given(log_ratio, segment)
        return np.concatenate([q, q * (log_ratio - middle)[:, None], q**2], axis=1)

    sums = draws.block_sums(statistic, 3 * n_levels)
    q, q_ratio, q_squared = np.split(sums, 3, axis=2)
    total = q.sum(axis=(0, 1))
    ess = float(ess_of_sums(total, q_squared.sum(axis=(0, 1))).min())
    status = level_status(ess)
    if status == "degenerate":
        return make_curve(draws, status=status, weight_ess=ess)
    details = {"mean_log_ratio": q_ratio.sum(axis=(0, 1)) / total + middle}
    return _by_probabilities(draws, (q, q_ratio), middle, status, ess, details)


def _by_probabilities(
    draws: TemperedDraws,
    sums: tuple[np.ndarray, np.ndarray],
    middle: float,
    status: str,
    ess: float,
    details: dict[str, np.ndarray],
) -> LogZCurve:
    """Trapezoidal rule over means, less ``middle``, of ratios of sums (W, B, K), beside RTS."""
    share, ratio = sums
    total = share.sum(axis=(0, 1))
    mean, weights = ratio.sum(axis=(0, 1)) / total, _weights(draws.betas)
    log_z, contributions = weights @ (mean + middle), (ratio - share * mean) / total @ weights.T
    curve = make_curve(draws, log_z, contributions, status=status, weight_ess=ess, details=details)
    return judged(curve, draws, rts(draws))


def _weights(betas: np.ndarray, of_lower: float = 0.5) -> np.ndarray:
    """Weights (K, K) of the means in sums up to each level: the trapezoidal rule, or Riemann's."""
    widths = np.diff(betas)
    return _up_to_each(of_lower * widths, (1.0 - of_lower) * widths)


def _up_to_each(of_lower: np.ndarray, of_upper: np.ndarray) -> np.ndarray:
    """Weights (K, K) of sums up to each level, from those of both ends of every step, (K - 1,)."""
    return np.cumsum(np.diag(of_lower, -1) + np.diag(np.append(0.0, of_upper)), axis=0)


def _integral(
    draws: TemperedDraws, mean_rule: np.ndarray, variance_rule: np.ndarray | None = None
) -> LogZCurve:
    """Curve that is linear in the means, and variances, of the log ratio at each level."""
    mean = draws.level_means(draws.log_ratio)
    residual = draws.log_ratio - mean[draws.level]
    log_z = mean_rule @ mean
    contributions = level_mean_errors(draws, residual) @ mean_rule.T
    if variance_rule is not None:
        unbiased = draws.visits / (draws.visits - 1)
        variance = draws.level_means(residual**2) * unbiased
        deviation = residual**2 * unbiased[draws.level] - variance[draws.level]
        log_z = log_z + variance_rule @ variance
        contributions += level_mean_errors(draws, deviation) @ variance_rule.T
    status, ess, details = visit_status(draws), float(draws.visits.min()), {"mean_log_ratio": mean}
    curve = make_curve(draws, log_z, contributions, status=status, weight_ess=ess, details=details)
    return judged(curve, draws, bar_of(draws))
