"""One run of many chains: a pilot, a tuning, draws with everything frozen, a DataTree."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from pymc_logz.errors import says_if_interrupted, warn
from pymc_logz.hmc.chains import Chains, Draws
from pymc_logz.hmc.settings import HmcSettings
from pymc_logz.models.flat import constrain, model_path
from pymc_logz.models.labels import model_labels
from pymc_logz.models.preparation import Prepared, prepare
from pymc_logz.pilot.population import Stages, run_pilot
from pymc_logz.pilot.settings import RunSettings
from pymc_logz.references.reference import check_start
from pymc_logz.runners.block import Block
from pymc_logz.runners.progress import line, progress_bar, report_beta, report_count
from pymc_logz.seeds import generators_from
from pymc_logz.trees.doubts import MAX_DIVERGENT_SHARE
from pymc_logz.trees.kinds import HMC
from pymc_logz.trees.layout import data_datasets, dataset_of, make_tree, with_units

if TYPE_CHECKING:
    import pymc as pm

RANKED_DRAWS = 4
"""Draws of a chain from which on ArviZ ranks them."""


@says_if_interrupted("chains were being made ready")
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
    with progress_bar(progressbar) as progress:
        with line("Compiling the model"):
            prepared = prepare(model, rngs.checks)
            block = block_for(prepared, settings, compile_kwargs)
            block.compile()
        compiled = time.perf_counter()
        rows = prepared.prior(rngs.pilot, RunSettings.pilot_rows)
        check_start(prepared, block, rows)
        stages = run_pilot(
            block,
            rows,
            rngs.pilot,
            target_accept=settings.target_accept,
            tune=RunSettings.tune,
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
    # more chains together no longer gain, and need more memory
    n_rows = min(settings.chains, RunSettings.pilot_rows)
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
    # more chains than draws are usual here
    labels: dict[str, Any] = {"coords": dict(coords), "dims": dims, "check_conventions": False}
    posterior = dataset_of(values, **labels).assign_coords(at)
    # an energy error of 700 nats: those that PyMC has, 1,000, are zero in double precision
    diverging = ~(kept.acceptance_rate.T >= 1e-304)
    of_draws = {
        "lp": kept.log_density.T,
        "acceptance_rate": kept.acceptance_rate.T,
        "diverging": diverging,
    }
    of_run = with_units(dataset_of(of_draws, check_conventions=False)).assign_coords(at)
    rhat = nested_rhat(posterior, [var.name for var in flat.model.free_RVs], members)
    of_run.attrs |= {"rhat_nested": rhat, **found}
    limit = largest_rhat(settings, n_draws, n_dims)
    if not rhat <= limit:
        warn(
            f"nested R-hat is {rhat:.3g}, above {limit:.3g}: chains still depend on where they "
            f"started. Use a larger tune than {settings.tune}, more n_steps than "
            f"{settings.n_steps}, or see whether the posterior has several modes (sample_tempered)"
        )
    if diverging.mean() > MAX_DIVERGENT_SHARE:
        warn(
            f"{diverging.sum()} of {diverging.size} trajectories diverged: a part of the posterior "
            "may be missing. Use a larger target_accept, or another parametrisation"
        )
    groups = {"posterior": posterior, "sample_stats": of_run, **data_datasets(flat)}
    return make_tree(groups, {**settings.record(), **found}, HMC)


def largest_rhat(settings: HmcSettings, n_draws: int, n_dims: int, least: float = 1.01) -> float:
    """Nested R-hat up to which chains are taken to have forgotten where they started.

    Independent draws, one of each chain, would be as far apart on average; where there are hardly
    more, one of d variables would be with a probability of 1 in 1,000.
    """
    n_points, members, apart = settings.superchains, settings.members, 1.0
    if n_draws < RANKED_DRAWS and members > 1:
        of_each = 1e-3 / n_dims
        # takes a third of a second, and most who import this module never get here
        from scipy import stats

        apart = float(stats.f.isf(of_each, n_points - 1, n_points * (members - 1)))
    return max(least, float(np.sqrt(1.0 + apart / members)))


def nested_rhat(posterior: xr.Dataset, names: list[str], members: np.ndarray) -> float:
    """The largest nested R-hat of these variables; 1 if none of them varies."""
    if posterior.sizes["draw"] < RANKED_DRAWS:
        arrays = [posterior[name].transpose("chain", "draw", ...).to_numpy() for name in names]
        found = [
            plain_nested_rhat(array.reshape(*array.shape[:2], -1), members) for array in arrays
        ]
    else:
        from arviz_stats import rhat_nested

        with np.errstate(divide="ignore", invalid="ignore"):  # chains that never moved
            ranked = rhat_nested(posterior[names], superchain_ids=members.tolist())
        found = [np.ravel(ranked[name].values) for name in names]
    return float(np.nanmax(np.concatenate(found), initial=1.0))


def plain_nested_rhat(draws: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Nested R-hat of draws (chains, draws, k) as they are, shape (k,).

    Margossian et al. (2024), equations 6 to 8, in which chains may be of one draw.
    """
    each = [draws[members == one] for one in np.unique(members)]
    means = [one.mean(axis=1) for one in each]
    between = np.var([one.mean(axis=0) for one in means], axis=0, ddof=1)
    within = np.zeros(draws.shape[2])
    for one, mean in zip(each, means, strict=True):
        if len(mean) > 1:
            within += mean.var(axis=0, ddof=1) / len(each)
        if draws.shape[1] > 1:
            within += one.var(axis=1, ddof=1).mean(axis=0) / len(each)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt(1.0 + between / within)
