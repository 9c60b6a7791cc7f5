"""Calls of compiled moves in portions of rows, where all at once would take too much memory."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pymc_logz.runners.packing import leaves, lengthened


def rows_together(n_rows: int, most_rows: int | None) -> int:
    """Rows that are computed together, out of so many."""
    return n_rows if most_rows is None else min(n_rows, most_rows)


def call_by_rows(
    call: Callable[..., Sequence[Any]],
    n_asked: int,
    arguments: Sequence[tuple[Any, int | None]],
    n_rows: int,
    n_state: int,
    most_rows: int | None,
) -> tuple[list[Any], int]:
    """What compiled moves return for all rows, and how many rows were computed for that.

    Parameters
    ----------
    call
        The compiled moves.
    n_asked
        How many moves to make.
    arguments
        Arrays, and the axis of each along which rows lie; None if all rows share it.
    n_rows
        Number of rows.
    n_state
        How many of the outputs are a state, whose rows lie along the first axis; of all others,
        which are traced, along the second.
    most_rows
        Rows of one call at most; None for all. Of more, a portion is waited for before the next
        one begins.
    """
    asked = np.array(n_asked)
    if most_rows is None or n_rows <= most_rows:
        return list(call(asked, *(array for array, _ in arguments))), n_rows
    columns: list[list[np.ndarray]] = []
    for first in range(0, n_rows, most_rows):
        part = slice(first, min(first + most_rows, n_rows))
        given = [_portion(array, axis, part, most_rows) for array, axis in arguments]
        n = part.stop - part.start
        # copied, so that nothing of the padding stays
        columns.append(
            [
                np.array(np.asarray(out)[(slice(None),) * (i >= n_state) + (slice(n),)])
                for i, out in enumerate(call(asked, *given))
            ]
        )
    outputs = [
        np.concatenate(parts, axis=int(i >= n_state))
        for i, parts in enumerate(zip(*columns, strict=True))
    ]
    return outputs, len(columns) * most_rows


def _portion(array: Any, axis: int | None, part: slice, length: int) -> Any:
    """Some rows of an array, the last of them again until there are so many."""
    if axis is None:
        return array
    chosen = np.asarray(array)[(slice(None),) * axis + (part,)]
    return lengthened(chosen, length, axis)


def along_rows(record: Any, axis: int | None) -> list[tuple[Any, int | None]]:
    """Arrays of a record, all with their rows along one axis."""
    return [(array, axis) for array in leaves(record)]
