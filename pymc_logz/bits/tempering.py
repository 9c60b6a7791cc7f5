"""Tempering of an energy made of bits, by block Gibbs moves."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from pymc_logz.bits.energies import BinaryEnergy
from pymc_logz.bits.runs import energy_block, energy_start, even_plan
from pymc_logz.loop.frozen import walk as pilot_walk
from pymc_logz.references.reference import Reference
from pymc_logz.runners.anneal import Plan
from pymc_logz.runners.block import Block
from pymc_logz.runners.progress import report_beta
from pymc_logz.tempered.run import run_target
from pymc_logz.tempered.settings import TemperedSettings
from pymc_logz.tempered.stored_levels import Placed, Target

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
