"""log Z one step of the ladder after another: stepping stones and thermodynamic integration."""

import numpy as np
from scipy.special import logsumexp

from pymc_logz.estimators.curve import (
    LogZCurve,
    empty_curve,
    make_curve,
    obstacle,
    visit_status,
)
from pymc_logz.estimators.draws import TemperedDraws
from pymc_logz.estimators.tempering import effective_size, level_status
from pymc_logz.weights import log_mean, pareto_khat, weight_status


def stepping_stone(draws: TemperedDraws) -> LogZCurve:
    r"""Log Z by stepping stones from the reference up.

    :math:`Z_{k+1} / Z_k` is the mean of :math:`e^{(\beta_{k+1} - \beta_k) r}` over draws at level
    k, with r the log ratio; low for log Z on average.

    Parameters
    ----------
    draws
        A tempered run with draws at every level.

    Returns
    -------
    LogZCurve
        ``weight_ess`` and ``khat`` are those of the worst step.

    References
    ----------
    Xie, Lewis, Fan, Kuo & Chen (2011), doi 10.1093/sysbio/syq085.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz.estimators import TemperedDraws, stepping_stone
    >>> rng, betas = np.random.default_rng(1), np.linspace(0, 1, 5)
    >>> level = rng.integers(5, size=(20, 200))
    >>> log_ratio = -rng.exponential(1 / (1 + betas[level]))
    >>> draws = TemperedDraws(level, log_ratio, betas, np.zeros(5), -np.log1p(betas))
    >>> print(stepping_stone(draws).estimate)  # true: -log(2) = -0.693
    log Z = -0.695 ± 0.012 (stepping_stone, ok)
    """
    if status := obstacle(draws, every_level=True):
        return empty_curve("stepping_stone", draws, status)
    return _stones("stepping_stone", draws, np.append(np.diff(draws.betas), 0.0), 1)


def stepping_stone_reverse(draws: TemperedDraws) -> LogZCurve:
    r"""Log Z by stepping stones from the target down.

    :math:`Z_k / Z_{k+1}` is the mean of :math:`e^{-(\beta_{k+1} - \beta_k) r}` over draws at level
    k + 1; high for log Z on average, so that it encloses the truth together with
    `stepping_stone`. It cannot see a part of the reference that lies outside the support of the
    target.

    Parameters
    ----------
    draws
        A tempered run with draws at every level.

    Returns
    -------
    LogZCurve
        ``weight_ess`` and ``khat`` are those of the worst step.

    References
    ----------
    Xie, Lewis, Fan, Kuo & Chen (2011), doi 10.1093/sysbio/syq085, its ratios turned round.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz.estimators import TemperedDraws, stepping_stone_reverse
    >>> rng, betas = np.random.default_rng(1), np.linspace(0, 1, 5)
    >>> level = rng.integers(5, size=(20, 200))
    >>> log_ratio = -rng.exponential(1 / (1 + betas[level]))
    >>> draws = TemperedDraws(level, log_ratio, betas, np.zeros(5), -np.log1p(betas))
    >>> print(stepping_stone_reverse(draws).estimate)  # true: -log(2) = -0.693
    log Z = -0.685 ± 0.014 (stepping_stone_reverse, ok)
    """
    if status := obstacle(draws, every_level=True, full_support=True):
        return empty_curve("stepping_stone_reverse", draws, status)
    return _stones("stepping_stone_reverse", draws, np.append(0.0, -np.diff(draws.betas)), -1)


def ti_left(draws: TemperedDraws) -> LogZCurve:
    """Log Z by thermodynamic integration with the left Riemann sum: always low but for noise.

    Parameters
    ----------
    draws
        A tempered run with draws at every level.

    Returns
    -------
    LogZCurve
        ``details`` has ``mean_log_ratio`` of each level, shape (K,). No number where a level has
        no draws (``"unvisited_level"``) or a log ratio is -inf (``"partial_support"``).

    References
    ----------
    Gelman & Meng (1998), doi 10.1214/ss/1028905934; eq. 20 of Carlson et al. (2016).

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz.estimators import TemperedDraws, ti_left
    >>> rng, betas = np.random.default_rng(1), np.linspace(0, 1, 5)
    >>> level = rng.integers(5, size=(20, 200))
    >>> log_ratio = -rng.exponential(1 / (1 + betas[level]))
    >>> draws = TemperedDraws(level, log_ratio, betas, np.zeros(5), -np.log1p(betas))
    >>> print(ti_left(draws).estimate)  # true: -log(2) = -0.693
    log Z = -0.760 ± 0.014 (ti_left, ok)
    """
    return _integral("ti_left", draws, _riemann(draws.betas)[0])


