"""What every estimator returns: log Z with its error, at the target or along a ladder."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from pymc_logz.errors import STATUS_SENTENCES, USABLE_STATUSES
from pymc_logz.estimators.draws import CHUNK_ELEMENTS, TemperedDraws, documented

MIN_INDEPENDENT = 30.0
"""Independent draws below which an error is a rough guess."""


@dataclass(frozen=True)
class LogZEstimate:
    """A log normalising constant with its method, its error, and how far both can be trusted.

    Attributes
    ----------
    method
        Name of the estimator, an entry of the dimension ``estimator`` of ``/evidence``.
    log_z
        Log normalising constant in nats; NaN when ``status`` says that there is none to report.
    mcse
        Monte Carlo standard error of ``log_z`` in nats.
    weight_ess
        Effective number of rows that carry the estimate, ``(sum w)**2 / sum w**2``.
    khat
        Pareto shape of the upper tail of the weights.
    status
        A key of ``pymc_logz.errors.STATUS_SENTENCES``.
    details
        Further numbers by name.

    Raises
    ------
    ValueError
        If ``status`` is none of those.

    Examples
    --------
    >>> from pymc_logz.estimators import LogZEstimate
    >>> print(LogZEstimate("importance", -3.2, 0.01, 900.0, 0.1, "ok"))
    log Z = -3.200 ± 0.010 (importance, ok)
    """

    method: str
    log_z: float
    mcse: float
    weight_ess: float
    khat: float
    status: str
    details: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.status not in STATUS_SENTENCES:
            raise ValueError(f"status={self.status!r} is not one of {sorted(STATUS_SENTENCES)}")

    @property
    def usable(self) -> bool:
        """Whether there is a number to report."""
        return self.status in USABLE_STATUSES

    def __str__(self) -> str:
        """Value, error, method and status in one line."""
        return f"log Z = {self.log_z:.3f} ± {self.mcse:.3f} ({self.method}, {self.status})"

    def less(self, log_constant: float, error: float) -> "LogZEstimate":
        """The estimate without a factor of Z that is known up to an error, such as a prior's."""
        if log_constant == error == 0.0:
            return self
        mcse, moved = float(np.hypot(self.mcse, error)), dict(self.details)
        if "log_mean_weight" in moved:
            moved["log_mean_weight"] -= log_constant
        return replace(self, log_z=self.log_z - log_constant, mcse=mcse, details=moved)


@documented("rts")
@dataclass(frozen=True, eq=False)
class LogZCurve:
    """log Z at every temperature of a ladder, with its error and how far both can be trusted.

    Attributes
    ----------
    method
        Name of the estimator.
    betas
        Inverse temperatures, shape (K,).
    log_z
        Log normalising constants in nats, shape (K,); NaN at a level without an estimate, and at
        all but the first when ``status`` says that there is none to report.
    mcse
        Standard errors of ``log_z`` in nats, autocorrelation included, shape (K,). Those of rules
        of integration and of stones count, beside the noise, how far they are from `bar_chain`
        (`rts` for `ti_rb`) on the same draws.
    weight_ess
        Effective number of draws that carry the estimate where they are fewest, were draws
        independent.
    khat
        Pareto shape of the upper tail of the weights, for methods that have such weights.
    status
        A key of ``pymc_logz.errors.STATUS_SENTENCES``, for the estimate at beta = 1.
    contributions
        What each block of draws adds to the error of ``log_z``, to first order: their sum over
        walkers and blocks is zero, and the long-run variance of that sum is ``noise**2``. Shape
        (W, B, K).
    details
        Further numbers and arrays by name.

    Examples
    --------
    >>> curve = rts(draws)
    >>> curve.log_z.round(2)
    array([ 0.  , -0.22, -0.4 , -0.56, -0.69])
    >>> curve.mcse.round(3)
    array([0.   , 0.004, 0.007, 0.009, 0.01 ])
    >>> print(curve.estimate)
    log Z = -0.690 ± 0.010 (rts, ok)
    """

    method: str
    betas: np.ndarray
    log_z: np.ndarray
    mcse: np.ndarray
    weight_ess: float
    khat: float
    status: str
    contributions: np.ndarray = field(repr=False)
    details: Mapping[str, float | np.ndarray] = field(default_factory=dict, repr=False)

    @property
    def usable(self) -> bool:
        """Whether there is a number to report at beta = 1."""
        return self.status in USABLE_STATUSES

    @property
    def estimate(self) -> LogZEstimate:
        """The estimate at beta = 1."""
        log_z, mcse = float(self.log_z[-1]), float(self.mcse[-1])
        details = {name: float(one) for name, one in self.details.items() if np.ndim(one) == 0}
        return LogZEstimate(
            self.method, log_z, mcse, self.weight_ess, self.khat, self.status, details
        )

    @property
    def noise(self) -> np.ndarray:
        """Monte Carlo standard errors of ``log_z`` alone, shape (K,): ``mcse`` has the rest."""
        return np.sqrt(long_run_variance(self.contributions)[0])

    @property
    def covariance(self) -> np.ndarray:
        """Covariance of the noise of ``log_z`` at all levels, shape (K, K)."""
        return long_run_covariance(self.contributions)


