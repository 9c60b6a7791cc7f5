"""Models of `pymc.dims`, whose variables have labelled dimensions, as models of plain tensors."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from pymc.dims.distributions import transforms as labelled
from pymc.distributions import transforms
from pymc.distributions.distribution import SymbolicRandomVariable
from pymc.model.fgraph import remove_view_rewrite
from pytensor.compile.ops import view_op
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import clone_replace
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.random.rewriting.basic import local_dimshuffle_rv_lift
from pytensor.tensor.sharedvar import TensorSharedVariable
from pytensor.tensor.type import TensorType
from pytensor.xtensor import as_xtensor
from pytensor.xtensor.type import XTensorConstant, XTensorType

from pymc_logz.errors import ModelError

SAME = {
    labelled.LogTransform: transforms.log,
    labelled.LogOddsTransform: transforms.logodds,
    labelled.CircularTransform: transforms.circular,
}
"""Transforms of labelled values that tensors have too."""


def is_labelled(variable: Variable) -> bool:
    """Whether a variable has labelled dimensions."""
    return isinstance(variable.type, XTensorType)


def in_tensors(model: pm.Model) -> pm.Model:
    """The same model, with the same names, dimensions, data and density, of plain tensors.

    Data are shared with it, so that both have what `pymc.set_data` sets.

    Raises
    ------
    ModelError
        If a free variable has a transform, or an order of dimensions, that tensors do not have.
    """
    data = {one: _plain_data(one) if is_labelled(one) else one for one in model.data_vars}
    named = [one for one in model.named_vars.values() if one not in data]
    plain = _in_tensors([*named, *map(model.rvs_to_values.get, model.observed_RVs)], data)
    new = data | dict(zip(named, plain, strict=False))
    observed = dict(zip(model.observed_RVs, plain[len(named) :], strict=True))
    made = pm.Model(model=None)
    made._coords, made._dim_lengths = model._coords, model._dim_lengths
    for name, old in model.named_vars.items():
        var, dims = new[old], model.named_vars_to_dims.get(name)
        if old in model.deterministics or old in model.potentials:
            var = view_op(var)  # one name each
        var.name = name
        if old in observed:
            made.observed_RVs.append(var)
            value = observed[old]  # in numbers, where it does not follow data that may be set
            if not any(isinstance(one, SharedVariable) for one in graph_inputs([value])):
                value = pt.constant(value.eval())
            made.create_value_var(var, transform=None, default_transform=None, value_var=value)
        elif old in model.free_RVs:
            made.free_RVs.append(var)
            way = _plain_transform(var, model.rvs_to_transforms[old], dims or ())
            made.create_value_var(var, transform=way, default_transform=None)
            made.set_initval(var, model.rvs_to_initial_values[old])
        for kind in ("potentials", "deterministics", "data_vars"):
            if old in getattr(model, kind):
                getattr(made, kind).append(var)
        made.add_named_variable(var, dims=dims)
    return made


def _in_tensors(graphs: Sequence[Any], data: dict[Variable, Variable]) -> list[Variable]:
    """Graphs of tensors in the place of those with labels, in the order of their dimensions."""
    constants = [one for one in graph_inputs(graphs) if isinstance(one, XTensorConstant)]
    plain = data | {one: pt.constant(one.data, name=one.name) for one in constants}
    labels = {
        old: as_xtensor(new, dims=old.type.dims) for old, new in plain.items() if is_labelled(old)
    }
    tensors = [one.values if is_labelled(one) else one for one in graphs]
    lowered = FunctionGraph(outputs=clone_replace(tensors, labels), clone=False)
    remove_view_rewrite.apply(lowered)
    rewrite_graph(lowered, include=("lower_xtensor",))
    # PyMC gives variables the order of dimensions that a user wants by a transpose of them
    for out in list(lowered.outputs):
        op = out.owner_op
        if not (isinstance(op, DimShuffle) and op.is_transpose):
            continue
        if lifted := local_dimshuffle_rv_lift.transform(lowered, out.owner):
            lowered.replace(out, lifted[out], import_missing=True)
    return list(lowered.outputs)


def _plain_data(labelled_data: Any) -> TensorSharedVariable:
    """Shared data without labels, which are in the same place."""
    kind = TensorType(labelled_data.type.dtype, labelled_data.type.shape)
    place = {"container": labelled_data.container, "value": None, "strict": None}
    return TensorSharedVariable(type=kind, name=labelled_data.name, **place)


def _plain_transform(var: Any, way: Any, dims: Sequence[str]) -> Any:
    """The transform of a tensor that is that of a labelled variable."""
    if not isinstance(var.owner.op, RandomVariable | SymbolicRandomVariable):
        raise ModelError(
            f"free variable {var.name!r} has dimensions {dims} in an order that its distribution "
            "cannot be given: its core dimensions are to be the last"
        )
    if way is None or type(way) in SAME:
        return way and SAME[type(way)]
    if isinstance(way, labelled.IntervalTransform):
        ends = [_in_order(way.lower, dims), _in_order(way.upper, dims)]
        bounds = [None if np.all(np.isinf(end)) else pt.constant(end) for end in ends]
        return transforms.Interval(bounds_fn=lambda *_: tuple(bounds))
    if isinstance(way, labelled.SimplexTransform) and dims[-1] == way.core_dim:
        return transforms.simplex
    if isinstance(way, labelled.ZeroSumTransform):
        return transforms.ZeroSumTransform([dims.index(dim) - len(dims) for dim in way.dims])
    raise ModelError(
        f"free variable {var.name!r} of pymc.dims has the transform {way!r}, which is not known: "
        "declare it without transform=, or with pm.Normal(..., dims=...) and the like"
    )


def _in_order(constant: Any, dims: Sequence[str]) -> np.ndarray:
    """Values of a labelled constant, of size 1 along dimensions that it does not have."""
    values = xr.DataArray(constant.data, dims=constant.type.dims)
    more = dict.fromkeys([dim for dim in dims if dim not in values.dims], 1)
    return values.expand_dims(more).transpose(*dims).to_numpy()