def ti_right(draws: TemperedDraws) -> LogZCurve:
    """Log Z by thermodynamic integration with the right Riemann sum: always high but for noise.

    Parameters
    ----------
    draws
        A tempered run with draws at every level.

    Returns
    -------
    LogZCurve
        ``details`` has ``mean_log_ratio`` of each level, shape (K,). No number where a level has
        no draws (``"unvisited_level"``) or a log ratio is -inf (``"partial_support"``).

    References
    ----------
    Gelman & Meng (1998), doi 10.1214/ss/1028905934; eq. 20 of Carlson et al. (2016).

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz.estimators import TemperedDraws, ti_right
    >>> rng, betas = np.random.default_rng(1), np.linspace(0, 1, 5)
    >>> level = rng.integers(5, size=(20, 200))
    >>> log_ratio = -rng.exponential(1 / (1 + betas[level]))
    >>> draws = TemperedDraws(level, log_ratio, betas, np.zeros(5), -np.log1p(betas))
    >>> print(ti_right(draws).estimate)  # true: -log(2) = -0.693
    log Z = -0.626 ± 0.011 (ti_right, ok)
    """
    return _integral("ti_right", draws, _riemann(draws.betas)[1])


def ti_trapezoid(draws: TemperedDraws) -> LogZCurve:
    """Log Z by thermodynamic integration with the trapezoidal rule.

    The error of the rule is not in ``mcse``: on a coarse ladder the estimate departs from those
    without one, which `check_agreement` tells.

    Parameters
    ----------
    draws
        A tempered run with draws at every level.

    Returns
    -------
    LogZCurve
        ``details`` has ``mean_log_ratio`` of each level, shape (K,). No number where a level has
        no draws (``"unvisited_level"``) or a log ratio is -inf (``"partial_support"``).

    References
    ----------
    Friel & Pettitt (2008), doi 10.1111/j.1467-9868.2007.00650.x.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz.estimators import TemperedDraws, ti_trapezoid
    >>> rng, betas = np.random.default_rng(1), np.linspace(0, 1, 5)
    >>> level = rng.integers(5, size=(20, 200))
    >>> log_ratio = -rng.exponential(1 / (1 + betas[level]))
    >>> draws = TemperedDraws(level, log_ratio, betas, np.zeros(5), -np.log1p(betas))
    >>> print(ti_trapezoid(draws).estimate)  # true: -log(2) = -0.693
    log Z = -0.693 ± 0.012 (ti_trapezoid, ok)
    """
    return _integral("ti_trapezoid", draws, _trapezoid(draws.betas))


def ti_corrected(draws: TemperedDraws) -> LogZCurve:
    """Log Z by thermodynamic integration with the trapezoidal rule, corrected by the variances.

    The derivative of the mean log ratio by beta is the variance of the log ratio, which gives the
    leading term of the rule's error.

    Parameters
    ----------
    draws
        A tempered run with draws at every level.

    Returns
    -------
    LogZCurve
        ``details`` has ``mean_log_ratio`` of each level, shape (K,). No number where a level has
        no draws (``"unvisited_level"``) or a log ratio is -inf (``"partial_support"``).

    References
    ----------
    Friel, Hurn & Wyse (2014), doi 10.1007/s11222-013-9397-1.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz.estimators import TemperedDraws, ti_corrected
    >>> rng, betas = np.random.default_rng(1), np.linspace(0, 1, 5)
    >>> level = rng.integers(5, size=(20, 200))
    >>> log_ratio = -rng.exponential(1 / (1 + betas[level]))
    >>> draws = TemperedDraws(level, log_ratio, betas, np.zeros(5), -np.log1p(betas))
    >>> print(ti_corrected(draws).estimate)  # true: -log(2) = -0.693
    log Z = -0.690 ± 0.011 (ti_corrected, ok)
    """
    rule = _trapezoid(draws.betas)
    widths = np.diff(draws.betas) ** 2 / 12
    lower, upper = np.zeros_like(rule), np.zeros_like(rule)
    index = np.arange(widths.size)
    lower[index + 1, index], upper[index + 1, index + 1] = widths, widths
    return _integral("ti_corrected", draws, rule, np.cumsum(lower - upper, axis=0))


