"""The package's kernels as PyMC step methods, for use inside ``pm.sample``."""

from pymc_logz.step_methods.hais import HAIS
from pymc_logz.step_methods.partial_momentum import PartialMomentumHMC
from pymc_logz.step_methods.simulated_tempering import SimulatedTempering

__all__ = [
    "HAIS",
    "PartialMomentumHMC",
    "SimulatedTempering",
]
