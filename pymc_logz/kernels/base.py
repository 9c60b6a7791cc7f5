"""What kernels and runners hand to each other."""

from typing import Any, NamedTuple, Protocol

import numpy as np
from pytensor.tensor.variable import TensorVariable

from pymc_logz.path import AnnealingPath, Evaluation


class KernelState(NamedTuple):
    """All that the next step needs, for n rows in d dimensions."""

    position: Any
    """Shape (n, d)."""
    momentum: Any
    """Whitened: standard normal at every beta and scale. Shape (n, d)."""
    evaluation: Evaluation
    """The path at ``position``."""


class KernelInfo(NamedTuple):
    """What a reader of the run may want to know of a step; the algorithm never reads it."""

    acceptance_rate: TensorVariable
    """Acceptance probability, shape (n,)."""


class Noise(NamedTuple):
    """The randomness of steps, drawn by the runner."""

    normal: Any
    """Standard normals, shape (n, d) in a step, (m, n, d) for m steps."""
    log_uniform: Any
    """Logarithms of uniforms on (0, 1), shape (n,) or (m, n)."""


class Move(NamedTuple):
    """The frozen settings of one step (of m steps: a leading axis of length m)."""

    beta: Any
    """Inverse temperature that the step leaves invariant."""
    step_size: Any
    """Leapfrog step size in units of ``scale``; 0 makes the step stay where it is."""
    scale: Any
    """Square root of the inverse mass: shape (d,), or lower triangular of shape (d, d)."""
    refreshment: Any
    """Share of the momentum variance replaced before the step, in [0, 1]."""


class Kernel(Protocol):
    """Frozen settings with a symbolic step."""

    @property
    def step_size(self) -> float | None:
        """Step size at every beta; None lets the pilot choose."""

    @property
    def scale(self) -> Any:
        """Length scales at every beta; None lets the pilot choose."""

    @property
    def dense(self) -> bool | None:
        """Whether scales are matrices."""

    def refreshment_for(self, step_size: np.ndarray) -> np.ndarray:
        """Share of the momentum variance to replace over steps of these sizes."""

    def step(
        self, path: AnnealingPath, state: KernelState, move: Move, noise: Noise
    ) -> tuple[KernelState, KernelInfo]:
        """Leave the path's density at ``move.beta`` times the momentum law invariant."""
