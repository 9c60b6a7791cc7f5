"""Variables whose entries may be exchanged, as means of a mixture whose groups have no names.

The posterior has then as many copies of each mode as there are orders of the entries, and a pilot
of some hundred rows may lose one of them by chance. Each copy is as good as any other: where
exchanging entries changes neither density, rows of a pilot are dealt out over all orders.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pymc_logz.paths.funnels import Funnel
from pymc_logz.runners.block import Block

N_COMPARED = 4
"""Rows at which densities are compared: any one of them tells as a rule."""


class Exchanged(NamedTuple):
    """A variable whose k entries are exchanged, as values or with all that is theirs."""

    columns: np.ndarray
    """Columns of a row, shape (k, any), or (k - 1, any) of a simplex, whose entries add up to 0."""
    k: int


def in_order(rows: np.ndarray, variables: list[Exchanged], order: np.ndarray) -> np.ndarray:
    """Rows (n, d) with the entries of some variables in an order, shape (k,) or (n, k)."""
    moved = rows.copy()
    for columns, k in variables:
        values = moved[:, columns]
        if k > len(columns):
            values = np.concatenate([values, -values.sum(axis=1, keepdims=True)], axis=1)
        taken = np.broadcast_to(order, (len(moved), k))[:, :, None]
        values = np.take_along_axis(values, taken, axis=1)
        moved[:, columns] = values[:, : len(columns)]
    return moved


def reordered(
    block: Block, columns: Mapping[str, np.ndarray], rows: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Rows (n, d) whose entries are in random order, where densities are the same in any order.

    Entries along the first axis of ``columns``, those that each variable takes in a row, are
    exchanged: of all variables that have as many, or of one alone. ``block`` moved the rows.
    """
    position = rows
    for exchanged in _null_exchanges(block, position, [*exchangeable(columns)]):
        k = exchanged[0].k
        orders = rng.permuted(np.tile(np.arange(k), (len(position), 1)), axis=1)
        position = in_order(position, exchanged, orders)
    return position


def reflected(
    block: Block,
    columns: Mapping[str, np.ndarray],
    rows: np.ndarray,
    rng: np.random.Generator,
    n_moves: int,
) -> np.ndarray:
    """Rows (n, d) after Metropolis moves to other signs: of one entry, of those from it on, or all.

    Each move is of a variable that is drawn anew. A walk of which only the size is seen, for
    instance, has more modes than rows that are resampled keep.
    """
    names, n = list(columns), len(rows)
    sizes = np.array([columns[name].size for name in names])

    def proposed(position: np.ndarray) -> np.ndarray:
        moved, which = position.copy(), rng.choice(len(names), size=n, p=sizes / sizes.sum())
        for i, name in enumerate(names):
            own, chosen = columns[name].ravel(), np.flatnonzero(which == i)
            entry, at = np.arange(own.size), rng.integers(own.size, size=(len(chosen), 1))
            kind = rng.integers(3, size=(len(chosen), 1))
            flips = np.where(kind == 0, entry == at, (kind == 2) | (entry >= at))
            moved[np.ix_(chosen, own)] *= np.where(flips, -1.0, 1.0)
        return moved

    return metropolis(block.log_target, rows, proposed, rng, n_moves)


def slid(
    block: Block, funnel: Funnel, rows: np.ndarray, rng: np.random.Generator, n_moves: int
) -> np.ndarray:
    """Rows (n, d) of a model after Metropolis moves, each along one parent of a linear funnel.

    What follows that parent is scaled about one of the rows that are the narrowest in it, or about
    their mean: these know the middle better than any fit, and rows stay within the support that
    they are in. Exact as rows are many, since middles are chosen from these.
    """
    # a middle that is still on its way is beside the narrow end
    funnel = replace(funnel, lean=np.where(funnel.slope == 0, funnel.lean, 0.0))
    whitened = funnel.whitened(rows)
    spread, n_narrow = funnel.log_spread(whitened), max(1, len(rows) // 16)
    widths = [spread[:, own].sum(axis=1) for own in funnel.slope.T != 0]
    away = whitened * np.exp(spread)
    narrow = np.array([away[np.argsort(width)[:n_narrow]] for width in widths])
    narrow[:, ::2] = narrow.mean(axis=1, keepdims=True)

    def density(position: np.ndarray) -> np.ndarray:
        return block.log_target(funnel.restored(position)) + funnel.log_volume(position)

    def proposed(position: np.ndarray) -> np.ndarray:
        axes = funnel.parents * (2.4 * position.std(axis=0))
        which = rng.integers(len(axes), size=len(rows))
        moved = position + rng.standard_normal((len(rows), 1)) * axes[which]
        middle = narrow[which, rng.integers(n_narrow, size=len(rows))]
        apart = np.exp(-funnel.log_spread(moved)) - np.exp(-funnel.log_spread(position))
        return np.asarray(moved + middle * apart)

    return funnel.restored(metropolis(density, whitened, proposed, rng, n_moves))


def metropolis(
    density: Callable[[np.ndarray], np.ndarray],
    rows: np.ndarray,
    proposed: Callable[[np.ndarray], np.ndarray],
    rng: np.random.Generator,
    n_moves: int,
) -> np.ndarray:
    """Rows (n, d) after so many moves to what is proposed, which is as likely the other way.

    A move that no row accepts is the last one: others would bring as little. A density that is
    infinite comes of rounding, and is zero.
    """
    if not n_moves:
        return rows

    def finite(position: np.ndarray) -> np.ndarray:
        value = density(position)
        return np.where(np.isposinf(value), -np.inf, value)

    position, height = rows, finite(rows)
    for _ in range(n_moves):
        moved = proposed(position)
        value = finite(moved)
        with np.errstate(invalid="ignore"):
            accepted = np.log(rng.random(len(rows))) < value - height
        if not accepted.any():
            break
        position = np.where(accepted[:, None], moved, position)
        height = np.where(accepted, value, height)
    return position


def exchangeable(columns: Mapping[str, np.ndarray]) -> Iterator[list[Exchanged]]:
    """Variables whose entries may be exchanged together: all of one length, and each alone."""
    by_length: dict[int, list[Exchanged]] = {}
    for name, own in columns.items():
        k = own.shape[0] + (own.ndim == 1 and name.endswith("_simplex__")) if own.ndim else 0
        if k > 1:
            by_length.setdefault(k, []).append(Exchanged(own.reshape(own.shape[0], -1), k))
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


def _null_exchanges(
    block: Block, position: np.ndarray, candidates: list[list[Exchanged]]
) -> Iterator[list[Exchanged]]:
    """Those after which both densities are the same, whatever the order."""
    if not candidates or block.row_data:
        return
    tried = position[:: max(1, len(position) // N_COMPARED)][:N_COMPARED]
    moved = [tried]
    for exchanged in candidates:
        k = exchanged[0].k
        # two orders that make up all others
        orders = np.r_[1, 0, 2:k], np.roll(np.arange(k), 1)
        moved += [in_order(tried, exchanged, order) for order in orders]
    densities = np.stack(block.densities(np.concatenate(moved)))
    before, *after = np.split(densities, len(moved), axis=1)
    same = [bool(are_the_same(before, one).all()) for one in after]
    for exchanged, first, second in zip(candidates, same[::2], same[1::2], strict=True):
        if first and second:
            yield exchanged
