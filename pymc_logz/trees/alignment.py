"""Draws and data of a tree in the order in which the model has them: by dimensions and labels.

A tree may be transposed, sorted or selected from before it comes here; positions then say nothing.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

if TYPE_CHECKING:
    import pymc as pm

SAMPLES = ("chain", "draw")


def with_dims(dataset: xr.Dataset, dims: Sequence[str], what: str) -> xr.Dataset:
    """The dataset ``what`` in order of time; a ValueError if it lacks one of these dimensions."""
    missing = [dim for dim in dims if dim not in dataset.dims]
    if missing:
        raise ValueError(
            f"{what} has no dimension {missing} (it has {sorted(map(str, dataset.sizes))}): the "
            "error needs the order of the draws in each chain. Pass the tree as it was returned, "
            "not stacked or averaged; to select, keep the dimension by a list, such as "
            "tree.isel(chain=[0])"
        )
    return in_time(dataset)


def in_time(dataset: xr.Dataset) -> xr.Dataset:
    """The dataset with chains and draws in the order of their labels, where these are distinct."""
    for dim in SAMPLES:
        if dim in dataset.indexes:
            index = dataset.indexes[dim]
            if index.is_unique and not index.is_monotonic_increasing:
                dataset = dataset.sortby(dim)
    return dataset


def aligned(
    dataset: xr.Dataset,
    model: "pm.Model",
    names: Collection[str],
    *,
    samples: Sequence[str] = SAMPLES,
    what: str = "the posterior",
) -> xr.Dataset:
    """Those of some variables that the dataset has, dimensions and entries as in the model."""
    if samples:
        dataset = with_dims(dataset, samples, what)
    found = {}
    for name in names:
        if name not in dataset:
            continue
        array = dataset[name]
        if missing := [dim for dim in samples if dim not in array.dims]:
            raise ValueError(f"{what} has {name!r} without the dimension {missing}; sample again")
        found[name] = _as_in_model(array, model, name, samples, what)
    coords = {dim: dataset[dim] for dim in samples if dim in dataset.coords}
    # under dimensions of their own, since each has its entries in an order of its own
    return xr.Dataset(found, coords=coords)


def _as_in_model(
    array: xr.DataArray, model: "pm.Model", name: str, samples: Sequence[str], what: str
) -> xr.DataArray:
    stored = [str(dim) for dim in array.dims if dim not in samples]
    own = _own_dims(model, name, len(stored))
    array = array.transpose(*samples, *_ordered(stored, own))
    for dim, own_dim in zip(array.dims[len(samples) :], own, strict=True):
        if dim == own_dim and dim in array.coords:
            given = model.coords.get(own_dim)
            where = f"{what}, {name!r}, dimension {dim!r}"
            array = array.isel({dim: _order(np.asarray(array[dim]), given, where)})
    values = array.to_numpy()
    return xr.DataArray(values, dims=[*samples, *(f"{name}_{i}" for i in range(len(own)))])


def _own_dims(model: "pm.Model", name: str, n_dims: int) -> list[str]:
    """Dimensions of a variable in the model, those without a name as ArviZ calls them."""
    named = tuple(model.named_vars_to_dims.get(name) or ())
    if len(named) != n_dims:
        named = (None,) * n_dims
    return [f"{name}_dim_{i}" if dim is None else str(dim) for i, dim in enumerate(named)]


def _ordered(stored: list[str], own: list[str]) -> list[str]:
    """Stored dimensions in the model's order; those that it does not know fill the gaps."""
    unknown = iter([dim for dim in stored if dim not in own])
    return [dim if dim in stored else next(unknown) for dim in own]


def _order(labels: np.ndarray, given: Sequence[object] | None, where: str) -> np.ndarray:
    """Positions of the stored entries that make the model's order."""
    for same in (list, _as_text) if given is not None else ():
        here, there = same(labels), same(given or ())
        if here == there:
            return np.arange(len(here))
        if _distinct(here) and _distinct(there) and set(here) == set(there):
            position = {label: i for i, label in enumerate(here)}
            return np.array([position[label] for label in there], dtype=int)
    # what has no labels of a model's own is counted from zero, or from one
    first = labels.min() if labels.dtype.kind in "iu" and labels.size else -1
    if first in (0, 1) and np.array_equal(np.sort(labels) - first, np.arange(labels.size)):
        return np.argsort(labels)
    if given is None:
        return np.arange(labels.size)
    stored, own = set(_as_text(labels)), set(_as_text(given))
    raise ValueError(
        f"{where}: the labels are not those of the model (missing: "
        f"{sorted(own - stored)[:5]}; not in the model: {sorted(stored - own)[:5]})"
        ", so its entries cannot be told apart. Keep the tree whole, or give it the model's labels "
        "(assign_coords)"
    )


def _as_text(labels: Iterable[object]) -> list[str]:
    """Labels as text, since a file may hold dates and numbers in another type."""
    dated = (np.datetime64(one, "ns") if hasattr(one, "day") else one for one in labels)  # type: ignore[call-overload]
    return [str(one) for one in dated]


def _distinct(labels: list[Any]) -> bool:
    try:
        return len(set(labels)) == len(labels)
    except TypeError:  # labels that cannot be compared
        return False
