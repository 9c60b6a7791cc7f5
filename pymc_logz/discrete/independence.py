"""Which entries of discrete variables each piece of a log density depends on, read off the graph.

A log density is a sum of pieces: elements of arrays, before they are added up. Through the graph of
each runs, beside the values, an array of *owners*: the entry that an element depends on, or the
pair of them, `NONE`, or `SEVERAL`. Operations that are not known to keep elements apart make
`SEVERAL` of what they are given, so that what is said to be independent is so, and what is not may
be all the same.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import ancestors, io_toposort
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import Alloc, Join, MakeVector, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor, indices_from_subtensor

from pymc_logz.graphs.functions import function_for
from pymc_logz.models.cache import is_data

NONE, SEVERAL = -1, -2

Owners = np.ndarray
"""Integers of the shape of a variable."""
Rule = Callable[..., Owners | None]
"""From a node, owners of its inputs, all values, the shape of its output, and sets, to owners."""
MAX_SETS = 2**14
"""Sets of entries that are distinguished."""


class Sets:
    """Numbers for sets of entries: an entry is its own; above ``largest`` a set is `SEVERAL`."""

    def __init__(self, n_entries: int, largest: int = 1) -> None:
        self.n_entries, self.largest = n_entries, largest
        self.known = {frozenset([i]): i for i in range(n_entries)}
        self.members = list(self.known)
        """Entries of each set."""

    def union(self, one: int, other: int) -> int:
        """Number of the set of the entries of both."""
        if SEVERAL in (one, other):
            return SEVERAL
        found = self.members[one] | self.members[other]
        if found not in self.known:
            if len(found) > self.largest or len(self.members) >= MAX_SETS:
                return SEVERAL
            self.known[found] = len(self.members)
            self.members.append(found)
        return self.known[found]

    def joined(self, one: Owners, other: Owners) -> Owners:
        """Owners of elements that each depend on those of two arrays of the same shape."""
        differ = (one != other) & (one != NONE) & (other != NONE)
        found = np.where(differ, SEVERAL, np.where(one == NONE, other, one))
        if self.largest > 1 and differ.any():
            both = np.stack([one[differ], other[differ]], axis=1)
            kinds, which = np.unique(both, axis=0, return_inverse=True)
            found[differ] = np.array([self.union(*kind) for kind in kinds])[which.ravel()]
        return found

    def together(self, owners: Sequence[Owners], shape: tuple[int, ...]) -> Owners:
        """Owners of elements that depend on one of each of several arrays, broadcast to a shape."""
        total = np.full(shape, NONE)
        for one in owners:
            total = self.joined(total, np.broadcast_to(one, shape))
        return total

    def reduced(self, one: Owners, axes: tuple[int, ...]) -> Owners:
        """Owners of elements that depend on all along some axes, which keep the length one."""
        high = one.max(axis=axes, initial=NONE, keepdims=True)
        # NONE beside a number is that number; anything else than one number is several
        same = np.all(np.where(one == NONE, high, one) == high, axis=axes, keepdims=True)
        found = np.where(same, high, SEVERAL)
        if self.largest == 1 or same.all() or same.size > MAX_SETS:
            return found
        last = tuple(range(one.ndim - len(axes), one.ndim))
        rows = np.moveaxis(one, axes, last).reshape(same.size, -1)
        for place in np.flatnonzero(~same):
            kinds = np.unique(rows[place]).tolist()
            if kinds[0] != SEVERAL and len(kinds) <= self.largest + 2:
                found.flat[place] = reduce(self.union, (kind for kind in kinds if kind != NONE))
        return found


class Tracer:
    """Follows entries of variables through the graph of pieces; ``at`` has values of all inputs."""

    def __init__(self, pieces: Sequence[Any], at: Mapping[Any, np.ndarray]) -> None:
        self.pieces = list(pieces)
        self.nodes = io_toposort(list(at), self.pieces)
        seen = [var for node in self.nodes for var in (*node.inputs, *node.outputs)]
        wanted = [var for var in dict.fromkeys([*seen, *self.pieces]) if hasattr(var.type, "dtype")]
        mode = Mode(linker="py", optimizer=None)
        function = function_for(list(at), wanted, mode=mode, on_unused_input="ignore")
        self.values: dict[Variable, Any] = dict(zip(wanted, function(*at.values()), strict=True))

    def owners(self, entries: Mapping[Any, Owners], sets: Sets) -> list[Owners]:
        """Owner of each element of the pieces: a number, `NONE` or `SEVERAL`.

        ``entries`` are the inputs that are followed, with numbers of their elements.
        """
        found: dict[Variable, Owners] = dict(entries)

        def owner(var: Variable) -> Owners:
            return found.get(var, np.full(np.shape(self.values.get(var, 0)), NONE))

        for node in self.nodes:
            given = [owner(var) for var in node.inputs]
            if all(np.all(one == NONE) for one in given):
                continue
            rule = next((rule for kind, rule in RULES.items() if isinstance(node.op, kind)), None)
            for var in node.outputs:
                shape = np.shape(self.values[var])
                made = None if rule is None else rule(node, given, self.values, shape, sets)
                found[var] = np.full(shape, SEVERAL) if made is None else made
        return [owner(piece) for piece in self.pieces]


def data_that_decide(pieces: Sequence[Any]) -> list[Variable]:
    """Containers of data from whose values owners follow: those that lead to indices and shapes."""
    found: dict[Variable, None] = {}
    for node in io_toposort([], list(pieces)):
        if isinstance(node.op, Subtensor | AdvancedSubtensor | Reshape | Alloc):
            found |= dict.fromkeys(var for var in ancestors(node.inputs[1:]) if is_data(var))
    return list(found)


def _performed(node: Apply, given: Any, values: Any, shape: Any, sets: Sets) -> Any:
    """What the operation itself makes of owners in the place of its first input."""
    if any(np.any(one != NONE) for one in given[1:]):
        return None
    storage: list[list[Any]] = [[None]]
    node.op.perform(node, [given[0], *(values[var] for var in node.inputs[1:])], storage)
    return np.asarray(storage[0][0])


def _reduced(node: Apply, given: Any, values: Any, shape: Any, sets: Sets) -> Owners:
    [one], axis = given, node.op.axis
    return sets.reduced(one, tuple(range(one.ndim) if axis is None else axis)).reshape(shape)


def _joined(node: Apply, given: Any, values: Any, shape: Any, sets: Sets) -> Owners | None:
    if np.any(given[0] != NONE):
        return None
    return np.concatenate(given[1:], axis=int(values[node.inputs[0]]))


def _taken(node: Apply, given: Any, values: Any, shape: Any, sets: Sets) -> Owners | None:
    """Elements at indices: each has the owners of the index, and of all that it may choose."""
    if all(np.all(one == NONE) for one in given[1:]):
        return _performed(node, given, values, shape, sets)
    indices = indices_from_subtensor(list(range(1, len(given))), node.op.idx_list)
    moving = [
        axis
        for axis, index in enumerate(indices)
        if not isinstance(index, slice) and np.any(given[index] != NONE)
    ]
    slices = [index for index in indices if isinstance(index, slice)]
    ends = [end for one in slices for end in (one.start, one.stop, one.step) if end is not None]
    if any(np.any(given[end] != NONE) for end in ends):
        return None
    of_index = _of_index(node, given, indices, shape, sets)
    if of_index is None or np.all(given[0] == NONE):
        return of_index
    source = np.broadcast_to(sets.reduced(given[0], tuple(moving)), given[0].shape).copy()
    chosen = _performed(node, [source], values, shape, sets)
    return sets.together([chosen, of_index], shape)


def _of_index(node: Apply, given: Any, indices: Any, shape: Any, sets: Sets) -> Owners | None:
    """Owners that elements have from the indices that choose them."""
    places = [i for i, index in enumerate(indices) if not isinstance(index, slice)]
    if isinstance(node.op, Subtensor):
        return sets.together([np.asarray(given[indices[i]]).reshape(()) for i in places], shape)
    if places != list(range(places[0], places[0] + len(places))):
        return None
    if any(node.inputs[indices[i]].type.dtype == "bool" for i in places):
        return None
    owners = [given[indices[i]] for i in places]
    block = np.broadcast_shapes(*(one.shape for one in owners))
    rest = len(shape) - places[0] - len(block)
    made = sets.together(owners, block).reshape(block + (1,) * rest)
    return np.broadcast_to(made, shape).copy()


RULES: dict[Any, Rule] = {
    # whose output is their first input
    (CheckAndRaise, SpecifyShape, ScalarFromTensor, TensorFromScalar): lambda _, given, *more: (
        given[0]
    ),
    Elemwise: lambda _, given, values, shape, sets: sets.together(given, shape),
    (Alloc, DimShuffle, Reshape): _performed,
    CAReduce: _reduced,
    Join: _joined,
    MakeVector: lambda _, given, *more: np.array([int(one) for one in given]),
    (Shape, Shape_i): lambda _, given, values, shape, sets: np.full(shape, NONE),
    (Subtensor, AdvancedSubtensor): _taken,
}
