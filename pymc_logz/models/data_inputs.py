"""Data of a model as inputs of what is compiled, so that new data of the same shape fit in."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import graph_inputs, io_toposort
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import ARange, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.subtensor import AdvancedIncSubtensor, AdvancedSubtensor
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorVariable

from pymc_logz.models.cache import KeptForModel, is_data, kept_for

ANY_VALUES = (
    Elemwise,
    CAReduce,
    DimShuffle,
    CheckAndRaise,
    ScalarFromTensor,
    TensorFromScalar,
)
"""Operations whose output's shape is the same whatever integers come in."""
BY_INDEX = (AdvancedSubtensor, AdvancedIncSubtensor)


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
    outputs: Iterable[Variable], kept: KeptForModel
) -> tuple[list[Any], DataInputs]:
    """Graphs of a model in which inputs of static shape stand for data.

    Data that decide on a shape or a number of steps are replaced by their present values, as are
    lengths of dimensions: static shapes make other graphs, and JAX compiles no others. What is kept
    for the model has to know what was replaced by values.
    """
    outputs = list(outputs)
    data = [var for var in graph_inputs(outputs) if is_data(var)]
    constants = decide_on_shapes(data, outputs)
    constants |= {var for var in data if not isinstance(var.type, TensorType)}
    kept.bake_in(constants)
    containers = [var for var in data if var not in constants]
    kept.take_in(containers)
    inputs = [_input_for(container) for container in containers]
    places = {**dict(zip(containers, inputs, strict=True)), **_constants(constants)}
    replaced = clone_replace(outputs, places, rebuild_strict=False)
    return replaced, DataInputs(tuple(containers), tuple(inputs))


def with_constant_data(outputs: Iterable[Variable], kept: KeptForModel) -> list[Any]:
    """Graphs in which the present values of data stand for them; see `with_data_inputs`."""
    outputs = list(outputs)
    data = [var for var in graph_inputs(outputs) if is_data(var)]
    kept.bake_in(data)
    return list(clone_replace(outputs, _constants(data), rebuild_strict=False))


def _constants(data: Iterable[Any]) -> dict[Variable, Any]:
    return {var: pt.constant(var.get_value(), name=var.name) for var in data}


def starting_point(model: pm.Model) -> dict[str, np.ndarray]:
    """One value of each value variable, of its dtype and shape; by name."""
    kept, variables = kept_for(model), list(model.free_RVs)

    def make() -> dict[str, np.ndarray]:
        data = [var for var in graph_inputs(variables) if is_data(var)]
        kept.bake_in(decide_on_shapes(data, variables))
        return model.initial_point(0)

    return kept.get("start", make)


def _input_for(container: Any) -> TensorVariable:
    shape = np.shape(container.get_value(borrow=True))
    # nameless: a name such as "1|group" looks like a dtype to PyTensor
    return pt.tensor(dtype=container.type.dtype, shape=shape)


def decide_on_shapes(data: Sequence[Variable], outputs: Sequence[Variable]) -> set[Variable]:
    """Data from whose values, not only whose shapes, a shape may follow.

    An integer or a truth value that is computed from data may do so wherever it enters an
    operation that is not known to be free of this; any other number in a range.
    """
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
    if isinstance(node.op, BY_INDEX):
        first_index = 1 if isinstance(node.op, AdvancedSubtensor) else 2
        is_mask = given.type.dtype == "bool"
        return i < first_index or (given.type.ndim > 0 and not is_mask)
    return isinstance(node.op, ANY_VALUES)
