"""The package's kernels as PyMC step methods, for use inside ``pm.sample``."""

from typing import TYPE_CHECKING

from pymc_logz.step_methods.hais import HAIS
from pymc_logz.step_methods.partial_momentum import PartialMomentumHMC
from pymc_logz.step_methods.simulated_tempering import SimulatedTempering
from pymc_logz.wings import HOMES, lazily

if TYPE_CHECKING:
    from pymc_logz.manifold.step_method import ConstrainedHMC

__getattr__ = lazily(__name__, {"ConstrainedHMC": HOMES["ConstrainedHMC"]})
__all__ = [
    "HAIS",
    "ConstrainedHMC",
    "PartialMomentumHMC",
    "SimulatedTempering",
]
