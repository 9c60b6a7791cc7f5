"""What was compiled for a model, kept as long as the model lives and stays as it is.

A model is a mutable thing. So whoever asks what is kept for it gets it for the model as it is now:
the graph tells whether it has changed, and if so nothing of the old is used. Data are no part of
what is compiled: symbolic inputs take their place.
"""

import hashlib
import pickle
import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors, graph_inputs, io_toposort
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import ARange, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.subtensor import AdvancedIncSubtensor, AdvancedSubtensor
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorVariable

from pymc_logz.graphs.functions import Kept, mode_for

ATTRIBUTE = "_pymc_logz_kept"
"""Where a model carries what is kept for it."""
ANY_VALUES = (Elemwise, CAReduce, DimShuffle, CheckAndRaise, ScalarFromTensor, TensorFromScalar)
"""Operations whose output's shape is the same whatever integers come in."""


def kept_for(model: pm.Model) -> "KeptForModel":
    """What is kept for a model as it is now; nothing yet if it is new or has changed."""
    # Kept on the model itself: compiled functions refer to the model's variables, which may refer
    # back to it (a transform or a density can be any function of the user's). In a table beside it
    # they would hold it for ever; here all of it is one cycle, which goes with the model.
    with _looking:
        parts, contents = _state_of(model)
        kept = vars(model).get(ATTRIBUTE)
        # a model that has travelled has a plain `Kept`; what was kept for an earlier state is let
        # go, never changed: a run may still use it
        if not isinstance(kept, KeptForModel) or not kept.is_for(parts, contents):
            kept = vars(model)[ATTRIBUTE] = KeptForModel(parts, contents)
        return kept


_looking = threading.Lock()


class KeptForModel(Kept):
    """What is kept for one state of a model."""

    def __init__(self, parts: Sequence[Any], contents: Hashable) -> None:
        super().__init__()
        self._parts, self._contents = parts, contents
        self._known = {part for part in parts if isinstance(part, Variable)}
        self._watched: dict[Variable, tuple[Callable[[Variable], Hashable], Hashable]] = {}
        """What was found beyond the model's own graph: how it is read, and what it was."""

    def bake_in(self, variables: Iterable[Variable]) -> None:
        """Note that what was made is worthless once one of these has other contents."""
        for var in variables:
            if is_data(var) or var not in self._known:
                self._watched[var] = contents_of, contents_of(var)

    def take_in(self, containers: Iterable[Variable]) -> None:
        """Note that what was made is worthless once one of these has another shape."""
        for var in containers:
            if var not in self._known:
                self._watched.setdefault(var, (shape_of, shape_of(var)))

    def is_for(self, parts: Sequence[Any], contents: Hashable) -> bool:
        """Whether this is the state, and what was found elsewhere is as it was."""
        # another part is another one, however similar; parts of this state live, so ids are theirs
        own, now = (list(map(id, some)) for some in (self._parts, parts))
        watched = list(self._watched.items())
        is_same = contents == self._contents and own == now
        return is_same and all(read(var) == before for var, (read, before) in watched)


def _state_of(model: pm.Model) -> tuple[Sequence[Any], Hashable]:
    """Parts of a model: transforms, variables and what these are computed from; and contents."""
    random = [*model.free_RVs, *model.observed_RVs]
    values = [model.rvs_to_values[rv] for rv in random]
    lists = (model.free_RVs, model.observed_RVs, model.potentials, model.deterministics)
    roots = [*random, *values, *model.potentials, *model.deterministics, *model.data_vars]
    # PyMC replaces generators in place when it compiles draws
    graph = [var for var in ancestors(roots) if not isinstance(var.type, RandomType)]
    # data are inputs, so of them their shape
    brought_in = (
        shape_of(var) if is_data(var) else contents_of(var)
        for var in graph
        if is_data(var) or isinstance(var, Constant)
    )
    config = pytensor.config
    settings = (config.floatX, mode_for(None), config.linker, config.optimizer)
    transforms = (model.rvs_to_transforms[rv] for rv in random)
    contents = (tuple(map(len, lists)), len(roots), settings, *brought_in)
    return [*transforms, *roots, *graph], contents


