"""Runs and estimates as an ArviZ tree: the one place where groups, names and dimensions are set.

| group | dimensions | what it holds |
|---|---|---|
| ``posterior`` | chain, draw | equally weighted draws, resampled from the weighted ones |
| ``sample_stats`` | chain, draw | ``lp``, ``log_ratio``, ``acceptance_rate`` of those draws |
| ``weighted_posterior`` | chain, draw | end points of the annealed rows, and ``log_weight`` |
| ``annealing`` | chain, stage | acceptance, mean log ratio, weight ESS, step size |
| ``reverse_annealing`` | chain, stage, draw | the same from the target back, and ``log_weight`` |
| ``evidence`` | method | ``log_z``, ``mcse``, ``weight_ess``, ``khat``, ``status`` |
| ``observed_data``, ``constant_data`` | as in the model | the data |
"""

import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import xarray as xr
from arviz_base import dict_to_dataset

from pymc_logz.errors import STATUS_SENTENCES
from pymc_logz.estimators.result import LogZEstimate

LIBRARIES = ("pymc-logz", "pymc", "pytensor", "arviz", "numpy")
UNITS = {"log_z": "nats", "mcse": "nats", "log_weight": "nats", "log_ratio": "nats", "lp": "nats"}


def evidence_dataset(estimates: Sequence[LogZEstimate], attrs: Mapping[str, Any]) -> xr.Dataset:
    """Group ``evidence``: one entry of dimension ``method`` per estimate, the best one first."""
    numbers = ("log_z", "mcse", "weight_ess", "khat")
    columns = {name: [getattr(est, name) for est in estimates] for name in numbers}
    dataset = xr.Dataset(
        {name: ("method", np.array(values, dtype=float)) for name, values in columns.items()},
        coords={"method": [est.method for est in estimates]},
        attrs=dict(attrs),
    )
    dataset["status"] = ("method", np.array([est.status for est in estimates], dtype=str))
    dataset["status"].attrs = {est.status: STATUS_SENTENCES[est.status] for est in estimates}
    return with_units(dataset)


def evidence_of_rows(
    estimates: Sequence[LogZEstimate],
    row_dim: str,
    coords: Mapping[str, Any],
    attrs: Mapping[str, Any],
) -> xr.Dataset:
    """Group ``evidence`` of many data rows: one method, one entry of ``row_dim`` per estimate."""
    dataset = evidence_dataset(estimates, attrs).drop_vars("method")
    dataset = dataset.rename_dims(method=row_dim).assign_coords(coords)
    return dataset.expand_dims(method=np.array([estimates[0].method]))


def data_datasets(
    observed: Mapping[str, Any],
    constant: Mapping[str, Any],
    *,
    coords: Mapping[str, Any],
    dims: Any,
) -> dict[str, xr.Dataset]:
    """Groups ``observed_data`` and ``constant_data``, those that are not empty."""
    return {
        name: dict_to_dataset(dict(data), coords=dict(coords), dims=dims, sample_dims=[])
        for name, data in (("observed_data", observed), ("constant_data", constant))
        if data
    }


def make_tree(groups: Mapping[str, xr.Dataset], settings: Mapping[str, Any]) -> xr.DataTree:
    """Tree of the groups; settings and library versions become attributes of its root."""
    tree = xr.DataTree.from_dict(dict(groups))
    tree.attrs = {
        "settings": json.dumps(settings, default=str, sort_keys=True),
        "versions": json.dumps({name: version(name) for name in LIBRARIES}),
    }
    return tree


def with_units(dataset: xr.Dataset) -> xr.Dataset:
    """The same dataset, units noted on what has any."""
    for name, unit in UNITS.items():
        if name in dataset:
            dataset[name].attrs["units"] = unit
    return dataset
