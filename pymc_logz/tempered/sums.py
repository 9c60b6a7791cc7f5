"""Tempered chains of which sums are kept in place of draws: memory does not grow with a run."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pymc_logz.estimators.result import LogZCurve
from pymc_logz.estimators.running import LevelSums, RunningRTS, joined
from pymc_logz.runners.arrays import mapped
from pymc_logz.runners.temper import Walk
from pymc_logz.tempered.warm_up import Ladder

N_LOOKS = 64
"""Positions of each walker that are looked at, and kept if it is at beta = 1: for tails."""


class WalkSums(NamedTuple):
    """Sums of what the walkers of one chain did."""

    levels: LevelSums
    accepted: np.ndarray
    """Sum of the draws' acceptance probabilities at each level, shape (K,)."""
    end: np.ndarray
    """End of the ladder that each walker has seen last: a level, or -1, shape (W,)."""
    crossings: np.ndarray
    """How often each went from one end to the other, shape (W,)."""
    n_nan: int
    n_lost: int
    """Draws above the reference by walkers that had not found the support yet."""
    top: np.ndarray
    """Positions at beta = 1, now and then, shape (n, d)."""


def added(
    sums: WalkSums | None, ladder: Ladder, block_length: int, part: Walk, every: int, n_draws: int
) -> tuple[WalkSums, Walk | None]:
    """Sums with a part of a walk, and what is left of it beyond so many draws in all."""
    k, top = ladder.n_levels, ladder.n_levels - 1
    if sums is None:
        none = np.zeros(part.level.shape[1], dtype=int)
        empty, nowhere = np.zeros((none.size, 0, k)), np.zeros((0, part.position.shape[-1]))
        levels = LevelSums(0, empty, empty, np.zeros(k, dtype=int), 0, 0)
        sums = WalkSums(levels, np.zeros(k), none - 1, none, 0, 0, nowhere)
    before = sums.levels.n_draws
    n = min(len(part.level), n_draws - before)
    # the first n iterations, with positions of some, and the others
    n_rows, position = (before + n) // every - before // every, part.position
    now = mapped(lambda array: array[:n], part)._replace(position=position[:n_rows])
    left = mapped(lambda array: array[n:], part)._replace(position=position[n_rows:])
    draws = ladder.draws(now)
    running = RunningRTS(ladder.betas, ladder.log_prior, ladder.log_z_hat, block_length)
    running.seen = sums.levels
    running.add(draws.log_ratio, draws.level)
    looked_at = np.arange(before + 1, before + n + 1) % every == 0
    ends = np.concatenate([sums.end[None], draws.level.T])
    end, crossings = ends_seen(ends, top)
    found = sums._replace(
        levels=running.seen,
        accepted=sums.accepted + np.bincount(draws.level.ravel(), now.acceptance_rate.T.ravel(), k),
        end=end,
        crossings=sums.crossings + crossings,
        n_nan=sums.n_nan + int(now.n_nan.sum()),
        n_lost=sums.n_lost + int((np.isneginf(now.log_ratio) & (now.level > 0)).sum()),
        top=np.concatenate([sums.top, now.position[now.level[looked_at] == top]]),
    )
    return found, left if len(left.level) else None


def ends_seen(level: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
    """Last end of the ladder in each column of levels (T, W), and how often it is another one."""
    ends = [column[(column == 0) | (column == top)] for column in level.T]
    last = np.array([column[-1] if column.size else -1 for column in ends])
    return last, np.array([np.count_nonzero(np.diff(column)) for column in ends])


class SummedChains(NamedTuple):
    """Sums of several chains."""

    parts: Sequence[WalkSums]

    @property
    def levels(self) -> LevelSums:
        """Of the walkers of all chains."""
        return joined([one.levels for one in self.parts])

    def curve(self, ladder: Ladder) -> LogZCurve:
        """Log Z of the levels, as of `rts` on the draws."""
        running = RunningRTS(ladder.betas, ladder.log_prior, ladder.log_z_hat)
        running.seen = self.levels
        return running.curve


def rhat_of_sums(levels: LevelSums) -> np.ndarray:
    """Split R-hat over walkers of the share of each level, (K,): halves are whole blocks."""
    n_blocks = levels.share.shape[1]
    if n_blocks == 1:
        halves = [slice(None)]
    else:
        halves = [slice(0, n_blocks // 2), slice(n_blocks - n_blocks // 2, None)]
    # q sums to one, so that sums over levels are numbers of draws
    n, total, square = (
        np.concatenate([part[:, half].sum(axis=1) for half in halves])
        for part in (levels.share.sum(axis=2, keepdims=True), levels.share, levels.square)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        within = ((square - total**2 / n) / (n - 1)).mean(axis=0)
        between = (total / n).var(axis=0, ddof=1)
        return np.sqrt(1 - 1 / n.mean() + between / within)
