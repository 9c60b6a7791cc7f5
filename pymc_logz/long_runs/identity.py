"""What a run is of, as text that is the same in every process, to tell it from another one."""

import hashlib
import json
import platform
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import Op
from pytensor.graph.traversal import graph_inputs, io_toposort
from pytensor.tensor.sharedvar import TensorSharedVariable

from pymc_logz.errors import ModelError
from pymc_logz.graphs.functions import cheaply_compiled
from pymc_logz.long_runs.records import encode, fields_of
from pymc_logz.models.cache import kept_for
from pymc_logz.models.context import is_model, model_data
from pymc_logz.models.flat import FlatModel
from pymc_logz.models.prior import PriorDraws
from pymc_logz.models.rows import at_symbolic_row, joined, starting_point
from pymc_logz.pilot.settings import RunSettings
from pymc_logz.runners.running import naming
from pymc_logz.trees.layout import versions_of

if TYPE_CHECKING:
    import pymc as pm

SEED, REQUEST, DENSITY = "seed", "request", "density"
"""Records of the state of the generator that a run was begun with, of what the user gave, and of
log densities at some points, by number of the model."""
LIBRARIES_OF_BITS = ("pymc-logz", "pymc", "pytensor", "numpy", "scipy", "jax", "jaxlib", "numba")
"""Those on whose versions bits may depend."""
ADDRESS = re.compile(r"0x[0-9a-f]+|<function [^>]*>|\b(auto_)?\d{6,}\b")
"""What tells objects of one process apart, and is another one in the next."""


def identity_of_call(
    settings: RunSettings | Mapping[str, Any], what: Any, compiled: Any, rng: np.random.Generator
) -> dict[str, Any]:
    """All that the bits of a call depend on, in nested dicts of strings and numbers.

    ``what`` is a model as it is run, an energy, or models by name; ``compiled`` its moves or
    densities (None where each model has its own); the generator is that before its use.
    """
    if isinstance(settings, RunSettings):
        settings = _of_settings(settings, compiled)
    if isinstance(what, FlatModel):
        model: Any = identity_of_model(what.model, what.observed)
    elif isinstance(what, Mapping):
        model = {name: naming(name, partial(identity_of_model, one)) for name, one in what.items()}
    else:
        model = {"name": what.name, "values": list(map(digest_of, compiled.path.values))}
    seed = json.dumps(rng.bit_generator.state, default=lambda array: array.tolist())
    return {
        "settings": {key: as_text(value) for key, value in settings.items()},
        "model": model,
        "random_seed": _digest(seed.encode()),
        "backend": "of each model" if compiled is None else compiled.compiled.backend,
        "machine": platform.machine(),
        "versions": versions_of(LIBRARIES_OF_BITS),
    }


def _of_settings(settings: RunSettings, compiled: Any) -> dict[str, Any]:
    """What of the settings of a run, and of its moves, bits depend on."""
    own = {
        name: np.asarray(value) if isinstance(value, list | tuple) else value
        for name, value in (fields_of(settings) or {}).items()
        if name not in ("running", "more")
    }
    own |= {"method": settings.method, "compile_kwargs": compiled.compile_kwargs or {}}
    if compiled.most_rows is not None:
        own["particles that max_memory has room for"] = compiled.most_rows
    return own


def request_of(settings: Any, compiled: Any) -> dict[str, Any]:
    """What a user gave, as a record; empty if it is more than numbers and names."""
    if not isinstance(settings, RunSettings):
        return {}
    given = fields_of(settings) or {}
    given.pop("running")
    record = {"settings": given, "compile_kwargs": dict(compiled.compile_kwargs or {})}
    try:
        encode(record)
    except TypeError:  # a kernel of the user's own, a mode, draws for a reference
        return {}
    return record


def identity_of_model(
    model: "pm.Model", observed: Mapping[str, np.ndarray] | None = None
) -> dict[str, Any]:
    """Variables, data (or what stands in for them) and densities, in nested dicts of strings."""
    data = {
        str(name): digest_of(one)
        for some in model_data(model, observed)
        for name, one in some.items()
    }
    outputs = [model.varlogp, model.datalogp]
    given = [var for var in graph_inputs(outputs) if isinstance(var, TensorSharedVariable)]
    values = {str(var.name): digest_of(var.get_value(borrow=True)) for var in given}
    lines = _lines([*model.value_vars, *given], outputs, set(data.values()))
    return {
        "variables": {name: str(value.shape) for name, value in starting_point(model).items()},
        "data": data,
        "log density": _digest("\n".join(lines).encode()),
        "further data": {name: one for name, one in values.items() if one not in data.values()},
    }


