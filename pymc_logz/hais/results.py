"""HAIS runs as groups of an ArviZ tree; docs/learn/read_the_output.md has the table of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from pymc_logz.runners.anneal import Annealed, Plan
from pymc_logz.trees.layout import dataset_of, with_units


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
    dataset = annealing_dataset(runs, plan.reverse())
    weights = np.stack([run.log_weight for run in runs])
    dataset["log_weight"] = (("chain", "draw"), weights)
    return with_units(dataset.assign_coords(draw=np.arange(weights.shape[1])))


def draw_datasets(
    runs: Sequence[Annealed], values: Mapping[str, np.ndarray], chosen: np.ndarray, **labels: Any
) -> dict[str, xr.Dataset]:
    """Groups of draws; ``values`` are those of all rows, ``chosen`` the equally weighted ones."""
    shape = (len(runs), runs[0].log_weight.size)

    def stacked(name: str) -> np.ndarray:
        return np.concatenate([getattr(run, name) for run in runs])

    def labelled(arrays: Mapping[str, np.ndarray], index: Any) -> xr.Dataset:
        chains = {
            name: array[index].reshape(*shape, *array.shape[1:]) for name, array in arrays.items()
        }
        return with_units(dataset_of(chains, **labels))

    log_ratio, acceptance_rate = stacked("log_ratio"), stacked("acceptance_rate")
    if all(np.isnan(run.stage_acceptance_rate).all() for run in runs):
        acceptance_rate = np.full_like(acceptance_rate, np.nan)  # one temperature: nothing moved
    stats = {
        "lp": stacked("log_reference") + log_ratio,
        "log_ratio": log_ratio,
        "acceptance_rate": acceptance_rate,
    }
    weighted = {**values, "log_weight": stacked("log_weight")}
    return {
        "posterior": labelled(values, chosen),
        "sample_stats": labelled(stats, chosen),
        "weighted_posterior": labelled(weighted, slice(None)),
    }
