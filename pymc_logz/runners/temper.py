"""Tempering: walkers whose inverse temperature moves along with their position, in one loop."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_logz.graphs.compiling import Compiled
from pymc_logz.graphs.loops import Step
from pymc_logz.kernels.base import KernelState, Move, draw_log_uniform
from pymc_logz.runners.arrays import (
    along_rows,
    joined,
    largest_of,
    leaves,
    lengthened,
    mapped,
    rows_of,
    symbolic_noise,
    symbolic_state,
)
from pymc_logz.runners.block import MAX_NOISE_PER_BLOCK, Block
from pymc_logz.runners.moves_of_rows import Arguments, MovesOfRows, Report, in_turn
from pymc_logz.seeds import generator_of_noise


class Tables(NamedTuple):
    """What a walker does at each of K levels: arrays (K,), and scales as of `Move`."""

    betas: Any
    step_size: Any
    scale: Any
    refreshment: Any
    log_pseudo_prior: Any
    """Log of the level's prior over its estimated constant; swaps do without it."""

    def moves(self, level: Any) -> Move:
        """What walkers at these levels (n,) do, each its own."""
        return Move(*(part[level] for part in self[:4]))

    def all_at(self, level: int) -> "Tables":
        """Tables whose every level has the settings of one: walkers then stay at its beta."""
        return Tables(*(np.repeat(part[level : level + 1], len(part), axis=0) for part in self))


def draw_levels(
    log_ratio: TensorVariable, tables: Tables, log_uniform: TensorVariable
) -> TensorVariable:
    """Levels (n,) drawn given the position, by inversion: Carlson et al. (2016), eq. 7."""
    log_density = pt.switch(pt.eq(tables.betas, 0), 0.0, tables.betas * log_ratio[:, None])
    probability = pt.special.softmax(log_density + tables.log_pseudo_prior, axis=1)
    below = pt.cumsum(probability, axis=1)[:, :-1]
    return (pt.exp(log_uniform)[:, None] > below).sum(axis=1)


def swap_levels(
    log_ratio: TensorVariable,
    level: TensorVariable,
    betas: TensorVariable,
    log_uniform: TensorVariable,
    parity: TensorVariable,
) -> TensorVariable:
    """Levels (n,) after swaps between neighbours, each K walkers in a row by themselves."""
    # those of even and of odd k by turns, which takes walkers faster than swaps at random: Okabe et
    # al. (2001), doi 10.1016/S0009-2614(01)00055-0; Syed et al. (2022), arXiv 1905.02939
    k = betas.type.shape[0]
    log_ratio, level, log_uniform = (x.reshape((-1, k)) for x in (log_ratio, level, log_uniform))
    # which walker (second axis) is at which level (third axis)
    is_at = pt.eq(level[:, :, None], np.arange(k))
    ratio = pt.switch(is_at, log_ratio[:, :, None], 0.0).sum(axis=1)
    log_accept = (betas[:-1] - betas[1:]) * (ratio[:, 1:] - ratio[:, :-1])
    # two walkers outside the support stay as they are: inf - inf
    log_accept = pt.switch(pt.isnan(log_accept), -np.inf, log_accept)
    swaps = (log_uniform[:, :-1] < log_accept) & pt.eq(np.arange(k - 1) % 2, parity)
    swaps = pt.cast(swaps, "int64")
    none = pt.zeros_like(swaps[:, :1])
    up, down = pt.concatenate([swaps, none], axis=1), pt.concatenate([none, swaps], axis=1)
    return level.ravel() + pt.switch(is_at, (up - down)[:, None, :], 0).sum(axis=2).ravel()


@dataclass
class FreshRows:
    """Independent draws of a reference, made many at a time, and handed out a few at a time."""

    draw: Callable[[np.random.Generator, int], np.ndarray]
    rng: np.random.Generator
    n_per_batch: int
    left: np.ndarray | None = None

    def take(self, n: int) -> np.ndarray:
        """The next n rows, shape (n, d)."""
        if self.left is None or len(self.left) < n:
            made = self.draw(self.rng, max(n, self.n_per_batch))
            self.left = made if self.left is None else np.concatenate([self.left, made])
        taken, self.left = self.left[:n], self.left[n:]
        return taken


EXCHANGES = ("gibbs", "swap")


class Walkers(NamedTuple):
    """Where n walkers are, and at which levels of the ladder, shape (n,)."""

    state: KernelState
    level: Any


class Walk(NamedTuple):
    """What n walkers did over T iterations: at each move, or after it, shape (T, n)."""

    level: np.ndarray
    log_ratio: np.ndarray
    """NaN counts as -inf."""
    log_reference: np.ndarray
    acceptance_rate: np.ndarray
    position: np.ndarray
    """Where walkers were after every s-th move, shape (T // s, n, d)."""
    n_nan: np.ndarray
    """How many log ratios were NaN, shape (T,)."""


