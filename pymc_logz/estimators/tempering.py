"""log Z from how often each temperature is visited in simulated tempering (RTS, TS)."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from pymc_logz.estimators.draws import TemperedDraws, documented, shares
from pymc_logz.estimators.result import LogZCurve, estimator, long_run_variance, make_curve
from pymc_logz.weights import DEGENERATE_ESS, LOW_ESS, ess_of_sums


class LevelOdds(NamedTuple):
    """Log odds of K levels at which the mean shares meet their target."""

    log_odds: np.ndarray
    """Solution, the first entry as it was at the start, -inf where the target is 0; shape (K,)."""
    share: np.ndarray
    """Mean probability of each level, shape (K,)."""
    gram: np.ndarray
    """Mean of the products of two levels' shares, shape (K, K)."""
    converged: bool
    """Whether the last Newton step was small."""

    def contributions(self, score: np.ndarray, n_draws: int) -> np.ndarray:
        """Scores of blocks (W, B, K) times the inverse information of so many draws."""
        free = np.flatnonzero(np.isfinite(self.log_odds))[1:]
        information = n_draws * (np.diag(self.share) - self.gram)[np.ix_(free, free)]
        contributions = np.full(score.shape, np.nan)
        contributions[..., 0] = 0.0
        contributions[..., free] = score[..., free] @ np.linalg.inv(information)
        return contributions


def solve_odds(
    target: np.ndarray,
    mean_probabilities: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    start: np.ndarray,
) -> LevelOdds:
    """Log odds a of K levels such that ``mean_i softmax_k(a_k + offset_ik) = target_k``.

    The minimum of a convex function, by Newton steps; where one does not bring the shares nearer to
    the target, by a self-consistent step, which always does. ``target`` sums to 1, its first entry
    positive; ``mean_probabilities`` maps a (K,) to the means of the shares (K,) and of their
    products (K, K). The first entry of ``start`` stays fixed.
    """
    seen = np.flatnonzero(target > 0)
    free = seen[1:]
    odds = np.full(target.size, -np.inf)
    odds[seen] = start[seen]
    share, gram = mean_probabilities(odds)
    for _ in range(200):
        hessian = (np.diag(share) - gram)[np.ix_(free, free)]
        try:
            step = np.append(0.0, np.linalg.solve(hessian, (target - share)[free]))
        except np.linalg.LinAlgError:
            step = np.append(0.0, np.full(free.size, np.nan))
        if np.all(np.abs(step) < 1e-6):  # its square is what is left of the error
            odds[seen] += step
            return LevelOdds(odds, share, gram, converged=True)
        moved = odds.copy()
        moved[seen] += step
        moved_fraction, moved_gram = mean_probabilities(moved)
        if not _misfit(target, moved_fraction, seen) < _misfit(target, share, seen):
            step = np.log(target[seen]) - np.log(np.maximum(share[seen], np.finfo(float).tiny))
            moved[seen] = odds[seen] + (step - step[0])
            moved_fraction, moved_gram = mean_probabilities(moved)
        odds, share, gram = moved, moved_fraction, moved_gram
    return LevelOdds(odds, share, gram, converged=False)


def _misfit(target: np.ndarray, share: np.ndarray, seen: np.ndarray) -> float:
    """Largest log ratio of a share to its target."""
    with np.errstate(divide="ignore"):
        return float(np.max(np.abs(np.log(share[seen] / target[seen]))))


SIMULATED = """A simulated tempering run. Any ``log_z_hat`` gives a consistent answer; a good one
    gives a small error."""


