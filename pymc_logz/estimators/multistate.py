"""log Z however levels were drawn: MBAR, Bennett's ratio of neighbours, and stepping stones."""

from dataclasses import replace
from weakref import WeakKeyDictionary

import numpy as np
from scipy.special import expit, logsumexp

from pymc_logz.estimators.bridge import bar_log_z
from pymc_logz.estimators.draws import TemperedDraws, shares
from pymc_logz.estimators.result import (
    LogZCurve,
    estimator,
    level_mean_errors,
    long_run_variance,
    make_curve,
    visit_status,
)
from pymc_logz.estimators.tempering import LevelOdds, level_status, solve_odds
from pymc_logz.weights import ess_of_sums, log_mean, pareto_khat, weight_status

_BAR: WeakKeyDictionary[TemperedDraws, LogZCurve] = WeakKeyDictionary()


@estimator("log Z = -0.693 ± 0.011 (mbar, ok)")
def mbar(draws: TemperedDraws) -> LogZCurve:
    r"""Log Z by the multistate Bennett acceptance ratio.

    Solves :math:`\sum_i P_k(x_i) = n_k`, where :math:`P_k(x) \propto n_k f_k(x) / Z_k` is the
    probability that a draw seen anywhere was made at level k, given the numbers of draws n_k. It
    is the estimate of least variance that makes no use of how levels were drawn, so it serves
    simulated and parallel tempering alike. A level without visits has no number.

    The error is that of a multinomial logistic regression of level on log ratio, with scores that
    may be autocorrelated; for independent draws it is the error of the source.

    Returns
    -------
    LogZCurve
        ``details`` has the ``overlap`` matrix (K, K), whose row j is the mean of P_k over draws at
        level j, and ``bridge`` (K - 1,), the effective number of draws that link the levels
        on both sides of each step of the ladder.

    References
    ----------
    Shirts & Chodera (2008), doi 10.1063/1.2978177, eq. 11 and 8; Tan et al. (2012), doi
    10.1063/1.3701175; Klimovich, Shirts & Mobley (2015), doi 10.1007/s10822-015-9840-9, for the
    overlap matrix.
    """
    odds = _solve_mbar(draws)
    # draws that link both sides of each step: one as likely from below as from above is one
    below = np.cumsum(np.cumsum(odds.gram * draws.n_draws, axis=0), axis=1)
    bridge = 4 * (below[:-1, -1] - np.diag(below)[:-1])
    with np.errstate(divide="ignore", invalid="ignore"):
        log_z = np.log(draws.visits) - odds.log_odds
        overlap = draws.n_draws * odds.gram / draws.visits[:, None]
        end_sizes = ess_of_sums(odds.share, np.diag(odds.gram))[[0, -1]] * draws.n_draws
    ess = float(min(bridge.min(), end_sizes.min()))
    details = {"overlap": overlap, "bridge": bridge}
    status = level_status(float(bridge.min()))
    if status == "degenerate" or not odds.converged:
        status = "no_overlap" if status == "degenerate" else "not_converged"
        return make_curve(draws, status=status, weight_ess=ess, details=details)
    # score of the logistic regression times its inverse information
    visits = draws.level_block_sums(np.ones(draws.level.shape))
    p = draws.block_sums(
        lambda log_ratio, _: shares(draws.log_tilt(log_ratio) + odds.log_odds), draws.n_levels
    )
    none = np.full(visits.shape, np.nan)
    contributions = np.divide(visits, draws.visits, out=none, where=draws.visits > 0)
    contributions -= odds.contributions(visits - p, draws.n_draws)
    contributions -= contributions[..., :1].copy()
    log_z = np.where(draws.visits > 0, log_z - log_z[0], np.nan)
    return make_curve(draws, log_z, contributions, status=status, weight_ess=ess, details=details)


