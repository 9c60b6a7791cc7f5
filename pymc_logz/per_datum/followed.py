"""What a tracker follows: a PyMC model whose data change, or a machine whose parameters do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import pandas as pd
import pytensor.tensor as pt
import xarray as xr
from scipy.special import logsumexp, softmax

from pymc_logz.estimators.draws import TemperedDraws
from pymc_logz.estimators.result import LogZEstimate
from pymc_logz.graphs.compiling import compile_function
from pymc_logz.loop.calls import Call
from pymc_logz.loop.frozen import Planned
from pymc_logz.loop.planning import block_for
from pymc_logz.models.context import ForeignModel, model_labels
from pymc_logz.models.flat import constrain
from pymc_logz.models.preparation import Prepared, prepare
from pymc_logz.models.rows import check_order
from pymc_logz.per_datum.data_rows import container_names, read_data_rows
from pymc_logz.runners.temper import TemperBlock
from pymc_logz.seeds import Generators
from pymc_logz.tempered.run import place_levels
from pymc_logz.tempered.settings import TemperedSettings
from pymc_logz.trees.layout import ESTIMATOR, evidence_dataset, with_units

if TYPE_CHECKING:
    import pymc as pm


@dataclass(frozen=True)
class FollowedModel:
    """A PyMC model whose ``pm.Data`` containers change."""

    model: "pm.Model"
    names: Sequence[str]
    prepared: Prepared
    values: np.ndarray
    """What the containers held when it was made ready, side by side, shape (1, D)."""

    def named(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Free variables of rows (n, d)."""
        return constrain(self.prepared.flat, rows, [rv.name for rv in self.model.free_RVs])

    @property
    def data(self) -> dict[str, np.ndarray]:
        """What the containers hold now."""
        return {name: np.asarray(self.model[name].get_value()) for name in self.names}

    def changed(self, data: Mapping[str, Any]) -> Self:
        """The same model, whose containers hold other values."""
        for name, value in data.items():
            check_order(self.model, name, value, f"data[{name!r}]")
        for name, value in data.items():
            self.model.set_data(name, value)
        return self

    def moved(self, block: TemperBlock) -> TemperBlock:
        """Walkers that bring the present values along."""
        values = [np.ravel(value) for value in self.data.values()]
        return block.given(np.concatenate(values).astype(float))

    @property
    def labels(self) -> dict[str, Any]:
        """Of the model."""
        return model_labels(self.model)

    def placed(self, call: Call[TemperedSettings]) -> Planned:
        """As a tempered run places them."""
        prepared = self.prepared
        block = block_for(prepared, call.settings, call.compile_kwargs, data=self.values)
        return place_levels(prepared, block, call)


def follow(model: Any, data: Sequence[str] | None, rngs: Generators) -> FollowedModel:
    """What a tracker is to follow of a model; a machine has another class with these methods."""
    if isinstance(model, ForeignModel):
        followed: FollowedModel = model.runs.followed(model, data)
        return followed
    names = container_names(model, data)
    now = {name: np.asarray(model[name].get_value())[None] for name in names}
    values = read_data_rows(model, now).values
    return FollowedModel(model, names, prepare(model, rngs.checks, data=names), values)


def evaluator(block: TemperBlock, compile_kwargs: Mapping[str, Any] | None) -> Any:
    """Function of rows (n, d), their data (n, D) and parameters: what the path is worth there."""
    path, data = block.path.with_inputs()
    rows = pt.matrix("rows", dtype="float64", shape=(None, path.n_dims))
    trial = [np.zeros((block.n_walkers, path.n_dims)), *block.row_data, *path.values]
    inputs = [rows, *data, *path.parameters]
    return compile_function(inputs, list(path.evaluate(rows)), compile_kwargs, trial)


class Moment(NamedTuple):
    """What is known of one moment."""

    tracked: LogZEstimate
    """From this update and those before."""
    alone: LogZEstimate
    """From this update alone."""
    levels: xr.Dataset
    """Of each level: tracked log Z with its error, share of the time, step size. Of all: mean
    acceptance rate, and the share of the effective number of walkers that the change of the model
    left, at the level with the smallest."""


def moment_datasets(moments: Sequence[Moment], attrs: Mapping[str, Any]) -> dict[str, xr.Dataset]:
    """Groups ``evidence`` (estimator, time), with attributes, and ``tracking`` (time, stage)."""
    at = pd.Index(range(len(moments)), name="time")
    estimates = [evidence_dataset([one.tracked, one.alone], {}) for one in moments]
    evidence = xr.concat(estimates, at, combine_attrs="drop_conflicts")
    return {
        "evidence": evidence.transpose(ESTIMATOR, "time").assign_attrs(attrs),
        "tracking": with_units(xr.concat([one.levels for one in moments], at)),
    }


def change_of_log_z(
    draws: TemperedDraws, log_ratio: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """By how much log Z of each level changes when the target does, from draws of the old one.

    The mean of ``exp(beta_k * (new log ratio - old log ratio))`` over the old density at level k,
    for which each draw counts with its probability of that level. ``log_ratio`` of the same draws
    in the new target has shape (W, N); the ``log_z_hat`` of the run only has to be rough. Returned
    are the change (K,), what each walker adds to its error (W, K), and the fraction of the
    effective draws that is left at the level with the smallest. Zwanzig (1954), doi
    10.1063/1.1740409.
    """
    segment = draws.segment.ravel()
    old, new = draws.log_tilt(draws.log_ratio.ravel()), draws.log_tilt(log_ratio.ravel())
    # of the draws at each level: columns sum to one
    with np.errstate(divide="ignore"):
        log_here = np.log(draws.level_given(draws.log_ratio.ravel(), segment))
    log_here -= logsumexp(log_here, axis=0)
    with np.errstate(invalid="ignore"):
        difference = np.where(np.isneginf(old), 0.0, new - old)
    change = logsumexp(log_here + difference, axis=0)
    here, there = np.exp(log_here), softmax(log_here + difference, axis=0)
    size, left = (here**2).sum(axis=0), (there**2).sum(axis=0)
    contributions = (there - here).reshape(*log_ratio.shape, -1).sum(axis=1)
    # logarithms of means are low by half their variance, which would add up over many changes
    return change + 0.5 * (left - size), contributions, float((size / left).min())
