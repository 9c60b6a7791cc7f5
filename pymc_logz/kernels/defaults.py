"""What most kernels have in common, so that a new one is little more than its step."""

from dataclasses import fields, replace
from typing import Any, ClassVar, Self

import numpy as np

from pymc_logz.kernels.base import draw_noise
from pymc_logz.kernels.tuning import leapfrog_step_size

MAX_DENSE = 64
"""Dimensions up to which scales are matrices: they cost next to nothing there, and shorten the
ladder on correlated posteriors (docs/theory/decisions.md)."""


class KernelDefaults:
    """Defaults for the methods of `Kernel` other than ``step``.

    Inherit from it in a frozen dataclass with the fields ``step_size``, ``scale`` and ``dense``.
    Momentum is carried along, the step size is tuned to the acceptance rate that the user asked for
    (0.8 if not at all), and the noise is one normal per dimension and the log of one uniform.

    Examples
    --------
    >>> from pymc_logz.kernels import KernelDefaults
    >>> KernelDefaults().evaluations_per_move(n_dims=5), KernelDefaults().acceptance_for(0.8)
    (1, 0.8)
    """

    needs_gradient: ClassVar[bool] = True

    def resolved(self, n_dims: int) -> Self:
        """The same settings with ``dense``, if it is one, decided for d dimensions."""
        return _with_dense_decided(self, n_dims)

    def evaluations_per_move(self, n_dims: int) -> int:
        """One evaluation of the path: that of the proposal."""
        return 1

    def refreshment_for(self, step_size: np.ndarray) -> np.ndarray:
        """Nothing of the momentum: it is carried along."""
        return np.zeros_like(step_size)

    def acceptance_for(self, target_accept: float) -> float:
        """Acceptance rate to tune for: the user's."""
        return target_accept

    def tuned_step_size(
        self, step_size: float, acceptance_rate: float, target_accept: float
    ) -> float:
        """Step size expected to have the target acceptance rate, see `leapfrog_step_size`.

        Repeated, it comes to the target for any acceptance rate that falls with the step size.
        """
        return leapfrog_step_size(step_size, acceptance_rate, target_accept)

    def draw_noise(self, rng: np.random.Generator, n_moves: int, n_rows: int, n_dims: int) -> Any:
        """Normals for a proposal, log uniforms for the decision."""
        return draw_noise(rng, n_moves, n_rows, n_dims)


def _with_dense_decided[K: Any](kernel: K, n_dims: int) -> K:
    """The kernel with ``dense`` True or False: only the pilot's scales can be matrices."""
    if "dense" not in {field.name for field in fields(kernel)}:
        return kernel
    if kernel.scale is not None:
        return replace(kernel, dense=False)
    return replace(kernel, dense=n_dims <= MAX_DENSE if kernel.dense is None else kernel.dense)


def check_dense(dense: bool | None, scale: Any) -> None:
    """Raise a ValueError for ``dense=True`` beside a scale that is given, which is no matrix."""
    if dense and scale is not None:
        raise ValueError(
            f"dense={dense!r} is about the scales that the pilot finds, but scale={scale!r} is "
            "given: leave out one of the two"
        )