@estimator("log Z = -0.689 ± 0.011 (bar_chain, ok)", every_level=True)
def bar_chain(draws: TemperedDraws) -> LogZCurve:
    """Log Z by Bennett's acceptance ratio between neighbours, added up along the ladder.

    Returns
    -------
    LogZCurve
        ``details`` has the ``overlap`` of each pair of neighbours, shape (K - 1,).

    References
    ----------
    Bennett (1976), doi 10.1016/0021-9991(76)90078-4, eq. 12.
    """
    steps = np.diff(draws.betas)
    at_level = [draws.log_ratio[draws.level == k] for k in range(draws.n_levels)]
    pairs = [
        bar_log_z(step * lower, -step * upper)
        for step, lower, upper in zip(steps, at_level[:-1], at_level[1:], strict=True)
    ]
    ess = min(pair.weight_ess for pair in pairs)
    details = {"overlap": np.array([pair.details.get("overlap", 0.0) for pair in pairs])}
    if not all(pair.usable for pair in pairs):
        return make_curve(draws, status="no_overlap", weight_ess=ess, details=details)
    increments = np.array([pair.log_z for pair in pairs])
    status = level_status(ess)
    status = visit_status(draws) if status == "ok" else status
    contributions = np.cumsum(_bar_contributions(draws, increments), axis=2)
    log_z = np.append(0.0, np.cumsum(increments))
    return make_curve(draws, log_z, contributions, status=status, weight_ess=ess, details=details)


