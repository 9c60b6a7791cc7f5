"""What a tracker follows of a machine whose parameters change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from pymc_logz.bits.energies import BernoulliRBM, BinaryEnergy
from pymc_logz.bits.runs import energy_block
from pymc_logz.bits.tempering import energy_levels
from pymc_logz.runners.anneal import Plan
from pymc_logz.runners.block import Block
from pymc_logz.runners.temper import TemperBlock
from pymc_logz.tempered.settings import TemperedSettings

PARAMETERS = ("weights", "visible_bias", "hidden_bias")


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
