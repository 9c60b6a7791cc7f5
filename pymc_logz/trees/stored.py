"""Whole trees as records of a checkpoint, and back: the same bits, and nothing that could run."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr


def record_of(tree: xr.DataTree) -> dict[str, Any]:
    """A tree in nested dicts of arrays, numbers and strings, as records are made of.

    Parameters
    ----------
    tree
        Of this package: without arrays of objects.
    """
    return {
        "attrs": dict(tree.attrs),
        "groups": {
            node.path: _record_of_group(node.to_dataset(inherit=False)) for node in tree.subtree
        },
    }


def tree_of(record: Mapping[str, Any]) -> xr.DataTree:
    """The tree that a record was made of."""
    groups = {path: _group_of(group) for path, group in record["groups"].items()}
    tree = xr.DataTree.from_dict(groups)
    tree.attrs = dict(record["attrs"])
    return tree


def _record_of_group(group: xr.Dataset) -> dict[str, Any]:
    variables = {
        str(name): {
            "dims": list(map(str, variable.dims)),
            "values": _plain(variable.to_numpy()),
            "attrs": dict(variable.attrs),
        }
        for name, variable in group.variables.items()
    }
    return {
        "variables": variables,
        "coords": list(map(str, group.coords)),
        "attrs": dict(group.attrs),
    }


def _group_of(record: Mapping[str, Any]) -> xr.Dataset:
    variables = {
        name: (one["dims"], _array(one["values"]), one["attrs"])
        for name, one in record["variables"].items()
    }
    coords = {name: variables.pop(name) for name in record["coords"]}
    return xr.Dataset(variables, coords, dict(record["attrs"]))


def _plain(array: np.ndarray) -> Any:
    """An array; strings and dates with their type and shape, as records have no arrays of these."""
    if array.dtype.kind in "mM":
        return {"type": array.dtype.str, "shape": None, "values": array.view("int64")}
    if array.dtype.kind == "U":
        values = array.ravel().tolist()
        return {"type": array.dtype.str, "shape": list(array.shape), "values": values}
    return array


def _array(value: Any) -> np.ndarray:
    if isinstance(value, np.ndarray):
        return value
    if value["shape"] is None:
        return np.asarray(value["values"]).view(value["type"])
    return np.array(value["values"], dtype=value["type"]).reshape(value["shape"])
