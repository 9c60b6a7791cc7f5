"""Moves of many rows that are compiled once: what blocks that anneal and that temper share."""

import copy
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np

from pymc_logz.errors import says_if_interrupted
from pymc_logz.graphs.compiling import Compiled
from pymc_logz.graphs.functions import settings_key
from pymc_logz.graphs.loops import Step, compile_loop
from pymc_logz.kernels.base import Kernel, KernelState
from pymc_logz.paths.geometric import AnnealingPath, DrawRows, Evaluation
from pymc_logz.runners.arrays import along_rows, filled, joined, leaves, noise_of_row

Arguments = list[tuple[Any, int | None]]
"""Of compiled moves, each with the axis along which its rows lie; None if all rows share it."""


Report = Callable[[int], bool | None]
"""Told of the moves of each block; a chain goes no further for now where the answer is true."""


class Stopwatch:
    """Seconds of the stages of a run, and evaluations, by the attributes of a result for them."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._done: list[int] = []
        self._began = time.perf_counter()

    def end(self, stage: str, work: "Work | None" = None) -> None:
        """Give a stage the time since the last end, and a pilot or a run its ``work``."""
        now = time.perf_counter()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._began
        self._began = now
        if work is not None:
            self._done.append(work.done)

    def cost(self, block: "MovesOfRows") -> dict[str, float]:
        """Seconds, and evaluations by a block: of the pilot, of the run, of checks after it."""
        return {**self.seconds, **block.work.record(block.kernel, *self._done or [0])}


class Work:
    """Number of evaluations of the model at one row each, which all threads of a run add to.

    Those of moves that only fill up a block count too, what compiling calls once does not.
    """

    def __init__(self) -> None:
        self.done, self.n_recalled, self._lock = 0, 0, threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process counts for itself."""
        return Work, ()

    def add(self, n_evaluations: int) -> None:
        """Count more of them."""
        with self._lock:
            self.done += n_evaluations

    def recall(self, n_evaluations: int) -> None:
        """Count what was done at another time, and kept."""
        self.add(n_evaluations)
        self.n_recalled += n_evaluations

    def record(self, kernel: Kernel, *ends: int) -> dict[str, int]:
        """Evaluations of the pilot, the run and checks after it; what was done at their ends."""
        unit = "row_gradients" if kernel.needs_gradient else "row_evaluations"
        stages = zip(("pilot", "run", "check"), pairwise([0, *ends, self.done]), strict=False)
        return {f"{stage}_{unit}": end - begin for stage, (begin, end) in stages}


