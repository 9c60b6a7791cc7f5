"""Simulated and parallel tempering of an energy made of bits, by block Gibbs moves."""

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from pymc_logz.paths.bits import BinaryEnergy
from pymc_logz.pilot.energies import energy_block, energy_start, even_plan
from pymc_logz.pilot.frozen import walk as pilot_walk
from pymc_logz.pilot.stored_plans import kept, once
from pymc_logz.runners.anneal import Plan
from pymc_logz.runners.block import Block
from pymc_logz.runners.progress import progress_bar, report_beta
from pymc_logz.seeds import generators_from
from pymc_logz.tempered.chains import Frozen
from pymc_logz.tempered.measuring import Chains, measured, posterior_datasets
from pymc_logz.tempered.run import LEVELS_PER_STAGE, run_chains, warm_up
from pymc_logz.tempered.settings import TemperedSettings
from pymc_logz.tempered.stored_levels import warmed_once
from pymc_logz.trees.layout import RunRecord, evidence_dataset, make_tree

UNLABELLED: dict[str, Any] = {"coords": {}, "dims": None}


def run_energy(
    energy: BinaryEnergy,
    settings: TemperedSettings,
    *,
    random_seed: Any = None,
    progressbar: bool = True,
    compile_kwargs: Mapping[str, Any] | None = None,
) -> xr.DataTree:
    """Place levels, warm up, freeze, run, collect."""
    started, rngs = time.perf_counter(), generators_from(random_seed)
    block = settings.within_memory(energy_block(energy, settings, compile_kwargs))
    if settings.n_levels is None:
        block.compile()
    compiled = time.perf_counter()
    with (
        kept(settings, energy, block, rngs.run) as settings,
        progress_bar(progressbar) as progress,
    ):
        placed = partial(energy_levels, energy, block, settings, rngs.pilot, progress)
        plan = once(settings.running.keeper, "levels", placed, None, block, rngs.pilot)
        warmed = partial(warm_up, block, plan, settings, rngs.pilot, compile_kwargs, progress)
        frozen = warmed_once(warmed, block, plan, settings, rngs.pilot, compile_kwargs)
        tuned, pilot_work = time.perf_counter(), block.work.done
        chains = run_chains(frozen, settings, rngs.run, progress)
    cost = {
        "compile_time": compiled - started + frozen.compile_time,
        "tuning_time": tuned - compiled - frozen.compile_time,
        "sampling_time": time.perf_counter() - tuned,
        **block.work.record(pilot_work, block.kernel),
    }
    return _collect(energy, frozen, chains, settings, rngs.run, cost)


def energy_levels(
    energy: BinaryEnergy,
    block: Block,
    settings: TemperedSettings,
    rng: np.random.Generator,
    progress: Any = None,
) -> Plan:
    """The levels asked for: those given, so many evenly spaced, or as a pilot places them."""
    if (ladder := settings.ladder()) is not None:
        return even_plan(ladder, energy.n_sites)
    if settings.n_levels is not None:
        return even_plan(np.linspace(0.0, 1.0, settings.n_levels), energy.n_sites)
    report = report_beta(progress)
    stages = pilot_walk(block, settings, energy_start(block, rng), rng, report)
    return stages.plan(LEVELS_PER_STAGE * (stages.betas.size - 1))


def _collect(
    energy: BinaryEnergy,
    frozen: Frozen,
    chains: Chains,
    settings: TemperedSettings,
    rng: np.random.Generator,
    cost: Mapping[str, float],
) -> xr.DataTree:
    found, block = measured(frozen, chains, settings), frozen.block
    ladder, curve = found.ladder, found.curve
    attrs = RunRecord(block.compiled, block.path.batching, 1.0, cost).attrs(
        n_levels=ladder.n_levels,
        n_walkers=block.n_walkers,
        n_warm_up=frozen.rounds.n_iterations,
        reference="prior",
        reference_reason="energies start from independent bits",
    )
    groups = {
        **posterior_datasets(energy.named, UNLABELLED, found, settings, rng),
        "tempering": found.tempering,
        "evidence": evidence_dataset([curve.estimate], attrs),
    }
    if "posterior" in groups:
        groups["posterior"].attrs |= {"weight_ess": curve.weight_ess, **cost}
    tree = make_tree(groups, {**settings.record(), "energy": energy.name, **attrs}, found.kind)
    return settings.running.noted(tree)
