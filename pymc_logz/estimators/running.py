"""RTS while a run goes on: sums of the levels' probabilities, and no draws."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from pymc_logz.arguments import check_betas, check_integer
from pymc_logz.estimators.draws import CHUNK_ELEMENTS, TemperedDraws, documented
from pymc_logz.estimators.result import LogZCurve, make_curve, obstacle
from pymc_logz.estimators.tempering import curve_of_levels, rts_bias
from pymc_logz.weights import ess_of_sums


class LevelSums(NamedTuple):
    """What is kept of the draws of W walkers: sums over B blocks of consecutive draws."""

    n_draws: int
    """Of each walker."""
    share: np.ndarray
    """Sums of q(k | x), shape (W, B, K)."""
    square: np.ndarray
    """Sums of its square, shape (W, B, K)."""
    visits: np.ndarray | None
    """Draws at each level, of all walkers, if levels were given; shape (K,)."""
    n_outside: int
    """Draws outside the support of the target, of all walkers."""
    n_infinite: int
    """Draws whose log ratio is inf."""

    @property
    def mean_probability(self) -> np.ndarray:
        """Mean of q(k | x) over all draws: c_k of the source, shape (K,)."""
        return self.share.sum(axis=(0, 1)) / (len(self.share) * self.n_draws)


def joined(parts: Sequence[LevelSums]) -> LevelSums:
    """Sums of several batches of walkers, all with as many draws, as those of one."""
    visits = [part.visits for part in parts if part.visits is not None]
    return LevelSums(
        parts[0].n_draws,
        np.concatenate([part.share for part in parts]),
        np.concatenate([part.square for part in parts]),
        np.sum(visits, axis=0) if visits else None,
        sum(part.n_outside for part in parts),
        sum(part.n_infinite for part in parts),
    )


@documented("RunningRTS")
@dataclass(eq=False)
class RunningRTS:
    """`rts` of a run whose draws are not kept: of each walker only the sums of q(k | x) are.

    Memory is K numbers for each walker, however long the run; in `TemperedDraws` it is two for
    each draw. The error is that between walkers, which holds however slowly each of them travels,
    and is a rough guess for fewer than 30 of them (``"short_run"``). Sums over blocks of draws
    tell autocorrelation, too: then log Z, error and status are those of `rts` on all draws with
    blocks as long.

    Parameters
    ----------
    betas
        Inverse temperatures, from 0 to 1, shape (K,).
    log_prior
        Log of the prior weight of each level, up to a constant, shape (K,).
    log_z_hat
        Guess of log Z by which levels are drawn, shape (K,); the same all along.
    block_length
        Consecutive draws of a walker that are summed together; None for all of them.

    Raises
    ------
    ValueError
        If shapes do not fit, or a value is out of range.

    References
    ----------
    Carlson, Stinson, Pakman & Paninski (2016), Algorithm 1, arXiv 1603.01912.

    Examples
    --------
    >>> running = RunningRTS(betas, np.zeros(5), -np.log1p(betas), block_length=10)
    >>> for log_ratio in np.split(draws.log_ratio, 8, axis=1):
    ...     running.add(log_ratio)
    >>> print(running.curve.estimate)  # log Z = -0.693
    log Z = -0.690 ± 0.010 (rts, ok)
    """

    betas: np.ndarray
    log_prior: np.ndarray
    log_z_hat: np.ndarray
    block_length: int | None = None
    seen: LevelSums | None = field(default=None, init=False)
    """What there is so far; never changed in place."""

    def __post_init__(self) -> None:
        self.betas = check_betas(self.betas)
        if self.block_length is not None:
            check_integer(1, block_length=self.block_length)

    def add(self, log_ratio: np.ndarray, level: np.ndarray | None = None) -> None:
        """Count draws of all walkers.

        Parameters
        ----------
        log_ratio
            Shape (W, n), -inf outside the support of the target.
        level
            Level at which each was made, shape (W, n), the same way each time: visits are counted,
            and there is no number if an end of the ladder has less than two.

        Raises
        ------
        ValueError
            If there are other walkers than before, an entry is NaN, or a level is out of range.
        """
        log_ratio = np.asarray(log_ratio, dtype=float)
        draws = self._draws(log_ratio, level)
        (n_walkers, n), k = log_ratio.shape, self.betas.size
        nothing = np.zeros((n_walkers, 0, k))
        seen = self.seen or LevelSums(0, nothing, nothing, None, 0, 0)
        if len(seen.share) != n_walkers:
            raise ValueError(
                f"log_ratio has shape {log_ratio.shape}, but there were {len(seen.share)} walkers "
                "before; give all walkers each time"
            )
        numbers = seen.n_draws + np.arange(n)
        block = numbers // self.block_length if self.block_length else np.zeros(n, dtype=int)
        missing = max(0, block[-1] + 1 - seen.share.shape[1])
        wider = ((0, 0), (0, missing), (0, 0))
        share, square = np.pad(seen.share, wider), np.pad(seen.square, wider)
        span = max(1, CHUNK_ELEMENTS // (n_walkers * k))
        for first in range(0, n, span):
            some = slice(first, first + span)
            q = draws.level_given(*draws.flat(slice(None), some)).reshape(n_walkers, -1, k)
            starts = np.flatnonzero(np.diff(block[some], prepend=-1))
            into = block[some][starts]
            share[:, into] += np.add.reduceat(q, starts, axis=1)
            square[:, into] += np.add.reduceat(q**2, starts, axis=1)
        self.seen = LevelSums(
            seen.n_draws + n,
            share,
            square,
            None if level is None else draws.visits + (0 if seen.visits is None else seen.visits),
            seen.n_outside + int(np.isneginf(log_ratio).sum()),
            seen.n_infinite + int(np.isposinf(log_ratio).sum()),
        )

    @property
    def level_share(self) -> np.ndarray:
        """Mean of q(k | x) over all draws so far: c_k of the source, shape (K,).

        Raises
        ------
        ValueError
            If there are no draws yet.
        """
        return self._seen().mean_probability

    @property
    def curve(self) -> LogZCurve:
        """Log Z at each level, as of `rts`, with errors that the sums tell.

        Raises
        ------
        ValueError
            If there are no draws yet.
        """
        seen = self._seen()
        # one draw a walker stands for all of them, which are in the sums
        stand_in = self._draws(np.zeros((len(seen.share), 1)))
        ends = None if seen.visits is None else seen.visits[[0, -1]]
        n_draws = len(seen.share) * seen.n_draws
        status = obstacle(n_draws, seen.n_infinite, seen.n_outside, ends)
        if status is not None:
            return replace(make_curve(stand_in, status=status), method="rts")
        total, squares = (part.sum(axis=(0, 1))[[0, -1]] for part in (seen.share, seen.square))
        details = {
            "level_share": seen.mean_probability,
            "bias": rts_bias(seen.share),
            "autocorrelation_time": np.array(np.nan),  # which sums do not tell
        }
        ess = float(ess_of_sums(total, squares).min())
        curve = curve_of_levels(stand_in, seen.share / seen.n_draws, ess, details)
        return replace(curve, method="rts")

    def _seen(self) -> LevelSums:
        if self.seen is None:
            raise ValueError("there are no draws yet; add some")
        return self.seen

    def _draws(self, log_ratio: np.ndarray, level: np.ndarray | None = None) -> TemperedDraws:
        level = np.zeros(log_ratio.shape, dtype=int) if level is None else level
        return TemperedDraws(level, log_ratio, self.betas, self.log_prior, self.log_z_hat)