def points_of(model: "pm.Model") -> np.ndarray:
    """Rows (n, d) that tell models apart: where one starts, and draws of its prior if there are."""
    rows = joined(starting_point(model), model.value_vars, "float64")[None]
    with suppress(ModelError):
        rows = np.concatenate([rows, PriorDraws(model)(np.random.default_rng(0), 2)])
    return rows


def log_densities(model: "pm.Model", rows: np.ndarray) -> np.ndarray | None:
    """Log densities of rows, by whatever code a graph calls; None if it cannot be called so."""
    with suppress(Exception):  # a run may have them by another way
        row, outputs = at_symbolic_row(model, [model.varlogp + model.datalogp])
        one = kept_for(model).get("log density", lambda: cheaply_compiled([row], outputs))
        return np.array([one(values.astype(row.dtype))[0] for values in rows], dtype=float)
    return None


def departing(there: np.ndarray, here: np.ndarray) -> np.ndarray:
    """Which of n values lie away from those of m evaluations (m, n), by what these spread."""
    with np.errstate(invalid="ignore"):
        low, high = here.min(axis=0), here.max(axis=0)
        slack = 1e-6 * (1 + np.abs(high)) + 2 * (high - low)
        near = (there >= low - slack) & (there <= high + slack)
    return ~(near | (there == here[0]) | (np.isnan(there) & np.isnan(low)))


def as_text(value: Any) -> Any:
    """An argument as text and numbers that are the same in every process, if it is the same."""
    value = value.item() if isinstance(value, np.number | np.bool_) else value
    if isinstance(value, bool | int | float | str | None):
        return value
    if isinstance(value, xr.DataTree):
        group = value["posterior"].to_dataset()
        parts = [f"{name}{digest_of(group[name].to_numpy())}" for name in sorted(map(str, group))]
        return _digest("".join(parts).encode())
    if is_model(value):
        return identity_of_model(value)
    if isinstance(value, Mapping):
        return {str(key): as_text(part) for key, part in value.items()}
    if isinstance(value, np.ndarray | np.generic):  # some numbers are no other type's
        return digest_of(value)
    if (own := fields_of(value)) is not None:
        named = {name: as_text(part) for name, part in own.items()}
        return {"class": type(value).__name__, **named}
    if isinstance(value, list | tuple):
        return [as_text(part) for part in value]
    return type(value).__qualname__  # what it prints may be another thing in each process


def digest_of(array: Any) -> str:
    """Digest of an array: its dtype, shape and contents."""
    array = np.asarray(array)
    if array.dtype.kind not in "biufc":
        contents = repr(array.tolist()).encode()
    else:
        contents = np.ascontiguousarray(array).tobytes()
    head = f"{array.dtype.str}{array.shape}".encode()
    return _digest(head + contents)


def _digest(contents: bytes) -> str:
    return hashlib.blake2b(contents, digest_size=8).hexdigest()


def _lines(inputs: Sequence[Variable], outputs: Sequence[Variable], known: set[str]) -> list[str]:
    """One line for each operation: what it is, and of what; arrays of ``known`` digests alike."""
    names: dict[Variable, str] = {var: f"in{i}" for i, var in enumerate(inputs)}
    lines = []

    def named(var: Variable) -> str:
        if var in names:
            return names[var]
        if not isinstance(var, Constant):
            return f"{var.type}"  # an input that nobody gave: a random generator, say
        if not isinstance(var.data, np.ndarray | np.generic):
            return ADDRESS.sub("", repr(var.data))
        digest = digest_of(var.data)
        return "data" if digest in known else f"{var.type}{digest}"

    for n, node in enumerate(io_toposort(list(inputs), list(outputs))):
        arguments = ", ".join(map(named, node.inputs))
        lines.append(f"{n}: {_op(node.op, known)}({arguments})")
        names |= {out: f"{n}.{i}" for i, out in enumerate(node.outputs)}
    return [*lines, *map(named, outputs)]


def _op(op: Op, known: set[str]) -> str:
    """An operation with all that it does."""
    inner, inside = getattr(op, "fgraph", None), ""
    if isinstance(inner, FunctionGraph):
        inside = "[" + "; ".join(_lines(inner.inputs, inner.outputs, known)) + "]"
    props = {name: getattr(op, name, None) for name in getattr(op, "__props__", ())}
    parts = {name: _op(p, known) if isinstance(p, Op) else _text(p) for name, p in props.items()}
    return f"{type(op).__module__}.{type(op).__qualname__}{parts}{inside}"


def _text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return digest_of(value)
    if isinstance(value, Mapping):
        return str({str(key): _text(part) for key, part in value.items()})
    return ADDRESS.sub("", str(value))
