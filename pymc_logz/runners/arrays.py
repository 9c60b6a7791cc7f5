"""Records of arrays as the flat lists that compiled functions take, in portions of rows."""

from collections.abc import Callable, Iterable, Sequence
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
    """A record of the same nesting made of the next arrays, in the order of `leaves`."""
    if record is None:
        return record
    rest = iter(values)
    if not isinstance(record, tuple | list):
        return next(rest)
    kind: Any = type(record)
    make: Callable[[list[Any]], R] = getattr(kind, "_make", kind)
    return make([filled(part, rest) for part in record])


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
    columns = zip(*map(leaves, states), strict=True)
    return filled(states[0], (np.concatenate(list(map(np.asarray, same))) for same in columns))


def noise_of_row(kernel: Kernel, n_dims: int) -> Any:
    """Noise of one move of one row, which has the nesting of all noise; refused without axes."""
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


def rows_together(n_rows: int, most_rows: int | None) -> int:
    """Rows that are computed together, out of so many."""
    return n_rows if most_rows is None else min(n_rows, most_rows)


def call_by_rows(
    call: Callable[..., Sequence[Any]],
    n_moves: int,
    arguments: Sequence[tuple[Any, int | None]],
    n_rows: int,
    n_state: int,
    most_rows: int | None,
) -> tuple[list[Any], int]:
    """What compiled moves return for all rows, and how many rows were computed for that.

    Each argument comes with the axis along which rows lie; None if all rows share it. The first
    ``n_state`` outputs are a state, whose rows lie along the first axis; those of all others, which
    are traced, along the second. Of more than ``most_rows`` (None: of any number) a portion is
    waited for before the next one begins.
    """
    first_argument = np.array(n_moves)
    if most_rows is None or n_rows <= most_rows:
        return list(call(first_argument, *(array for array, _ in arguments))), n_rows
    columns: list[list[np.ndarray]] = []
    for first in range(0, n_rows, most_rows):
        part = slice(first, min(first + most_rows, n_rows))
        # the last row again until there are so many
        given = [
            array
            if axis is None
            else lengthened(np.asarray(array)[(slice(None),) * axis + (part,)], most_rows, axis)
            for array, axis in arguments
        ]
        n = part.stop - part.start
        # copied, so that nothing of the padding stays
        columns.append(
            [
                np.array(np.asarray(out)[(slice(None),) * (i >= n_state) + (slice(n),)])
                for i, out in enumerate(call(first_argument, *given))
            ]
        )
    outputs = [
        np.concatenate(parts, axis=int(i >= n_state))
        for i, parts in enumerate(zip(*columns, strict=True))
    ]
    return outputs, len(columns) * most_rows


def along_rows(record: Any, axis: int | None) -> list[tuple[Any, int | None]]:
    """Arrays of a record, all with their rows along one axis."""
    return [(array, axis) for array in leaves(record)]
