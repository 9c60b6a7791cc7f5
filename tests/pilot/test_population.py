"""The pilot finds a usable plan, the same one for the same seed, or says that it cannot."""

from dataclasses import fields
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytensor.tensor as pt
import pytest
from support.checks import check_means, make_rng
from support.pilot_runs import (
    SD,
    SETTINGS,
    TARGET_ACCEPT,
    N,
    find_stages,
    narrow_block,
    narrow_path,
)

from pymc_logz.errors import EvidenceWarning, PilotError
from pymc_logz.kernels import Hamiltonian
from pymc_logz.paths.geometric import AnnealingPath
from pymc_logz.pilot import population
from pymc_logz.pilot.population import Stages, run_pilot
from pymc_logz.pilot.settings import RunSettings
from pymc_logz.runners import block as block_module
from pymc_logz.runners.anneal import anneal
from pymc_logz.runners.block import Block


def test_pilot_climbs_to_the_target() -> None:
    """Catches a pilot that stops short, stands still, or forgets one of its ends."""
    betas = find_stages().betas
    assert betas[0] == 0
    assert betas[-1] == 1
    assert np.all(np.diff(betas) > 0)
    assert 5 < betas.size < 60


def test_pilot_finds_the_scales_of_reference_and_target() -> None:
    """Catches scales of the wrong stage, unweighted, or squared."""
    scale = find_stages().scale
    # a quantile width of 256 correlated rows is good to some 10%; stage k has the scale that the
    # rows of stage k - 1, weighted, give
    np.testing.assert_allclose(scale[0], 1.0, rtol=0.3)
    np.testing.assert_allclose(scale[-1], SD, rtol=0.4)


def test_pilot_tunes_acceptance() -> None:
    """Catches a step size driven the wrong way, or tuned for another acceptance."""
    stages = find_stages()
    assert abs(np.median(stages.acceptance_rate) - TARGET_ACCEPT) < 0.1
    assert stages.acceptance_rate[-1] > 0.5
    rng = make_rng("acceptance")
    run = anneal(narrow_block(Hamiltonian()), stages.plan(300), rng.standard_normal((N, 3)), rng)
    assert 0.6 < np.nanmean(run.stage_acceptance_rate) < 0.95


def test_pilot_is_deterministic_given_its_generator() -> None:
    """Catches randomness from anywhere else."""
    rng = make_rng("pilot")
    start = rng.standard_normal((N, 3))
    again = run_pilot(narrow_block(Hamiltonian()), start, rng, SETTINGS)
    for field in fields(Stages):
        one, other = getattr(find_stages(), field.name), getattr(again, field.name)
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(again.betas, find_stages(label="another").betas)


def test_pilot_reports_each_beta(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a progress bar that does not get to its end."""
    rng, seen = make_rng("pilot"), []
    shown = SimpleNamespace(reached=seen.append, moved=lambda n_moves, cheaper: None)
    monkeypatch.setattr(population, "shown_pilot", lambda: shown)
    start = rng.standard_normal((N, 3))
    run_pilot(narrow_block(Hamiltonian()), start, rng, SETTINGS)
    np.testing.assert_array_equal(seen, find_stages().betas[1:])


def test_pilot_leaves_fixed_settings_alone() -> None:
    """Catches tuning of what the user has fixed."""
    kernel = Hamiltonian(step_size=0.6, scale=(0.01, 0.2, 1.0))
    stages = find_stages(kernel)
    np.testing.assert_array_equal(stages.step_size, 0.6)
    np.testing.assert_array_equal(stages.scale, np.tile([0.01, 0.2, 1.0], (stages.betas.size, 1)))


def test_plan_interpolates_the_stages() -> None:
    """Catches a ladder that repeats a beta, or settings of a neighbouring stage."""
    stages = find_stages()
    n_stages = stages.betas.size - 1
    plan = stages.plan(7 * n_stages)
    assert plan.n_temperatures == 7 * n_stages
    assert (plan.betas[0], plan.betas[-1]) == (0.0, 1.0)
    assert np.all(np.diff(plan.betas) > 0)
    np.testing.assert_allclose(plan.betas[::7], stages.betas, rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(plan.step_size[::7], stages.step_size, rtol=1e-9)
    np.testing.assert_allclose(plan.scale[::7], stages.scale, rtol=1e-9)
    given = stages.plan_for(plan.betas)
    np.testing.assert_array_equal(given.betas, plan.betas)
    np.testing.assert_allclose(given.step_size, plan.step_size, rtol=0.05)
    np.testing.assert_allclose(given.scale, plan.scale, rtol=0.05)


def test_dense_pilot_finds_correlations() -> None:
    """Catches a factor of the wrong triangle: the last scale must be one of the target."""
    kernel = Hamiltonian(dense=True)
    stages = find_stages(kernel)
    assert stages.correlation is not None
    full = stages.scale[-1][:, None] * stages.correlation[-1]
    np.testing.assert_allclose(np.sqrt((full**2).sum(axis=1)), SD, rtol=0.4)
    assert np.all(np.triu(stages.correlation, 1) == 0)
    rng = make_rng("dense")
    run = anneal(narrow_block(kernel), stages.plan(300), rng.standard_normal((N, 3)), rng)
    check_means({"w / Z": np.exp(run.log_weight)}, 1.0)


def test_a_pilot_that_needs_too_many_stages_says_so() -> None:
    """Catches a pilot that never ends, as in coordinates that only make the way longer."""
    rng = make_rng("too many")
    start = rng.standard_normal((N, 3))
    with pytest.raises(PilotError, match="after 3 stages"):
        run_pilot(narrow_block(Hamiltonian()), start, rng, RunSettings(tune=32), max_stages=2)


@cache
def hopeless_block() -> Block:
    """A target without any support where the reference has draws."""
    x = pt.tensor("x", dtype="float64", shape=(1,))
    path = AnnealingPath(
        x,
        -0.5 * (x**2).sum(),
        pt.switch(x[0] > 40, 0.0, -np.inf),
        n_dims=1,
        sample_reference=lambda rng, n: rng.standard_normal((n, 1)),
    )
    return Block(path, Hamiltonian(), N)


def test_a_pilot_without_a_live_row_says_so() -> None:
    """Catches NumPy's error about an empty array in place of one that helps."""
    rng = make_rng("hopeless")
    start = rng.standard_normal((N, 1))
    with pytest.raises(PilotError):
        run_pilot(hopeless_block(), start, rng, RunSettings(tune=32))


@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value encountered")
def test_blocks_of_one_move_can_be_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches an acceptance rate of nothing: 256 rows of more than 8,192 dimensions."""
    monkeypatch.setattr(block_module, "MAX_NOISE_PER_BLOCK", 3 * N)
    block = Block(narrow_path(), Hamiltonian(), N)
    assert block.n_moves == 1
    rng = make_rng("one move")
    start = rng.standard_normal((N, 3))
    stages = run_pilot(block, start, rng, RunSettings(tune=16))
    assert np.all(np.isfinite(stages.acceptance_rate))


def test_stages_that_stood_still_are_named() -> None:
    """Catches a pilot that stands still unnoticed, and a good one that is accused."""
    ones = np.ones(3)
    acceptance = np.array([0.9, 0.02, 0.7])
    stages = Stages(np.array([0, 0.25, 1.0]), ones, ones[:, None], None, acceptance)
    with pytest.warns(EvidenceWarning, match=r"hardly move at 1 stages .* at beta=0\.25"):
        stages.warn_of_stuck()
    find_stages().warn_of_stuck()  # warnings are errors
