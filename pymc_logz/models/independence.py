"""Which entries of discrete variables each piece of a log density depends on, read off the graph.

A log density is a sum of pieces: elements of arrays, before they are added up. Through the graph of
each runs, beside the values, an array of *owners*: the entry that an element depends on, `NONE`, or
`SEVERAL`. Operations that are not known to keep elements apart make `SEVERAL` of what they are
given, so that what is said to be independent is so, and what is not may be all the same.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytensor
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import ancestors, io_toposort
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import Alloc, Join, MakeVector, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import (
    AdvancedSubtensor,
    Subtensor,
    indices_from_subtensor,
)

from pymc_logz.models.keeping import is_data

NONE, SEVERAL = -1, -2
PASSED_ON = (CheckAndRaise, SpecifyShape, ScalarFromTensor, TensorFromScalar)
"""Operations whose output is their first input."""

Owners = np.ndarray
"""Whole numbers of the shape of a variable."""


class Tracer:
    """Follows entries of variables through the graph of some pieces.

    Parameters
    ----------
    pieces
        Symbolic arrays.
    at
        Values of all their inputs, for the shapes, and for indices that depend on no entry.
    """

    def __init__(self, pieces: Sequence[Any], at: Mapping[Any, np.ndarray]) -> None:
        self.pieces = list(pieces)
        self.nodes = io_toposort(list(at), self.pieces)
        self.values = _values_of(self.nodes, self.pieces, at)

    def owners(self, entries: Mapping[Any, Owners]) -> list[Owners]:
        """Owner of each element of the pieces: a number, `NONE` or `SEVERAL`.

        Parameters
        ----------
        entries
            Inputs that are followed, and the numbers of their elements.
        """
        found: dict[Variable, Owners] = dict(entries)

        def owner(var: Variable) -> Owners:
            return found.get(var, np.full(np.shape(self.values.get(var, 0)), NONE))

        for node in self.nodes:
            given = [owner(var) for var in node.inputs]
            if all(np.all(one == NONE) for one in given):
                continue
            rule = _rule_for(node.op)
            for var in node.outputs:
                shape = np.shape(self.values[var])
                made = None if rule is None else rule(node, given, self.values, shape)
                found[var] = np.full(shape, SEVERAL) if made is None else made
        return [owner(piece) for piece in self.pieces]


def _values_of(
    nodes: Sequence[Apply], pieces: Sequence[Any], at: Mapping[Any, np.ndarray]
) -> dict[Variable, Any]:
    """Value of everything that is computed on the way to the pieces."""
    seen = [var for node in nodes for var in (*node.inputs, *node.outputs)]
    wanted = [var for var in dict.fromkeys([*seen, *pieces]) if hasattr(var.type, "dtype")]
    mode = Mode(linker="py", optimizer=None)
    function = pytensor.function(list(at), wanted, mode=mode, on_unused_input="ignore")
    return dict(zip(wanted, function(*at.values()), strict=True))


def data_that_decide(pieces: Sequence[Any]) -> list[Variable]:
    """Containers of data from whose values owners follow: those that lead to indices and shapes."""
    found: dict[Variable, None] = {}
    for node in io_toposort([], list(pieces)):
        if isinstance(node.op, Subtensor | AdvancedSubtensor | Reshape | Alloc):
            found |= dict.fromkeys(var for var in ancestors(node.inputs[1:]) if is_data(var))
    return list(found)


def _rule_for(op: Any) -> Callable[..., Owners | None] | None:
    """How an operation passes owners on; None if it is not known."""
    if isinstance(op, PASSED_ON):
        return lambda node, given, values, shape: given[0]
    return next((rule for kinds, rule in RULES.items() if isinstance(op, kinds)), None)


def together(owners: Sequence[Owners], shape: tuple[int, ...]) -> Owners:
    """Owner of elements that each depend on an element of several arrays, broadcast to a shape."""
    total = np.full(shape, NONE)
    for one in owners:
        one = np.broadcast_to(one, shape)
        differ = (total != one) & (total != NONE) & (one != NONE)
        total = np.where(differ, SEVERAL, np.where(one == NONE, total, one))
    return total


def _elementwise(node: Apply, given: Any, values: Any, shape: Any) -> Owners:
    return together(given, shape)


def _performed(node: Apply, given: Any, values: Any, shape: Any) -> Owners | None:
    """What the operation itself makes of owners in the place of its first input."""
    others = node.inputs[1:]
    if any(np.any(one != NONE) for one in given[1:]):
        return None
    storage: list[list[Any]] = [[None]]
    node.op.perform(node, [given[0], *(values[var] for var in others)], storage)
    return np.asarray(storage[0][0])


def _reduced(node: Apply, given: Any, values: Any, shape: Any) -> Owners:
    [one] = given
    axis = node.op.axis
    axes = tuple(range(one.ndim)) if axis is None else tuple(axis)
    high = one.max(axis=axes, initial=NONE)
    # NONE beside a number is that number; anything else than one number is several
    lone = np.where((one == NONE), np.expand_dims(high, axes), one)
    same = np.all(lone == np.expand_dims(high, axes), axis=axes)
    return np.where(same, high, SEVERAL)


def _repeated(node: Apply, given: Any, values: Any, shape: Any) -> Owners | None:
    if any(np.any(one != NONE) for one in given[1:]):
        return None
    return np.broadcast_to(given[0], shape).copy()


def _joined(node: Apply, given: Any, values: Any, shape: Any) -> Owners | None:
    if np.any(given[0] != NONE):
        return None
    axis = int(values[node.inputs[0]])
    return np.concatenate(given[1:], axis=axis)


def _stacked(node: Apply, given: Any, values: Any, shape: Any) -> Owners:
    return np.array([int(one) for one in given])


def _taken(node: Apply, given: Any, values: Any, shape: Any) -> Owners | None:
    """Elements at indices: of a source that is followed, or at indices that are."""
    if all(np.all(one == NONE) for one in given[1:]):
        return _performed(node, given, values, shape)
    if np.any(given[0] != NONE):
        return None
    if isinstance(node.op, Subtensor):
        return together([np.asarray(one).reshape(()) for one in given[1:]], shape)
    indices = indices_from_subtensor(list(range(len(given) - 1)), node.op.idx_list)
    places = [i for i, index in enumerate(indices) if not isinstance(index, slice)]
    if places != list(range(places[0], places[0] + len(places))):
        return None
    if any(node.inputs[1 + indices[i]].type.dtype == "bool" for i in places):
        return None
    owners = [given[1 + indices[i]] for i in places]
    block = np.broadcast_shapes(*(one.shape for one in owners))
    rest = len(shape) - places[0] - len(block)
    made = together(owners, block).reshape(block + (1,) * rest)
    return np.broadcast_to(made, shape).copy()


RULES: dict[Any, Callable[..., Owners | None]] = {
    Elemwise: _elementwise,
    DimShuffle: _performed,
    Reshape: _performed,
    CAReduce: _reduced,
    Alloc: _repeated,
    Join: _joined,
    MakeVector: _stacked,
    (Subtensor, AdvancedSubtensor): _taken,
}