def made_of(model: pm.Model) -> dict[str, Hashable]:
    """Terms of a model's log density by name, and the contents of the data that enter them."""
    terms = [*model.free_RVs, *model.observed_RVs, *model.potentials]
    found: dict[str, Hashable] = {str(term.name): None for term in terms}
    for var in filter(is_data, ancestors([*terms, *model.rvs_to_values.values()])):
        name = var.name or f"a shared variable without a name ({len(found)})"
        found[str(name)] = contents_of(var)
    return found


def is_data(var: Variable) -> bool:
    """Whether a variable is a container whose values a user may set."""
    return isinstance(var, SharedVariable) and not isinstance(var.type, RandomType)


def shape_of(var: Variable) -> Hashable:
    """Shape and dtype of data."""
    value = var.get_value(borrow=True)
    return np.shape(value), str(getattr(value, "dtype", type(value)))


def contents_of(var: Variable) -> Hashable:
    """Digest of the values of data or of a constant, which may be a user's own array."""
    value = var.get_value(borrow=True) if isinstance(var, SharedVariable) else var.data
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        plain = np.ascontiguousarray(value)
        return value.dtype.str, value.shape, hashlib.blake2b(plain.data).digest()
    return hashlib.blake2b(pickle.dumps(value)).digest()


@dataclass(frozen=True)
class DataInputs:
    """Containers of data, and the symbolic inputs that stand for them."""

    containers: tuple[Any, ...]
    inputs: tuple[TensorVariable, ...]
    """Of the shapes that the containers have now."""

    def values(self) -> tuple[np.ndarray, ...]:
        """What the containers hold now."""
        return tuple(np.asarray(container.get_value()) for container in self.containers)


def with_data_inputs(
    outputs: Iterable[Variable], kept: KeptForModel, *, constant: bool = False
) -> tuple[list[Any], DataInputs]:
    """Graphs of a model in which inputs of static shape, or constants, stand for data."""
    # data that decide on a shape or a number of steps are replaced by their present values, as
    # static shapes make other graphs, and JAX compiles no others
    outputs = list(outputs)
    data = [var for var in graph_inputs(outputs) if is_data(var)]
    constants = set(data) if constant else decide_on_shapes(data, outputs)
    constants |= {var for var in data if not isinstance(var.type, TensorType)}
    kept.bake_in(constants)
    containers = [var for var in data if var not in constants]
    kept.take_in(containers)
    # nameless: a name such as "1|group" looks like a dtype to PyTensor
    inputs = [
        pt.tensor(dtype=container.type.dtype, shape=np.shape(container.get_value(borrow=True)))
        for container in containers
    ]
    places: dict[Variable, Any] = dict(zip(containers, inputs, strict=True))
    places |= {var: pt.constant(var.get_value(), name=var.name) for var in constants}
    replaced = clone_replace(outputs, places, rebuild_strict=False)
    return replaced, DataInputs(tuple(containers), tuple(inputs))


def decide_on_shapes(data: Sequence[Variable], outputs: Sequence[Variable]) -> set[Variable]:
    """Data from whose values, not only whose shapes, a shape may follow."""
    # integers and truth values do so wherever they enter an operation not known to be free of this
    read: dict[Variable, frozenset[Variable]] = {var: frozenset([var]) for var in data}
    found: set[Variable] = set()
    for node in io_toposort([], outputs) if data else []:
        if isinstance(node.op, Shape | Shape_i):
            continue
        read_here = [(i, read[var]) for i, var in enumerate(node.inputs) if var in read]
        for i, sources in read_here:
            if not _keeps_shape(node, i):
                found |= sources
        if read_here:
            together = frozenset().union(*(sources for _, sources in read_here))
            read |= dict.fromkeys(node.outputs, together)
    return found


def _keeps_shape(node: Apply, i: int) -> bool:
    """Whether the shapes of a node's outputs are the same whatever values its i-th input has."""
    given = node.inputs[i]
    if isinstance(node.op, ARange):
        return False
    if getattr(given.type, "dtype", "").startswith(("float", "complex")):
        return True
    if isinstance(node.op, AdvancedSubtensor | AdvancedIncSubtensor):
        first_index = 1 if isinstance(node.op, AdvancedSubtensor) else 2
        is_mask = given.type.dtype == "bool"
        return i < first_index or (given.type.ndim > 0 and not is_mask)
    return isinstance(node.op, ANY_VALUES)
