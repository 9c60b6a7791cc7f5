"""Error bars of whole runs: how often the 95% interval covers the exact log Z."""

from functools import partial

import numpy as np
import pytest
from checks import assert_detects, check_coverage, make_rng

from pymc_logz import energies
from pymc_logz.energies import Energy
from pymc_logz.estimators import LogZEstimate, importance_log_z
from pymc_logz.kernels import Hamiltonian
from pymc_logz.model import flatten_model, model_path
from pymc_logz.references import PriorDraws
from pymc_logz.runners.anneal import Plan, anneal
from pymc_logz.runners.block import Block
from pymc_logz.runners.pilot import choose_length, run_pilot

N_ROWS, N_REPLICATES = 256, 240
TARGET_VARIANCE = 0.2

MODELS = {
    "beta_bernoulli": energies.beta_bernoulli,
    "poisson_gamma": energies.poisson_gamma,
    "linear_regression": energies.linear_regression,
    "student_location": energies.student_location,
}


def frozen_plan(energy: Energy) -> tuple[Block, PriorDraws, Plan]:
    """A compiled model and its plan, neither of which any replicate may change."""
    rng = make_rng("plan", energy.name)
    flat, prior = flatten_model(energy.model), PriorDraws(energy.model)
    block = Block(model_path(flat, prior), Hamiltonian().resolved(flat.n_dims), N_ROWS)
    draw_start = partial(prior, rng, N_ROWS)
    stages = run_pilot(block, draw_start(), rng, target_accept=0.8, tune=64)
    return block, prior, stages.plan(choose_length(block, stages, draw_start, rng, TARGET_VARIANCE))


def replicate(block: Block, prior: PriorDraws, plan: Plan, label: str) -> LogZEstimate:
    rng = make_rng("coverage", label)
    return importance_log_z(anneal(block, plan, prior(rng, N_ROWS), rng).log_weight)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_intervals_of_whole_runs_cover_the_exact_log_z(name: str) -> None:
    """Catches errors that miss a source of variation, and a bias that the error bar hides."""
    energy = MODELS[name]()
    block, prior, plan = frozen_plan(energy)
    estimates = [replicate(block, prior, plan, f"{name} {i}") for i in range(N_REPLICATES)]
    log_z = np.array([estimate.log_z for estimate in estimates])
    mcse = np.array([estimate.mcse for estimate in estimates])
    z = (log_z - energy.log_z) / mcse
    covered = np.abs(z) < 1.96
    ok = np.mean([estimate.status == "ok" for estimate in estimates])
    print(
        f"{name}: {covered.mean():.3f} covered, z {z.mean():+.2f} +- {z.std():.2f}, ok {ok:.2f}, "
        f"{plan.n_temperatures} temperatures, mcse {mcse.mean():.3f}"
    )
    check_coverage(covered)
    assert 0.90 <= covered.mean() <= 0.99
    assert_detects(check_coverage, np.abs(z) < 1.96 / 2)
    # Z itself, not its logarithm, is unbiased
    ratio = np.exp(log_z - energy.log_z)
    assert abs(ratio.mean() - 1) < 5 * ratio.std() / np.sqrt(ratio.size)
    assert_detects(partial(check_coverage), np.abs(z + 2) < 1.96)
