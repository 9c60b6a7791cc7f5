"""The package's kernels as PyMC step methods, for use inside ``pm.sample``."""

from typing import TYPE_CHECKING, Any

from pymc_logz.step_methods.hais import HAIS
from pymc_logz.step_methods.partial_momentum import PartialMomentumHMC
from pymc_logz.step_methods.simulated_tempering import SimulatedTempering
from pymc_logz.wings import from_wing

if TYPE_CHECKING:
    from pymc_logz.manifold.step_method import ConstrainedHMC

__all__ = [
    "HAIS",
    "ConstrainedHMC",
    "PartialMomentumHMC",
    "SimulatedTempering",
]


def __getattr__(name: str) -> Any:
    """The step method of a wing, which imports this folder."""
    if name == "ConstrainedHMC":
        return from_wing(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
