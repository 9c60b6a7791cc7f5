"""One HAIS run: from a prepared model to a frozen plan, weighted rows, and a DataTree."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from pymc_logz.errors import STATUS_SENTENCES, warn
from pymc_logz.estimators import LogZEstimate, importance_log_z
from pymc_logz.model import constrain, model_data, model_labels
from pymc_logz.preparation import Prepared, check_log_ratio
from pymc_logz.results import (
    annealing_dataset,
    data_datasets,
    draw_datasets,
    evidence_dataset,
    make_tree,
)
from pymc_logz.runners.anneal import Annealed, Plan, anneal
from pymc_logz.runners.parallel import run_tasks, spawn_generators
from pymc_logz.runners.pilot import Stages, choose_length, run_pilot, systematic_resample

TARGET_VARIANCE = 0.1
"""Variance of the log weight that the adaptive ladder aims at: weight ESS of about 90%."""


def make_plan(
    prepared: Prepared, ladder: np.ndarray | None, tune: int, target_accept: float, report: Any
) -> Plan:
    """Freeze the temperatures and the kernel's settings."""
    block, rng = prepared.block, prepared.pilot_rng
    start = prepared.prior(rng, prepared.n_pilot)
    check_log_ratio(prepared, start)
    if prepared.prior.finite_share < 1.0:
        warn(
            f"the transforms take only {prepared.prior.finite_share:.1%} of the prior draws: log Z "
            "is that of the prior restricted to them and renormalised",
            stacklevel=4,
        )
    fixed = block.kernel
    if ladder is not None and fixed.step_size is not None and fixed.scale is not None:
        scale = np.broadcast_to(fixed.scale, (ladder.size, block.path.n_dims)).astype(float)
        return Plan(ladder, np.full(ladder.size, float(fixed.step_size)), scale)
    stages: Stages = run_pilot(
        block, start, rng, target_accept=target_accept, tune=tune, report=report
    )
    if ladder is not None:
        return stages.plan_for(ladder)
    draw_start = partial(prepared.prior, rng, prepared.n_pilot)
    return stages.plan(choose_length(block, stages, draw_start, rng, TARGET_VARIANCE))


def run_chains(
    prepared: Prepared, plan: Plan, draws: int, chains: int, cores: int, report: Any
) -> list[Annealed]:
    """Anneal fresh rows in independent chains."""
    generators = spawn_generators(prepared.rng, chains)
    # prior draws share one compiled function, so they are made here, chain by chain
    starts = [prepared.prior(rng, draws) for rng in generators]
    tasks = [
        partial(anneal, prepared.block, plan, start, rng, report)
        for start, rng in zip(starts, generators, strict=True)
    ]
    results: list[Any] = run_tasks(tasks, cores)
    finished = [run for run in results if run is not None]
    if len(finished) < chains:
        warn(
            f"interrupted: {len(finished)} of {chains} chains are finished, and only they are used",
            stacklevel=4,
        )
    return finished


def collect(
    prepared: Prepared,
    plan: Plan,
    runs: list[Annealed],
    settings: Mapping[str, Any],
    times: Mapping[str, float],
) -> xr.DataTree:
    """The DataTree of a run."""
    log_weight = np.concatenate([run.log_weight for run in runs])
    estimate = importance_log_z(
        log_weight, log_z_reference=prepared.block.path.log_z_reference, method="hais"
    )
    _warn_of_estimate(estimate, runs)
    values = constrain(prepared.flat, np.concatenate([run.position for run in runs]))
    coords, dims = model_labels(prepared.flat.model)
    compiled = prepared.block.compiled
    attrs = {
        "backend": compiled.backend,
        "backend_reason": compiled.reason,
        "batching": prepared.block.path.batching,
        "n_temperatures": plan.n_temperatures,
        "prior_finite_share": prepared.prior.finite_share,
        **times,
    }
    groups = {
        **draw_datasets(
            runs, values, _resampled(log_weight, prepared.rng), coords=coords, dims=dims
        ),
        "annealing": annealing_dataset(runs, plan),
        "evidence": evidence_dataset([estimate], attrs),
    }
    observed, constant = model_data(prepared.flat.model)
    groups |= data_datasets(observed, constant, coords=coords, dims=dims)
    groups["posterior"].attrs |= {"weight_ess": estimate.weight_ess, **times}
    return make_tree(groups, {**settings, **attrs})


def _resampled(log_weight: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Indices that turn weighted rows into equally weighted ones, in random order."""
    top = log_weight.max()
    if not np.isfinite(top):
        return np.arange(log_weight.size)
    weight = np.exp(log_weight - top)
    return rng.permutation(systematic_resample(weight / weight.sum(), weight.size, rng))


def report_beta(progress: Any, task: int, beta: float) -> None:
    """Show how far the pilot is."""
    progress.update(task, refresh=True, completed=int(1000 * beta))


def _warn_of_estimate(estimate: LogZEstimate, runs: list[Annealed]) -> None:
    if estimate.status != "ok":
        warn(f"{estimate.status}: {STATUS_SENTENCES[estimate.status]}", stacklevel=4)
    n_nan = sum(run.n_nan for run in runs)
    if n_nan:
        warn(
            f"the log likelihood plus potentials was NaN {n_nan} times during annealing, and "
            "counted as a likelihood of zero",
            stacklevel=4,
        )