@estimator("log Z = -0.690 ± 0.010 (rts, ok)", SIMULATED)
def rts(draws: TemperedDraws) -> LogZCurve:
    r"""Log Z by Rao-Blackwellized tempered sampling.

    Averages the conditional probability of each level, :math:`\hat c_k = \frac1N \sum_i q(k \mid
    x_i)`, in place of counting visits: :math:`\hat Z_k \frac{r_1 \hat c_k}{r_k \hat c_1}`. When
    ``log_z_hat`` changed during the run, levels had other probabilities in each segment, and log Z
    maximises the likelihood of all of them together; with one segment that is the same formula.

    It rests on levels drawn given x (simulated tempering). In parallel tempering, where each level
    always has one walker, use `mbar`.

    Returns
    -------
    LogZCurve
        ``details`` has ``level_share``, the mean q(k | x) of each level, and for one segment
        ``bias``, the second-order bias of ``log_z`` at each level (``rts_bias``).

    References
    ----------
    Carlson, Stinson, Pakman & Paninski (2016), arXiv 1603.01912: eq. 12 and Algorithm 1; the
    likelihood of eq. 14, summed over segments; bias and variance, eq. 15 and 16.
    """
    n_levels = draws.n_levels

    def statistic(log_ratio: np.ndarray, segment: np.ndarray) -> np.ndarray:
        q = draws.level_given(log_ratio, segment)
        return np.concatenate([q, q[:, [0, -1]] ** 2], axis=1)

    sums = draws.block_sums(statistic, n_levels + 2)
    level_sums, squares = sums[..., :n_levels], sums[..., n_levels:].sum(axis=(0, 1))
    total = level_sums.sum(axis=(0, 1))
    ess = float(ess_of_sums(total[[0, -1]], squares).min())
    details = {"level_share": total / draws.n_draws}
    if draws.log_z_hat.shape[0] == 1:
        details["bias"] = rts_bias(level_sums)
    return curve_of_levels(draws, level_sums, ess, details)


@estimator("log Z = -0.606 ± 0.053 (ts, ok)", SIMULATED)
def ts(draws: TemperedDraws) -> LogZCurve:
    """Log Z by tempered sampling: the visits of each level, counted.

    `rts` without the Rao-Blackwell step, for comparison. A level without visits has no number.

    Returns
    -------
    LogZCurve
        NaN at levels without visits.

    References
    ----------
    Carlson et al. (2016), arXiv 1603.01912, section 2.2; Geyer & Thompson (1995), doi
    10.1080/01621459.1995.10476590.
    """
    sums = draws.level_block_sums(np.ones(draws.level.shape))
    ess = float(draws.visits[[0, -1]].min())
    return curve_of_levels(draws, sums, ess, {})


@documented(parameters=f"draws\n    {SIMULATED}")
def rts_log_z(draws: TemperedDraws) -> np.ndarray:
    """Log Z of `rts` at every level without an error, shape (K,); for the rounds of a warm-up.

    Sums are taken in the log domain, so that a hopeless ``log_z_hat`` still leads to a better one.

    Returns
    -------
    np.ndarray
        Log Z at each level in nats, shape (K,); that of the first is the reference's.

    References
    ----------
    Carlson et al. (2016), arXiv 1603.01912, eq. 12 and Algorithm 1.

    Examples
    --------
    >>> rts_log_z(draws).round(2)
    array([ 0.  , -0.22, -0.4 , -0.56, -0.69])
    """
    log_share = np.full(draws.n_levels, -np.inf)
    for rows, columns in draws.chunks(draws.n_levels):
        log_q = draws.log_level_weight(*draws.flat(rows, columns))
        log_q -= _log_sums(log_q, axis=1)[:, None]
        log_share = np.logaddexp(log_share, _log_sums(log_q, axis=0))
    log_share -= np.log(draws.n_draws)
    return _log_z_of_levels(draws, log_share)[0] + draws.log_z_reference


def rts_bias(level_sums: np.ndarray) -> np.ndarray:
    """Second-order bias of `rts` at each level, (K,), from sums of q(k | x), (W, B, K)."""
    # eq. 15 of Carlson et al. (2016), of either sign: reported, not taken off, as it is far below
    # the standard error, and the source found no gain
    total = level_sums.sum(axis=(0, 1))
    sizes = level_sums.sum(axis=2, keepdims=True)  # draws in each block: q sums to one
    variance = long_run_variance(level_sums / total - sizes / total.sum())[0]
    return 0.5 * (variance[0] - variance)


