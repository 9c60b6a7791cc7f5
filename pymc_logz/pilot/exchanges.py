"""Variables whose entries may be exchanged, as means of a mixture whose groups have no names.

The posterior has then as many copies of each mode as there are orders of the entries, and a pilot
of some hundred rows may lose one of them by chance. Each copy is as good as any other: where
exchanging entries changes neither density, rows of a pilot are dealt out over all orders.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from pymc_logz.runners.block import Block

N_COMPARED = 4
"""Rows at which densities are compared: any one of them tells as a rule."""


def reordered(
    block: Block, columns: Mapping[str, np.ndarray], rows: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Rows (n, d) whose entries are in random order, where densities are the same in any order.

    Entries along the first axis of ``columns``, those that each variable takes in a row, are
    exchanged: of all variables that have as many, or of one alone. ``block`` moved the rows.
    """
    position = rows.copy()
    candidates = [[own for _, own in those] for those in exchangeable(columns)]
    for exchanged in _that_change_nothing(block, position, candidates):
        k = len(exchanged[0])
        orders = rng.permuted(np.tile(np.arange(k), (len(position), 1)), axis=1)
        for own in exchanged:
            taken = np.take_along_axis(position[:, own], orders[:, :, None], axis=1)
            position[:, own] = taken
    return position


def exchangeable(columns: Mapping[str, np.ndarray]) -> Iterator[list[tuple[str, np.ndarray]]]:
    """Variables whose entries may be exchanged together: all of one length, and each alone.

    Each is its name, and its columns of a row, shape (k, entries).
    """
    by_length: dict[int, list[tuple[str, np.ndarray]]] = {}
    for name, own in columns.items():
        if own.ndim and len(own) > 1:
            by_length.setdefault(len(own), []).append((name, own.reshape(len(own), -1)))
    for variables in by_length.values():
        yield variables
        if len(variables) > 1:
            yield from ([one] for one in variables)


def are_the_same(values: np.ndarray, others: np.ndarray, rounding: float = 1e-9) -> np.ndarray:
    """Whether densities differ by rounding only; NaN, as of infinite ones, is no agreement.

    That is beside one and the density itself.
    """
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(others - values) <= rounding * (1 + np.abs(values)))


def _that_change_nothing(
    block: Block, position: np.ndarray, candidates: list[list[np.ndarray]]
) -> Iterator[list[np.ndarray]]:
    """Those after which both densities are the same, whatever the order."""
    if not candidates or block.row_data:
        return
    tried = position[:: max(1, len(position) // N_COMPARED)][:N_COMPARED]
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
    same = [bool(are_the_same(before, one).all()) for one in after]
    for exchanged, first, second in zip(candidates, same[::2], same[1::2], strict=True):
        if first and second:
            yield exchanged
