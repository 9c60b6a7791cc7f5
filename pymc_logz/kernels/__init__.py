"""Markov kernels: frozen settings that turn a point, a beta and noise into the next point.

================= ========================================= ======================================
short name        settings                                  what it is
================= ========================================= ======================================
``"hais"``        ``Hamiltonian()``                         one leapfrog step, momentum partly kept
``"hmc"``         ``Hamiltonian(n_steps=4, refreshment=1)`` momentum drawn afresh for each move
``"langevin"``    ``Langevin()``                            the same, with one leapfrog step
``"random_walk"`` ``RandomWalk()``                          Gaussian proposal, no gradient
``"slice"``       ``Slice()``                               one direction at a time, no gradient
================= ========================================= ======================================
"""

from typing import Any

from pymc_logz.kernels.base import Kernel
from pymc_logz.kernels.hamiltonian import Hamiltonian, Langevin
from pymc_logz.kernels.random_walk import RandomWalk
from pymc_logz.kernels.slice import Slice

__all__ = ["KERNELS", "Hamiltonian", "Langevin", "RandomWalk", "Slice", "as_kernel", "check_kernel"]

KERNELS: dict[str, Kernel] = {
    "hais": Hamiltonian(),
    "hmc": Hamiltonian(n_steps=4, refreshment=1.0),
    "langevin": Langevin(),
    "random_walk": RandomWalk(),
    "slice": Slice(),
}
"""Settings by short name."""


def as_kernel(kernel: Kernel | str | None) -> Kernel:
    """Kernel settings from themselves, from a short name, or from None for `Hamiltonian`."""
    chosen: Any = Hamiltonian() if kernel is None else kernel
    if isinstance(kernel, str):
        chosen = KERNELS.get(kernel, kernel)
    check_kernel(chosen)
    return chosen


def check_kernel(kernel: Any) -> None:
    """Raise a TypeError for what is not kernel settings."""
    if not isinstance(kernel, Hamiltonian | RandomWalk | Slice):
        raise TypeError(
            f"kernel={kernel!r} must be pymc_logz.kernels.Hamiltonian(), Langevin(), RandomWalk() or "  # noqa: E501
            f"Slice(), with settings as you like, or one of {list(KERNELS)}"
        )
