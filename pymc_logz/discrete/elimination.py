"""Sums over discrete variables that depend on each other in pairs, one after the other.

The density is a product of tables: one of each entry, and one of each pair that some piece of the
density has both of. Summing an entry out joins the tables that it is in into one of its neighbours:
where it has two of them at most, that is a table of a pair again. So chains (a hidden Markov
chain), trees and rings are summed exactly, at a cost that grows with their length. Entries that are
no neighbours go together: half of a chain in the first round, half of the rest in the next.

References
----------
Zhang & Poole (1996), Exploiting causal independence in Bayesian network inference, for variable
elimination, doi 10.1613/jair.305; Sarkka & Garcia-Fernandez (2021), doi 10.1109/TAC.2020.2976316,
for chains in a number of rounds that grows as the logarithm of their length.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from scipy.special import logsumexp, softmax

LOWEST = -1e30
"""In the place of -inf, so that no gradient is one of nothing by nothing."""

Adjacency = dict[int, dict[int, int]]
"""Edge that leads from an entry to each of its neighbours."""


class Group(NamedTuple):
    """Entries that have equally many neighbours, n of k each."""

    entries: np.ndarray
    """Shape (n,)."""
    neighbours: np.ndarray
    """Of each of them, shape (k, n)."""
    edges: np.ndarray
    """That lead there, shape (k, n)."""


class Round(NamedTuple):
    """Entries that are summed out together."""

    groups: tuple[Group, ...]
    """Those without a neighbour, with one, and with two."""
    kept: np.ndarray
    """Edges that are left."""
    made: np.ndarray
    """Number, after the round, of the edge between the two neighbours of an entry."""
    n_edges: int
    """After the round."""


Tables = list[Any]
"""Of each group, log probabilities of entries given their neighbours, up to a constant: shape (C,
K, n), (C, K, K, n) or (C, K, K, K, n), the entry's own value first."""


class Ops(NamedTuple):
    """What arrays, or symbolic ones, are made of each other by."""

    arrays: Any
    """NumPy, or PyTensor's tensors."""
    logsumexp: Callable[..., Any]
    added: Callable[[Any, np.ndarray, Any], Any]
    """An array to whose last axis another one is added, at places that may be the same."""


def _added(whole: np.ndarray, places: np.ndarray, part: np.ndarray) -> np.ndarray:
    turned = np.moveaxis(whole, -1, 0).copy()
    np.add.at(turned, places, np.moveaxis(part, -1, 0))
    return np.moveaxis(turned, 0, -1)


NUMERIC = Ops(np, logsumexp, _added)
SYMBOLIC = Ops(
    pt, pt.logsumexp, lambda whole, places, part: pt.inc_subtensor(whole[..., places], part)
)


def rounds_for(n_entries: int, pairs: Sequence[tuple[int, int]]) -> tuple[Round, ...] | None:
    """In which order m entries are summed out; None if one has more than two neighbours by then.

    ``pairs`` are those that share a table, the smaller number first, none of them twice.
    """
    edges = list(pairs)
    left, rounds = set(range(n_entries)), []
    while left:
        neighbours: Adjacency = {i: {} for i in left}
        for e, (i, j) in enumerate(edges):
            neighbours[i][j] = neighbours[j][i] = e
        chosen = _apart(neighbours)
        if not chosen:
            return None
        one_round, edges = _round(chosen, neighbours, edges)
        rounds.append(one_round)
        left -= set(chosen)
    return tuple(rounds)


def _apart(neighbours: Adjacency) -> list[int]:
    """Entries of two neighbours at most, none of which is another one's."""
    chosen: list[int] = []
    blocked: set[int] = set()
    for i in sorted(neighbours, key=lambda i: (len(neighbours[i]), i)):
        if len(neighbours[i]) <= 2 and i not in blocked:
            chosen.append(i)
            blocked |= neighbours[i].keys()
    return chosen


def _round(
    chosen: Sequence[int], neighbours: Adjacency, edges: list[tuple[int, int]]
) -> tuple[Round, list[tuple[int, int]]]:
    """What a round does, and the edges after it."""
    groups = []
    for n in range(3):
        entries = [i for i in chosen if len(neighbours[i]) == n]
        ends = [list(neighbours[i].items()) for i in entries]
        sides = np.array(ends, dtype=int).reshape(len(entries), n, 2)
        groups.append(Group(np.array(entries, dtype=int), *sides.transpose(2, 1, 0)))
    gone = {e for i in chosen for e in neighbours[i].values()}
    kept = [e for e in range(len(edges)) if e not in gone]
    after = {edges[e]: place for place, e in enumerate(kept)}
    both = np.sort(groups[2].neighbours, axis=0).T.tolist()
    made = [after.setdefault((i, j), len(after)) for i, j in both]
    places = np.array(kept, dtype=int), np.array(made, dtype=int)
    return Round(tuple(groups), *places, len(after)), list(after)


def eliminated(
    rounds: Sequence[Round], of_entry: Any, of_pair: Any, ops: Ops
) -> tuple[Any, list[Tables]]:
    """Log of the sum over all values, shape (C,), and the tables of each round, to draw by.

    For C cases entries have log tables (C, K, m) and pairs (C, K, K, E), the first of a pair first.
    """
    xp = ops.arrays
    of_entry, of_pair = (xp.where(part < LOWEST, LOWEST, part) for part in (of_entry, of_pair))
    total, found = of_entry[:, 0, :0].sum(axis=-1), []
    for one in rounds:
        before, of_pair, tables = of_pair, of_pair[..., one.kept], []
        for entries, neighbours, edges in one.groups:
            table = of_entry[..., entries]
            for i, neighbour in enumerate(neighbours):
                seen = before[..., edges[i]]  # with the value of the entry itself first
                is_second = entries > neighbour
                seen = xp.where(is_second, seen.swapaxes(1, 2), seen)
                table = table[..., None, :] + seen[(slice(None), slice(None), *[None] * i)]
            tables.append(table)
            summed = ops.logsumexp(table, axis=1)
            if not len(neighbours):
                total = total + summed.sum(axis=-1)
            elif len(neighbours) == 1 and entries.size:
                of_entry = ops.added(of_entry, neighbours[0], summed)
            elif entries.size:
                is_second = neighbours[0] > neighbours[1]
                summed = xp.where(is_second, summed.swapaxes(1, 2), summed)
                more = xp.zeros((*summed.shape[:3], one.n_edges - one.kept.size))
                of_pair = ops.added(xp.concatenate([of_pair, more], axis=-1), one.made, summed)
        found.append(tables)
    return xp.where(total < 0.5 * LOWEST, -np.inf, total), found


def drawn_back(
    rounds: Sequence[Round], tables: Sequence[Tables], case: int, rng: np.random.Generator
) -> np.ndarray:
    """Which value of each entry is drawn from their joint distribution in one case, shape (m,)."""
    chosen = np.zeros(sum(group.entries.size for one in rounds for group in one.groups), int)
    # those that went last are drawn first: their neighbours went before them
    for one, of_groups in zip(reversed(rounds), reversed(tables), strict=True):
        for (entries, neighbours, _), table in zip(one.groups, of_groups, strict=True):
            own_table = table[case][(slice(None), *chosen[neighbours], np.arange(entries.size))]
            below = np.cumsum(softmax(own_table, axis=0), axis=0)
            uniform = rng.random(entries.size) * below[-1]
            chosen[entries] = (below[:-1] <= uniform).sum(axis=0)
    return chosen
