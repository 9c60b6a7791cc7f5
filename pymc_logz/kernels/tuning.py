"""Step sizes from acceptance rates, and what most kernels have in common beside."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import ndtri

from pymc_logz.arguments import check_positive
from pymc_logz.kernels.base import Kernel, draw_noise

MIN_STEP_SIZE, MAX_STEP_SIZE = 1e-6, 3.0
"""Of a kernel, in units of scales that a population's spread has set: the leapfrog of a normal
becomes unstable at 2, a random walk in one dimension is best at 2.4."""


def corrected_step_size(
    kernel: Kernel, step_size: float, acceptance_rate: float, target_accept: float
) -> float:
    """Step size after one correction by the kernel's rule; the same where it has its own."""
    if kernel.step_size is not None:
        return step_size
    aim = kernel.acceptance_for(target_accept)
    return kernel.tuned_step_size(step_size, acceptance_rate, aim)


def leapfrog_step_size(step_size: float, acceptance_rate: float, target_accept: float) -> float:
    """Leapfrog step size expected to have the target acceptance rate.

    The energy error of one leapfrog step is of third order in the step size, and the rejection
    rate follows it; one correction changes the step size by at most a factor of three.

    Parameters
    ----------
    step_size
        What was used, in units of the scales.
    acceptance_rate
        What came of it, in [0, 1].
    target_accept
        Acceptance rate to aim at, in (0, 1).

    Returns
    -------
    float
        At most three times longer or shorter.

    Examples
    --------
    >>> from pymc_logz.kernels import leapfrog_step_size
    >>> round(leapfrog_step_size(0.1, acceptance_rate=0.99, target_accept=0.8), 3)
    0.271
    """
    rejection = np.clip(1.0 - acceptance_rate, 1e-3, 1.0)
    factor = ((1.0 - target_accept) / rejection) ** (1.0 / 3.0)
    return _corrected(step_size, factor)


def random_walk_step_size(step_size: float, acceptance_rate: float, target_accept: float) -> float:
    """Step size of a random walk expected to have the target acceptance rate.

    In many dimensions the acceptance rate is ``2 Phi(-c step_size / 2)``: Roberts, Gelman & Gilks
    (1997), Weak convergence and optimal scaling of random walk Metropolis algorithms, theorem 1.1,
    doi 10.1214/aoap/1034625254. One correction is by at most a factor of three.

    Parameters
    ----------
    step_size, acceptance_rate, target_accept
        As of `leapfrog_step_size`.

    Returns
    -------
    float
        At most three times longer or shorter.

    Examples
    --------
    >>> from pymc_logz.kernels import random_walk_step_size
    >>> round(random_walk_step_size(1.0, acceptance_rate=0.5, target_accept=0.234), 3)
    1.764
    """
    rate = np.clip(acceptance_rate, 1e-3, 1.0 - 1e-3)
    return _corrected(step_size, ndtri(0.5 * target_accept) / ndtri(0.5 * rate))


def _corrected(step_size: float, factor: float) -> float:
    """Step size times a factor of at most 3: an acceptance rate near 0 or 1 says no more."""
    factor = np.clip(factor, 1 / 3.0, 3.0) if np.isfinite(factor) else 0.5
    return float(np.clip(step_size * factor, MIN_STEP_SIZE, MAX_STEP_SIZE))


def reasonable_step_size(acceptance_rate: Callable[[float], float], guess: float) -> float:
    """Step size at which one leapfrog step's acceptance crosses 0.8, by doubling or halving."""
    # Hoffman & Gelman (2014), algorithm 4, arXiv 1111.4246
    step_size = guess
    grow = acceptance_rate(step_size) > 0.8
    # scales are a user's here, or a guess from one gradient, wrong by orders of magnitude perhaps
    while 1e-8 < step_size < 1e3:
        longer = step_size * (2.0 if grow else 0.5)
        if (acceptance_rate(longer) > 0.8) != grow:
            # the last step size that passes
            return step_size if grow else longer
        step_size = longer
    return step_size


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
        own: Any = self
        if "dense" not in {field.name for field in fields(own)}:
            return self
        # only the pilot's scales can be matrices; in up to 64 dimensions these cost next to
        # nothing, and shorten the ladder on correlated posteriors (docs/theory/decisions.md)
        dense = n_dims <= 64 if own.dense is None else own.dense
        return replace(own, dense=dense and own.scale is None)

    def evaluations_per_move(self, n_dims: int) -> int:
        """One evaluation of the path: that of the proposal."""
        return 1

    def refreshment_for(self, step_size: np.ndarray) -> np.ndarray:
        """Nothing of the momentum: it is carried along."""
        return np.zeros_like(step_size)

    def acceptance_for(self, target_accept: float) -> float:
        """Acceptance rate to tune for: the user's."""
        return target_accept

    # repeated, it comes to the target for any acceptance rate that falls with the step size
    tuned_step_size = staticmethod(leapfrog_step_size)
    draw_noise = staticmethod(draw_noise)


def check_scale(scale: Any, dense: bool | None) -> None:
    """Raise a ValueError for scales out of range, or beside ``dense=True``: they are no matrix."""
    check_positive(scale=scale)
    if dense and scale is not None:
        raise ValueError(
            f"dense={dense!r} is about the scales that the pilot finds, but scale={scale!r} is "
            "given: leave out one of the two"
        )
