"""Variables of a model, or its data, as parts of one vector; and where data enter the model."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import xarray as xr
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.variable import TensorVariable

from pymc_logz.graphs.functions import cheaply_compiled, without_c
from pymc_logz.models.cache import decide_on_shapes, is_data, kept_for


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


def is_discrete(variable: Any) -> bool:
    """Whether a variable holds integers or truth values."""
    return str(variable.dtype).startswith(("int", "uint", "bool"))


def columns_of[Name](shapes: Mapping[Name, tuple[int, ...]]) -> dict[Name, np.ndarray]:
    """Columns of a row that each of several variables takes, in its shape."""
    return split(np.arange(sum(map(math.prod, shapes.values()))), shapes)


def split[Name](vector: Any, shapes: Mapping[Name, tuple[int, ...]]) -> dict[Name, Any]:
    """Parts of a vector, one behind the other, in these shapes; also of a symbolic one."""
    parts, end = {}, 0
    for name, shape in shapes.items():
        start, end = end, end + math.prod(shape)
        parts[name] = vector[start:end].reshape(shape)
    return parts


def at_symbolic_row(model: pm.Model, outputs: Sequence[Any]) -> tuple[TensorVariable, list[Any]]:
    """A symbolic row (d,) of all value variables, integers as floats, and graphs that read it."""
    start = starting_point(model)
    dtypes = [var.dtype for var in model.value_vars if not is_discrete(var)]
    dtype = pytensor.scalar.upcast(*dtypes) if dtypes else pytensor.config.floatX
    n_dims = sum(start[var.name].size for var in model.value_vars)
    row = pt.tensor("row", dtype=dtype, shape=(n_dims,))
    parts = split_row(row, model.value_vars, start)
    return row, clone_replace(outputs, parts, rebuild_strict=False)


def joined(values: Mapping[str, np.ndarray], variables: Sequence[Any], dtype: str) -> np.ndarray:
    """Values of variables by name as one row (d,)."""
    return np.concatenate([[], *(np.ravel(values[var.name]) for var in variables)]).astype(dtype)


def split_row(
    row: TensorVariable, variables: Sequence[Any], start: Mapping[str, np.ndarray]
) -> dict[Any, Any]:
    """Value variables as parts of a symbolic row of floats (d,), integers rounded."""
    parts = split(row, {var: start[var.name].shape for var in variables})
    for var, part in parts.items():
        part = pt.round(part) if is_discrete(var) else part
        parts[var] = var.type.filter_variable(part.astype(var.dtype))
    return parts


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
    size = sum(values.size for values in own.values())
    vector = pt.tensor("data", dtype="float64", shape=(size,))
    parts = split(vector, {name: values.shape for name, values in own.items()})
    return vector, {name: part.astype(own[name].dtype) for name, part in parts.items()}


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