@dataclass(eq=False)
class MovesOfRows:
    """A fixed number of moves of a batch of rows along a path, compiled when first needed.

    Evaluations are counted in ``work``, and at most ``most_rows`` rows are computed together, or
    any number of them.
    """

    given_path: AnnealingPath
    """The path to be walked; see also `path`."""
    kernel: Kernel
    n_rows: int = 256
    compile_kwargs: Mapping[str, Any] | None = None
    work: Work = field(default_factory=Work)
    most_rows: int | None = None
    n_moves: int = field(init=False)
    row_data: Sequence[np.ndarray] = field(init=False, repr=False)
    """Data that rows bring along, shape (n, D), if any."""
    at_hand: tuple[Arguments, Arguments] = field(default=([], []), repr=False)
    """What all calls have been given, and the same where the function computes."""
    draws_reference: ClassVar[bool] = False
    """Whether the moves need draws of the reference."""

    def __post_init__(self) -> None:
        n_dims = self.given_path.n_dims
        # evaluations of the path at each row
        self.cost_of_move = self.kernel.evaluations_per_move(n_dims)
        # of one move of one row; the largest array decides how many moves memory has room for
        self.noise_of_row = noise_of_row(self.kernel, n_dims)
        self.scale_shape = (n_dims,) * (2 if self.kernel.dense else 1)

    def compile(self) -> None:
        """Compile now, rather than when the moves are first made."""
        self.compiled  # noqa: B018

    @cached_property
    @says_if_interrupted("the model was being compiled")
    def compiled(self) -> Compiled:
        """The moves as a function; those that are alike on one path share it."""
        return self.given_path.made_once((type(self), *self.settings), self._compile)

    @property
    def settings(self) -> tuple[Any, ...]:
        """What the function depends on besides the path."""
        return self.kernel, self.n_moves, settings_key(self.compile_kwargs)

    @property
    def follows_whole_gradient(self) -> bool:
        """Whether moves follow gradients, and these are by all entries of a row."""
        return self.kernel.needs_gradient and self.given_path.columns is None

    @cached_property
    def path(self) -> AnnealingPath:
        """The path that is walked: the one given, its rows batched as could be compiled."""
        path = self.given_path
        return replace(path, how="row") if self.compiled.is_alternative else path

    def changed(self, **given: Any) -> Self:
        """The same moves, and all that is compiled of them, with other attributes."""
        moves = copy.copy(self)
        vars(moves).update(given)
        return moves

    def along(self, values: Sequence[Any], *, sample_reference: DrawRows) -> Self:
        """The same compiled moves at these values of the path's parameters."""
        path = self.path.along(values, sample_reference)
        return self.changed(given_path=path, path=path)

    def counted(self, work: Work) -> Self:
        """The same moves, whose evaluations are counted elsewhere."""
        self.compile()
        return self.changed(work=work)

    def _compile(self) -> Compiled:
        raise NotImplementedError

    @staticmethod
    def initial_state(position: np.ndarray) -> KernelState:
        """State that has not been evaluated yet."""
        # its density is zero: the first move, of step size 0, evaluates the start, and is accepted
        position = np.ascontiguousarray(position, dtype=float)
        flat = np.full(position.shape[0], -np.inf)
        zeros = np.zeros_like(position)
        return KernelState(position, zeros, Evaluation(flat, flat, zeros, zeros))

    def _together(self, n_rows: int) -> int:
        """Rows that are computed together, out of so many."""
        return n_rows if self.most_rows is None else min(n_rows, self.most_rows)

    def _arguments(self, state: Any, of_moves: Arguments, left: bool = False) -> Arguments:
        """All that the compiled moves are called with; what is the same each time may be left."""
        same = [*along_rows(self.row_data, 0), *along_rows(self.given_path.values, None)]
        return [*along_rows(state, 0), *of_moves, *(self._left(same) if left else same)]

    def _left(self, same: Arguments) -> Arguments:
        """Arguments of all calls where the function computes, brought there once."""
        known, left = self.at_hand
        if [id(array) for array, _ in known] != [id(array) for array, _ in same]:
            left = [(self.compiled.left(array), axis) for array, axis in same]
            self.at_hand = same, left
        return left

    def _compiled_loop(
        self,
        step: Step,
        state: Any,
        of_moves: Arguments,
        alternative: Callable[[], Step] | None = None,
        **how: bool,
    ) -> Compiled:
        """Moves by this step, or by another one, that were tried on some of the rows."""
        some = np.arange(self._together(self.n_rows))
        trial = _rows_of(self._arguments(state, of_moves), some)
        return compile_loop(step, self.n_moves, self.compile_kwargs, trial, alternative, **how)

    def _launched[State](
        self,
        state: State,
        of_moves: Arguments,
        n_requested: int,
        n_rows: int,
        compiled: Compiled | None = None,
    ) -> tuple[State, list[Any]]:
        """A state of so many rows after as many moves as asked for, and what these traced."""
        n_state, n_together = len(leaves(state)), self._together(n_rows)
        call = partial((compiled or self.compiled).call, np.array(n_requested))
        arguments = self._arguments(state, of_moves, n_together == n_rows)
        if n_together == n_rows:
            outputs = list(call(*(array for array, _ in arguments)))
            self.work.add(n_requested * n_rows * self.cost_of_move)
            return filled(state, outputs[:n_state]), outputs[n_state:]
        states, traces = [], []
        # each portion is waited for before the next one begins
        for first in range(0, n_rows, n_together):
            found = call(*_rows_of(arguments, np.arange(first, first + n_together)))
            there = np.arange(min(n_together, n_rows - first))
            states.append(_rows_of(along_rows(found[:n_state], 0), there))
            traces.append(_rows_of(along_rows(found[n_state:], 1), there))
        self.work.add(n_requested * len(states) * n_together * self.cost_of_move)
        return filled(state, joined(states)), joined(traces, axis=1)


def _rows_of(arguments: Arguments, chosen: np.ndarray) -> list[Any]:
    """Copies of rows of arrays; beyond the last one it is taken again."""
    return [
        array if axis is None else np.take(np.asarray(array), chosen, axis, mode="clip")
        for array, axis in arguments
    ]


def in_turn[Trace](
    launch: Callable[[slice], Callable[[], Trace]],
    n_made: int,
    n_total: int,
    n_moves: int,
    report: Report | None,
) -> Iterator[tuple[slice, Trace]]:
    """What blocks of moves came to, each waited for while the next one is computed."""
    waiting: tuple[slice, Callable[[], Trace]] | None = None
    stops: bool | None = False
    while n_made < n_total and not stops:
        part = slice(n_made, min(n_made + n_moves, n_total))
        trace = launch(part)
        if waiting is not None:
            yield waiting[0], waiting[1]()
        waiting, n_made = (part, trace), part.stop
        if report is not None:
            stops = report(part.stop - part.start)
    if waiting is not None:
        yield waiting[0], waiting[1]()
