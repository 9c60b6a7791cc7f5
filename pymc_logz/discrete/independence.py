"""Which entries of discrete variables each piece of a log density depends on, read off the graph.

A log density is a sum of pieces: elements of arrays, before they are added up. Through the graph of
each runs, beside the values, an array of *owners*: the entry that an element depends on, or the
two of them, `NONE`, or `SEVERAL`. Operations that are not known to keep elements apart make
`SEVERAL` of what they are given, so that what is said to be independent is so, and what is not may
be all the same.
"""

import math
from collections.abc import Callable, Mapping, Sequence
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
"""Two integers for each element of a variable, along a last axis: the smaller and the larger entry
that it depends on, twice the same if it is one; or twice `NONE`, or `SEVERAL`, which is more than
two."""
Rule = Callable[..., Owners | None]
"""From a node, owners of its inputs, all values, and the shape of its output, to owners."""


def united(members: np.ndarray) -> Owners:
    """Owners of elements that depend on all entries along the last axis."""
    high = members.max(axis=-1, initial=NONE, keepdims=True)
    known = np.where(members == NONE, high, members)
    low = np.concatenate([high, known], axis=-1).min(axis=-1, keepdims=True)
    between = np.any((known != low) & (known != high), axis=-1, keepdims=True)
    return np.where(between | (low == SEVERAL), SEVERAL, np.concatenate([low, high], axis=-1))


def together(owners: Sequence[Owners], shape: tuple[int, ...]) -> Owners:
    """Owners of elements that depend on one of each of several arrays, broadcast to a shape."""
    return united(np.concatenate([np.broadcast_to(one, (*shape, 2)) for one in owners], axis=-1))


def reduced(one: Owners, axes: tuple[int, ...]) -> Owners:
    """Owners of elements that depend on all along some axes, which keep the length one."""
    rows = np.moveaxis(one, axes, range(-1 - len(axes), -1))
    kept = rows.shape[: rows.ndim - 1 - len(axes)]
    rows = rows.reshape(*kept, math.prod(rows.shape[len(kept) :]))
    return np.expand_dims(united(rows), axes)


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

    def owners(self, entries: Mapping[Any, np.ndarray]) -> list[Owners]:
        """Owners of the pieces; ``entries`` are inputs, with numbers of their elements."""
        found = {var: np.stack([one, one], axis=-1) for var, one in entries.items()}

        def owner(var: Variable) -> Owners:
            return found.get(var, np.full((*np.shape(self.values.get(var, 0)), 2), NONE))

        for node in self.nodes:
            given = [owner(var) for var in node.inputs]
            if all(np.all(one == NONE) for one in given):
                continue
            rule = next((rule for kind, rule in RULES.items() if isinstance(node.op, kind)), None)
            for var in node.outputs:
                shape = np.shape(self.values[var])
                made = None if rule is None else rule(node, given, self.values, shape)
                found[var] = np.full((*shape, 2), SEVERAL) if made is None else made
        return [owner(piece) for piece in self.pieces]


def data_that_decide(pieces: Sequence[Any]) -> list[Variable]:
    """Containers of data from whose values owners follow: those that lead to indices and shapes."""
    found: dict[Variable, None] = {}
    for node in io_toposort([], list(pieces)):
        if isinstance(node.op, Subtensor | AdvancedSubtensor | Reshape | Alloc):
            found |= dict.fromkeys(var for var in ancestors(node.inputs[1:]) if is_data(var))
    return list(found)


def _performed(node: Apply, given: Any, values: Any, shape: Any) -> Any:
    """What the operation itself makes of owners in the place of its first input."""
    if any(np.any(one != NONE) for one in given[1:]):
        return None
    ends = []
    for end in np.moveaxis(given[0], -1, 0):
        storage: list[list[Any]] = [[None]]
        node.op.perform(node, [end, *(values[var] for var in node.inputs[1:])], storage)
        ends.append(storage[0][0])
    return np.stack(ends, axis=-1)


def _reduced(node: Apply, given: Any, values: Any, shape: Any) -> Owners:
    [one], axis = given, node.op.axis
    return reduced(one, tuple(range(one.ndim - 1) if axis is None else axis)).reshape(*shape, 2)


def _joined(node: Apply, given: Any, values: Any, shape: Any) -> Owners | None:
    if np.any(given[0] != NONE):
        return None
    return np.concatenate(given[1:], axis=int(values[node.inputs[0]]) % len(shape))


def _taken(node: Apply, given: Any, values: Any, shape: Any) -> Owners | None:
    """Elements at indices: each has the owners of the index, and of all that it may choose."""
    if all(np.all(one == NONE) for one in given[1:]):
        return _performed(node, given, values, shape)
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
    of_index = _of_index(node, given, indices, shape)
    if of_index is None or np.all(given[0] == NONE):
        return of_index
    source = np.broadcast_to(reduced(given[0], tuple(moving)), given[0].shape).copy()
    return together([_performed(node, [source], values, shape), of_index], shape)


def _of_index(node: Apply, given: Any, indices: Any, shape: Any) -> Owners | None:
    """Owners that elements have from the indices that choose them."""
    places = [i for i, index in enumerate(indices) if not isinstance(index, slice)]
    if isinstance(node.op, Subtensor):
        return together([given[indices[i]].reshape(2) for i in places], shape)
    if places != list(range(places[0], places[0] + len(places))):
        return None
    if any(node.inputs[indices[i]].type.dtype == "bool" for i in places):
        return None
    owners = [given[indices[i]] for i in places]
    block = np.broadcast_shapes(*(one.shape[:-1] for one in owners))
    rest = len(shape) - places[0] - len(block)
    made = together(owners, block).reshape(*block, *(1,) * rest, 2)
    return np.broadcast_to(made, (*shape, 2)).copy()


RULES: dict[Any, Rule] = {
    # whose output is their first input
    (CheckAndRaise, SpecifyShape, ScalarFromTensor, TensorFromScalar): lambda _, given, *more: (
        given[0]
    ),
    Elemwise: lambda _, given, values, shape: together(given, shape),
    (Alloc, DimShuffle, Reshape): _performed,
    CAReduce: _reduced,
    Join: _joined,
    MakeVector: lambda _, given, *more: np.stack(given),
    (Shape, Shape_i): lambda _, given, values, shape: np.full((*shape, 2), NONE),
    (Subtensor, AdvancedSubtensor): _taken,
}
