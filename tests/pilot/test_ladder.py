"""The ladder has as many temperatures as the target variance asks for, where they are needed."""

from dataclasses import replace

import numpy as np
import pytest
from support.checks import make_rng
from support.pilot_runs import N, find_stages, narrow_block

from pymc_logz.kernels import Hamiltonian
from pymc_logz.pilot.ladder import Aim, choose_plan, first_ladder, log_weight_variance, placed
from pymc_logz.pilot.population import Stages
from pymc_logz.runners.anneal import Annealed, anneal


def bare_stages(n_stages: int) -> Stages:
    """Stages at equal steps of beta, with nothing to tell one from the other."""
    ones = np.ones(n_stages + 1)
    betas = np.linspace(0, 1, n_stages + 1)
    return Stages(betas, ones, ones[:, None], None, ones)


def trial_of(weight_ess: np.ndarray) -> Annealed:
    """Trial rows of which only the weight ESS along the ladder is known."""
    nothing = np.empty(0)
    return Annealed(
        **{name: nothing for name in Annealed._fields if name not in ("n_nan", "stage_weight_ess")},
        n_nan=0,
        stage_weight_ess=weight_ess,
    )


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


def test_temperatures_follow_the_root_of_the_cost() -> None:
    """Catches temperatures put where they are not needed, or in proportion to the cost itself."""
    n_stages, cuts = 12, 8
    cost = np.repeat([1.0, 16.0], n_stages // 2)
    lost = np.concatenate([[0], np.cumsum(np.repeat(cost, cuts))])
    trial = trial_of(1000 * np.exp(-lost / lost[-1]))
    moved, gain = placed(bare_stages(n_stages), trial)
    share = moved.shares()
    # away from the border between cheap and dear, where costs are smoothed
    assert share[-1] / share[0] == pytest.approx(4.0)
    assert gain == pytest.approx(np.mean(cost) / np.mean(np.sqrt(cost)) ** 2, rel=0.1)
    betas = moved.plan(10 * n_stages).betas
    assert (betas[0], betas[-1]) == (0.0, 1.0)
    assert np.all(np.diff(betas) > 0)
    assert np.mean(betas > 0.5) == pytest.approx(0.8, abs=0.05)


def test_even_costs_leave_the_ladder_alone() -> None:
    """Catches a ladder that follows the noise of its trial rows."""
    stages = bare_stages(6)
    lost = np.linspace(0, 0.5, 61) * np.linspace(1, 1.1, 61)
    assert placed(stages, trial_of(256 * np.exp(-lost)))[0] is stages


def test_moved_temperatures_lower_the_variance() -> None:
    """Catches a gain that is promised and not kept, on temperatures that crowd at one end."""
    block, rng = narrow_block(Hamiltonian()), make_rng("placed")
    stages = find_stages()
    n_temperatures = 32 * (stages.betas.size - 1)
    crowded = replace(stages, share=10.0 ** np.linspace(0, 2, stages.betas.size - 1))

    def variance(of: Stages) -> tuple[float, Annealed]:
        starts = [rng.standard_normal((N, 3)) for _ in range(6)]
        runs = [anneal(block, of.plan(n_temperatures), start, rng) for start in starts]
        return float(np.mean([log_weight_variance(run.log_weight) for run in runs])), runs[0]

    before, trial = variance(crowded)
    moved, gain = placed(crowded, trial)
    check_lower(variance(moved)[0], before)
    assert gain > 1.5
    with pytest.raises(AssertionError):
        check_lower(variance(crowded)[0], before)


def check_lower(variance: float, than: float) -> None:
    """Six runs of 256 rows know a variance to within 4%, so their ratio to 6%."""
    assert variance < 0.85 * than
