"""Draws that keep to one side of a symmetry of their density: of two equal halves one is missing.

Draws relabelled by their order, or made positive by ``abs``, are in one of several copies of the
same mode, and whatever is fitted to them has that one. No row has to be found elsewhere to tell:
where a reflection or an exchange leaves the density as it is, draws are on both sides of it.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from pymc_logz.models.beyond_draws import Densities
from pymc_logz.models.flat import FlatModel
from pymc_logz.pilot.exchanges import N_COMPARED, are_the_same, exchangeable, in_order
from pymc_logz.trees.doubts import Doubt


class Symmetry(NamedTuple):
    """A map of rows that is its own inverse."""

    what: str
    """In words, for a reason."""
    other_side: Callable[[np.ndarray], np.ndarray]
    """From rows (n, d) to rows."""
    side: np.ndarray
    """Contrast whose sign is the side of a row, shape (d,)."""


def symmetry_doubts(
    flat: FlatModel, densities: Densities, draws: np.ndarray, few: float = 0.02
) -> list[Doubt]:
    """Whether draws lack one side of a symmetry of the density.

    Of a hundred draws and more a ``few`` at most are on one side, where half are expected.
    """
    if len(draws) < 100 or flat.sites:
        return []
    one_sided = [
        one
        for one in _symmetries(flat)
        if min(share := float(np.mean(draws @ one.side > 0)), 1 - share) <= few
    ][:64]
    if not one_sided:
        return []
    rows = draws[np.linspace(0, len(draws) - 1, N_COMPARED).astype(int)]
    every = np.concatenate([rows, *(one.other_side(rows) for one in one_sided)])
    with np.errstate(all="ignore"):
        value = np.add(*densities(every)).reshape(-1, N_COMPARED)
    same = are_the_same(value[0], value[1:]).all(axis=1)
    found = [one.what for one, is_same in zip(one_sided, same, strict=True) if is_same]
    if not found:
        return []
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    reason = (
        f"the density is the same after {found[0]}{more}, but hardly a draw is on the other side: "
        "half of the posterior, or more, is missing"
    )
    return [Doubt("missed_mode", reason)]


def _symmetries(flat: FlatModel) -> Iterator[Symmetry]:
    """Reflections of entries and of variables, and exchanges of neighbours."""
    d = flat.n_dims
    for name, columns in flat.columns_by_name.items():
        own = columns.ravel()
        yield _reflected(f"a change of the sign of {name}", own, d)
        if own.size > 1:
            for j in own:
                yield _reflected(f"a change of the sign of an entry of {name}", np.array([j]), d)
    yield _reflected("a change of all signs", np.arange(d), d)
    for variables in exchangeable(flat.columns_by_name):
        names = ", ".join(flat.owners[one.columns[0, 0]] for one in variables)
        first = max(variables, key=lambda one: len(one.columns))
        for i in range(len(first.columns) - 1):
            order, side = np.arange(first.k), np.zeros(d)
            order[[i, i + 1]] = i + 1, i
            side[first.columns[i, 0]], side[first.columns[i + 1, 0]] = 1.0, -1.0
            exchange = partial(in_order, variables=variables, order=order)
            yield Symmetry(f"an exchange of entries of {names}", exchange, side)


def _reflected(what: str, columns: np.ndarray, d: int) -> Symmetry:
    sign, side = np.ones(d), np.zeros(d)
    sign[columns], side[columns[0]] = -1.0, 1.0
    return Symmetry(what, partial(np.multiply, sign), side)
