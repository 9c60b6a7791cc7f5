"""Step methods, as editors and type checkers see them."""

from pymc_logz.manifold.step_method import ConstrainedHMC as ConstrainedHMC
from pymc_logz.step_methods.hais import HAIS as HAIS
from pymc_logz.step_methods.partial_momentum import PartialMomentumHMC as PartialMomentumHMC
from pymc_logz.step_methods.simulated_tempering import SimulatedTempering as SimulatedTempering
