"""Tempering of an energy made of bits, by block Gibbs moves."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from pymc_logz.paths.bits import BinaryEnergy
from pymc_logz.pilot.energies import energy_block, energy_start, even_plan
from pymc_logz.pilot.frozen import walk as pilot_walk
from pymc_logz.pilot.reference import Reference
from pymc_logz.runners.anneal import Plan
from pymc_logz.runners.block import Block
from pymc_logz.runners.progress import report_beta
from pymc_logz.tempered.keeping import Placed, Target
from pymc_logz.tempered.settings import TemperedSettings

INDEPENDENT_BITS = Reference("prior", "energies start from independent bits")


def energy_target(
    energy: BinaryEnergy, settings: TemperedSettings, compile_kwargs: Mapping[str, Any] | None
) -> Target:
    """An energy to be tempered; its moves are compiled here if a pilot will need them."""
    block = settings.within_memory(energy_block(energy, settings, compile_kwargs))
    if settings.n_levels is None:
        block.compile()
    labels: dict[str, Any] = {"coords": {}, "dims": None}
    return Target(block, partial(_placed, energy), energy.named, labels, {"energy": energy.name})


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
