"""Records of arrays as the flat lists that scans and compiled functions take, and back by name."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt

from pymc_logz.kernels.base import Kernel, KernelState
from pymc_logz.paths.geometric import Evaluation


def leaves(record: Any) -> list[Any]:
    """All arrays of nested tuples and lists, in their order; None stands for no array."""
    if record is None:
        return []
    if isinstance(record, tuple | list):
        return [leaf for part in record for leaf in leaves(part)]
    return [record]


def filled[R](record: R, values: Iterable[Any]) -> R:
    """A record of the same nesting made of other arrays, in the order of `leaves`.

    Of an iterator it takes as many values as it needs, and leaves the rest to whoever comes next.
    """
    return _filled(record, iter(values))


def _filled(record: Any, values: Iterator[Any]) -> Any:
    if record is None:
        return None
    if not isinstance(record, tuple | list):
        return next(values)
    parts = [_filled(part, values) for part in record]
    return type(record)(*parts) if hasattr(record, "_fields") else type(record)(parts)


def mapped[R](function: Callable[[Any], Any], record: R) -> R:
    """A record of the same nesting, a function applied to each array."""
    return filled(record, map(function, leaves(record)))


def lengthened(array: Any, length: int, axis: int) -> np.ndarray:
    """An array with its last row repeated, up to so many rows."""
    array = np.asarray(array)
    missing = length - array.shape[axis]
    if missing == 0:
        return array
    last = np.take(array, [-1], axis=axis)
    return np.concatenate([array, np.repeat(last, missing, axis=axis)], axis=axis)


def rows_of(states: Sequence[KernelState]) -> list[int]:
    """Number of rows of each portion."""
    return [len(state.position) for state in states]


def trimmed(states: Sequence[KernelState], sizes: Sequence[int]) -> list[KernelState]:
    """Portions of rows without what they were filled up by, in NumPy arrays: waits for them."""
    return [
        filled(state, [np.asarray(part)[:size] for part in leaves(state)])
        for state, size in zip(states, sizes, strict=True)
    ]


def joined(states: Sequence[KernelState]) -> KernelState:
    """Portions of rows as one, in NumPy arrays."""
    parts = (leaves(state) for state in states)
    columns = (
        np.concatenate([np.asarray(part) for part in same]) for same in zip(*parts, strict=True)
    )
    return filled(states[0], columns)


def noise_of_row(kernel: Kernel, n_dims: int) -> Any:
    """Noise of one move of one row, whose nesting and shapes are those of all noise.

    Raises
    ------
    TypeError
        If the kernel draws something that has no axes for moves and rows.
    """
    noise = kernel.draw_noise(np.random.default_rng(0), 1, 1, n_dims)
    for part in leaves(noise):
        if np.shape(part)[:2] != (1, 1) or part.dtype != np.float64:
            raise TypeError(
                f"draw_noise of {type(kernel).__name__} returned {part!r} for one move of one row; "
                "all that it returns must be float64 arrays whose first two axes are moves and "
                "rows, here (1, 1, ...)"
            )
    return noise


def largest_of(noise: Any) -> int:
    """Numbers in the largest array of the noise of one move of one row."""
    return max((part.size for part in leaves(noise)), default=1)


def symbolic_state(n_dims: int) -> KernelState:
    """Symbolic inputs for a state of any number of rows."""

    def of_rows(name: str) -> Any:
        return pt.matrix(name, dtype="float64", shape=(None, n_dims))

    values = (pt.vector(name, dtype="float64", shape=(None,)) for name in Evaluation._fields[:2])
    gradients = map(of_rows, Evaluation._fields[2:])
    return KernelState(of_rows("position"), of_rows("momentum"), Evaluation(*values, *gradients))


def symbolic_noise(of_row: Any) -> Any:
    """Symbolic inputs for the noise of one move of any number of rows."""
    return mapped(
        lambda part: pt.tensor("noise", dtype="float64", shape=(None, *part.shape[2:])), of_row
    )
