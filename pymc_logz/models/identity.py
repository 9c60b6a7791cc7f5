"""What a model is, as text that is the same in every process: to tell whether it is another one."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import Op
from pytensor.graph.traversal import graph_inputs, io_toposort
from pytensor.tensor.sharedvar import TensorSharedVariable

from pymc_logz.models.exact import exact_observations
from pymc_logz.models.flat import FlatModel, flatten_model
from pymc_logz.models.labels import model_data

ADDRESS = re.compile(r"0x[0-9a-f]+|<function [^>]*>|\b(auto_)?\d{6,}\b")
"""What tells objects of one process apart, and is another one in the next."""


def identity_of_model(flat: FlatModel) -> dict[str, Any]:
    """Variables, data and densities of a model, in nested dicts of strings.

    Parameters
    ----------
    flat
        The model as it is run.
    """
    observed, constant = model_data(flat)
    named = {**observed, **constant}
    data = {str(name): digest_of(np.asarray(value)) for name, value in named.items()}
    shapes = dict(zip(flat.value_names, map(str, flat.shapes), strict=True))
    inputs = [flat.point, *flat.inputs]
    density = digest_of_graph(inputs, [flat.log_prior, flat.log_ratio], set(data.values()))
    values = {f"input {i}": digest_of(value) for i, value in enumerate(flat.values)}
    known = {key: value for key, value in values.items() if value not in data.values()}
    return {"variables": shapes, "data": data, "log density": density, "further data": known}


def identity_of_any(model: pm.Model) -> dict[str, Any]:
    """The same of a model as it was written, also of one with exact observations.

    Parameters
    ----------
    model
        Any PyMC model.
    """
    if not exact_observations(model):
        return identity_of_model(flatten_model(model, integers=True))
    outputs = [model.varlogp, model.datalogp]
    given = [var for var in graph_inputs(outputs) if isinstance(var, TensorSharedVariable)]
    data = {str(var.name): digest_of(var.get_value(borrow=True)) for var in given}
    values = model.value_vars
    variables = {str(var.name): str(var.type) for var in values}
    density = digest_of_graph([*values, *given], outputs, set())
    return {"variables": variables, "data": data, "log density": density}


def told(value: Any) -> Any:
    """An argument as text and numbers that are the same in every process, if it is the same."""
    if isinstance(value, bool | int | float | str | None):
        return value
    if isinstance(value, xr.DataTree):
        return digest_of_draws(value)
    if isinstance(value, pm.Model):
        return identity_of_any(value)
    if isinstance(value, Mapping):
        return {str(key): told(part) for key, part in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        parts = {one.name: told(getattr(value, one.name)) for one in fields(value)}
        return {"class": type(value).__name__, **parts}
    if isinstance(value, list | tuple):
        return [told(part) for part in value]
    if isinstance(value, np.ndarray | np.generic):
        return digest_of(np.asarray(value))
    return type(value).__qualname__  # what it prints may be another thing in each process


def digest_of_draws(tree: xr.DataTree) -> str:
    """Digest of the group ``posterior`` of a tree."""
    group = tree["posterior"].to_dataset()
    parts = [f"{name}{digest_of(group[name].to_numpy())}" for name in sorted(map(str, group))]
    return hashlib.blake2b("".join(parts).encode(), digest_size=8).hexdigest()


def digest_of(array: np.ndarray) -> str:
    """Digest of an array: its dtype, shape and contents."""
    array = np.asarray(array)
    if array.dtype.kind not in "biufc":
        contents = repr(array.tolist()).encode()
    else:
        contents = np.ascontiguousarray(array).tobytes()
    head = f"{array.dtype.str}{array.shape}".encode()
    return hashlib.blake2b(head + contents, digest_size=8).hexdigest()


def digest_of_graph(inputs: Sequence[Variable], outputs: Sequence[Variable], told: set[str]) -> str:
    """Digest of what is computed; arrays whose digests are among ``told`` count as inputs."""
    lines = "\n".join(_lines(inputs, outputs, told))
    return hashlib.blake2b(lines.encode(), digest_size=8).hexdigest()


def _lines(inputs: Sequence[Variable], outputs: Sequence[Variable], told: set[str]) -> list[str]:
    """One line for each operation: what it is, and of what."""
    names: dict[Variable, str] = {var: f"in{i}" for i, var in enumerate(inputs)}
    lines = []

    def named(var: Variable) -> str:
        if var in names:
            return names[var]
        if isinstance(var, Constant):
            return _constant(var, told)
        return f"{var.type}"  # an input that nobody gave: a random generator, say

    for n, node in enumerate(io_toposort(list(inputs), list(outputs))):
        arguments = ", ".join(map(named, node.inputs))
        lines.append(f"{n}: {_op(node.op, told)}({arguments})")
        names |= {out: f"{n}.{i}" for i, out in enumerate(node.outputs)}
    return [*lines, *map(named, outputs)]


def _constant(var: Constant, told: set[str]) -> str:
    if not isinstance(var.data, np.ndarray | np.generic):
        return ADDRESS.sub("", repr(var.data))
    digest = digest_of(np.asarray(var.data))
    return "data" if digest in told else f"{var.type}{digest}"


def _op(op: Op, told: set[str]) -> str:
    """An operation with all that it does."""
    inner = getattr(op, "fgraph", None)
    inside = ""
    if isinstance(inner, FunctionGraph):
        inside = "[" + "; ".join(_lines(inner.inputs, inner.outputs, told)) + "]"
    props = {name: getattr(op, name, None) for name in getattr(op, "__props__", ())}
    parts = {name: _op(p, told) if isinstance(p, Op) else _text(p) for name, p in props.items()}
    return f"{type(op).__module__}.{type(op).__qualname__}{parts}{inside}"


def _text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return digest_of(value)
    if isinstance(value, Mapping):
        return str({str(key): _text(part) for key, part in value.items()})
    return ADDRESS.sub("", str(value))
