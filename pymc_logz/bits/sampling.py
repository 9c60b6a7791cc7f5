"""How energies made of bits are sampled: what `pymc_logz.paths.foreign.Runs` asks for."""

from pymc_logz.bits.annealing import run_hais
from pymc_logz.bits.block_gibbs import BlockGibbs
from pymc_logz.bits.runs import checked
from pymc_logz.bits.spline import between
from pymc_logz.bits.tempering import run_tempered
from pymc_logz.bits.tracked import followed

KERNELS = (BlockGibbs,)

__all__ = ["KERNELS", "between", "checked", "followed", "run_hais", "run_tempered"]
