"""A path between normals of very different widths, and pilots along it."""

from functools import cache

import numpy as np
import pytensor.tensor as pt

from pymc_logz.kernels import Hamiltonian
from pymc_logz.paths.geometric import AnnealingPath
from pymc_logz.pilot.population import Stages, run_pilot
from pymc_logz.pilot.settings import RunSettings
from pymc_logz.runners.block import Block
from support.checks import make_rng

N = 256
SD = np.array([1e-3, 0.05, 0.5])
"""Standard deviations of the target; the reference has one."""
MEAN = np.array([0.3, -1.0, 0.5])
TARGET_ACCEPT = 0.8
SETTINGS = RunSettings(target_accept=TARGET_ACCEPT, tune=64)


def narrow_path() -> AnnealingPath:
    """From N(0, I) to three independent normals of very different widths; log Z is zero."""
    x = pt.tensor("x", dtype="float64", shape=(3,))
    log_ratio = (0.5 * x**2 - 0.5 * ((x - MEAN) / SD) ** 2 - np.log(SD)).sum()
    return AnnealingPath(
        x,
        -0.5 * (x**2).sum(),
        log_ratio,
        n_dims=3,
        sample_reference=lambda rng, n: rng.standard_normal((n, 3)),
    )


@cache
def narrow_block(kernel: Hamiltonian) -> Block:
    return Block(narrow_path(), kernel, N)


@cache
def find_stages(kernel: Hamiltonian = Hamiltonian(), label: str = "pilot") -> Stages:  # noqa: B008
    rng = make_rng(label)
    start = rng.standard_normal((N, 3))
    return run_pilot(narrow_block(kernel), start, rng, SETTINGS)
