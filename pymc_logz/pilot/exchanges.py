"""Variables whose entries may be exchanged, as means of a mixture whose groups have no names.

The posterior has then as many copies of each mode as there are orders of the entries, and a pilot
of some hundred rows may lose one of them by chance. Each copy is as good as any other: where
exchanging entries changes neither density, rows of a pilot are dealt out over all orders.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from pymc_logz.pilot.population import TargetRows
from pymc_logz.runners.block import Block

N_TRIED = 4
"""Rows at which densities are compared: any one of them tells as a rule."""
TOLERANCE = 1e-9
"""Largest difference, beside one and the density itself, that is rounding."""


def reordered(
    block: Block, shapes: Sequence[tuple[int, ...]], rows: TargetRows, rng: np.random.Generator
) -> TargetRows:
    """Rows whose entries are in a random order, where both densities are the same in any order.

    Entries along the first axis of ``shapes``, those of the variables of a row in their order, are
    exchanged: of all variables that have as many, or of one alone. ``block`` moved the rows.
    """
    position, gradient = rows.position.copy(), rows.gradient.copy()
    for exchanged in _that_change_nothing(block, position, list(_candidates(shapes))):
        k = len(exchanged[0])
        orders = rng.permuted(np.tile(np.arange(k), (len(position), 1)), axis=1)
        for columns in exchanged:
            for table in (position, gradient):
                taken = np.take_along_axis(table[:, columns], orders[:, :, None], axis=1)
                table[:, columns] = taken
    return rows._replace(position=position, gradient=gradient)


def _candidates(shapes: Sequence[tuple[int, ...]]) -> Iterator[list[np.ndarray]]:
    """Columns of variables whose entries are exchanged together, shape (k, entries) each."""
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    by_length: dict[int, list[np.ndarray]] = {}
    for shape, end in zip(shapes, ends, strict=True):
        if shape and shape[0] > 1:
            size = int(np.prod(shape))
            columns = np.arange(end - size, end).reshape(shape[0], -1)
            by_length.setdefault(shape[0], []).append(columns)
    for variables in by_length.values():
        yield variables
        if len(variables) > 1:
            yield from ([one] for one in variables)


def _that_change_nothing(
    block: Block, position: np.ndarray, candidates: list[list[np.ndarray]]
) -> Iterator[list[np.ndarray]]:
    """Those after which both densities are the same, whatever the order."""
    if not candidates or block.row_data:
        return
    tried = position[:: max(1, len(position) // N_TRIED)][:N_TRIED]
    moved = [tried]
    for exchanged in candidates:
        k = len(exchanged[0])
        # two orders that make up all others
        for order in (np.r_[1, 0, 2:k], np.roll(np.arange(k), 1)):
            moved.append(tried.copy())
            for columns in exchanged:
                moved[-1][:, columns] = tried[:, columns[order]]
    densities = np.stack(block.densities(np.concatenate(moved)))
    before, *after = np.split(densities, len(moved), axis=1)
    # NaN, as of infinite densities, is no agreement
    with np.errstate(invalid="ignore"):
        same = [
            bool(np.all(np.abs(one - before) <= TOLERANCE * (1 + np.abs(before)))) for one in after
        ]
    for exchanged, first, second in zip(candidates, same[::2], same[1::2], strict=True):
        if first and second:
            yield exchanged
