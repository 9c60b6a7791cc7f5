"""Which discrete variables can be summed out, and how: read off the graph of the density."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import pymc as pm
from pytensor.graph.traversal import ancestors

from pymc_logz.discrete.elimination import Round, rounds_for
from pymc_logz.discrete.independence import SEVERAL, Owners, Tracer
from pymc_logz.models.cache import is_data, kept_for
from pymc_logz.models.discrete import colours
from pymc_logz.models.flat import FlatModel
from pymc_logz.models.preparation import NotSummed
from pymc_logz.models.prior import PriorDraws
from pymc_logz.models.rows import columns_of, is_discrete, starting_point
from pymc_logz.paths.geometric import WIDE, most_values

Pair = tuple[int, int]


@dataclass(frozen=True)
class SumPlan:
    """Which entries are summed how."""

    whole: FlatModel
    """The model with all of its variables."""
    alone: tuple[int, ...]
    """Numbers, among its sites, of those that are summed one after the other, m of them."""
    points: np.ndarray
    """Values of the others, in their order, shape (C, number of them)."""
    owners: tuple[Owners, ...]
    """Sites that own each element of each piece of the density, at most two."""
    pairs: tuple[Pair, ...] = ()
    """Places in ``alone`` of two that some element depends on, the smaller first, E in order."""
    ends: tuple[int, ...] = ()
    """Numbers of those that no piece depends on: they are drawn, given all the rest."""
    limited: tuple[int, ...] = ()
    """Numbers of those without an end, which are summed up to where the prior leaves off."""

    @cached_property
    def rounds(self) -> tuple[Round, ...]:
        """In which order they are summed out."""
        return rounds_for(len(self.alone), self.pairs) or ()

    @cached_property
    def colours(self) -> np.ndarray:
        """A number for each of them, so that those of a pair differ, shape (m,)."""
        neighbours: list[list[int]] = [[] for _ in self.alone]
        for i, j in self.pairs:
            neighbours[i].append(j)
            neighbours[j].append(i)
        return colours(neighbours)

    @property
    def route(self) -> str:
        """Which variables are summed how, in words."""
        tied = {self.alone[place] for pair in self.pairs for place in pair}
        ways = [
            ([i for i in self.alone if i not in tied], "one value at a time"),
            (sorted(tied), "two values at a time"),
            (self.others, f"over all {len(self.points):,} combinations"),
            (self.ends, "to one, since nothing depends on them"),
        ]
        words = " and ".join(
            f"{_names(self.whole, entries)} {how}" for entries, how in ways if entries
        )
        if not self.limited:
            return words
        most = max(self.whole.sites[i].upper or 0 for i in self.limited)
        return f"{words}; values of {_names(self.whole, self.limited)} up to {most:,}"

    @property
    def columns(self) -> tuple[np.ndarray, np.ndarray]:
        """Columns of a row of the whole model: of the others, and of those summed by themselves."""
        columns = np.array([site.column for site in self.whole.sites], dtype=int)
        return columns[list(self.others)], columns[list(self.alone)]

    @property
    def others(self) -> tuple[int, ...]:
        """Numbers of the sites that are summed together."""
        known = {*self.alone, *self.ends}
        return tuple(i for i in range(len(self.whole.sites)) if i not in known)

    @property
    def values(self) -> np.ndarray:
        """Values of each entry summed by itself, the last one repeated, shape (K, m)."""
        return np.minimum(self._steps, [self.whole.sites[i].upper or 0 for i in self.alone])

    @property
    def combinations(self) -> np.ndarray:
        """Values of these entries at which pieces are computed, shape (K**colours, m)."""
        k = self.shape[1]
        step = np.arange(self.n_combinations)[:, None] // k**self.colours % k
        return np.asarray(np.take_along_axis(self.values, step, axis=0))

    @property
    def n_combinations(self) -> int:
        """Number of them."""
        return int(self.shape[1] ** (1 + self.colours.max(initial=0)))

    @property
    def exists(self) -> np.ndarray:
        """Which of the values are not repeated, shape (K, m)."""
        return np.asarray(self._steps == self.values)

    @property
    def shape(self) -> tuple[int, int, int]:
        """C, K and m."""
        k, m = self._steps.shape
        return len(self.points), k, m

    @property
    def cost(self) -> int:
        """Elements that are computed for one row."""
        n_points, k, _ = self.shape
        own = self.n_combinations * sum(one.size // 2 for one in self.owners)
        groups = [group for one in self.rounds for group in one.groups] if self.pairs else []
        tables = sum(group.entries.size * k ** (1 + len(group.neighbours)) for group in groups)
        return n_points * (own + tables)

    @property
    def _steps(self) -> np.ndarray:
        sites = [self.whole.sites[i] for i in self.alone]
        k = most_values(sites)
        return np.arange(k)[:, None] + np.array([site.lower or 0 for site in sites])


def ends_of(model: pm.Model) -> list[Any]:
    """Discrete variables that nothing else depends on, as counts that are missing.

    Whatever all the rest is, their priors add up to one.
    """
    terms = [*model.free_RVs, *model.observed_RVs, *model.potentials]
    graphs = model.logp(vars=terms, sum=False)
    needs = {one: set(ancestors([graph])) for one, graph in zip(terms, graphs, strict=True)}
    discrete, ends = list(filter(is_discrete, model.free_RVs)), list[Any]()

    def is_end(rv: Any) -> bool:
        value = model.rvs_to_values[rv]
        return rv in needs and sum(value in of for of in needs.values()) == 1

    while (end := next(filter(is_end, discrete), None)) is not None:
        ends.append(end)
        del needs[end]
    return ends


def sum_plan(
    whole: FlatModel,
    pieces: Sequence[object],
    without: Collection[object] = (),
    most: int = 1024,
) -> SumPlan | NotSummed:
    """Which entries are independent, or depend on each other in pairs; the cheaper of the two.

    No piece depends on value variables ``without`` which the density is complete. Entries with more
    than ``most`` are not summed by themselves.
    """
    entries = numbered(whole)
    ends = tuple(sorted(int(i) for var in without for i in entries[var].ravel()))
    endless = [i for i, one in enumerate(whole.sites) if one.n_values is None and i not in ends]
    found = with_limits(whole, endless, most) if endless else whole
    if found is None:
        return NotSummed(
            f"the values of {sorted(_names(whole, endless))} have no end that is known"
        )
    traced = (_traced_entries(found, pieces, largest, most, ends) for largest in (1, 2))
    plans = [_with_points(replace(one, limited=tuple(endless))) for one in traced]
    good = [plan for plan in plans if isinstance(plan, SumPlan)]
    return min(good, key=lambda plan: plan.cost) if good else plans[0]


def with_limits(
    whole: FlatModel, endless: Sequence[int], most: int, n_draws: int = 1024, least: int = 16
) -> FlatModel | None:
    """A model whose endless entries end twice as far out as draws of the prior go; None if far.

    Draws of the posterior tell whether that is far enough, see `InPieces.share_at_limits`.
    """
    if not whole.continuous.size or any(whole.sites[i].lower is None for i in endless):
        return None
    kept_for(whole.model).bake_in(filter(is_data, ancestors(whole.model.free_RVs)))
    draws = PriorDraws(whole.model)(np.random.default_rng(0), n_draws)
    sites = list(whole.sites)
    for i in endless:
        column, lower, *_ = sites[i]
        assert lower is not None
        reached = float(draws[:, column].max()) - lower
        if not 2 * reached < most:
            return None
        sites[i] = sites[i]._replace(upper=lower + max(least, int(2 * reached)))
    return replace(whole, sites=tuple(sites))


def independent_plan(whole: FlatModel, pieces: Sequence[object]) -> SumPlan | NotSummed:
    """A plan of entries of which each piece has one at most, if several; the others are given."""
    plan = _traced_entries(whole, pieces, 1, WIDE)
    if len(plan.alone) < 2:
        return NotSummed("no two of its values are independent given all the rest")
    return plan


def _with_points(plan: SumPlan) -> SumPlan | NotSummed:
    """The plan where entries that are not summed by themselves, nor ends, are summed together."""
    sites = [plan.whole.sites[i] for i in plan.others]
    n_points = int(np.prod([float(site.n_values or 1) for site in sites]))
    if n_points > 4096:
        return NotSummed(
            f"the values of {_names(plan.whole, plan.others)} depend on each other, and have "
            f"{n_points:,} combinations"
        )
    ranges = [range(site.lower or 0, (site.upper or 0) + 1) for site in sites]
    points = np.array(list(product(*ranges)), dtype=int).reshape(n_points, len(sites))
    plan = replace(plan, points=points)
    if plan.cost > 2**18:
        return NotSummed(f"a sum has {plan.cost:,} terms for each point")
    return plan


def _names(whole: FlatModel, entries: Iterable[int]) -> list[str]:
    owners = whole.owners
    return list(dict.fromkeys(owners[whole.sites[i].column] for i in entries))


def _traced_entries(
    whole: FlatModel,
    pieces: Sequence[object],
    largest: int,
    most: int,
    ends: tuple[int, ...] = (),
) -> SumPlan:
    """A plan, without points, of entries of which each piece has so many at most."""
    sites, start = whole.sites, starting_point(whole.model)
    tracer = Tracer(pieces, {var: start[var.name] for var in whole.model.value_vars})
    entries = numbered(whole)

    def traced(followed: Mapping[object, np.ndarray]) -> SumPlan | None:
        owners = tracer.owners(followed)
        joint = np.concatenate([one.reshape(-1, 2) for one in owners])
        both = np.unique(joint[joint[:, 0] < joint[:, 1]], axis=0)
        if np.any(joint == SEVERAL) or (largest == 1 and both.size):
            return None
        alone = tuple(sorted(int(i) for numbers in followed.values() for i in numbers.ravel()))
        pairs = tuple((i, j) for i, j in np.searchsorted(alone, both).tolist())
        if rounds_for(len(alone), pairs) is None:
            return None
        return SumPlan(whole, alone, np.zeros((1, 0), dtype=int), tuple(owners), pairs, ends)

    # arrays first: a few lone numbers can be summed together
    narrow = {
        var: entries[var]
        for var in sorted(entries, key=lambda var: -entries[var].size)
        if all(sites[i].has_at_most(most) and i not in ends for i in entries[var].ravel())
    }
    if found := traced(narrow):
        return found
    followed: dict[object, np.ndarray] = {}
    for var, numbers in narrow.items():
        tried = {**followed, var: numbers}
        followed = tried if traced(tried) else followed
    found = traced(followed)
    assert found is not None
    return found


def numbered(whole: FlatModel) -> dict[object, np.ndarray]:
    """Discrete value variables of a model, and the numbers of their entries among all of those."""
    start = starting_point(whole.model)
    variables = filter(is_discrete, whole.model.value_vars)
    return columns_of({var: start[var.name].shape for var in variables})
