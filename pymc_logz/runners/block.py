"""A block: many kernel moves compiled into one scan, with noise drawn by NumPy."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_logz.graphs.compiling import compile_function
from pymc_logz.kernels.base import Kernel, KernelState, Move
from pymc_logz.paths.geometric import AnnealingPath, Evaluation, log_density
from pymc_logz.runners.packing import (
    filled,
    largest_of,
    leaves,
    mapped,
    noise_of_row,
    symbolic_noise,
    symbolic_state,
)
from pymc_logz.runners.transport import Maps, still_maps

MOVES_PER_BLOCK = 32
"""Enough to make the cost of a call small beside that of its moves."""
MAX_NOISE_PER_BLOCK = 2**22
"""Numbers in the largest array of noise, 32 MB."""


class Trace(NamedTuple):
    """What happened to n rows over m moves."""

    log_ratio: np.ndarray
    """Log ratio after each move, shape (m, n)."""
    acceptance_rate: np.ndarray
    """Acceptance probability of each move, shape (m, n)."""
    log_increment: np.ndarray | None = None
    """Log of the weight that each map brought, shape (m, n), if the block has maps."""
    position: np.ndarray | None = None
    """Rows after each move and before its map, shape (m, n, d), if the block has maps."""


class Block:
    """A fixed number of kernel moves over a batch of rows, compiled once.

    A shorter list of moves is padded with moves of step size 0, which stay where they are.

    Parameters
    ----------
    path
        What is walked.
    kernel
        How it is walked.
    n_rows
        Rows that calls will usually have; other numbers work too.
    compile_kwargs
        Keyword arguments of ``pytensor.function``.
    data
        What groups of rows bring along, shape (groups, D), if the path depends on it; see `given`.
    transports
        Whether each move is followed by an affine map to the next beta, and an evaluation there.
    """

    def __init__(
        self,
        path: AnnealingPath,
        kernel: Kernel,
        n_rows: int = 256,
        compile_kwargs: Mapping[str, Any] | None = None,
        data: np.ndarray | None = None,
        transports: bool = False,
    ) -> None:
        self.transports, self.n_rows, self.compile_kwargs = transports, n_rows, compile_kwargs
        self.path = path if kernel.needs_gradient else path.without_gradients()
        self.kernel = kernel
        # of one move of one row; the largest array decides how many moves memory has room for
        self.noise_of_row = noise_of_row(kernel, path.n_dims)
        affordable = MAX_NOISE_PER_BLOCK // max(1, n_rows * largest_of(self.noise_of_row))
        self.n_moves = int(np.clip(affordable, 1, MOVES_PER_BLOCK))
        self.scale_shape = (path.n_dims,) * (2 if kernel.dense else 1)
        self.map_shape = path.n_dims, bool(kernel.dense)
        self.n_groups, self.row_data = _per_row(data, n_rows)
        inputs, outputs = self._graph()
        rng = np.random.default_rng(0)
        trial = self.initial_state(path.sample_reference(rng, n_rows))
        moves = self._still_moves(self.n_moves)
        noise = kernel.draw_noise(rng, self.n_moves, n_rows, path.n_dims)
        can_turn = self.path.how == "auto" and self.path.batching == "vector"
        self.compiled = compile_function(
            inputs,
            outputs,
            compile_kwargs,
            leaves((trial, moves, noise, self._maps(None), self.row_data)),
            self._graph_by_rows if can_turn else None,
        )
        if self.compiled.is_alternative:
            self.path = replace(self.path, how="row")

    def without_maps(self) -> "Block":
        """The same moves compiled without maps, at half the evaluations."""
        return Block(self.path, self.kernel, self.n_rows, self.compile_kwargs)

    def given(self, data: np.ndarray, n_rows: int) -> "Block":
        """The same compiled moves for rows in groups of equal size, each with data of its own.

        Parameters
        ----------
        data
            Shape (groups, D).
        n_rows
            Rows of all groups together, those of a group next to each other.
        """
        block = copy.copy(self)
        block.n_groups, block.row_data = _per_row(data, n_rows)
        return block

    def _graph_by_rows(self) -> tuple[list[Any], list[Any]]:
        """The same block with rows batched the other way."""
        return self._graph(replace(self.path, how="row"))

    def _graph(self, path: AnnealingPath | None = None) -> tuple[list[Any], list[Any]]:
        path = self.path if path is None else path
        d, m = self.path.n_dims, self.n_moves
        state = symbolic_state(d)
        moves = Move(
            beta=pt.tensor("beta", dtype="float64", shape=(m,)),
            step_size=pt.tensor("step_size", dtype="float64", shape=(m,)),
            scale=pt.tensor("scale", dtype="float64", shape=(m, *self.scale_shape)),
            refreshment=pt.tensor("refreshment", dtype="float64", shape=(m,)),
        )
        noise = symbolic_noise(self.noise_of_row, m)
        maps = mapped(
            lambda part: pt.tensor("map", dtype="float64", shape=np.shape(part)), self._maps(None)
        )
        data = path.row_data_inputs()

        def step(*args: Any) -> list[Any]:
            move, draws, affine, old, row_data = filled((moves, noise, maps, state, data), args)
            walked = path.given(*row_data) if row_data else path
            new, info = self.kernel.step(walked, old, move, draws)
            happened = Trace(new.evaluation.log_ratio, info.acceptance_rate)
            if affine is not None:
                before = new
                new, log_increment = carried(walked, before, affine)
                happened = Trace(*happened[:2], log_increment, before.position)
            return leaves((new, happened))

        n_traced = 2 if maps is None else 4
        traces = pytensor.scan(
            step,
            sequences=leaves((moves, noise, maps)),
            outputs_info=[*leaves(state), *[None] * n_traced],
            non_sequences=data,
            return_updates=False,
            strict=True,
        )
        ends = [trace[-1] for trace in traces[:-n_traced]]
        return leaves((state, moves, noise, maps, data)), [*ends, *traces[-n_traced:]]

    def _maps(self, maps: Maps | None) -> Maps | None:
        """Maps of all moves, of which a block without has none; rows stay if none are given."""
        if not self.transports:
            return None
        still = still_maps(np.zeros(self.n_moves + 1), *self.map_shape)
        if maps is None:
            return still
        m = len(maps.beta)
        return Maps(
            *(np.concatenate([part, rest[m:]]) for part, rest in zip(maps, still, strict=True))
        )

    def initial_state(self, position: np.ndarray) -> KernelState:
        """State that has not been evaluated yet.

        Its density is zero, so any move accepts its proposal: the first one, of step size 0,
        evaluates the start.
        """
        position = np.ascontiguousarray(position, dtype=float)
        flat = np.full(position.shape[0], -np.inf)
        zeros = np.zeros_like(position)
        return KernelState(position, zeros, Evaluation(flat, flat, zeros, zeros))

    def _still_moves(self, n_moves: int) -> Move:
        """Moves at beta = 0 that stay where they are."""
        zeros, scale = np.zeros(n_moves), np.ones((n_moves, *self.scale_shape))
        return Move(beta=zeros, step_size=zeros, scale=scale, refreshment=zeros)

    def evaluate(self, position: np.ndarray) -> np.ndarray:
        """Log ratio of rows (n, d) as it is, NaN and infinities included, shape (n,)."""
        state = self.initial_state(position)
        still = self._still_moves(1)
        _, trace = self.run(state, still, np.random.default_rng(0))
        return trace.log_ratio[0]

    def run(
        self, state: KernelState, moves: Move, rng: np.random.Generator
    ) -> tuple[KernelState, Trace]:
        """Make at most ``n_moves`` moves, without maps, with fresh noise.

        Returns
        -------
        KernelState, Trace
            Where the rows are, and what happened on the way, over the moves asked for.
        """
        state, trace = self.launch(state, moves, rng)
        return state, trace()

    def launch(
        self,
        state: KernelState,
        moves: Move,
        rng: np.random.Generator,
        maps: Maps | None = None,
    ) -> tuple[KernelState, Callable[[], Trace]]:
        """As `run`, without waiting where the backend computes in the background, as JAX does.

        ``maps`` follow the moves, one each, in a block that ``transports``.

        Returns
        -------
        KernelState, callable
            A state that can be launched from, and a function that waits for the trace.
        """
        n_asked = len(moves.beta)
        noise = self.kernel.draw_noise(rng, self.n_moves, *np.shape(state.position))
        moves = _pad(moves, self.n_moves)
        carry = self._maps(maps)
        arguments = leaves((state, moves, noise, carry, self.row_data))
        outputs = iter(self.compiled.call(*arguments))
        state, traced = filled(state, outputs), list(outputs)

        def trace() -> Trace:
            return Trace(*(np.asarray(out)[:n_asked] for out in traced))

        return state, trace


def carried(
    path: AnnealingPath, state: KernelState, maps: Maps
) -> tuple[KernelState, TensorVariable]:
    """Rows carried to the next beta, and the log of the weight that this brings, shape (n,).

    The weight is the density at the image times the volume of the map, over the density before.
    It is zero for rows of no density, and NaN where the log ratio of the image is.
    """
    matrix = maps.matrix
    moved = state.position * matrix if matrix.ndim == 1 else state.position @ matrix.T
    position = moved + maps.shift
    # a model of constants only may be worth numbers of single precision
    evaluation = Evaluation(*(value.astype("float64") for value in path.evaluate(position)))
    before = log_density(state.evaluation, maps.beta_before)
    log_increment = log_density(evaluation, maps.beta) - before + maps.log_volume
    log_increment = pt.switch(pt.isnan(evaluation.log_ratio), np.nan, log_increment)
    log_increment = pt.switch(pt.eq(before, -np.inf), -np.inf, log_increment)
    return KernelState(position, state.momentum, evaluation), log_increment


def _per_row(data: np.ndarray | None, n_rows: int) -> tuple[int, list[np.ndarray]]:
    """Number of groups, and the data (groups, D) repeated for each row of a group."""
    if data is None:
        return 1, []
    return len(data), [np.repeat(data, n_rows // len(data), axis=0).astype(float)]


def _pad(moves: Move, length: int) -> Move:
    """Repeat the last move with step size 0, which stays where it is."""
    missing = length - len(moves.beta)
    if missing == 0:
        return moves
    still = Move(*(np.repeat(np.asarray(part)[-1:], missing, axis=0) for part in moves))
    still = still._replace(step_size=np.zeros(missing))
    return Move(*(np.concatenate(pair) for pair in zip(moves, still, strict=True)))
