"""Annealing of bits through machines on the way: from independent bits to the first, and on.

Rows go from one machine to the next along a geometric path, and their log weights add up. Which
machines they are changes the error and nothing else: `pymc_logz.energies.moment_averaged` makes
some whose moments lie between those of the two ends.

References
----------
Grosse, Maddison & Salakhutdinov (2013), Annealing between distributions by averaging moments,
section 5 (moment-averaged splines), Advances in Neural Information Processing Systems 26; section
2.1 of Carlson et al. (2016), arXiv 1603.01912.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from pymc_logz.bits.annealing import collect_energy
from pymc_logz.bits.energies import BinaryEnergy
from pymc_logz.bits.paths import path_between
from pymc_logz.bits.runs import energy_start, even_plan
from pymc_logz.estimators import importance_log_z
from pymc_logz.hais.directions import Directions, bayes_factor, factor_dataset
from pymc_logz.hais.settings import HaisSettings
from pymc_logz.loop.frozen import Planned, refine, walk
from pymc_logz.references.reference import Reference
from pymc_logz.runners.anneal import Annealed, anneal
from pymc_logz.runners.block import Block
from pymc_logz.runners.executor import finished, run_tasks
from pymc_logz.runners.progress import progress_bar, report_beta
from pymc_logz.seeds import generators_from, spawn_generators

THROUGH = Reference("machines", "it was asked for: the path leads through other machines")


class Leg(NamedTuple):
    """One part of the way."""

    planned: Planned
    end: np.ndarray
    """Rows of a pilot at its end, from which the next leg is planned, shape (n, d)."""


def between(
    energy: BinaryEnergy, reference: Any, direction: str
) -> Callable[..., xr.DataTree] | None:
    """What runs to an energy through others; None if the reference is something else.

    A ValueError is raised if rows are to go in both directions.
    """
    others = [reference] if isinstance(reference, BinaryEnergy) else reference
    is_list = isinstance(others, list | tuple) and len(others) > 0
    if not is_list or not all(isinstance(one, BinaryEnergy) for one in others):
        return None
    if direction != "forward":
        raise ValueError(
            f"direction={direction!r} does not apply where reference is an energy: swap model and "
            "reference to go the other way"
        )
    return partial(run_through, others=list(others))


def run_through(
    energy: BinaryEnergy,
    settings: HaisSettings,
    *,
    others: Sequence[BinaryEnergy],
    random_seed: Any = None,
    progressbar: bool = True,
    compile_kwargs: Mapping[str, Any] | None = None,
) -> xr.DataTree:
    """Place temperatures between the machines, freeze, run, collect."""
    settings.running.refuse("where reference is an energy", "checkpoint", "executor")
    started, rngs = time.perf_counter(), generators_from(random_seed)
    machines = [*others, energy]
    for other in others:
        _check_same(energy, other)
    legs: list[Leg] = []
    with progress_bar(progressbar) as progress:
        for i, machine in enumerate(machines):
            before = (machines[i - 1], legs[-1].end) if i else None
            report = report_beta(progress)
            legs.append(_leg(machine, before, settings, rngs.pilot, report, compile_kwargs))
        tuned = time.perf_counter()
        generators = spawn_generators(rngs.run, settings.chains)
        tasks = [partial(_way, legs, settings.draws, rng) for rng in generators]
        ways = finished(run_tasks(tasks, settings.cores))
    block = legs[-1].planned.block
    cost = {
        "compile_time": 0.0,
        "tuning_time": tuned - started,
        "sampling_time": time.perf_counter() - tuned,
        **block.work.record(0, block.kernel),
    }
    ends = [way[-1] for way in ways]
    planned = legs[-1].planned
    tree = collect_energy(
        energy,
        planned,
        Directions(ends, THROUGH),
        settings,
        rngs.run,
        cost,
        n_temperatures=sum(leg.planned.plan.n_temperatures for leg in legs),
    )
    last = [way[-2] for way in ways]
    log_weight = np.concatenate([run.log_weight for run in last])
    other_log_z = importance_log_z(log_weight, method="hais")
    tree["bayes_factor"] = xr.DataTree(factor_dataset(bayes_factor(last, ends), other_log_z))
    return tree


def _check_same(energy: BinaryEnergy, other: BinaryEnergy) -> None:
    same = energy.path.sizes == other.path.sizes and energy.variables.keys() == (
        other.variables.keys()
    )
    if same:
        pairs = ((bits, other.variables[name]) for name, bits in energy.variables.items())
        same = all(
            np.array_equal(one.sites, two.sites) and one.values == two.values for one, two in pairs
        )
    if not same:
        raise ValueError(
            f"reference has {other.name} with blocks of {other.path.sizes} bits, but the model has "
            f"{energy.path.sizes}: both must have the same variables in the same blocks"
        )


def _leg(
    machine: BinaryEnergy,
    before: tuple[BinaryEnergy, np.ndarray] | None,
    settings: HaisSettings,
    rng: np.random.Generator,
    report: Any,
    compile_kwargs: Mapping[str, Any] | None,
) -> Leg:
    """From independent bits, or from the machine before, to a machine."""
    path = machine.path
    if before is not None:
        rows = before[1]
        path = path_between(
            before[0].path, path, lambda rng, n: rows[rng.integers(len(rows), size=n)]
        )
    block = Block(path, settings.kernel, settings.pilot_rows, compile_kwargs)
    start = energy_start(block, rng)
    stages = walk(block, settings, start, rng, report)
    assert stages.end is not None
    if (ladder := settings.ladder()) is not None:
        planned = Planned(block, even_plan(ladder, machine.n_sites), THROUGH)
    else:
        planned, _ = refine(block, settings, stages, rng, THROUGH)
    return Leg(planned, stages.end)


def _way(legs: Sequence[Leg], draws: int, rng: np.random.Generator) -> list[Annealed]:
    """Rows at the end of each leg, with the weights of all legs up to there."""
    position = legs[0].planned.block.path.sample_reference(rng, draws)
    log_weight, ends = np.zeros(draws), []
    for leg in legs:
        run = anneal(leg.planned.block, leg.planned.plan, position, rng)
        position, log_weight = run.position, log_weight + run.log_weight
        ends.append(run._replace(log_weight=log_weight))
    return ends
