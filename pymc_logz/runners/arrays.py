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


def rows_of[R](record: R, chosen: Any) -> R:
    """The rows that indices or a slice choose, in NumPy arrays: waits for them; they may repeat."""
    return mapped(lambda part: np.asarray(part)[chosen], record)


def lengthened[R](record: R, length: int, axis: int) -> R:
    """A record with the last row of each array repeated, up to so many rows."""

    def longer(array: Any) -> Any:
        if array.shape[axis] == length:
            return array
        return np.take(np.asarray(array), np.arange(length), axis, mode="clip")

    return mapped(longer, record)


def joined[R](records: Sequence[R], axis: int = 0) -> R:
    """Records as one, in NumPy arrays: what each has lies one behind the other."""
    columns = zip(*map(leaves, records), strict=True)
    arrays = (np.concatenate(list(map(np.asarray, same)), axis) for same in columns)
    return filled(records[0], arrays)


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


def along_rows(record: Any, axis: int | None) -> list[tuple[Any, int | None]]:
    """Arrays of a record, all with their rows along one axis."""
    return [(array, axis) for array in leaves(record)]
