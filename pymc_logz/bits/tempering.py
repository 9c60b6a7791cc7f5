"""Tempering of an energy made of bits, by block Gibbs moves, and what a tracker follows of one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
import xarray as xr

from pymc_logz.bits.energies import BernoulliRBM, BinaryEnergy
from pymc_logz.bits.runs import energy_block, energy_start, even_plan
from pymc_logz.loop.frozen import walk as pilot_walk
from pymc_logz.references.reference import Reference
from pymc_logz.runners.anneal import Plan
from pymc_logz.runners.block import Block
from pymc_logz.runners.progress import report_beta
from pymc_logz.runners.temper import TemperBlock
from pymc_logz.tempered.run import Placed, Target, run_target
from pymc_logz.tempered.settings import TemperedSettings

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