def ti_rb(draws: TemperedDraws) -> LogZCurve:
    """Log Z by Rao-Blackwellized thermodynamic integration, with the trapezoidal rule.

    The mean log ratio at a level is taken over all draws, weighted by q(level | x). It tends to
    `rts` as the ladder gets finer, and rests on levels drawn as that does.

    Parameters
    ----------
    draws
        A simulated tempering run.

    Returns
    -------
    LogZCurve
        ``details`` has ``mean_log_ratio`` of each level, shape (K,). No number where a log ratio
        is -inf (``"partial_support"``).

    References
    ----------
    Carlson et al. (2016), arXiv 1603.01912, eq. 21.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz.estimators import TemperedDraws, ti_rb
    >>> rng, betas = np.random.default_rng(1), np.linspace(0, 1, 5)
    >>> level = rng.integers(5, size=(20, 200))
    >>> log_ratio = -rng.exponential(1 / (1 + betas[level]))
    >>> draws = TemperedDraws(level, log_ratio, betas, np.zeros(5), -np.log1p(betas))
    >>> print(ti_rb(draws).estimate)  # true: -log(2) = -0.693
    log Z = -0.694 ± 0.011 (ti_rb, ok)
    """
    if status := obstacle(draws, full_support=True):
        return empty_curve("ti_rb", draws, status)
    n_levels, middle = draws.n_levels, float(np.mean(draws.log_ratio))

    def statistic(log_ratio: np.ndarray, segment: np.ndarray) -> np.ndarray:
        q = draws.level_given(log_ratio, segment)
        return np.concatenate([q, q * (log_ratio - middle)[:, None], q**2], axis=1)

    sums = draws.block_sums(statistic, 3 * n_levels)
    q, q_ratio, q_squared = np.split(sums, 3, axis=2)
    total = q.sum(axis=(0, 1))
    ess = effective_size(total, q_squared.sum(axis=(0, 1)))
    status = level_status(ess)
    if status == "degenerate":
        return empty_curve("ti_rb", draws, status, weight_ess=ess)
    mean = q_ratio.sum(axis=(0, 1)) / total
    rule = _trapezoid(draws.betas)
    return make_curve(
        "ti_rb",
        draws,
        rule @ (mean + middle),
        (q_ratio - q * mean) / total @ rule.T,
        status=status,
        weight_ess=ess,
        details={"mean_log_ratio": mean + middle},
    )


def _stones(method: str, draws: TemperedDraws, step: np.ndarray, sign: int) -> LogZCurve:
    """Curve from the means of ``exp(step_k * log_ratio)`` over the draws at each level k.

    Parameters
    ----------
    method
        Name of the estimator.
    draws
        A tempered run.
    step
        Change of beta that the draws of each level are used for, 0 where there is none, (K,).
    sign
        1 if the means are Z ratios up the ladder, -1 if down.
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
    per_level = _mean_errors(draws, relative)[..., levels]
    contributions = np.zeros((*per_level.shape[:2], draws.n_levels))
    contributions[..., 1:] = sign * np.cumsum(per_level, axis=2)
    log_z = np.append(0.0, sign * np.cumsum(log_means))
    details = {"step_weight_ess": sizes}
    return make_curve(
        method,
        draws,
        log_z,
        contributions,
        status=status,
        weight_ess=ess,
        khat=khat,
        details=details,
    )


def _riemann(betas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights (K, K) of the left and right Riemann sums up to each level."""
    widths = np.diff(betas)
    left = np.tril(np.broadcast_to(np.append(widths, 0.0), (betas.size, betas.size)), -1)
    right = np.tril(np.broadcast_to(np.append(0.0, widths), (betas.size, betas.size)))
    return left, right


def _trapezoid(betas: np.ndarray) -> np.ndarray:
    left, right = _riemann(betas)
    return (left + right) / 2


def _integral(
    method: str,
    draws: TemperedDraws,
    mean_rule: np.ndarray,
    variance_rule: np.ndarray | None = None,
) -> LogZCurve:
    """Curve that is linear in the means, and variances, of the log ratio at each level."""
    if status := obstacle(draws, every_level=True, full_support=True):
        return empty_curve(method, draws, status)
    mean = _level_means(draws, draws.log_ratio)
    residual = draws.log_ratio - mean[draws.level]
    log_z = mean_rule @ mean
    contributions = _mean_errors(draws, residual) @ mean_rule.T
    if variance_rule is not None:
        unbiased = draws.visits / (draws.visits - 1)
        variance = _level_means(draws, residual**2) * unbiased
        deviation = residual**2 * unbiased[draws.level] - variance[draws.level]
        log_z = log_z + variance_rule @ variance
        contributions += _mean_errors(draws, deviation) @ variance_rule.T
    return make_curve(
        method,
        draws,
        log_z,
        contributions,
        status=visit_status(draws),
        weight_ess=float(draws.visits.min()),
        details={"mean_log_ratio": mean},
    )


def _level_means(draws: TemperedDraws, values: np.ndarray) -> np.ndarray:
    total = np.bincount(draws.level.ravel(), values.ravel(), minlength=draws.n_levels)
    return total / draws.visits


def _mean_errors(draws: TemperedDraws, residual: np.ndarray) -> np.ndarray:
    """Contributions of blocks to the error of a mean at each level, shape (W, B, K).

    Residuals from the mean of n draws are too small, by (n - 1) / n in the square.
    """
    visits = draws.visits
    return draws.level_block_sums(residual) / np.sqrt(visits * (visits - 1.0))
