"""The ladder has as many temperatures as the target variance asks for."""

from dataclasses import replace

import numpy as np
import pytest
from support.checks import make_rng
from support.pilot_runs import N, find_stages, narrow_block

from pymc_logz.kernels import Hamiltonian
from pymc_logz.pilot.ladder import Aim, choose_plan, first_ladder
from pymc_logz.runners.anneal import anneal


@pytest.mark.parametrize("target_variance", [0.3, 0.05])
def test_plan_has_the_target_variance(target_variance: float) -> None:
    """Catches a length scaled by the wrong power of the variance."""
    stages, block = find_stages(), narrow_block(Hamiltonian())
    rng = make_rng("length", target_variance)

    def draw() -> np.ndarray:
        return rng.standard_normal((N, 3))

    aim = Aim(target_variance, target_variance)
    plan, _ = choose_plan(block, stages, draw, rng, aim)
    variance = anneal(block, plan, draw(), rng).log_weight.var()
    # a sample variance of 256 rows is good to a tenth; trial and run both vary, so allow a factor
    assert variance < 2 * target_variance
    shortest = plan.n_temperatures == first_ladder(stages)
    assert shortest or variance > target_variance / 2


def test_a_ladder_beyond_the_limit_is_not_tried() -> None:
    """Catches trial rows on ladders that a better reference may make needless."""
    stages, block, rng = find_stages(), narrow_block(Hamiltonian()), make_rng("limit")
    stages = replace(stages, scale=30 * stages.scale)  # so that hardly a move is accepted
    aim = Aim(1e-6, 1e-6, n_rows=1000)

    def cost(limit: float) -> tuple[int, int]:
        before = block.work.done
        plan, _ = choose_plan(
            block, stages, lambda: rng.standard_normal((N, 3)), rng, replace(aim, limit=limit)
        )
        return block.work.done - before, plan.n_temperatures

    first = first_ladder(stages)
    evaluations, n_temperatures = cost(1000 * first)
    assert evaluations <= N * first
    assert n_temperatures == 4 * first
    assert cost(1000 * 4 * first)[0] > 4 * N * first