@documented(parameters=f"draws\n    {SIMULATED}")
def rao_blackwell_log_weight(draws: TemperedDraws) -> np.ndarray:
    """Log weights that make all draws of a simulated tempering run stand for the target.

    Each draw counts with q(beta = 1 | x), whatever its level (Geyer & Thompson 1995).

    Returns
    -------
    np.ndarray
        Normalised: the sum of their exponentials is one. Shape (W, N).

    References
    ----------
    Geyer & Thompson (1995), doi 10.1080/01621459.1995.10476590; eq. 7 of Carlson et al. (2016),
    arXiv 1603.01912.

    Examples
    --------
    >>> weight = np.exp(rao_blackwell_log_weight(draws))
    >>> round(float((weight * -draws.log_ratio).sum()), 2)  # the target has mean 0.5
    0.5
    """
    log_weight = np.empty(draws.log_ratio.shape)
    for rows, columns in draws.chunks(draws.n_levels):
        log_q = draws.log_level_weight(*draws.flat(rows, columns))
        tile = log_q[:, -1] - _log_sums(log_q, axis=1)
        log_weight[rows, columns] = tile.reshape(log_weight[rows, columns].shape)
    return log_weight - logsumexp(log_weight)


def level_status(ess: float) -> str:
    """Verdict on the effective number of draws at the level that has fewest."""
    if ess <= DEGENERATE_ESS:
        return "degenerate"
    return "low_weight_ess" if ess < LOW_ESS else "ok"


def _log_sums(log_values: np.ndarray, *, axis: int) -> np.ndarray:
    """Log of the sums of exponentials; SciPy's takes four times as long."""
    top = log_values.max(axis=axis, keepdims=True)
    top[np.isneginf(top)] = 0.0
    with np.errstate(divide="ignore"):
        return np.log(np.exp(log_values - top).sum(axis=axis)) + top.squeeze(axis)


def curve_of_levels(
    draws: TemperedDraws, sums: np.ndarray, ess: float, details: dict[str, np.ndarray]
) -> LogZCurve:
    """Curve from sums over blocks (W, B, K) of the probability of each level, or of visits."""
    status = level_status(ess)
    if status == "degenerate":
        return make_curve(draws, status=status, weight_ess=ess)
    total = sums.sum(axis=(0, 1))
    with np.errstate(divide="ignore"):
        log_share = np.log(total / draws.n_draws)
    log_z, odds = _log_z_of_levels(draws, log_share)
    if odds is None:
        relative = sums / np.where(total > 0, total, np.nan)
        contributions = relative - relative[..., :1]
    elif odds.converged:
        expected = shares(draws.log_prior - draws.log_z_hat + odds.log_odds)
        n_segments = len(expected)
        sizes = draws.block_sums(lambda _, segment: np.eye(n_segments)[segment], n_segments)
        contributions = odds.contributions(sums - sizes @ expected, draws.n_draws)
    else:
        return make_curve(draws, status="not_converged", weight_ess=ess)
    return make_curve(draws, log_z, contributions, status=status, weight_ess=ess, details=details)


def _log_z_of_levels(
    draws: TemperedDraws, log_share: np.ndarray
) -> tuple[np.ndarray, LevelOdds | None]:
    """Log Z, NaN where the share is 0, and of several segments how it was found."""
    if draws.log_z_hat.shape[0] == 1:  # eq. 12 of Carlson et al. (2016)
        log_z = draws.log_z_hat[0] - draws.log_prior + log_share
        return np.where(np.isfinite(log_share), log_z - log_z[0], np.nan), None
    # what maximises the likelihood of all segments: its derivative by log Z_k, eq. 14 summed over
    # segments s of T_s draws, is sum_s T_s (c_sk - p_sk): what was seen of level k, less what their
    # probabilities p_s expect
    size = np.bincount(draws.segment.ravel(), minlength=draws.log_z_hat.shape[0]) / draws.n_draws

    def mean_probabilities(log_z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        # probabilities of the levels in each segment, were log Z true, (S, K): eq. 8 of the source
        expected = shares(draws.log_prior - draws.log_z_hat + log_z)
        return size @ expected, (expected * size[:, None]).T @ expected

    odds = solve_odds(np.exp(log_share), mean_probabilities, draws.log_z_hat[-1])
    log_z = odds.log_odds - odds.log_odds[0]
    return np.where(np.isfinite(log_z), log_z, np.nan), odds
