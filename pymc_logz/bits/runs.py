"""What runs of an energy made of bits have in common, and those that are tempered."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import xarray as xr

from pymc_logz.bits.energies import BernoulliRBM, BinaryEnergy
from pymc_logz.bits.paths import BlockGibbs
from pymc_logz.kernels.base import Kernel
from pymc_logz.loop.frozen import PORTIONS
from pymc_logz.loop.frozen import walk as pilot_walk
from pymc_logz.pilot.settings import RunSettings
from pymc_logz.references.reference import Reference
from pymc_logz.runners.anneal import Plan
from pymc_logz.runners.block import Block
from pymc_logz.runners.progress import report_beta
from pymc_logz.runners.temper import TemperBlock
from pymc_logz.tempered.run import Placed, Target, run_target
from pymc_logz.tempered.settings import TemperedSettings


def checked(
    energy: BinaryEnergy, kernel: Any, reference: Any, sum_out: bool | None
) -> tuple[Kernel, str]:
    """What moves an energy, and what it starts from; an error if something else was asked for."""
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
    """Rows (n, d) of a tree's group ``posterior``; a ValueError if it is of something else."""
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
        return Target(energy, block, placed, energy.named, labels, record)

    def placed(block: Block, settings: TemperedSettings, *more: Any) -> Placed:
        return block, energy_levels(energy, block, settings, *more), INDEPENDENT_BITS

    return run_target(make, settings, random_seed, **shown)


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
    """What a tracker follows of an energy: the parameters of these names, or all of them."""
    if not isinstance(energy, BernoulliRBM):
        raise TypeError(
            f"model is the energy {energy.name!r}, whose parameters have no names: LogZTracker "
            "follows a pm.Model, or pymc_logz.energies.bernoulli_rbm(...)"
        )
    chosen = PARAMETERS if names is None else tuple(names)
    if not chosen or not set(chosen) <= set(PARAMETERS):
        raise ValueError(f"data={names!r} must name what changes, among {list(PARAMETERS)}")
    return FollowedMachine(energy, chosen)
