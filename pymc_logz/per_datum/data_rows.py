"""Data rows of a user, each of which takes the place of the model's own data in turn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.shape import Shape, Shape_i

from pymc_logz.arguments import listed
from pymc_logz.errors import ModelError
from pymc_logz.models.rows import check_order, data_variable, own_data, with_places

if TYPE_CHECKING:
    import pymc as pm

DEFAULT_DIM = "data_row"
TAKEN_DIMS = ("estimator", "log_z", "mcse", "weight_ess", "khat", "status")
"""Names in the group ``evidence`` that a dimension of data rows may not have."""


@dataclass(frozen=True)
class DataRows:
    """R data rows, each of which takes the place of the model's own data in turn."""

    names: tuple[str, ...]
    """Data containers or observed variables that they belong to."""
    values: np.ndarray
    """All data of a row side by side, shape (R, D)."""
    dim: str
    """Name of the axis of rows."""
    coords: Mapping[str, Any]
    """Coordinates along that axis."""


def read_data_rows(model: "pm.Model", data: Mapping[str, Any]) -> DataRows:
    """Data rows of a user, by name, for a model of one datum, refused unless they fit."""
    if not isinstance(data, Mapping) or not data:
        raise TypeError(
            f"data={data!r:.100} must be a dictionary from names of data of the model "
            f"({_allowed(model)}) to arrays of data rows"
        )
    _check_names(model, list(data))
    arrays = {name: _checked_values(model, name, value) for name, value in data.items()}
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"data must have the same number of rows everywhere, but has {lengths}")
    dim, coords = _labels(model, data, min(lengths.values()))
    flat = [array.reshape(len(array), -1).astype(float) for array in arrays.values()]
    return DataRows(tuple(arrays), np.concatenate(flat, axis=1), dim, coords)


def container_names(model: "pm.Model", data: Sequence[str] | None) -> tuple[str, ...]:
    """Names of data containers of a model: those given, or all."""
    known = [var.name for var in model.data_vars]
    names = known if data is None else listed(data)
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise ModelError(
            f"data={data!r} must name pm.Data containers of the model, which are {known}: wrap "
            "what changes in pm.Data"
        )
    return tuple(dict.fromkeys(names))


def _allowed(model: "pm.Model") -> str:
    containers = [var.name for var in model.data_vars]
    observed = [rv.name for rv in model.observed_RVs]
    return f"data containers {containers}, observed variables {observed}"


def _check_names(model: "pm.Model", names: list[str]) -> None:
    """Each name is one of data that enter the likelihood and nothing else."""
    known = {var.name for var in (*model.data_vars, *model.observed_RVs)}
    for name in names:
        if name not in known:
            what = "a free variable" if name in {rv.name for rv in model.free_RVs} else "unknown"
            raise ModelError(
                f"data[{name!r}] is {what}; allowed are names of data of the model: "
                f"{_allowed(model)}. Wrap what changes in pm.Data"
            )
    opened = with_places(model, names)
    prior = _read_by([opened.varlogp, *model.free_RVs])
    likelihood = _read_by([opened.datalogp])
    places = {name: data_variable(opened, name) for name in names}
    for name, place in places.items():
        if place in prior:
            raise ModelError(
                f"data[{name!r}] enters the prior, or the shape, of a free variable, and so would "
                "change the prior draws that a run starts from; only the likelihood may "
                "depend on it: write mu(x) + sigma(x) * z with z ~ Normal(0, 1), for instance"
            )
        if place not in likelihood:
            raise ModelError(
                f"data[{name!r}] does not enter the likelihood, so log Z would be the same "
                "whatever it is; leave it out"
            )
        twins = [other for other in names if other != name and place in ancestors([places[other]])]
        if twins:
            raise ModelError(
                f"data[{name!r}] and data[{twins[0]!r}] are the same data of the model; give one"
            )


def _read_by(outputs: list[Variable]) -> set[Variable]:
    """Variables whose values, not only whose shapes, the outputs depend on."""
    shapes = [var for var in ancestors(outputs) if isinstance(var.owner_op, Shape | Shape_i)]
    return set(ancestors(outputs, blockers=shapes))


def _checked_values(model: "pm.Model", name: str, value: Any) -> np.ndarray:
    """Values of all rows, shape (R, *shape of the model's own)."""
    array, own = np.asarray(value), own_data(model, name)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"data[{name!r}] has dtype {array.dtype}; give real numbers")
    if array.ndim != own.ndim + 1 or array.shape[1:] != own.shape:
        hint = "; a single datum is value[None]" if array.shape == own.shape else ""
        raise ValueError(
            f"data[{name!r}] has shape {array.shape}, but one datum of the model has shape "
            f"{own.shape}; give an array of shape {('rows', *own.shape)}, the data rows first{hint}"
        )
    if len(array) == 0:
        raise ValueError(f"data[{name!r}] has no rows, shape {array.shape}; give at least one")
    missing = np.isnan(array) | np.ma.getmaskarray(value if np.ma.isMA(value) else array)
    if missing.any():
        bad = np.flatnonzero(missing.reshape(len(array), -1).any(axis=1))
        raise ValueError(
            f"data[{name!r}] has missing values (NaN or masked) in {bad.size} of {len(array)} rows,"
            f" the first of them row {bad[0]}; drop these rows, or run them with a model that "
            "leaves the missing entries out"
        )
    if own.dtype.kind in "biu" and not np.array_equal(array.astype(own.dtype), array):
        raise ValueError(
            f"data[{name!r}] has values between {array.min()} and {array.max()}, of which the "
            f"model's dtype {own.dtype} cannot hold all; give whole numbers in its range, or make "
            "the model's own data floats"
        )
    return array


def _labels(model: "pm.Model", data: Mapping[str, Any], n_rows: int) -> tuple[str, dict[str, Any]]:
    """Name and coordinates of the axis of data rows."""
    labelled = {name: value for name, value in data.items() if isinstance(value, xr.DataArray)}
    if not labelled:
        return DEFAULT_DIM, {DEFAULT_DIM: np.arange(n_rows)}
    for name, value in labelled.items():
        check_order(model, name, value, f"data[{name!r}]", "data rows")
    dims = {name: str(value.dims[0]) for name, value in labelled.items()}
    found = [value.indexes.get(value.dims[0]) for value in labelled.values()]
    indexes = [index for index in found if index is not None]
    if len(set(dims.values())) > 1 or any(not index.equals(indexes[0]) for index in indexes):
        raise ValueError(
            f"data must have the same leading dimension and coordinate everywhere, but has {dims} "
            "with coordinates that differ; rename, select or reindex them"
        )
    dim = next(iter(dims.values()))
    if dim in TAKEN_DIMS:
        raise ValueError(
            f"the leading dimension of data is called {dim!r}, as is something in the result; "
            f"rename it, to {DEFAULT_DIM!r} for instance (not allowed: {TAKEN_DIMS})"
        )
    coords = {}
    for value in labelled.values():
        for key, coord in value.coords.items():
            if coord.dims == (dim,) and key not in TAKEN_DIMS:
                labels = coord.to_numpy()
                # no file format keeps object dtype
                coords[str(key)] = dim, labels.astype(str) if labels.dtype == object else labels
    return dim, coords
