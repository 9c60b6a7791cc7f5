"""Annealed and tempered runs of an energy made of bits: what moves it, and its temperatures."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
import xarray as xr

from pymc_logz.bits.energies import BernoulliRBM, BinaryEnergy
from pymc_logz.bits.paths import BlockGibbs
from pymc_logz.hais.directions import Directions, estimates_of
from pymc_logz.hais.results import annealing_dataset, draw_datasets, finish_groups
from pymc_logz.hais.run import (
    add_rows,
    run_reverse,
    run_twice,
    warn_of_estimates,
)
from pymc_logz.hais.settings import HaisSettings
from pymc_logz.kernels.base import Kernel
from pymc_logz.loop.frozen import PORTIONS, Planned, refine, walk
from pymc_logz.loop.frozen import walk as pilot_walk
from pymc_logz.loop.stored_plans import kept, once
from pymc_logz.pilot.settings import RunSettings
from pymc_logz.references.reference import ASKED_FOR, Reference
from pymc_logz.runners.anneal import Plan
from pymc_logz.runners.block import Block
from pymc_logz.runners.progress import progress_bar, report_beta
from pymc_logz.runners.temper import TemperBlock
from pymc_logz.seeds import generators_from
from pymc_logz.tempered.run import Placed, Target, run_target
from pymc_logz.tempered.settings import TemperedSettings
from pymc_logz.trees.layout import RunRecord, evidence_dataset, make_tree
from pymc_logz.weights import resampled


def checked(
    energy: BinaryEnergy, kernel: Any, reference: Any, sum_out: bool | None
) -> tuple[Kernel, str]:
    """What moves an energy, and what it starts from: `BlockGibbs`, and independent bits.

    A TypeError is raised if another kernel was asked for; a ValueError if another reference was
    asked for, or that bits be summed out.
    """
    if kernel is not None and not isinstance(kernel, BlockGibbs):
        raise TypeError(
            f"kernel={kernel!r} moves rows of real numbers, but {energy.name} is made of bits: "
            "leave it out, or give pymc_logz.kernels.BlockGibbs()"
        )
    is_name = isinstance(reference, str)
    if reference is not None and not (is_name and reference == "prior"):
        raise ValueError(
            f"reference={reference if is_name else type(reference).__name__!r} is for PyMC models; "
            f"{energy.name} starts from independent bits, whose log odds are its base_bias: leave "
            "reference out"
        )
    if sum_out:
        raise ValueError(
            f"sum_out={sum_out!r} is for PyMC models; {energy.name} has an exact log_z_at(betas) "
            "where at most 20 bits are to be summed over: leave sum_out out"
        )
    return BlockGibbs(), "prior"


def energy_block(
    energy: BinaryEnergy, settings: RunSettings, compile_kwargs: Mapping[str, Any] | None
) -> Block:
    """Moves of an energy, compiled once for all with blocks of the same sizes."""
    return Block(energy.path, settings.kernel, settings.pilot_rows, compile_kwargs)


def energy_start(block: Block, rng: np.random.Generator) -> np.ndarray:
    """Rows of the reference for a pilot, shape (n, d)."""
    return block.path.sample_reference(rng, PORTIONS * block.n_rows)


def even_plan(betas: np.ndarray, n_dims: int) -> Plan:
    """Plan of a ladder that is given: there is nothing to tune at its temperatures."""
    # as long ladders of many sites are common, the scales, which are all one, take no memory
    return Plan(betas, np.ones(betas.size), np.broadcast_to(1.0, (betas.size, n_dims)))


def energy_draws(energy: BinaryEnergy, tree: xr.DataTree, name: str) -> np.ndarray:
    """Rows (n, d) of a tree's group ``posterior``.

    A ValueError is raised if it has no such group, or variables of other names, shapes or values.
    """
    if not isinstance(tree, xr.DataTree) or "posterior" not in tree.children:
        raise ValueError(f"{name} must be a DataTree with a group 'posterior'")
    group = tree["posterior"].to_dataset()
    missing = [variable for variable in energy.variables if variable not in group]
    if missing:
        raise ValueError(f"{name} has no {missing} in its group 'posterior'")
    values = {}
    for variable in energy.variables:
        stacked = group[variable].transpose("chain", "draw", ...).to_numpy()
        values[variable] = stacked.reshape(-1, *stacked.shape[2:])
    return energy.rows(values)


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
    estimates = estimates_of(directions)
    warn_of_estimates(estimates, runs, [])
    attrs = RunRecord(block.compiled, block.path.batching, 1.0, cost).attrs(
        n_temperatures=n_temperatures or plan.n_temperatures,
        **planned.reference.record(),
        **planned.reference.record_of_errors(),
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


PARAMETERS = ("weights", "visible_bias", "hidden_bias")
INDEPENDENT_BITS = Reference("prior", "energies start from independent bits")


def run_tempered(
    energy: BinaryEnergy, settings: TemperedSettings, *, random_seed: Any = None, **shown: Any
) -> xr.DataTree:
    """Temper an energy; ``shown`` are options of `pymc_logz.tempered.run.run_target`."""

    def make(_: np.random.Generator, compile_kwargs: Mapping[str, Any] | None) -> Target:
        block = settings.within_memory(energy_block(energy, settings, compile_kwargs))
        if settings.n_levels is None:  # a pilot needs it
            block.compile()
        labels: dict[str, Any] = {"coords": {}, "dims": None}
        record = {"energy": energy.name}
        return Target(energy, block, partial(_placed, energy), energy.named, labels, record)

    return run_target(make, settings, random_seed, **shown)


def _placed(
    energy: BinaryEnergy,
    block: Block,
    settings: TemperedSettings,
    rng: np.random.Generator,
    progress: Any,
) -> Placed:
    return block, energy_levels(energy, block, settings, rng, progress), INDEPENDENT_BITS


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
    stages = pilot_walk(block, settings, energy_start(block, rng), rng, report_beta(progress))
    return settings.plan_on(stages)


@dataclass(frozen=True)
class FollowedMachine:
    """A restricted Boltzmann machine of bits whose weights and biases change."""

    model: BernoulliRBM
    names: Sequence[str]

    @classmethod
    def of(cls, machine: BernoulliRBM, data: Sequence[str] | None) -> Self:
        """With the parameters of these names, or all of them."""
        names = PARAMETERS if data is None else tuple(data)
        if not names or not set(names) <= set(PARAMETERS):
            raise ValueError(f"data={data!r} must name what changes, among {list(PARAMETERS)}")
        return cls(machine, names)

    @property
    def data(self) -> dict[str, np.ndarray]:
        """The parameters."""
        return {name: getattr(self.model, name) for name in self.names}

    def changed(self, data: Mapping[str, Any]) -> Self:
        """A machine with other parameters."""
        now = {name: getattr(self.model, name) for name in PARAMETERS}
        return replace(self, model=self.model.at(**{**now, **data}))

    def moved(self, block: TemperBlock) -> TemperBlock:
        """Walkers on the path of the present machine."""
        path = self.model.path
        return block.along(path.values, sample_reference=path.sample_reference)

    def named(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Bits of both layers."""
        return self.model.named(rows)

    def labels(self) -> dict[str, Any]:
        """None."""
        return {"coords": {}, "dims": None}

    def placed(
        self,
        settings: TemperedSettings,
        rng: np.random.Generator,
        compile_kwargs: Mapping[str, Any] | None,
        progress: Any,
    ) -> tuple[Block, Plan]:
        """As a tempered run places them."""
        block = energy_block(self.model, settings, compile_kwargs)
        return block, energy_levels(self.model, block, settings, rng, progress)


def followed(energy: BinaryEnergy, names: Sequence[str] | None) -> FollowedMachine:
    """What a tracker follows of an energy: the parameters of these names, or all of them.

    A TypeError is raised if its parameters have no names.
    """
    if isinstance(energy, BernoulliRBM):
        return FollowedMachine.of(energy, names)
    raise TypeError(
        f"model is the energy {energy.name!r}, whose parameters have no names: LogZTracker "
        "follows a pm.Model, or pymc_logz.energies.bernoulli_rbm(...)"
    )
