"""Kernels, and what those who write one need, as editors and type checkers see them."""

from pymc_logz.bits.paths import BlockGibbs as BlockGibbs
from pymc_logz.kernels.base import (
    Kernel as Kernel,
    KernelInfo as KernelInfo,
    KernelState as KernelState,
    Move as Move,
    Noise as Noise,
    choose as choose,
    column as column,
    draw_log_uniform as draw_log_uniform,
    draw_noise as draw_noise,
    metropolis as metropolis,
    strides as strides,
)
from pymc_logz.kernels.choice import (
    KERNELS as KERNELS,
    as_kernel as as_kernel,
    check_kernel as check_kernel,
)
from pymc_logz.kernels.compose import Compose as Compose
from pymc_logz.kernels.hamiltonian import Hamiltonian as Hamiltonian, Langevin as Langevin
from pymc_logz.kernels.integers import Gibbs as Gibbs, IntegerWalk as IntegerWalk
from pymc_logz.kernels.one_of import OneOf as OneOf
from pymc_logz.kernels.slice import Slice as Slice
from pymc_logz.kernels.tuning import (
    KernelDefaults as KernelDefaults,
    leapfrog_step_size as leapfrog_step_size,
    random_walk_step_size as random_walk_step_size,
)
from pymc_logz.kernels.walks import RandomWalk as RandomWalk
from pymc_logz.paths.geometric import (
    Evaluation as Evaluation,
    grad_log_density as grad_log_density,
    log_density as log_density,
)
