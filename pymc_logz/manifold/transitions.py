"""What decides a transition on a level set and what is known after it, also as rows of numbers.

Each array that crosses over to JAX costs as much as a step of a trajectory. So a transition goes in
as one row and comes out as one row; both layouts are written down here and nowhere else.
"""

from typing import Any, NamedTuple

import numpy as np


class TransitionInput(NamedTuple):
    """What decides a transition, besides the state that it starts from."""

    noise: Any
    """Independent standard normals for the momentum, shape (d,)."""
    log_uniform: Any
    """Log of a uniform number, which decides on acceptance."""
    step_size: Any
    n_steps: Any
    """Of the trajectory."""

    def packed(self) -> np.ndarray:
        """As a row of numbers, shape (d + 3,)."""
        noise, *numbers = self
        return np.concatenate([noise, numbers])

    @classmethod
    def unpacked(cls, row: Any) -> "TransitionInput":
        """From a row of numbers, of NumPy or of JAX."""
        n = len(cls._fields) - 1
        return cls(row[:-n], *(row[-i] for i in range(n, 0, -1)))


class TransitionInfo(NamedTuple):
    """What a reader wants to know of a transition."""

    acceptance_rate: Any
    accepted: Any
    energy: Any
    """Of the state that the chain is left in, with the momentum it had."""
    energy_error: Any
    """Of the proposal; infinite where there is none."""
    residual: Any
    """Largest constraint of the state, in units of its tolerance."""
    status: Any
    """What ended the trajectory, as `pymc_logz.manifold.rattle` numbers it."""
    n_steps: Any
    n_iterations: Any
    """Of the quasi-Newton search, all projections together, those of the check included."""
    n_newton: Any
    """Iterations of Newton's method in its place."""


class TransitionRecord(NamedTuple):
    """What is known after a transition."""

    position: Any
    """Inputs in units of their scales, shape (d,)."""
    log_density: Any
    """Log of rho times |J J'|^(-1/2) there, in nats."""
    info: TransitionInfo

    def packed(self, xp: Any) -> Any:
        """As a row of numbers, an array of the library ``xp``, shape (d + 10,)."""
        info = xp.stack([xp.asarray(value, dtype=float) for value in self.info])
        return xp.concatenate([self.position, xp.stack([self.log_density]), info])

    @classmethod
    def unpacked(cls, row: np.ndarray) -> "TransitionRecord":
        """From a row of numbers of NumPy."""
        n = len(TransitionInfo._fields)
        return cls(np.array(row[: -n - 1]), float(row[-n - 1]), TransitionInfo(*row[-n:].tolist()))
