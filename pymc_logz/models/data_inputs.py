"""Data of a model: where they enter it, and the symbolic inputs that take their place."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import graph_inputs, io_toposort
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import ARange, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.subtensor import AdvancedIncSubtensor, AdvancedSubtensor
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorVariable

from pymc_logz.graphs.functions import cheaply_compiled, without_c
from pymc_logz.models.cache import KeptForModel, is_data, kept_for

ANY_VALUES = (Elemwise, CAReduce, DimShuffle, CheckAndRaise, ScalarFromTensor, TensorFromScalar)
"""Operations whose output's shape is the same whatever integers come in."""


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


def starting_point(model: pm.Model) -> dict[str, np.ndarray]:
    """One value of each value variable, of its dtype and shape; by name."""
    kept, variables = kept_for(model), list(model.free_RVs)

    def make() -> dict[str, np.ndarray]:
        data = [var for var in graph_inputs(variables) if is_data(var)]
        kept.bake_in(decide_on_shapes(data, variables))
        with without_c():
            return model.initial_point(0)

    return kept.get("start", make)


def natural_shapes(model: pm.Model) -> dict[str, tuple[int, ...]]:
    """Shapes of the free variables on their natural scale."""

    def make() -> dict[str, tuple[int, ...]]:
        with without_c():
            evaluated = model.eval_rv_shapes()
        return {rv.name: tuple(map(int, evaluated[rv.name])) for rv in model.free_RVs}

    return kept_for(model).get("shapes", make)


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


def with_places(model: pm.Model, names: Iterable[str]) -> pm.Model:
    """The model for its log density alone, in which observed data have variables of their own.

    PyMC has one constant for all that are equal: what takes the place of an observed 2.0 would take
    that of every other 2.0 of the likelihood, too.
    """
    places = {model[name]: data_variable(model, name) for name in names}
    fresh = {rv: place.type() for rv, place in places.items() if isinstance(place, Constant)}
    opened: pm.Model = object.__new__(type(model))  # a copy of it has copies of all variables
    vars(opened).update(vars(model), rvs_to_values={**model.rvs_to_values, **fresh})
    return opened


def data_variable(model: pm.Model, name: str) -> Variable:
    """Where data enter the model's graphs: a data container, or an observed variable's value."""
    var = model[name]
    return model.rvs_to_values.get(var, var)


def own_data(model: pm.Model, name: str) -> np.ndarray:
    """What the model itself has in that place."""
    place = data_variable(model, name)
    if isinstance(place, Constant):
        return np.asarray(place.data)
    if isinstance(place, SharedVariable):
        return np.asarray(place.get_value())
    # a function of containers, which it reads anew whenever it is called
    read = kept_for(model).get(("own data", name), lambda: cheaply_compiled([], place))
    return np.asarray(read())


def symbolic_data(
    model: pm.Model, names: Iterable[str]
) -> tuple[TensorVariable, dict[str, TensorVariable]]:
    """A vector (D,) of all data of these names, and its parts by name."""
    own = {name: own_data(model, name) for name in names}
    shapes = [values.shape for values in own.values()]
    vector = pt.tensor("data", dtype="float64", shape=(sum(map(math.prod, shapes)),))
    parts = zip(own, split_vector(vector, shapes), strict=True)
    return vector, {name: part.astype(own[name].dtype) for name, part in parts}


def split_vector(vector: TensorVariable, shapes: Iterable[tuple[int, ...]]) -> list[TensorVariable]:
    """Parts of a symbolic vector, one behind the other, in these shapes."""
    parts, end = [], 0
    for shape in shapes:
        start, end = end, end + math.prod(shape)
        parts.append(vector[start:end].reshape(shape))
    return parts


def check_order(model: pm.Model, name: str, value: Any, what: str, rows: str = "") -> None:
    """Refuse a labelled array whose dimensions or labels are not where the model has them.

    Arrays are read by position: those of many ``rows``, which come first, or of one.
    """
    own = tuple(model.named_vars_to_dims.get(name) or ())
    if not isinstance(value, xr.DataArray) or not own or not set(own) <= set(value.dims):
        return
    if value.dims[bool(rows) :] != own:
        put = f"the {rows} first and the others" if rows else "them"
        raise ValueError(
            f"{what} has dimensions {value.dims}, but the model's own has {own}; put {put} in that "
            "order with .transpose()"
        )
    for dim in own:
        labels = model.coords.get(dim)
        if labels is not None and dim in value.coords and list(labels) != list(value[dim].values):
            raise ValueError(
                f"{what} has other labels along {dim!r} than the model, or in another order; "
                "select or reindex them to the model's coords"
            )
