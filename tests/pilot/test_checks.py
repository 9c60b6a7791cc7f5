"""A pilot that lost a mode or stood still is found out, and a good one is not accused."""

from functools import cache

import numpy as np
import pytensor.tensor as pt
import pytest
from support.checks import make_rng
from support.pilot_runs import find_stages

from pymc_logz.kernels import Hamiltonian
from pymc_logz.paths.geometric import AnnealingPath
from pymc_logz.pilot import population as pilot
from pymc_logz.pilot.checks import lost_part, stuck_stages
from pymc_logz.pilot.population import Stages, run_pilot
from pymc_logz.runners.anneal import anneal
from pymc_logz.runners.block import Block

N = 256


def two_modes() -> AnnealingPath:
    """From N(0, 3) to narrow normals at -2 and 3 of weights 0.4 and 0.6."""
    x = pt.tensor("x", dtype="float64", shape=(1,))
    log_reference = -0.5 * (x[0] / 3) ** 2 - np.log(3)
    left = np.log(0.4) - 0.5 * ((x[0] + 2) / 0.3) ** 2
    right = np.log(0.6) - 0.5 * ((x[0] - 3) / 0.2) ** 2 + np.log(1.5)
    log_ratio = pt.logaddexp(left, right) - np.log(0.3) - log_reference
    return AnnealingPath(
        x,
        log_reference,
        log_ratio,
        n_dims=1,
        sample_reference=lambda rng, n: 3 * rng.standard_normal((n, 1)),
    )


@cache
def block() -> Block:
    return Block(two_modes(), Hamiltonian(), N)


def pilot_and_share_lost(label: str) -> float:
    rng = make_rng("pilot check", label)
    start = block().path.sample_reference(rng, N)
    stages = run_pilot(block(), start, rng, target_accept=0.8, tune=64)
    trial = anneal(block(), stages.plan(200), block().path.sample_reference(rng, N), rng)
    return lost_part(stages, trial)


def test_a_good_pilot_is_not_accused() -> None:
    """Catches a comparison that is too strict for rows of common descent."""
    assert [pilot_and_share_lost(f"good {i}") for i in range(5)] == 5 * [0.0]


def test_a_lost_mode_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a comparison that cannot fail: rows with the lower log ratio all die out."""

    def only_right(population: pilot.Population, weight: np.ndarray, rng: object) -> None:
        position = np.asarray(population.state.position)[:, 0]
        resample(population, np.where(position > 0, weight, 0.0), rng)

    resample = pilot.resample
    monkeypatch.setattr(pilot, "resample", only_right)
    assert pilot_and_share_lost("lost") == pytest.approx(0.4, abs=0.15)


def test_founders_are_counted() -> None:
    """Catches descent that is not followed through the resampling."""
    assert 10 < find_stages().n_founders < N / 2


def test_stuck_stages_are_named() -> None:
    """Catches a pilot that stands still unnoticed."""
    ones = np.ones(3)
    acceptance = np.array([0.9, 0.02, 0.7])
    stages = Stages(np.array([0, 0.25, 1.0]), ones, ones[:, None], None, acceptance)
    np.testing.assert_array_equal(stuck_stages(stages), [0.25])
    assert stuck_stages(find_stages()).size == 0
