"""Tempered chains as jobs: a climb, a walk to forget it, and a walk that is kept, or its sums."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pymc_logz.errors import warn
from pymc_logz.estimators.draws import MIN_CHAIN, length_of_blocks
from pymc_logz.estimators.result import LogZCurve
from pymc_logz.estimators.running import LevelSums, RunningRTS, joined
from pymc_logz.runners.arrays import mapped
from pymc_logz.runners.moves_of_rows import Report
from pymc_logz.runners.running import Course, Job, Outcome, finished, generator_at, state_of
from pymc_logz.runners.temper import TemperBlock, Walk, Walking, joined_walk, walk_on
from pymc_logz.tempered.settings import TemperedSettings
from pymc_logz.tempered.warm_up import Climbing, Ladder, climb_on, start_climb


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


@dataclass(frozen=True)
class TemperCourse(Course):
    """Iterations, frozen levels, and what is kept of chains."""

    block: TemperBlock
    ladder: Ladder
    every: int
    """Positions of every so many of them are kept."""
    block_length: int | None = None
    """Draws of a walker whose sums are kept in place of them; None keeps the draws."""

    @property
    def keeps_parts(self) -> bool:
        """Whether a chain is of use that has not come to its end: draws are, however many."""
        return self.block_length is None


@dataclass(frozen=True)
class TemperJob(Job):
    """Walkers of one chain on their way: they climb, walk to forget that, and are sampled."""

    start: np.ndarray | None
    """Draws of the reference, shape (n, d); None once they have set off."""
    rng: dict[str, Any]
    """State of the generator of all noise."""
    n_levels: int
    tune: int
    """Moves at each level on the way up, and iterations that are forgotten."""
    draws: int
    climbing: Climbing | None = None
    burn_in: Walking | None = None
    sampling: Walking | None = None
    sums: WalkSums | None = None
    """Of the draws so far, where no draws are kept."""
    left: Walk | None = None
    """Iterations of the last block that nobody has asked for yet."""
    n_evaluations: int = 0

    @property
    def n_total(self) -> int:
        """Iterations of the whole chain."""
        return (self.n_levels + 1) * self.tune + self.draws

    @property
    def n_done(self) -> int:
        """Iterations made."""
        climb = self.n_levels * self.tune
        if self.sampling is not None:
            return climb + self.tune + min(self.sampling.n_made, self.draws)
        if self.burn_in is not None:
            return climb + min(self.burn_in.n_made, self.tune)
        return 0 if self.climbing is None else self.climbing.n_levels * self.tune

    def resumed(self, kept: "TemperJob") -> "TemperJob":
        """A chain as it was kept, to be as long as this one."""
        return replace(kept, draws=self.draws)

    def advance(
        self, course: TemperCourse, report: Report | None
    ) -> tuple["TemperJob", Walk | None]:
        """Walkers further on, and what they did of what is kept; see `Job` of runners."""
        rng, block, job = generator_at(self.rng), course.block, self
        ladder, tune = course.ladder, self.tune
        if job.start is not None:
            job = replace(job, climbing=start_climb(block, ladder, job.start, rng), start=None)
        if job.climbing is not None:
            climbing = climb_on(block, ladder, job.climbing, tune, rng, report)
            if climbing.n_levels < ladder.n_levels:
                return replace(job, climbing=climbing, rng=state_of(rng)), None
            burn_in = Walking(0, climbing.stopped(block, rng))
            job = replace(job, climbing=None, burn_in=burn_in)
        on = partial(walk_on, block, tables=ladder.tables(block.kernel), rng=rng)
        if job.burn_in is not None:
            burn_in, _ = on(job.burn_in, n_iterations=tune, every=tune, report=report)
            job = replace(job, burn_in=burn_in, rng=state_of(rng))
            if burn_in.n_made < tune:
                return job, None
            # draws that were made for one walk are not those of the next
            job = replace(job, burn_in=None, sampling=Walking(0, burn_in.walkers))
        on = partial(on, n_iterations=self.draws, every=course.every)
        if course.block_length is not None:
            return replace(job._summing(course, on, report), rng=state_of(rng)), None
        sampling, part = on(job.sampling, report=report)
        return replace(job, sampling=sampling, rng=state_of(rng)), part

    def summed(self, course: TemperCourse) -> "TemperJob":
        """The same chain with all iterations in its sums that are asked for."""
        sums, part, ladder, every = self.sums, self.left, course.ladder, course.every
        if part is None or (sums is not None and sums.levels.n_draws == self.draws):
            return self
        k, top = ladder.n_levels, ladder.n_levels - 1
        if sums is None:
            none = np.zeros(part.level.shape[1], dtype=int)
            empty, nowhere = np.zeros((none.size, 0, k)), np.zeros((0, part.position.shape[-1]))
            levels = LevelSums(0, empty, empty, np.zeros(k, dtype=int), 0, 0)
            sums = WalkSums(levels, np.zeros(k), none - 1, none, 0, 0, nowhere)
        before = sums.levels.n_draws
        n = min(len(part.level), self.draws - before)
        # the first n iterations, with positions of some, and the others
        n_rows, position = (before + n) // every - before // every, part.position
        now = mapped(lambda array: array[:n], part)._replace(position=position[:n_rows])
        left = mapped(lambda array: array[n:], part)._replace(position=position[n_rows:])
        draws = ladder.draws(now)
        running = RunningRTS(ladder.betas, ladder.log_prior, ladder.log_z_hat, course.block_length)
        running.seen = sums.levels
        running.add(draws.log_ratio, draws.level)
        rate = now.acceptance_rate.T.ravel()
        looked_at = np.arange(before + 1, before + n + 1) % every == 0
        end, crossings = ends_seen(np.concatenate([sums.end[None], draws.level.T]), top)
        sums = sums._replace(
            levels=running.seen,
            accepted=sums.accepted + np.bincount(draws.level.ravel(), rate, k),
            end=end,
            crossings=sums.crossings + crossings,
            n_nan=sums.n_nan + int(now.n_nan.sum()),
            n_lost=sums.n_lost + lost_draws(now),
            top=np.concatenate([sums.top, now.position[now.level[looked_at] == top]]),
        )
        return replace(self, sums=sums, left=left if len(left.level) else None)

    def _summing(
        self, course: TemperCourse, on: Callable[..., Any], report: Report | None
    ) -> "TemperJob":
        """Walkers further on, and sums of what they did, 16 blocks while the next is computed."""
        job, n_blocks = self, 0
        stops: bool | None = False

        def reported(n_moves: int) -> bool:
            nonlocal n_blocks, stops
            n_blocks += 1
            stops = report is not None and report(n_moves)
            return bool(stops) or n_blocks % 16 == 0

        assert job.sampling is not None
        while job.sampling.n_made < self.draws and not stops:
            sampling, part = on(job.sampling, report=reported)
            left = part if job.left is None else joined_walk([job.left, part])
            job = replace(job, sampling=sampling, left=left).summed(course)
        return job


def ends_seen(level: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
    """Last end of the ladder in each column of levels (T, W), and how often it is another one."""
    ends = [column[(column == 0) | (column == top)] for column in level.T]
    last = np.array([column[-1] if column.size else -1 for column in ends])
    return last, np.array([np.count_nonzero(np.diff(column)) for column in ends])


def lost_draws(walk: Walk) -> int:
    """Number of draws above the reference by walkers that had not found the support yet."""
    return int((np.isneginf(walk.log_ratio) & (walk.level > 0)).sum())


def course_of(block: TemperBlock, ladder: Ladder, settings: TemperedSettings) -> TemperCourse:
    """What all chains have in common; at most 2**24 numbers of a chain's positions are kept."""
    n_walkers, draws, length = block.n_walkers, settings.draws, None
    if settings.keep == "sums":
        # positions that are looked at, and kept where they are at beta = 1: for tails
        every = max(1, draws // 64)
        length = length_of_blocks(settings.chains * n_walkers, draws)
    else:
        every = min(draws, -(-draws * n_walkers * block.path.n_dims // 2**24))
    return TemperCourse(block, ladder, every, length)


class WalkedChains(NamedTuple):
    """What walkers did in several chains, as many iterations in each."""

    walks: Sequence[Walk]

    @property
    def kept(self) -> np.ndarray:
        """Iterations of which positions are kept."""
        n_draws, n_kept = (len(part) for part in (self.walks[0].level, self.walks[0].position))
        return np.arange(1, n_kept + 1) * (n_draws // n_kept) - 1

    @property
    def n_lost(self) -> int:
        """As of `lost_draws`."""
        return sum(map(lost_draws, self.walks))

    def at_the_end(self) -> np.ndarray:
        """Positions that were kept at beta = 1, shape (n, d)."""
        top = max(int(one.level.max()) for one in self.walks)
        return np.concatenate([one.position[one.level[self.kept] == top] for one in self.walks])


class SummedChains(NamedTuple):
    """Sums of several chains."""

    parts: Sequence[WalkSums]

    @property
    def levels(self) -> LevelSums:
        """Of the walkers of all chains."""
        return joined([one.levels for one in self.parts])

    @property
    def n_lost(self) -> int:
        """As of `lost_draws`."""
        return sum(one.n_lost for one in self.parts)

    def curve(self, ladder: Ladder) -> LogZCurve:
        """Log Z of the levels, as of `rts` on the draws."""
        running = RunningRTS(ladder.betas, ladder.log_prior, ladder.log_z_hat)
        running.seen = self.levels
        return running.curve

    def at_the_end(self) -> np.ndarray:
        """Positions that were kept at beta = 1, shape (n, d)."""
        return np.concatenate([one.top for one in self.parts])


Chains = WalkedChains | SummedChains


def chains_of(outcomes: Sequence[Outcome | None], course: TemperCourse, draws: int) -> Chains:
    """What walkers did in all chains, ``draws`` of each if no interrupt cut them; or its sums."""
    if course.block_length is not None:
        return SummedChains([one.job.summed(course).sums for one in finished(outcomes)])
    # after an interrupt those chains, cut to the shortest of them, that have the most draws
    # together
    there = [one for one in outcomes if one is not None]
    made = [min(one.job.sampling.n_made, draws) for one in there]
    n_draws = max(made, key=lambda n: n * sum(length >= n for length in made), default=0)
    long_enough = [one for one, length in zip(there, made, strict=True) if length >= n_draws]
    n_draws -= n_draws % course.every
    if n_draws < draws:
        if n_draws < MIN_CHAIN:
            raise KeyboardInterrupt
        warn(
            f"interrupted: {n_draws} of {draws} draws of {len(long_enough)} of "
            f"{len(outcomes)} chains are there, and only they are used"
        )
    else:
        long_enough = finished(outcomes)
    return WalkedChains([joined_walk(one.parts, n_draws, course.every) for one in long_enough])
