"""Which whole numbers of a model can be summed out, and how: read off the graph of its density."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pymc as pm

from pymc_logz.models.discrete import is_discrete
from pymc_logz.models.independence import SEVERAL, Owners, Tracer
from pymc_logz.paths.sites import Site

MAX_POINTS = 4096
"""Values of all entries together, of those that are not independent, that are summed over."""
MAX_TERMS = 2**18
"""Elements of the density, for all values, that are computed for one row."""


class NotSummed(NamedTuple):
    """Why whole numbers of a model are not summed out."""

    reason: str


@dataclass(frozen=True)
class SumPlan:
    """Which entries are summed how."""

    sites: tuple[Site, ...]
    alone: tuple[int, ...]
    """Numbers of the independent ones among the sites, m of them."""
    points: np.ndarray
    """Values of the others, in their order, shape (C, number of them)."""
    owners: tuple[Owners, ...]
    """Owner of each element of each piece of the density."""
    route: str
    """Which variables are summed how, in words."""

    @property
    def others(self) -> tuple[int, ...]:
        """Numbers of the sites that are summed together."""
        return tuple(i for i in range(len(self.sites)) if i not in self.alone)

    @property
    def values(self) -> np.ndarray:
        """Values of each independent entry, the last one repeated, shape (K, m)."""
        return np.minimum(self._steps, [self.sites[i].upper or 0 for i in self.alone])

    @property
    def exists(self) -> np.ndarray:
        """Which of these are not repeated, shape (K, m)."""
        return np.asarray(self._steps <= [self.sites[i].upper or 0 for i in self.alone])

    @property
    def shape(self) -> tuple[int, int, int]:
        """C, K and m."""
        k, m = self._steps.shape
        return len(self.points), k, m

    @property
    def _steps(self) -> np.ndarray:
        k = max((self.sites[i].n_values or 1 for i in self.alone), default=1)
        return np.arange(k)[:, None] + np.array([self.sites[i].lower or 0 for i in self.alone])


def sum_plan(
    model: pm.Model,
    sites: Sequence[Site],
    owners: Sequence[str],
    pieces: Sequence[Any],
    start: Mapping[str, np.ndarray],
) -> SumPlan | NotSummed:
    """Which entries are independent, and whether the others have few values together.

    Parameters
    ----------
    model
        The model.
    sites
        Entries of a row that are whole numbers.
    owners
        Variable that each entry of a row belongs to.
    pieces
        Arrays that add up to the log density.
    start
        A value of each value variable.
    """
    endless = sorted({owners[site.column] for site in sites if site.n_values is None})
    if endless:
        return NotSummed(f"the values of {endless} have no end that is known")
    alone, found = independent_entries(model, sites, pieces, start)
    others = [site for i, site in enumerate(sites) if i not in alone]
    together = list(dict.fromkeys(owners[site.column] for site in others))
    n_points = int(np.prod([float(site.n_values or 1) for site in others]))
    if n_points > MAX_POINTS:
        return NotSummed(
            f"the entries of {together} depend on each other, and have {n_points:,} values together"
        )
    ranges = [range(site.lower or 0, (site.upper or 0) + 1) for site in others]
    points = np.array(list(product(*ranges)), dtype=int).reshape(n_points, len(others))
    apart = list(dict.fromkeys(owners[sites[i].column] for i in alone))
    route = [f"{apart} entry by entry"] if apart else []
    route += [f"{together} over all {n_points:,} values"] if together else []
    plan = SumPlan(tuple(sites), alone, points, found, " and ".join(route))
    n_terms = plan.shape[0] * plan.shape[1] * sum(one.size for one in found)
    if n_terms > MAX_TERMS:
        return NotSummed(f"a sum has {n_terms:,} terms for each point")
    return plan


def independent_entries(
    model: pm.Model,
    sites: Sequence[Site],
    pieces: Sequence[Any],
    start: Mapping[str, np.ndarray],
) -> tuple[tuple[int, ...], tuple[Owners, ...]]:
    """Numbers of entries of which each piece has one at most, and the owners of all elements.

    Arguments are those of `sum_plan`. Entries whose values are not known, or very many, are left
    out.
    """
    tracer = Tracer(pieces, {var: start[var.name] for var in model.value_vars})
    followed: dict[Any, Owners] = {}
    entries = numbered(model, start)
    # arrays first: a few lone numbers can be summed together
    for var in sorted(entries, key=lambda var: -entries[var].size):
        if not all(sites[i].is_narrow for i in entries[var].ravel()):
            continue
        tried = {**followed, var: entries[var]}
        if not any(np.any(one == SEVERAL) for one in tracer.owners(tried)):
            followed = tried
    alone = tuple(sorted(int(i) for numbers in followed.values() for i in numbers.ravel()))
    return alone, tuple(tracer.owners(followed))


def numbered(model: pm.Model, start: Mapping[str, np.ndarray]) -> dict[Any, Owners]:
    """Discrete value variables of a model, and the numbers of their entries among all of those."""
    entries: dict[Any, Owners] = {}
    end = 0
    for var in model.value_vars:
        if is_discrete(var):
            shape = start[var.name].shape
            first, end = end, end + int(np.prod(shape, dtype=int))
            entries[var] = np.arange(first, end).reshape(shape)
    return entries
