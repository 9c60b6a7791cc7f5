"""log Z by stepping stones, and the verdict on methods that have an error of their own."""

from dataclasses import replace
from weakref import WeakKeyDictionary

import numpy as np
from scipy.special import logsumexp

from pymc_logz.estimators.curve import (
    LogZCurve,
    empty_curve,
    estimator,
    level_mean_errors,
    long_run_variance,
    make_curve,
    visit_status,
)
from pymc_logz.estimators.draws import TemperedDraws
from pymc_logz.estimators.multistate import bar_chain
from pymc_logz.weights import log_mean, pareto_khat, weight_status

_BAR: WeakKeyDictionary[TemperedDraws, LogZCurve] = WeakKeyDictionary()


def bar_of(draws: TemperedDraws) -> LogZCurve:
    """`bar_chain` of these draws, made once for all methods that are compared with it."""
    if draws not in _BAR:
        _BAR[draws] = bar_chain(draws)
    return _BAR[draws]


def not_below(contributions: np.ndarray, best: LogZCurve) -> np.ndarray:
    """Contributions (W, B, K) scaled up to the errors of the method of least variance."""
    # from draws of two neighbours Bennett's ratio has the least error: a smaller one of a method
    # that uses those of one side is too small, its weights have a tail that was not seen
    own = np.sqrt(long_run_variance(contributions)[0])
    ratio = np.divide(best.mcse, own, out=np.ones_like(own), where=own > 0)
    return contributions * np.maximum(ratio, 1.0)


def judged(
    curve: LogZCurve,
    draws: TemperedDraws,
    exact: LogZCurve,
    verdicts: tuple[str, str] = ("rule_error", "coarse_ladder"),
    significant: float = 3.0,
) -> LogZCurve:
    """The curve with the verdict, and an error that counts the distance, of a method with no bias.

    What a rule or a tail of weights is off by is no noise, so that contributions do not tell; the
    distance from a method on the same draws that has no such error does. ``exact`` is by a method
    that is right on any ladder on which it has a number, from the same draws. ``verdicts`` are the
    statuses of a number that is off by more than its error, and of none because it is off by over 3
    nats, two errors included, so that a step of the ladder holds more than the rule can tell;
    ``significant`` counts standard errors of the difference.
    """
    if not curve.usable:
        return curve
    off, hopeless = verdicts
    apart = float(curve.log_z[-1] - exact.log_z[-1])
    details = {**curve.details, "apart": apart, "noise": float(curve.mcse[-1])}
    if not exact.usable or abs(apart) + 2 * curve.mcse[-1] > 3.0:
        return empty_curve(
            curve.method, draws, hopeless, weight_ess=curve.weight_ess, details=details
        )
    difference = (curve.contributions - exact.contributions)[..., -1:]
    error = float(np.sqrt(long_run_variance(difference)[0][0]))
    departs = abs(apart) > max(significant * error, float(curve.mcse[-1]))
    mcse = np.hypot(np.maximum(curve.mcse, exact.mcse), curve.log_z - exact.log_z)
    status = off if departs else curve.status
    return replace(curve, mcse=mcse, status=status, details=details)


RETURNS = """``weight_ess`` and ``khat`` are those of the worst step. ``mcse`` is at least that of
    `bar_chain` from the same draws, and counts the distance from it; ``"disagrees"`` where that
    is more than noise."""


@estimator(returns=RETURNS, every_level=True)
def stepping_stone(draws: TemperedDraws) -> LogZCurve:
    r"""Log Z by stepping stones from the reference up.

    :math:`Z_{k+1} / Z_k` is the mean of :math:`e^{(\beta_{k+1} - \beta_k) r}` over draws at level
    k, with r the log ratio; low for log Z on average.

    References
    ----------
    Xie, Lewis, Fan, Kuo & Chen (2011), doi 10.1093/sysbio/syq085.

    Examples
    --------
    >>> print(stepping_stone(draws).estimate)  # true: -log(2) = -0.693
    log Z = -0.695 ± 0.013 (stepping_stone, ok)
    """
    return _stones("stepping_stone", draws, np.append(np.diff(draws.betas), 0.0), 1)


@estimator(returns=RETURNS, every_level=True, full_support=True)
def stepping_stone_reverse(draws: TemperedDraws) -> LogZCurve:
    r"""Log Z by stepping stones from the target down.

    :math:`Z_k / Z_{k+1}` is the mean of :math:`e^{-(\beta_{k+1} - \beta_k) r}` over draws at level
    k + 1; high for log Z on average, so that it encloses the truth together with
    `stepping_stone`. It cannot see a part of the reference that lies outside the support of the
    target.

    References
    ----------
    Xie, Lewis, Fan, Kuo & Chen (2011), doi 10.1093/sysbio/syq085, its ratios turned round.

    Examples
    --------
    >>> print(stepping_stone_reverse(draws).estimate)  # true: -log(2) = -0.693
    log Z = -0.685 ± 0.015 (stepping_stone_reverse, ok)
    """
    return _stones("stepping_stone_reverse", draws, np.append(0.0, -np.diff(draws.betas)), -1)


def _stones(method: str, draws: TemperedDraws, step: np.ndarray, sign: int) -> LogZCurve:
    """Curve from the means of ``exp(step_k * log_ratio)`` over the draws at each level k."""
    # a step of 0 is no use of a level's draws; the sign is -1 if means are ratios of Z down the
    # ladder
    levels = np.flatnonzero(step)
    log_weight = step[draws.level] * np.where(step[draws.level] == 0, 0.0, draws.log_ratio)
    at_level = [log_weight[draws.level == k] for k in levels]
    log_means = np.array([log_mean(weights) for weights in at_level])
    if not np.all(np.isfinite(log_means)):
        return empty_curve(method, draws, "no_overlap")
    sizes = np.exp([2 * logsumexp(weights) - logsumexp(2 * weights) for weights in at_level])
    worst = int(np.argmin(sizes / draws.visits[levels]))
    ess, khat = float(sizes[worst]), pareto_khat(at_level[worst])
    status = weight_status(float(sizes.min()), khat, int(draws.visits[levels[worst]]))
    status = visit_status(draws) if status == "ok" else status
    all_means = np.zeros(draws.n_levels)
    all_means[levels] = log_means
    relative = np.exp(log_weight - all_means[draws.level]) - 1
    per_level = level_mean_errors(draws, relative)[..., levels]
    contributions = np.zeros((*per_level.shape[:2], draws.n_levels))
    contributions[..., 1:] = sign * np.cumsum(per_level, axis=2)
    log_z = np.append(0.0, sign * np.cumsum(log_means))
    details = {"step_weight_ess": sizes}
    best = bar_of(draws)
    # neighbours whose draws do not meet say nothing from one side alone
    if not best.usable and status != "degenerate":
        return empty_curve(method, draws, best.status, weight_ess=ess, khat=khat, details=details)
    curve = make_curve(
        method,
        draws,
        log_z,
        not_below(contributions, best) if best.usable else contributions,
        status=status,
        weight_ess=ess,
        khat=khat,
        details=details,
    )
    return judged(curve, draws, best, ("disagrees", "degenerate"))
