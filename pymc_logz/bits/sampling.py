"""How energies made of bits are sampled: what `pymc_logz.models.context.Runs` asks for."""

from pymc_logz.bits.annealing import run_hais
from pymc_logz.bits.paths import BlockGibbs
from pymc_logz.bits.runs import checked, followed, run_tempered
from pymc_logz.bits.spline import between

KERNELS = (BlockGibbs,)

__all__ = ["KERNELS", "between", "checked", "followed", "run_hais", "run_tempered"]
