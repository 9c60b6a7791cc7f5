"""Discrete free variables of a model: which values they may have, and their place in a row."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.discrete import DiscreteUniformRV, DiscreteWeibullRV
from pymc.distributions.multivariate import DirichletMultinomialRV
from pymc.pytensorf import constant_fold, rvs_in_graph
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.random import basic
from pytensor.tensor.variable import TensorVariable

from pymc_logz.graphs.functions import function_for
from pymc_logz.models.cache import KeptForModel, is_data
from pymc_logz.models.data_inputs import split_vector, starting_point
from pymc_logz.paths.geometric import Site

SUPPORTS: dict[type, Callable[..., tuple[Any, Any]]] = {
    basic.BernoulliRV: lambda p: (0, 1),
    basic.BetaBinomialRV: lambda n, alpha, beta: (0, n),
    basic.BinomialRV: lambda n, p: (0, n),
    basic.CategoricalRV: lambda p: (0, p.shape[-1] - 1),
    basic.GeometricRV: lambda p: (1, None),
    basic.HyperGeometricRV: lambda good, bad, n: (pt.maximum(0, n - bad), pt.minimum(n, good)),
    basic.NegBinomialRV: lambda n, p: (0, None),
    basic.PoissonRV: lambda mu: (0, None),
    DiscreteUniformRV: lambda lower, upper: (lower, upper),
    DiscreteWeibullRV: lambda q, beta: (0, None),
    basic.MultinomialRV: lambda n, p: (0, pt.shape_padright(n)),
    DirichletMultinomialRV: lambda n, a: (0, pt.shape_padright(n)),
}
"""From a distribution's parameters to its smallest and largest value; None where there is none.

Of others, and of bounds that depend on free variables, nothing is assumed: the density says by
itself where it is zero."""
TIED = (basic.MultinomialRV, DirichletMultinomialRV)
"""Distributions whose entries along the last axis have a fixed sum."""


def is_discrete(variable: Any) -> bool:
    """Whether a variable holds integers or truth values."""
    return str(variable.dtype).startswith(("int", "uint", "bool"))


def discrete_names(model: pm.Model) -> list[str]:
    """Names of the discrete free variables."""
    return [rv.name for rv in model.free_RVs if is_discrete(rv)]


def sites_of(
    model: pm.Model, start: Mapping[str, np.ndarray], kept: KeptForModel
) -> tuple[Site, ...]:
    """The discrete entries of a row, in order; what is kept learns which data the bounds are of."""
    sites: list[Site] = []
    columns = columns_of({var: start[var.name].shape for var in model.value_vars})
    for rv, own in zip(model.free_RVs, columns.values(), strict=True):
        if is_discrete(rv):
            length = own.shape[-1] if isinstance(rv.owner.op, TIED) else None
            bounds = zip(own.ravel().tolist(), _bounds(rv, own.shape, kept), strict=True)
            for i, (column, ends) in enumerate(bounds):
                tied = None if length is None else column - i % length
                sites.append(Site(column, *ends, tied))
    return tuple(sites)


def _bounds(
    rv: Any, shape: tuple[int, ...], kept: KeptForModel
) -> list[tuple[int | None, int | None]]:
    """Smallest and largest value of each entry of a variable; None where that is not known."""
    support = SUPPORTS.get(type(rv.owner.op))
    found = (None, None) if support is None else support(*rv.owner.op.dist_params(rv.owner))
    bounds = []
    for bound in found:
        value = None if bound is None else _constant(bound, kept)
        entries = np.full(shape, None) if value is None else np.broadcast_to(value, shape)
        bounds.append([entry if value is None else int(entry) for entry in entries.ravel()])
    return list(zip(*bounds, strict=True))


def _constant(bound: Any, kept: KeptForModel) -> np.ndarray | None:
    """Value of an expression that depends on no free variable; None if it depends on one."""
    [folded] = constant_fold([pt.as_tensor(bound)], raise_not_constant=False)
    if not isinstance(folded, Variable):
        return np.asarray(folded)
    if rvs_in_graph([bound]):
        return None
    kept.bake_in(var for var in graph_inputs([bound]) if is_data(var))
    return np.asarray(function_for([], bound, mode="FAST_COMPILE")())


def columns_of[Name](shapes: Mapping[Name, tuple[int, ...]]) -> dict[Name, np.ndarray]:
    """Columns of a row that each of several variables takes, in its shape."""
    columns, end = {}, 0
    for name, shape in shapes.items():
        start, end = end, end + math.prod(shape)
        columns[name] = np.arange(start, end).reshape(shape)
    return columns


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
    parts: dict[Any, Any] = {}
    shapes = [start[var.name].shape for var in variables]
    for var, part in zip(variables, split_vector(row, shapes), strict=True):
        part = pt.round(part) if is_discrete(var) else part
        parts[var] = var.type.filter_variable(part.astype(var.dtype))
    return parts


def colours(neighbours: Sequence[Sequence[int]]) -> np.ndarray:
    """A number for each of d entries, so that neighbours differ, shape (d,).

    Breadth first, each entry the least that its neighbours leave: two for any graph that two
    suffice for.
    """
    colour = np.full(len(neighbours), -1)
    for first in range(len(neighbours)):
        waiting = [first]
        while waiting:
            entry = waiting.pop(0)
            if colour[entry] < 0:
                taken = {colour[other] for other in neighbours[entry]}
                colour[entry] = next(c for c in range(len(neighbours)) if c not in taken)
                waiting += neighbours[entry]
    return colour
