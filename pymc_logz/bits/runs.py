"""What runs of an energy made of bits have in common: what moves it, and its temperatures."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from pymc_logz.bits.block_gibbs import BlockGibbs
from pymc_logz.bits.energies import BinaryEnergy
from pymc_logz.kernels.base import Kernel
from pymc_logz.loop.frozen import PORTIONS
from pymc_logz.pilot.settings import RunSettings
from pymc_logz.runners.anneal import Plan
from pymc_logz.runners.block import Block


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