def make_curve(
    draws: TemperedDraws,
    log_z: np.ndarray | None = None,
    contributions: np.ndarray | None = None,
    *,
    status: str,
    weight_ess: float = 0.0,
    khat: float = np.nan,
    details: Mapping[str, float | np.ndarray] | None = None,
) -> LogZCurve:
    """Curve with the errors of its contributions; ``log_z`` is relative to the first level.

    Without numbers, or a status that lets them be used, only the reference is known. `estimator`
    gives it the name of the method.
    """
    details = details or {}
    if log_z is None or contributions is None or status not in USABLE_STATUSES:
        log_z, mcse = np.full((2, draws.n_levels), np.nan)
        log_z[0] = mcse[0] = 0.0
        contributions = np.full((draws.level.shape[0], 1, draws.n_levels), np.nan)
    else:
        variance, n_effective = long_run_variance(contributions)
        # the slowest level, since that of a single one is itself a rough guess in a short run
        if status == "ok" and n_effective.min() < MIN_INDEPENDENT:
            status = "short_run"
        mcse, n_blocks = np.sqrt(variance), contributions[..., 0].size
        time = draws.block_length * n_blocks / n_effective[-1]
        of_time = {"autocorrelation_time": time, "n_effective_blocks": n_effective[-1]}
        details = {**of_time, **details}
    log_z = log_z + draws.log_z_reference
    return LogZCurve("", draws.betas, log_z, mcse, weight_ess, khat, status, contributions, details)


type Estimator = Callable[[TemperedDraws], LogZCurve]


def estimator(
    shows: str,
    run: str = "A tempered run.",
    returns: str = "",
    *,
    every_level: bool = False,
    full_support: bool = False,
) -> Callable[[Estimator], Estimator]:
    """Decorator that asks only for runs without `obstacle`; ``shows`` completes the example."""
    parameters = f"draws\n    {'A tempered run with draws at every level.' if every_level else run}"
    returned = f"LogZCurve\n    {returns}" if returns else ""

    def make(method: Estimator) -> Estimator:
        @wraps(method)
        def estimate(draws: TemperedDraws) -> LogZCurve:
            n_infinite = int(np.isposinf(draws.log_ratio).sum())
            n_outside = int(np.isneginf(draws.log_ratio).sum())
            needed = draws.visits if every_level else draws.visits[[0, -1]]
            status = obstacle(draws.n_draws, n_infinite, n_outside, needed, full_support)
            curve = make_curve(draws, status=status) if status else method(draws)
            return replace(curve, method=method.__name__)

        return documented(parameters=parameters, returns=returned, shows=shows)(estimate)

    return make


def obstacle(
    n_draws: int,
    n_infinite: int,
    n_outside: int,
    visits: np.ndarray | None,
    full_support: bool = False,
) -> str | None:
    """Status that forbids a number, or None; ``visits`` are of the levels that are needed."""
    if n_infinite:
        return "infinite_weight"
    if n_outside == n_draws:
        return "no_support"
    # of methods that need a finite log ratio wherever the reference has mass
    if full_support and n_outside:
        return "partial_support"
    # a variance is of two draws at least
    return "unvisited_level" if visits is not None and visits.min() < 2 else None


