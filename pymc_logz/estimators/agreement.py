"""Whether the estimates of one run agree, given that they share its draws."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from scipy.special import fdtrc, stdtr

from pymc_logz.estimators.draws import TemperedDraws, documented
from pymc_logz.estimators.result import (
    LogZCurve,
    batches_of_walker,
    long_run_covariance,
    long_run_variance,
)

EQUAL = 1e-9
"""Of one and the difference of two estimates: what less than that is rounding."""


@documented("check_agreement", "rts", "ti_left")
@dataclass(frozen=True, eq=False)
class Agreement:
    """Whether M estimates of log Z from one run are compatible.

    Attributes
    ----------
    methods
        Names of the M estimators compared, those without a number left out.
    difference
        Entry (i, j) is log Z of method i minus that of method j, shape (M, M).
    error
        Standard error of each difference, common draws taken into account, shape (M, M).
    p_value
        Of each difference, corrected for the number of pairs (Holm), shape (M, M).
    p_joint
        Of all differences together (Hotelling's test).
    departing
        Names outside the largest set of methods that agree with one another.
    alpha
        Corrected p-value below which two methods disagree.

    References
    ----------
    Holm (1979), A simple sequentially rejective multiple test procedure; Hotelling (1931), doi
    10.1214/aoms/1177732979.

    Examples
    --------
    >>> agreement = check_agreement([rts(draws), ti_left(draws)])
    >>> agreement.agree, agreement.departing
    (False, ('ti_left',))
    """

    methods: tuple[str, ...]
    difference: np.ndarray
    error: np.ndarray
    p_value: np.ndarray
    p_joint: float
    departing: tuple[str, ...]
    alpha: float

    @property
    def agree(self) -> bool:
        """Whether no two methods disagree."""
        return not self.departing

    def __str__(self) -> str:
        """Verdict in one line, with the distance of each method that departs."""
        if self.agree:
            return f"{', '.join(self.methods)} agree (p = {self.p_value.min():.2g})"
        base = next(i for i, name in enumerate(self.methods) if name not in self.departing)
        parts = [
            f"{name} by {self.difference[i, base]:+.3f} ± {self.error[i, base]:.3f}"
            for i, name in enumerate(self.methods)
            if name in self.departing
        ]
        return f"{'; '.join(parts)} from {self.methods[base]}"


@documented("mbar", "rts", "ti_left")
def check_agreement(
    curves: Sequence[LogZCurve], *, level: int = -1, alpha: float = 0.01, tolerance: float = 0.0
) -> Agreement:
    """Test of whether the estimates of one run agree, and which of them do not.

    Two estimates from the same draws differ by much less than their errors would let two
    independent ones differ. The error of each difference is the long-run error of the difference
    of what every block of draws contributes to both. A rule of integration on a coarse schedule
    departs, since its error is not statistical.

    Parameters
    ----------
    curves
        Estimates by several methods from the same draws; on a tie between two sets of methods, the
        one with the earliest entries is taken to be right.
    level
        Level of the schedule to compare at, the target by default.
    alpha
        Probability of naming a method although all are right.
    tolerance
        Difference in nats that does not matter, however significant.

    Returns
    -------
    Agreement
        Differences, their errors and p-values, and the methods that depart.

    Raises
    ------
    ValueError
        If fewer than two of the curves have a number at the level, or over 16.

    Examples
    --------
    >>> print(check_agreement([rts(draws), mbar(draws), ti_left(draws)]))  # a sum that is low
    ti_left by -0.070 ± 0.006 from rts
    """
    usable = [curve for curve in curves if curve.usable and np.isfinite(curve.log_z[level])]
    if not 2 <= len(usable) <= 16:  # all sets of them may have to be looked at
        raise ValueError(
            f"{len(usable)} of {len(curves)} curves have a number at level {level}; 2 to 16 can be "
            "compared: look at their status"
        )
    log_z = np.array([curve.log_z[level] for curve in usable])
    contributions = np.stack([curve.contributions[..., level] for curve in usable], axis=-1)
    difference = log_z[:, None] - log_z
    error, p_value = _pairs(difference, contributions)
    methods = tuple(curve.method for curve in usable)
    kept = _largest_set((p_value >= alpha) | (np.abs(difference) <= tolerance))
    return Agreement(
        methods=methods,
        difference=difference,
        error=error,
        p_value=p_value,
        p_joint=_joint_p_value(log_z, contributions),
        departing=tuple(name for i, name in enumerate(methods) if i not in kept),
        alpha=alpha,
    )


@documented("mbar", "rts")
def joint_covariance(curves: Sequence[LogZCurve], *, level: int = -1) -> np.ndarray:
    """Covariance of the errors of M estimates from the same draws, shape (M, M).

    Parameters
    ----------
    curves, level
        As in `check_agreement`.

    Returns
    -------
    np.ndarray
        In squared nats, shape (M, M).

    Examples
    --------
    >>> np.sqrt(np.diag(joint_covariance([rts(draws), mbar(draws)]))).round(3)
    array([0.01 , 0.011])
    """
    return long_run_covariance(np.stack([c.contributions[..., level] for c in curves], axis=-1))


@documented("mbar", "rts")
def bootstrap_log_z(
    draws: TemperedDraws,
    methods: Mapping[str, Callable[[TemperedDraws], LogZCurve]],
    *,
    n_resamples: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Log Z by each method from the same resamples of the run, shape (R, M, K).

    Resampled are whole walkers or, of few walkers, long stretches of them. Every method is
    computed anew, so the spread also has what the errors of `LogZCurve`, of first order, leave
    out. It costs as much as ``n_resamples`` estimates.

    Parameters
    ----------
    draws
        A tempered run.
    methods
        Estimators by name, such as ``METHODS``.
    n_resamples
        Number of resamples R.
    rng
        Source of the resamples.

    Returns
    -------
    np.ndarray
        In nats, NaN where a resample has no number, shape (R, M, K).

    Examples
    --------
    >>> methods = {"rts": rts, "mbar": mbar}
    >>> log_z = bootstrap_log_z(draws, methods, n_resamples=20, rng=rng)
    >>> log_z.shape
    (20, 2, 5)
    """
    # the same draws as about 64 shorter walkers, if they are fewer
    per_walker = batches_of_walker(*draws.level.shape)
    length = draws.level.shape[1] // per_walker
    pieces = {
        name: getattr(draws, name)[:, : length * per_walker].reshape(-1, length)
        for name in ("level", "log_ratio", "segment")
    }
    n_stretches = pieces["level"].shape[0]
    log_z = np.empty((n_resamples, len(methods), draws.n_levels))
    for i in range(n_resamples):
        chosen = rng.integers(n_stretches, size=(n_stretches,))
        resample = replace(draws, **{name: piece[chosen] for name, piece in pieces.items()})
        log_z[i] = [method(resample).log_z for method in methods.values()]
    return log_z


def _pairs(difference: np.ndarray, contributions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Standard error and Holm's p-value of every difference, both (M, M)."""
    first, second = np.triu_indices(len(difference), k=1)
    variance, n_effective = long_run_variance(
        contributions[..., first] - contributions[..., second]
    )
    size = EQUAL * (1 + np.abs(difference[first, second]))
    z = difference[first, second] / np.sqrt(variance + size**2)
    p = 2 * stdtr(np.maximum(n_effective - 1, 1), -np.abs(z))
    order = np.argsort(p)
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    error, p_value = np.zeros_like(difference), np.ones_like(difference)
    error[first, second] = error[second, first] = np.sqrt(variance)
    p_value[first, second] = p_value[second, first] = np.minimum(adjusted, 1.0)
    return error, p_value


def _largest_set(agree: np.ndarray) -> tuple[int, ...]:
    """Largest set of methods that all agree with one another, the earliest of equal ones."""
    n = agree.shape[0]
    for size in range(n, 1, -1):
        for chosen in combinations(range(n), size):
            if agree[np.ix_(chosen, chosen)].all():
                return chosen
    return (0,)


def _joint_p_value(log_z: np.ndarray, contributions: np.ndarray) -> float:
    """Hotelling's test that all differences from the first method are zero."""
    difference = log_z[1:] - log_z[0]
    differences = contributions[..., 1:] - contributions[..., :1]
    covariance = long_run_covariance(differences)
    n_walkers, n_draws = differences.shape[:2]
    n_batches = n_walkers * batches_of_walker(n_walkers, n_draws)
    spread = np.sqrt(np.diag(covariance)) + EQUAL * (1 + np.abs(difference))
    values, vectors = np.linalg.eigh(covariance / np.outer(spread, spread))
    kept = values > EQUAL
    rank = int(kept.sum())
    if not 0 < rank < n_batches:
        return float(np.all(np.abs(difference) < spread))
    squares = ((vectors.T @ (difference / spread))[kept] ** 2 / values[kept]).sum()
    scaled = squares * (n_batches - rank) / (rank * (n_batches - 1))
    return float(fdtrc(rank, n_batches - rank, scaled))
