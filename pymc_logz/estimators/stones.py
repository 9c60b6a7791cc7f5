"""log Z by stepping stones, one step of the ladder after another."""

import numpy as np
from scipy.special import logsumexp

from pymc_logz.estimators.curve import (
    LogZCurve,
    empty_curve,
    estimator,
    level_mean_errors,
    make_curve,
    visit_status,
)
from pymc_logz.estimators.draws import TemperedDraws
from pymc_logz.estimators.judging import bar_of, judged, not_below
from pymc_logz.weights import log_mean, pareto_khat, weight_status

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
    """Curve from the means of ``exp(step_k * log_ratio)`` over the draws at each level k.

    ``step`` is the change of beta that the draws of each level are used for, 0 where there is none,
    and ``sign`` 1 if the means are ratios of Z up the ladder, -1 if down.
    """
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