def visit_status(draws: TemperedDraws) -> str:
    """Verdict on how often each level was visited; draws of one long visit resemble one another."""
    visits = draws.level_block_sums(np.ones(draws.level.shape))
    sizes = visits.sum(axis=2, keepdims=True)
    variance = long_run_variance(visits - sizes * (draws.visits / draws.n_draws))[0]
    # a count of independent visits would have a variance of about its own size
    few = draws.visits**2 < MIN_INDEPENDENT * variance
    return "short_run" if np.any(few) else "ok"


def long_run_variance(contributions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Variance of the sum of autocorrelated contributions, and how many are independent.

    Lagged products are summed over all walkers about the common mean, so that few long walkers and
    many short ones are one case: lags run up to Geyer's initial monotone sequence, and where that
    reaches the length of the walkers the result is the variance between walkers. The mean is that
    of the data, which takes away a known share; it is put back. A slow part of little weight, such
    as a mode that is hardly ever left, drowns in the noise of the lags and ends the sequence early;
    so 16 walkers or more are also compared with each other, and the larger variance counts.
    Contributions of W walkers, B in order of time, with mean zero have shape (W, B, P); both
    results have shape (P,). Geyer (1992), doi 10.1214/ss/1177011137, section 3.3.
    """
    n_walkers, n, n_columns = contributions.shape
    width = max(1, CHUNK_ELEMENTS // (n_walkers * n))
    # products of values t apart, summed over time and walkers, for every lag t
    lagged, size = np.zeros((n + n % 2, n_columns)), next_fast_len(2 * n, real=True)
    for i in range(0, n_columns, width):
        power = np.abs(rfft(contributions[..., i : i + width], size, axis=1)) ** 2
        lagged[:n, i : i + width] = irfft(power.sum(axis=0), size, axis=0)[:n]
    squares = lagged[0]
    pairs = lagged.reshape(-1, 2, n_columns).sum(axis=1)
    kept = np.logical_and.accumulate(pairs > 0, axis=0)
    monotone = np.minimum.accumulate(pairs, axis=0)
    total = 2 * np.where(kept, monotone, 0.0).sum(axis=0) - squares
    # a floor on negative autocorrelation, as in arviz-stats
    total = np.maximum(total, squares / np.log10(max(n_walkers * n, 10)))
    window = np.clip(2 * kept.sum(axis=0), 1, n)
    lost = (n * (2 * window - 1) - window * (window - 1)) / (n_walkers * n**2)
    variance = total / (1 - np.minimum(lost, 0.5))
    if n_walkers >= 16:  # of fewer there are too few differences to go by
        apart = (contributions.sum(axis=1) ** 2).sum(axis=0)
        variance = np.maximum(variance, n_walkers / (n_walkers - 1) * apart)
    ratio = np.divide(squares, variance, out=np.ones_like(squares), where=variance > 0)
    return variance, n_walkers * n * np.minimum(ratio, 1.0)


def long_run_covariance(contributions: np.ndarray) -> np.ndarray:
    """Covariance (P, P) of sums of autocorrelated contributions (W, B, P), semidefinite."""
    # variances as of long_run_variance, correlations as of sums over batches
    scale = np.sqrt(long_run_variance(contributions)[0])
    n_walkers, n, n_columns = contributions.shape
    per_walker = batches_of_walker(n_walkers, n)
    starts = np.arange(per_walker) * n // per_walker
    totals = np.add.reduceat(contributions, starts, axis=1).reshape(-1, n_columns)
    covariance = totals.T @ totals
    spread = np.sqrt(np.diag(covariance))
    ratio = np.divide(scale, spread, out=np.zeros_like(scale), where=spread > 0)
    return ratio[:, None] * covariance * ratio


def batches_of_walker(n_walkers: int, n_draws: int) -> int:
    """Into how many stretches each walker is cut, so that there are at least 64 in all."""
    return min(n_draws, -(-64 // n_walkers))


def level_mean_errors(draws: TemperedDraws, residual: np.ndarray) -> np.ndarray:
    """Contributions of blocks to the error of a mean at each level, shape (W, B, K)."""
    # residuals from the mean of n draws are too small, by (n - 1) / n in the square
    visits = draws.visits
    return draws.level_block_sums(residual) / np.sqrt(visits * (visits - 1.0))