class TemperBlock(MovesOfRows):
    """A fixed number of iterations of a batch of walkers, compiled once.

    In each iteration the kernel of ``block`` moves every walker along its path, at the beta of the
    walker's level; then levels are exchanged. The momentum is whitened, so its distribution is the
    same at every level, and it is kept. All have the data of the block's first group: see `given`.
    An ``exchange`` of "gibbs" draws each level given the position; "swap" lets each K walkers in a
    row have all K levels among them, and neighbours swap theirs.
    """

    draws_reference = True

    def __init__(
        self, block: Block, n_levels: int, n_walkers: int, exchange: str = "gibbs"
    ) -> None:
        shared = block.compile_kwargs, block.work, block.most_rows
        super().__init__(block.path, block.kernel, n_walkers, *shared)
        self.n_levels, self.n_walkers, self.exchange = n_levels, n_walkers, exchange
        # an even number, so that every block begins with the same kind of swaps
        affordable = MAX_NOISE_PER_BLOCK // (2 * n_walkers * largest_of(self.noise_of_row))
        self.n_moves = 2 * int(np.clip(affordable, 1, block.most_moves // 2))
        self.row_data = [np.repeat(part[:1], n_walkers, axis=0) for part in block.row_data]
        if exchange == "swap" and self.most_rows is not None:
            # walkers that swap are computed together
            self.most_rows = n_levels * max(1, self.most_rows // n_levels)
        self.compile()

    @property
    def settings(self) -> tuple[Any, ...]:
        """What the function depends on besides the path."""
        return (*super().settings, self.n_levels, self.exchange)

    def _compile(self) -> Compiled:
        rng = np.random.default_rng(0)
        start = np.zeros((self.n_walkers, self.given_path.n_dims))
        walkers = Walkers(self.initial_state(start), self.spread_levels(rng))
        of_moves = self._of_moves(self.still_tables(), rng, self.n_moves)
        return self._compiled_loop(self._step(), walkers, of_moves)

    def _step(self) -> Step:
        d, k = self.given_path.n_dims, self.n_levels
        walkers = Walkers(symbolic_state(d), pt.vector("level", dtype="int64", shape=(None,)))
        tables = Tables(
            *(
                pt.tensor(name, dtype="float64", shape=(k, *(self.scale_shape * (name == "scale"))))
                for name in Tables._fields
            )
        )
        log_uniform = pt.vector("log_uniform_level", dtype="float64", shape=(None,))
        noise = symbolic_noise(self.noise_of_row)
        parity = pt.lscalar("parity")
        path, data = self.given_path.with_inputs()
        new, info = self.kernel.step(path, walkers.state, tables.moves(walkers.level), noise)
        ratio, level = new.evaluation.log_ratio, walkers.level
        known = pt.switch(pt.isnan(ratio), -np.inf, ratio)
        new_level = self.new_levels(known, level, tables, log_uniform, parity)
        # every position is written down: bits in a byte each are a tenth of a sweep
        position = pt.cast(new.position, "int8") if path.is_binary else new.position
        traced = [level, ratio, new.evaluation.log_reference, info.acceptance_rate, position]
        return Step(
            state=leaves(walkers),
            sequences=leaves((noise, log_uniform, parity)),
            constants=leaves((tables, data, self.given_path.parameters)),
            new_state=leaves(Walkers(new, new_level)),
            traced=traced,
        )

    def given(self, data: np.ndarray) -> "TemperBlock":
        """The same compiled iterations where all walkers have other data, shape (D,)."""
        return self.changed(row_data=[np.tile(data, (self.n_walkers, 1))])

    def _of_moves(self, tables: Tables, rng: np.random.Generator, n_moves: int) -> Arguments:
        """Noise of the kernel, log uniforms that decide on levels, and settings of iterations."""
        shape = (n_moves, self.n_walkers)
        noise = self.kernel.draw_noise(rng, *shape, self.given_path.n_dims)
        noise = lengthened((noise, draw_log_uniform(rng, shape)), self.n_moves, axis=0)
        parity = np.arange(self.n_moves) % 2
        return [*along_rows(noise, 1), *along_rows((parity, tables), None)]

    def new_levels(
        self,
        log_ratio: TensorVariable,
        level: TensorVariable,
        tables: Tables,
        log_uniform: TensorVariable,
        parity: TensorVariable,
    ) -> TensorVariable:
        """Levels after the exchange, shape (n,)."""
        if self.exchange == "gibbs":
            return draw_levels(log_ratio, tables, log_uniform)
        return swap_levels(log_ratio, level, tables.betas, log_uniform, parity)

    def still_tables(self) -> Tables:
        """Tables by which walkers stay where they are."""
        zeros = np.zeros(self.n_levels)
        scale = np.ones((self.n_levels, *self.scale_shape))
        return Tables(zeros, zeros, scale, zeros + 1.0, zeros)

    def spread_levels(self, rng: np.random.Generator) -> np.ndarray:
        """Levels as evenly spread over the ladder as can be, each K walkers in a row having all."""
        n_sets = -(-self.n_walkers // self.n_levels)
        sets = np.tile(np.arange(self.n_levels), (n_sets, 1))
        return rng.permuted(sets, axis=1).ravel()[: self.n_walkers]

    def start(self, position: np.ndarray, rng: np.random.Generator) -> Walkers:
        """Walkers at these positions (n, d), with levels of their own and fresh momenta."""
        walkers = Walkers(self.initial_state(position), self.spread_levels(rng))
        # moves of step size 0 evaluate the path
        end, _ = self.launch(walkers, self.still_tables(), rng, n_moves=1)
        return Walkers(end.state, walkers.level)

    def fresh_rows(self, n_iterations: int, rng: np.random.Generator) -> FreshRows:
        """Draws of the reference for walkers that get there in so many iterations, most at once."""
        n_blocks = -(-n_iterations // self.n_moves)
        expected = n_blocks * max(1, self.n_walkers // self.n_levels)
        return FreshRows(self.given_path.sample_reference, rng, min(expected, 2048))

    def renewed(self, walkers: Walkers, tables: Tables, fresh: FreshRows) -> Walkers:
        """Walkers at the reference at fresh draws of it, which leaves all as distributed."""
        # moves alone take long from one mode of the reference to another, and into tails that have
        # a few hundredths of it; where all chains have missed them, none of their errors tells
        if self.given_path.is_binary:  # a sweep at beta = 0 is a fresh draw of bits
            return walkers
        if not tables.betas[0] == 0 < tables.betas[-1]:
            return walkers
        chosen = np.asarray(tables.betas)[np.asarray(walkers.level)] == 0
        if not chosen.any():
            return walkers
        position = np.array(walkers.state.position)
        position[chosen] = fresh.take(int(chosen.sum()))
        both = joined([walkers.state, self.start(position, fresh.rng).state])
        now = np.arange(chosen.size) + chosen.size * chosen
        return Walkers(rows_of(both, now), walkers.level)

    def launch(
        self,
        walkers: Walkers,
        tables: Tables,
        rng: np.random.Generator,
        n_moves: int | None = None,
    ) -> tuple[Walkers, Callable[[], Walk]]:
        """One block of iterations, or fewer; a function waits for what walkers did."""
        n_moves = self.n_moves if n_moves is None else n_moves
        source = generator_of_noise(self.compiled.backend, rng)
        of_moves = self._of_moves(tables, source, n_moves)
        walkers, rest = self._launched(walkers, of_moves, n_moves, self.n_walkers)

        def trace() -> Walk:
            level, log_ratio, log_reference, acceptance_rate, position = map(np.asarray, rest)
            is_nan = np.isnan(log_ratio)
            return Walk(
                level=level.astype(np.int32),
                log_ratio=np.where(is_nan, -np.inf, log_ratio),
                log_reference=log_reference,
                acceptance_rate=acceptance_rate,
                position=position,
                n_nan=is_nan.sum(axis=1),
            )

        return walkers, trace


class Walking(NamedTuple):
    """Walkers on their way: numbers and arrays only, all that the iterations to come need."""

    n_made: int
    walkers: Walkers
    fresh: np.ndarray | None = None
    """Draws of the reference that were made and are not used yet, shape (n, d)."""


def walk(
    block: TemperBlock,
    walkers: Walkers,
    tables: Tables,
    n_iterations: int,
    rng: np.random.Generator,
    *,
    every: int = 1,
    report: Report | None = None,
) -> tuple[Walkers, Walk]:
    """Where walkers are after so many iterations with frozen settings, and what they did."""
    underway = Walking(0, walkers)
    underway, part = walk_on(block, underway, tables, n_iterations, rng, every=every, report=report)
    return underway.walkers, joined_walk([part], n_iterations, every)


def walk_on(
    block: TemperBlock,
    underway: Walking,
    tables: Tables,
    n_iterations: int,
    rng: np.random.Generator,
    *,
    every: int = 1,
    report: Report | None = None,
) -> tuple[Walking, Walk]:
    """Walkers after the iterations that are left, or whole blocks if the report ends them."""
    done, walkers = underway.n_made, underway.walkers
    fresh = block.fresh_rows(n_iterations, rng)
    fresh.left = underway.fresh

    def launch(part: slice) -> Callable[[], Walk]:
        nonlocal walkers, done
        done = part.start + block.n_moves
        walkers, trace = block.launch(block.renewed(walkers, tables, fresh), tables, rng)
        return trace

    blocks = in_turn(launch, done, n_iterations, block.n_moves, report)
    parts = []
    for part, trace in blocks:
        kept = trace.position[-(part.start + 1) % every :: every]
        parts.append(trace._replace(position=kept.astype(float)))
    return Walking(done, mapped(np.asarray, walkers), fresh.left), joined_walk(parts)


def joined_walk(parts: Sequence[Walk], n_iterations: int | None = None, every: int = 1) -> Walk:
    """Parts of one walk as one, with no more than so many iterations."""
    walk = joined(parts)
    if n_iterations is None:
        return walk
    position = walk.position[: n_iterations // every]
    return rows_of(walk, slice(n_iterations))._replace(position=position)
