"""What constrained moves know of a model: its constraints and its density, symbolic or compiled."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pytensor.tensor.variable import TensorVariable

from pymc_logz.manifold.algebra import Algebra, Arrays, Linear


@dataclass(frozen=True)
class SymbolicSystem:
    """Constraints and log density of one point, as symbolic functions of its inputs."""

    point: TensorVariable
    """Inputs u, shape (d,)."""
    residual: TensorVariable
    """Constraints c(u), shape (m,), zero on the level set."""
    log_density: TensorVariable
    """Log density rho of the inputs."""

    @property
    def n_dims(self) -> int:
        """d, the number of inputs."""
        return int(self.point.type.shape[0])

    @property
    def n_outputs(self) -> int:
        """m, the number of constraints."""
        return int(self.residual.type.shape[0])


@dataclass(frozen=True)
class System:
    """A density on a level set: what constrained moves need to know of a model.

    Inputs are in units of their length scales, so that the mass matrix is the identity.
    """

    algebra: Algebra
    """Products and solutions with the Jacobian."""
    constraint: Callable[[Any], Any]
    """c of inputs (d,), shape (m,)."""
    jacobian: Callable[[Any], Any]
    """Compressed Jacobian of inputs (d,), shape (m, s)."""
    evaluate: Callable[[Any], tuple[Linear, Any, Any]]
    """Factors, log of rho times |J J'|^(-1/2), and its gradient (d,)."""
    tolerance: Any
    """Largest |c| that counts as zero, shape (m,)."""

    @property
    def arrays(self) -> Arrays:
        """The array library."""
        return self.algebra.arrays

    def residual(self, value: Any) -> Any:
        """Largest constraint in units of its tolerance: at most 1 on the level set."""
        return self.arrays.xp.max(self.arrays.xp.abs(value) / self.tolerance)
