"""A block: many kernel moves compiled into one loop, with noise drawn by NumPy."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt

from pymc_logz.graphs.compiling import Compiled
from pymc_logz.graphs.loops import Step
from pymc_logz.kernels.base import KernelState, Move
from pymc_logz.paths.geometric import AnnealingPath, Evaluation
from pymc_logz.runners.arrays import (
    along_rows,
    joined,
    largest_of,
    leaves,
    lengthened,
    rows_of,
    symbolic_noise,
    symbolic_state,
)
from pymc_logz.runners.moves_of_rows import Arguments, MovesOfRows
from pymc_logz.seeds import generator_of_noise

MOVES_PER_BLOCK = 8
"""Enough to make the cost of a call small beside that of its moves, and few enough for a pilot to
stop soon after its rows have moved away."""
MOST_BRIEF = 128
"""Moves of each row, in a few runs, that NumPy makes while JAX would compile."""
MAX_NOISE_PER_BLOCK = 2**22
"""Numbers in the largest array of noise, 32 MB."""


class Trace(NamedTuple):
    """Log ratio after each of m moves of n rows, and probability to accept it, shape (m, n)."""

    log_ratio: np.ndarray
    acceptance_rate: np.ndarray


@dataclass(eq=False)
class Block(MovesOfRows):
    """A fixed number of kernel moves over a batch of rows, compiled once, when first needed.

    A shorter list of moves is padded with moves that are not made. For ``n_rows`` see `portions`:
    other numbers work too, and are compiled for when they come. ``data`` (groups, D) are what
    groups of rows bring along, if the path depends on it: see `given`.
    """

    data: np.ndarray | None = None
    most_moves: int = MOVES_PER_BLOCK
    is_brief: bool = False
    """Whether so few moves are to be made that several at once are not worth compiling."""
    at_rest: tuple[int, Arguments] = field(default_factory=lambda: (0, []), repr=False)
    """Arguments of moves of so many rows that stay where they are."""

    def __post_init__(self) -> None:
        if not self.kernel.needs_gradient:
            self.given_path = self.given_path.without_gradients()
        elif (columns := getattr(self.kernel, "columns", None)) is not None:
            self.given_path = self.given_path.with_gradients_by(columns)
        super().__post_init__()
        affordable = MAX_NOISE_PER_BLOCK // max(1, self.n_rows * largest_of(self.noise_of_row))
        self.n_moves = int(np.clip(affordable, 1, self.most_moves))
        self.n_groups, self.row_data = _per_row(self.data, self.n_rows)

    def _compile(self) -> Compiled:
        path, n_rows = self.given_path, self._together(self.n_rows)
        return self._compiled_loop(
            self._step(path),
            self.initial_state(np.zeros((n_rows, path.n_dims))),
            self._resting(n_rows),
            (lambda: self._step(replace(path, how="row"))) if path.may_turn else None,
            one_by_one=True,
        )

    def given(self, data: np.ndarray, n_rows: int) -> "Block":
        """The same compiled moves for ``n_rows`` rows in equal groups, with data (groups, D)."""
        self.compile()  # which the copy then has
        n_groups, row_data = _per_row(data, n_rows)
        return self.changed(n_groups=n_groups, row_data=row_data)

    def limited(self, n_bytes: int) -> "Block":
        """The same moves, of as many rows together as these bytes have room for, one at least."""
        # counted is all that is computed of a row, as if nothing were freed or fused, and its noise
        of_state = 8 * (
            8 * self.given_path.n_dims + self.n_moves * 2 * largest_of(self.noise_of_row)
        )
        of_row = self.given_path.bytes_of_a_row() + of_state
        if of_row > n_bytes:
            raise ValueError(
                f"max_memory leaves {n_bytes:,} bytes to a chain, but one particle of this model "
                f"takes up to {of_row:,}: give more, or use fewer cores"
            )
        return self.changed(most_rows=n_bytes // of_row)

    def within_caches(self) -> "Block":
        """The same moves, of fewer rows together where the model has much data."""
        if self.row_data:
            return self
        most_rows = self.given_path.rows_within_caches(self.n_rows)
        few_enough = most_rows >= self._together(self.n_rows)
        return self if few_enough else self.changed(most_rows=most_rows)

    def _step(self, path: AnnealingPath) -> Step:
        state = symbolic_state(path.n_dims)
        move = Move(
            beta=pt.dscalar("beta"),
            step_size=pt.dscalar("step_size"),
            scale=pt.tensor("scale", dtype="float64", shape=self.scale_shape),
            refreshment=pt.dscalar("refreshment"),
        )
        noise = symbolic_noise(self.noise_of_row)
        walked, data = path.with_inputs()
        new, info = self.kernel.step(walked, state, move, noise)
        return Step(
            state=leaves(state),
            sequences=leaves((move, noise)),
            constants=[*data, *path.parameters],
            new_state=leaves(new),
            traced=leaves(Trace(new.evaluation.log_ratio, info.acceptance_rate)),
        )

    def portions(self, state: KernelState) -> list[KernelState]:
        """Rows in portions of ``n_rows``; those with data in one."""
        n = len(state.position)
        if self.row_data or n <= self.n_rows:
            return [state]
        starts = range(0, n, self.n_rows)
        return [rows_of(state, slice(first, first + self.n_rows)) for first in starts]

    def _still_moves(self, n_moves: int) -> Move:
        """Moves at beta = 0 that stay where they are."""
        zeros, scale = np.zeros(n_moves), np.ones((n_moves, *self.scale_shape))
        return Move(beta=zeros, step_size=zeros, scale=scale, refreshment=zeros)

    def log_target(self, position: np.ndarray) -> np.ndarray:
        """Log target of rows (n, d), with -inf for NaN, shape (n,)."""
        return self.target_and_gradient(position)[0]

    def densities(self, position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log reference and log ratio of rows (n, d), NaN and infinities too, shape (n,) each."""
        return self.evaluated(position)[:2]

    def target_and_gradient(self, position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log target of rows (n, d), with -inf for NaN, and its gradients as they are (n, d)."""
        evaluation = self.evaluated(position)
        with np.errstate(invalid="ignore", over="ignore"):
            value = np.add(evaluation.log_reference, evaluation.log_ratio)
            slope = np.add(evaluation.grad_log_reference, evaluation.grad_log_ratio)
        return np.where(np.isnan(value), -np.inf, value), slope

    def evaluated(self, position: np.ndarray) -> Evaluation:
        """The path at rows (n, d), which stay where they are."""
        return self.run(self.initial_state(position), self._still_moves(1), None)[0].evaluation

    def run(
        self, state: KernelState, moves: Move, rng: np.random.Generator | None
    ) -> tuple[KernelState, Trace]:
        """Make at most ``n_moves`` moves, rows in portions; the noise is fresh with a generator."""
        portions = self.portions(state)
        sizes = [len(portion.position) for portion in portions]
        states, trace = self.launch(portions, sizes, moves, rng)
        pairs = zip(states, sizes, strict=True)
        return joined([rows_of(state, slice(size)) for state, size in pairs]), trace()

    def launch(
        self,
        portions: Sequence[KernelState],
        sizes: Sequence[int],
        moves: Move,
        rng: np.random.Generator | None,
    ) -> tuple[list[KernelState], Callable[[], Trace]]:
        """As `run` of portions of so many rows, and copies of the last; a function waits for it."""
        pairs = zip(portions, sizes, strict=True)
        states, waits = zip(*(self._launch(*pair, moves, rng) for pair in pairs), strict=True)
        return list(states), lambda: joined([wait() for wait in waits], axis=1)

    def _launch(
        self, state: KernelState, n_rows: int, moves: Move, rng: np.random.Generator | None
    ) -> tuple[KernelState, Callable[[], Trace]]:
        n_requested = len(moves.beta)
        compiled = self.compiled.of_steps(1 if self.is_brief else n_requested)
        # JAX would compile anew for fewer rows than usual
        is_padded = compiled.backend == "jax" and not self.row_data
        usual = self._together(self.n_rows) if is_padded else 0
        n_computed = max(n_rows, usual)
        if rng is None:
            of_moves = self._kept_at_rest(self._together(n_computed))
        else:
            source = generator_of_noise(compiled.backend, rng)
            n_drawn = n_rows if source is rng else n_computed
            noise = self.kernel.draw_noise(source, self.n_moves, n_drawn, self.given_path.n_dims)
            noise = lengthened(noise, n_computed, axis=1)
            moves = lengthened(moves, self.n_moves, axis=0)
            of_moves = [*along_rows(moves, None), *along_rows(noise, 1)]
        # or shortened, where the block before was JAX's and this one is a single move by NumPy
        state = lengthened(state, n_computed, axis=0)
        state, traced = self._launched(state, of_moves, n_requested, n_computed, compiled)

        def trace() -> Trace:
            return Trace(*(np.asarray(out)[:n_requested, :n_rows] for out in traced))

        return state, trace

    def _resting(self, n_rows: int) -> Arguments:
        """Arguments of moves of rows that stay where they are, whatever their noise."""
        noise = lengthened(lengthened(self.noise_of_row, self.n_moves, axis=0), n_rows, axis=1)
        return [*along_rows(self._still_moves(self.n_moves), None), *along_rows(noise, 1)]

    def _kept_at_rest(self, n_rows: int) -> Arguments:
        """The same, made once and left where the model is computed."""
        n_known, known = self.at_rest
        if n_known < n_rows:
            known = [(self.compiled.left(array), axis) for array, axis in self._resting(n_rows)]
            self.at_rest = n_known, known = n_rows, known
        if n_known == n_rows:
            return known
        return [(array if axis is None else array[:, :n_rows], axis) for array, axis in known]


def _per_row(data: np.ndarray | None, n_rows: int) -> tuple[int, list[np.ndarray]]:
    """Number of groups, and the data (groups, D) repeated for each row of a group."""
    if data is None:
        return 1, []
    return len(data), [np.repeat(data, n_rows // len(data), axis=0).astype(float)]
