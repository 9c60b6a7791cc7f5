"""Markov kernels: frozen settings that turn a point, a beta and noise into the next point.

`Hamiltonian` and `Langevin` follow gradients, `RandomWalk` and `Slice` need none; `KERNELS` has
short names of them. `Gibbs` and `IntegerWalk` move discrete variables, `Compose` gives each
variable a kernel of its own, and `OneOf` draws one of several at each step. Anything that follows
`Kernel` can take their place; the rest is for those who write one.
"""

from typing import TYPE_CHECKING

from pymc_logz.kernels.base import (
    Kernel,
    KernelInfo,
    KernelState,
    Move,
    Noise,
    choose,
    column,
    draw_log_uniform,
    draw_noise,
    metropolis,
    strides,
)
from pymc_logz.kernels.choice import KERNELS, as_kernel, check_kernel
from pymc_logz.kernels.compose import Compose
from pymc_logz.kernels.hamiltonian import Hamiltonian, Langevin
from pymc_logz.kernels.integers import Gibbs, IntegerWalk
from pymc_logz.kernels.one_of import OneOf
from pymc_logz.kernels.slice import Slice
from pymc_logz.kernels.tuning import KernelDefaults, leapfrog_step_size, random_walk_step_size
from pymc_logz.kernels.walks import RandomWalk
from pymc_logz.paths.geometric import Evaluation, grad_log_density, log_density
from pymc_logz.wings import lazily

if TYPE_CHECKING:
    from pymc_logz.bits.paths import BlockGibbs

__getattr__ = lazily(__name__, {"BlockGibbs": "bits.paths"})
__all__ = [
    "KERNELS",
    "BlockGibbs",
    "Compose",
    "Evaluation",
    "Gibbs",
    "Hamiltonian",
    "IntegerWalk",
    "Kernel",
    "KernelDefaults",
    "KernelInfo",
    "KernelState",
    "Langevin",
    "Move",
    "Noise",
    "OneOf",
    "RandomWalk",
    "Slice",
    "as_kernel",
    "check_kernel",
    "choose",
    "column",
    "draw_log_uniform",
    "draw_noise",
    "grad_log_density",
    "leapfrog_step_size",
    "log_density",
    "metropolis",
    "random_walk_step_size",
    "strides",
]


def __dir__() -> list[str]:
    return __all__
