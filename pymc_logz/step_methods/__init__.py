"""The package's kernels as PyMC step methods, for use inside ``pm.sample``."""

from pymc_logz.step_methods.hais import HAIS, proposal_log_weight
from pymc_logz.step_methods.partial_momentum import PartialMomentumHMC

__all__ = ["HAIS", "PartialMomentumHMC", "proposal_log_weight"]
