"""HAIS runs as groups of an ArviZ tree, and trees of models whose sum can be written down."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from pymc_logz.errors import logger
from pymc_logz.estimators import LogZEstimate
from pymc_logz.hais.settings import HaisSettings
from pymc_logz.models.context import model_labels
from pymc_logz.models.flat import constrain, flatten_model, function_of_rows
from pymc_logz.models.preparation import NotSummed, summed_out
from pymc_logz.runners.anneal import Annealed, Plan, of_rows
from pymc_logz.runners.moves_of_rows import Stopwatch
from pymc_logz.seeds import generators_from
from pymc_logz.trees.doubts import warn_of_status
from pymc_logz.trees.kinds import EXACT
from pymc_logz.trees.layout import (
    data_datasets,
    dataset_of,
    evidence_dataset,
    make_tree,
    with_units,
)

if TYPE_CHECKING:
    import pymc as pm


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

    def labelled(arrays: Mapping[str, np.ndarray], index: Any) -> xr.Dataset:
        chains = {
            name: array[index].reshape(*shape, *array.shape[1:]) for name, array in arrays.items()
        }
        return with_units(dataset_of(chains, **labels))

    log_ratio, acceptance_rate = of_rows("log_ratio", runs), of_rows("acceptance_rate", runs)
    if all(np.isnan(run.stage_acceptance_rate).all() for run in runs):
        acceptance_rate = np.full_like(acceptance_rate, np.nan)  # one temperature: nothing moved
    stats = {
        "lp": of_rows("log_reference", runs) + log_ratio,
        "log_ratio": log_ratio,
        "acceptance_rate": acceptance_rate,
    }
    weighted = {**values, "log_weight": of_rows("log_weight", runs)}
    return {
        "posterior": labelled(values, chosen),
        "sample_stats": labelled(stats, chosen),
        "weighted_posterior": labelled(weighted, slice(None)),
    }


def exact_tree(model: "pm.Model", settings: HaisSettings, random_seed: Any) -> xr.DataTree | None:
    """Log Z as a sum over all values, and draws; None if a variable is continuous or not summed."""
    whole = flatten_model(model, integers=True)
    if not whole.sites or whole.continuous.size:
        return None
    watch = Stopwatch()
    found = summed_out(whole, whatever_is_left=True)
    if isinstance(found, NotSummed):
        return None
    assert found.summed is not None
    summed, route = found.summed, found.summed.plan.route
    logger.info("All variables are discrete, and summed out: %s.", route)
    watch.end("compile_time")
    log_z = summed.log_target(np.empty(0))
    shape = settings.chains, settings.draws
    rng = generators_from(random_seed).run
    rows = summed.filled(np.empty((shape[0] * shape[1], 0)), rng)
    values = constrain(whole, rows.reshape(*shape, -1))
    [log_density] = function_of_rows(model, [model.varlogp + model.datalogp])(rows)
    stats = {"lp": log_density.reshape(shape)}
    estimate = exact_estimate(log_z, len(rows))
    watch.end("sampling_time")
    attrs = {"summed_out": route, "prior_finite_share": 1.0, **watch.seconds}
    groups = {
        "posterior": with_units(dataset_of(values, **model_labels(model))),
        "sample_stats": with_units(dataset_of(stats)),
        "evidence": evidence_dataset([estimate], attrs),
        **data_datasets(whole.model, whole.observed),
    }
    return make_tree(groups, {**settings.record(), **attrs}, EXACT)


def exact_estimate(log_z: float, n_draws: int = 0) -> LogZEstimate:
    """A sum over all values, or a log likelihood without unknowns."""
    estimate = LogZEstimate("exact", log_z, 0.0, float(n_draws), np.nan, "ok")
    if not np.isfinite(log_z):
        estimate = LogZEstimate("exact", np.nan, np.nan, 0.0, np.nan, "no_support")
    warn_of_status(estimate)
    return estimate
