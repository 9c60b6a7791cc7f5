"""How energies made of bits are sampled: what `pymc_logz.paths.foreign.Runs` asks for."""

from pymc_logz.bits.annealing import run_hais
from pymc_logz.bits.block_gibbs import BlockGibbs
from pymc_logz.bits.runs import checked
from pymc_logz.bits.spline import between
from pymc_logz.bits.tempering import followed, run_tempered

KERNELS = (BlockGibbs,)

__all__ = ["KERNELS", "between", "checked", "followed", "run_hais", "run_tempered"]
