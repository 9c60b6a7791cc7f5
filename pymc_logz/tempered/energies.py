"""Tempering of an energy made of bits, by block Gibbs moves: what it runs on in a model's place."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import xarray as xr

from pymc_logz.paths.bits import BinaryEnergy
from pymc_logz.pilot.energies import energy_block, energy_start, even_plan
from pymc_logz.pilot.frozen import walk as pilot_walk
from pymc_logz.pilot.reference import Reference
from pymc_logz.runners.anneal import Plan
from pymc_logz.runners.block import Block
from pymc_logz.runners.progress import report_beta
from pymc_logz.tempered.keeping import Placed
from pymc_logz.tempered.settings import TemperedSettings
from pymc_logz.trees.doubts import Doubt

INDEPENDENT_BITS = Reference("prior", "energies start from independent bits")


@dataclass(frozen=True)
class EnergyTarget:
    """An energy as `pymc_logz.tempered.run` tempers it."""

    energy: BinaryEnergy

    prepared: ClassVar[None] = None
    prior_share: ClassVar[float] = 1.0
    labels: ClassVar[dict[str, Any]] = {"coords": {}, "dims": None}

    def block(self, settings: TemperedSettings, compile_kwargs: Mapping[str, Any] | None) -> Block:
        """Moves, which are compiled here if a pilot will need them."""
        block = settings.within_memory(energy_block(self.energy, settings, compile_kwargs))
        if settings.n_levels is None:
            block.compile()
        return block

    def placed(
        self, block: Block, settings: TemperedSettings, rng: np.random.Generator, progress: Any
    ) -> Placed:
        """Levels as asked for, or as a pilot places them."""
        plan = energy_levels(self.energy, block, settings, rng, progress)
        return block, plan, INDEPENDENT_BITS

    def doubts(self, *_: Any) -> list[Doubt]:
        """None: there are no tails, and no modes that a prior hides."""
        return []

    def named(self, rows: np.ndarray) -> Mapping[str, np.ndarray]:
        """Bits by name, shape (..., *shape of the variable), of rows (..., d)."""
        return self.energy.named(rows)

    def record(self) -> dict[str, Any]:
        """Nothing about a prior."""
        return {}

    def settings_record(self) -> dict[str, Any]:
        """Beside the settings of the run."""
        return {"energy": self.energy.name}

    def data(self) -> dict[str, xr.Dataset]:
        """None."""
        return {}


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
