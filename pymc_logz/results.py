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
from pymc_logz.runners.anneal import Annealed, Plan

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


def annealing_dataset(runs: Sequence[Annealed], plan: Plan) -> xr.Dataset:
    """Group ``annealing``: what happened at each inverse temperature of each chain."""
    step_size = plan.step_size.copy()
    step_size[[0, -1]] = np.nan  # nothing moves at the two ends
    per_chain = {
        "acceptance_rate": [run.stage_acceptance_rate for run in runs],
        "mean_log_ratio": [run.stage_mean_log_ratio for run in runs],
        "weight_ess": [run.stage_weight_ess for run in runs],
    }
    dataset = xr.Dataset(
        {name: (("chain", "stage"), np.stack(values)) for name, values in per_chain.items()},
        coords={
            "chain": np.arange(len(runs)),
            "stage": np.arange(plan.betas.size),
            "beta": ("stage", plan.betas),
        },
    )
    dataset["step_size"] = ("stage", step_size)
    dataset["n_nan_log_ratio"] = ("chain", np.array([run.n_nan for run in runs]))
    return dataset


def reverse_dataset(runs: Sequence[Annealed], plan: Plan) -> xr.Dataset:
    """Group ``reverse_annealing``: rows annealed from the target back to the reference."""
    shape = (len(runs), runs[0].log_weight.size)
    dataset = annealing_dataset(runs, plan.reverse())
    weights = np.concatenate([run.log_weight for run in runs]).reshape(shape)
    dataset["log_weight"] = (("chain", "draw"), weights)
    return with_units(dataset.assign_coords(draw=np.arange(shape[1])))


def draw_datasets(
    runs: Sequence[Annealed],
    values: Mapping[str, np.ndarray],
    chosen: np.ndarray,
    *,
    coords: Mapping[str, Any],
    dims: Any,
) -> dict[str, xr.Dataset]:
    """Groups ``posterior``, ``sample_stats`` and ``weighted_posterior``.

    Parameters
    ----------
    runs
        C chains of n rows.
    values
        Named values of all rows, shape (C * n, ...).
    chosen
        Indices into those rows that make equally weighted draws, shape (C * n,).
    coords, dims
        Labels of the model.
    """
    shape = (len(runs), runs[0].log_weight.size)

    def stacked(name: str) -> np.ndarray:
        return np.concatenate([getattr(run, name) for run in runs])

    def labelled(arrays: Mapping[str, np.ndarray], index: Any) -> xr.Dataset:
        chains = {
            name: array[index].reshape(*shape, *array.shape[1:]) for name, array in arrays.items()
        }
        return with_units(dict_to_dataset(chains, coords=dict(coords), dims=dims))

    log_ratio = stacked("log_ratio")
    stats = {
        "lp": stacked("log_reference") + log_ratio,
        "log_ratio": log_ratio,
        "acceptance_rate": stacked("acceptance_rate"),
    }
    everything = slice(None)
    return {
        "posterior": labelled(values, chosen),
        "sample_stats": labelled(stats, chosen),
        "weighted_posterior": labelled({**values, "log_weight": stacked("log_weight")}, everything),
    }


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
