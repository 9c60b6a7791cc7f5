"""One run of many chains: a pilot, a tuning, draws with everything frozen, a DataTree."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from pymc_logz.errors import warn
from pymc_logz.hmc.chains import Chains, Draws
from pymc_logz.hmc.settings import HmcSettings
from pymc_logz.models.flat import constrain, model_labels, model_path
from pymc_logz.models.preparation import Prepared, prepare
from pymc_logz.pilot.population import Stages, run_pilot
from pymc_logz.pilot.reference import check_start
from pymc_logz.pilot.settings import RunSettings
from pymc_logz.runners.block import Block
from pymc_logz.runners.progress import progress_bar, report_beta, report_count
from pymc_logz.seeds import generators_from
from pymc_logz.trees.kinds import HMC
from pymc_logz.trees.layout import data_datasets, dataset_of, make_tree, with_units

if TYPE_CHECKING:
    import pymc as pm

ROWS_OF_CALL = 256
"""Chains that are evaluated together at most: more no longer gain, and need more memory."""
STAGE_MOVES = 64
"""Moves of the pilot at a stage, at most."""
RHAT = 1.01
"""Nested R-hat from which on chains are said to disagree, where superchains are large."""


def run_hmc(
    model: "pm.Model",
    settings: HmcSettings,
    *,
    random_seed: Any = None,
    progressbar: bool = True,
    compile_kwargs: Mapping[str, Any] | None = None,
) -> xr.DataTree:
    """Prepare, walk to the posterior, tune, draw, collect."""
    started, rngs = time.perf_counter(), generators_from(random_seed)
    prepared = prepare(model, rngs.checks)
    block = block_for(prepared, settings, compile_kwargs)
    block.compile()
    compiled = time.perf_counter()
    with progress_bar(progressbar) as progress:
        rows = prepared.prior(rngs.pilot, RunSettings.pilot_rows)
        check_start(prepared, block, rows)
        stages = run_pilot(
            block,
            rows,
            rngs.pilot,
            target_accept=settings.target_accept,
            tune=STAGE_MOVES,
            report=report_beta(progress),
        )
        chains = Chains.started(
            block,
            stages,
            starting_rows(stages, settings, rngs.run),
            settings.target_accept,
            settings.jitter,
            rngs.run,
        )
        of_chains = f"{settings.chains} chains"
        chains.tune(settings.tune, report_count(progress, f"Tuning {of_chains}", settings.tune))
        tuned, pilot_work = time.perf_counter(), block.work.done
        kept = chains.draw(
            settings.draws, report_count(progress, f"Sampling {of_chains}", settings.draws)
        )
    found = {
        "step_size": chains.step.now,
        "backend": block.compiled.backend,
        "compile_time": compiled - started,
        "tuning_time": tuned - compiled,
        "sampling_time": time.perf_counter() - tuned,
        **block.work.record(pilot_work, block.kernel),
    }
    return collect(prepared, kept, settings, found)


def block_for(
    prepared: Prepared, settings: HmcSettings, compile_kwargs: Mapping[str, Any] | None
) -> Block:
    """Moves of a model, one in a call, so that all points on the way are seen."""
    path = model_path(prepared.flat, prepared.prior)
    kernel = RunSettings(kernel=settings.kernel).kernel_for(path.n_dims)
    n_rows = min(settings.chains, ROWS_OF_CALL)
    return Block(path, kernel, n_rows, compile_kwargs, most_moves=1)


def starting_rows(stages: Stages, settings: HmcSettings, rng: np.random.Generator) -> np.ndarray:
    """A row of the pilot for each superchain, where all its chains start, shape (chains, d)."""
    assert stages.end is not None
    n_points = settings.superchains
    points = np.resize(rng.permutation(stages.end), (n_points, stages.end.shape[1]))
    return np.repeat(points, settings.members, axis=0)


def collect(
    prepared: Prepared, kept: Draws, settings: HmcSettings, found: Mapping[str, Any]
) -> xr.DataTree:
    """The DataTree of a run."""
    n_draws, n_chains, n_dims = kept.position.shape
    flat = prepared.flat
    by_chain = kept.position.swapaxes(0, 1).reshape(n_chains * n_draws, n_dims)
    values = {
        name: value.reshape(n_chains, n_draws, *value.shape[1:])
        for name, value in constrain(flat, by_chain).items()
    }
    coords, dims = model_labels(flat.model)
    members = np.repeat(np.arange(settings.superchains), settings.members)
    at = {"superchain": ("chain", members)}
    # more chains than draws are what is asked for here
    labels: dict[str, Any] = {"coords": dict(coords), "dims": dims, "check_conventions": False}
    posterior = dataset_of(values, **labels).assign_coords(at)
    of_draws = {"lp": kept.log_density.T, "acceptance_rate": kept.acceptance_rate.T}
    stats = with_units(dataset_of(of_draws, check_conventions=False)).assign_coords(at)
    rhat = nested_rhat(posterior, [var.name for var in flat.model.free_RVs], members)
    stats.attrs |= {"rhat_nested": rhat, **found}
    # independent draws, one of each chain, would be as far apart
    limit = max(RHAT, float(np.sqrt(1.0 + 1.0 / settings.members)))
    if not rhat <= limit:
        warn(
            f"nested R-hat is {rhat:.3g}, above {limit:.3g}: chains still depend on where they "
            f"started. Use a larger tune than {settings.tune}, more n_steps than "
            f"{settings.n_steps}, or see whether the posterior has several modes (sample_tempered)"
        )
    groups = {"posterior": posterior, "sample_stats": stats, **data_datasets(flat)}
    return make_tree(groups, {**settings.record(), **found}, HMC)


def nested_rhat(posterior: xr.Dataset, names: list[str], members: np.ndarray) -> float:
    """The largest nested R-hat of these variables; 1 if none of them varies."""
    from arviz_stats import rhat_nested

    found = rhat_nested(posterior[names], superchain_ids=members.tolist())
    values = np.concatenate([np.ravel(found[name].values) for name in names])
    return float(np.nanmax(values, initial=1.0))