def _solve_mbar(draws: TemperedDraws) -> LevelOdds:
    """Log of n_k / Z_k up to a constant; draws are taken in chunks."""

    def mean_probabilities(log_odds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        share, gram = np.zeros(draws.n_levels), np.zeros((draws.n_levels, draws.n_levels))
        for rows, columns in draws.chunks(draws.n_levels):
            p = shares(draws.log_tilt(draws.flat(rows, columns)[0]) + log_odds)
            share += p.sum(axis=0)
            gram += p.T @ p
        return share / draws.n_draws, gram / draws.n_draws

    # the thermodynamic integral over the visited levels is good enough to start from
    mean = draws.level_means(np.where(np.isfinite(draws.log_ratio), draws.log_ratio, 0.0))
    seen = draws.visits > 0
    mean = np.interp(draws.betas, draws.betas[seen], mean[seen])
    guess = np.append(0.0, np.cumsum(np.diff(draws.betas) * (mean[1:] + mean[:-1]) / 2))
    target = draws.visits / draws.n_draws
    with np.errstate(divide="ignore"):
        start = np.log(target) - guess
    return solve_odds(target, mean_probabilities, start)


def _bar_contributions(draws: TemperedDraws, increments: np.ndarray) -> np.ndarray:
    """Contributions of blocks to the increment that ends at each level, shape (W, B, K)."""
    steps, visits = np.diff(draws.betas), draws.visits
    log_odds = np.log(visits[1:] / visits[:-1]) - increments
    top = draws.n_levels - 1

    def fraction_of_upper(pair: np.ndarray) -> np.ndarray:
        return expit(log_odds[pair] + steps[pair] * draws.log_ratio)

    from_below = fraction_of_upper(np.minimum(draws.level, top - 1))
    from_above = fraction_of_upper(np.maximum(draws.level - 1, 0))
    spread = [
        np.bincount(draws.level.ravel(), (p * (1 - p)).ravel(), minlength=top + 1)
        for p in (from_below, from_above)
    ]
    information = spread[0][:-1] + spread[1][1:]
    lower, upper = draws.level_block_sums(from_below), draws.level_block_sums(1 - from_above)
    count = draws.level_block_sums(np.ones(draws.level.shape)) / visits
    contributions = np.zeros(count.shape)
    contributions[..., 1:] = np.diff(count, axis=2)
    contributions[..., 1:] += (lower[..., :-1] - upper[..., 1:]) / information
    return contributions


def bar_of(draws: TemperedDraws) -> LogZCurve:
    """`bar_chain` of these draws, made once for all methods that are compared with it."""
    if draws not in _BAR:
        _BAR[draws] = bar_chain(draws)
    return _BAR[draws]


def judged(
    curve: LogZCurve,
    draws: TemperedDraws,
    exact: LogZCurve,
    verdicts: tuple[str, str] = ("rule_error", "coarse_ladder"),
) -> LogZCurve:
    """The curve judged by one that is right on any ladder, ``exact``, from the same draws.

    What a rule or a tail of weights is off by is no noise, so that contributions do not tell; the
    distance does, and its error counts it. ``verdicts`` are the statuses of a number that is off by
    more than its error, and of none because it is off by over 3 nats, two errors included, so that
    a step of the ladder holds more than the rule can tell.
    """
    if not curve.usable:
        return curve
    off, hopeless = verdicts
    apart = float(curve.log_z[-1] - exact.log_z[-1])
    details = {**curve.details, "apart": apart, "noise": float(curve.mcse[-1])}
    if not exact.usable or abs(apart) + 2 * curve.mcse[-1] > 3.0:
        return make_curve(draws, status=hopeless, weight_ess=curve.weight_ess, details=details)
    difference = (curve.contributions - exact.contributions)[..., -1:]
    error = float(np.sqrt(long_run_variance(difference)[0][0]))
    departs = abs(apart) > max(3.0 * error, float(curve.mcse[-1]))
    mcse = np.hypot(np.maximum(curve.mcse, exact.mcse), curve.log_z - exact.log_z)
    status = off if departs else curve.status
    return replace(curve, mcse=mcse, status=status, details=details)


RETURNS = """``weight_ess`` and ``khat`` are those of the worst step. ``mcse`` is at least that of
    `bar_chain` from the same draws, and counts the distance from it; ``"disagrees"`` where that
    is more than noise."""


@estimator("log Z = -0.695 ± 0.013 (stepping_stone, ok)", returns=RETURNS, every_level=True)
def stepping_stone(draws: TemperedDraws) -> LogZCurve:
    r"""Log Z by stepping stones from the reference up.

    :math:`Z_{k+1} / Z_k` is the mean of :math:`e^{(\beta_{k+1} - \beta_k) r}` over draws at level
    k, with r the log ratio; low for log Z on average.

    References
    ----------
    Xie, Lewis, Fan, Kuo & Chen (2011), doi 10.1093/sysbio/syq085.
    """
    return _stones(draws, np.append(np.diff(draws.betas), 0.0), 1)


@estimator(
    "log Z = -0.685 ± 0.015 (stepping_stone_reverse, ok)",
    returns=RETURNS,
    every_level=True,
    full_support=True,
)
def stepping_stone_reverse(draws: TemperedDraws) -> LogZCurve:
    r"""Log Z by stepping stones from the target down.

    :math:`Z_k / Z_{k+1}` is the mean of :math:`e^{-(\beta_{k+1} - \beta_k) r}` over draws at level
    k + 1; high for log Z on average, so that it encloses the truth together with
    `stepping_stone`. It cannot see a part of the reference that lies outside the support of the
    target.

    References
    ----------
    Xie, Lewis, Fan, Kuo & Chen (2011), doi 10.1093/sysbio/syq085, its ratios turned round.
    """
    return _stones(draws, np.append(0.0, -np.diff(draws.betas)), -1)


def _stones(draws: TemperedDraws, step: np.ndarray, sign: int) -> LogZCurve:
    """Curve from the means of ``exp(step_k * log_ratio)`` over the draws at each level k."""
    # a step of 0 is no use of a level's draws; the sign is -1 if means are ratios of Z down the
    # ladder
    levels = np.flatnonzero(step)
    log_weight = step[draws.level] * np.where(step[draws.level] == 0, 0.0, draws.log_ratio)
    at_level = [log_weight[draws.level == k] for k in levels]
    log_means = np.array([log_mean(weights) for weights in at_level])
    if not np.all(np.isfinite(log_means)):
        return make_curve(draws, status="no_overlap")
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
        return make_curve(draws, status=best.status, weight_ess=ess, khat=khat, details=details)
    if best.usable:
        # from draws of two neighbours Bennett's ratio has the least error: a smaller one of a
        # method that uses those of one side is too small, its weights have a tail that was not seen
        own = np.sqrt(long_run_variance(contributions)[0])
        ratio = np.divide(best.mcse, own, out=np.ones_like(own), where=own > 0)
        contributions = contributions * np.maximum(ratio, 1.0)
    curve = make_curve(
        draws, log_z, contributions, status=status, weight_ess=ess, khat=khat, details=details
    )
    return judged(curve, draws, best, ("disagrees", "degenerate"))
