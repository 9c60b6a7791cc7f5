"""Annealed importance sampling of an energy made of bits, by block Gibbs moves."""

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from pymc_logz.bits.energies import BinaryEnergy
from pymc_logz.bits.runs import energy_block, energy_draws, energy_start, even_plan
from pymc_logz.hais.directions import Directions, doubts_of_ends, estimates_of
from pymc_logz.hais.results import annealing_dataset, draw_datasets, finish_groups
from pymc_logz.hais.run import add_rows, run_reverse, run_twice, warn_of_estimates
from pymc_logz.hais.settings import HaisSettings
from pymc_logz.loop.frozen import Planned, refine, walk
from pymc_logz.loop.stored_plans import kept, once
from pymc_logz.references.reference import ASKED_FOR
from pymc_logz.runners.block import Block
from pymc_logz.runners.progress import progress_bar, report_beta
from pymc_logz.seeds import generators_from
from pymc_logz.trees.doubts import doubted, noted, warn_of_doubts
from pymc_logz.trees.layout import RunRecord, evidence_dataset, make_tree
from pymc_logz.weights import resampled

REFERENCE = replace(ASKED_FOR, reason="energies start from independent bits")


def run_hais(
    energy: BinaryEnergy,
    settings: HaisSettings,
    *,
    posterior_draws: xr.DataTree | None = None,
    random_seed: Any = None,
    progressbar: bool = True,
    compile_kwargs: Mapping[str, Any] | None = None,
) -> xr.DataTree:
    """Place temperatures, freeze, run, collect."""
    started, rngs = time.perf_counter(), generators_from(random_seed)
    block = settings.within_memory(energy_block(energy, settings, compile_kwargs))
    block.compile()
    rows = None
    if posterior_draws is not None:
        rows = energy_draws(energy, posterior_draws, "posterior_draws")
    compiled = time.perf_counter()
    with (
        kept(settings, energy, block, rngs.run, posterior_draws=rows) as settings,
        progress_bar(progressbar) as progress,
    ):
        make = partial(energy_plan, energy, block, settings, rngs.pilot, progress)
        made = once(settings.running.keeper, "plan", make, None, block, rngs.pilot)
        planned = Planned(block, made["plan"], REFERENCE, made["stages"])
        tuned, pilot_work = time.perf_counter(), block.work.done
        planned, forward = run_twice(planned, settings, rngs.run, progress)
        directions = Directions(forward, planned.reference)
        if settings.direction == "both":
            directions.exact_starts = rows is not None
            directions.reverse = run_reverse(planned, settings, forward, rows, rngs.run, progress)
        add_rows(directions, planned, settings, rows, rngs.run, progress)
    cost = {
        "compile_time": compiled - started,
        "tuning_time": tuned - compiled,
        "sampling_time": time.perf_counter() - tuned,
        **block.work.record(pilot_work, block.kernel),
    }
    return collect_energy(energy, planned, directions, settings, rngs.run, cost)


def energy_plan(
    energy: BinaryEnergy,
    block: Block,
    settings: HaisSettings,
    rng: np.random.Generator,
    progress: Any,
) -> dict[str, Any]:
    """Temperatures that were asked for, or as a pilot places them, and its stages if there was."""
    if (ladder := settings.ladder()) is not None:
        return {"plan": even_plan(ladder, energy.n_sites), "stages": None}
    start, report = energy_start(block, rng), report_beta(progress)
    stages = walk(block, settings, start, rng, report)
    # the temperatures are all that is taken from the pilot, so a mode that it lost is none
    planned, _ = refine(block, settings, stages, rng, REFERENCE)
    return {"plan": planned.plan, "stages": planned.stages}


def collect_energy(
    energy: BinaryEnergy,
    planned: Planned,
    directions: Directions,
    settings: HaisSettings,
    rng: np.random.Generator,
    cost: Mapping[str, float],
    n_temperatures: int | None = None,
) -> xr.DataTree:
    """The DataTree of a run.

    Temperatures of earlier parts of the path count where ``n_temperatures`` of the whole are given.
    """
    block, plan, runs = planned.block, planned.plan, directions.forward
    doubts = doubts_of_ends(directions)
    warn_of_doubts(doubts)
    estimates = doubted(estimates_of(directions), doubts)
    warn_of_estimates(estimates, runs, doubts)
    attrs = RunRecord(block.compiled, block.path.batching, 1.0, cost).attrs(
        n_temperatures=n_temperatures or plan.n_temperatures,
        **planned.reference.record(),
        **planned.reference.record_of_errors(),
        **noted(doubts),
    )
    values = energy.named(np.concatenate([run.position for run in runs]))
    chosen = resampled(np.concatenate([run.log_weight for run in runs]), rng, shuffled=True)
    groups = {
        **draw_datasets(runs, values, chosen, coords={}, dims=None),
        "annealing": annealing_dataset(runs, plan),
        "evidence": evidence_dataset(estimates, attrs),
    }
    finish_groups(groups, directions.reverse, plan, estimates, cost)
    asked = {**settings.record(), "energy": energy.name}
    return settings.running.noted(make_tree(groups, {**asked, **attrs}, directions.kind))
