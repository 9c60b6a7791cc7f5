"""Rows that climb from the prior: they get to modes, spread out, and tell of a missing one."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from support.checks import make_rng

from pymc_logz.hais.settings import HaisSettings
from pymc_logz.models.preparation import prepare
from pymc_logz.pilot.frozen import walk
from pymc_logz.pilot.planning import block_for
from pymc_logz.runners.climb import climbed, spread_out
from pymc_logz.trees.modes import climb_doubts

D, SD = 20, 0.1


@pytest.mark.filterwarnings("ignore:the model has potentials")
def test_a_mode_with_too_few_draws_is_found() -> None:
    """Catches rows that stay where they start, and a mode that four draws make seem known."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 3, shape=D)
        pm.Normal("y", x[1:], 1, observed=np.linspace(-1, 1, D - 1))
        at = [-0.5 * (x[0] - place) ** 2 / SD**2 for place in (3, -3)]
        pm.Potential("two", pt.logaddexp(*at))
    rng = make_rng("climb")
    prepared = prepare(model, rng)
    block = block_for(prepared, HaisSettings(), None)
    draws = np.linspace(-1, 1, D) * 0.9 + np.sqrt(0.9) * rng.normal(size=(1000, D))
    draws[:, 1:] = np.linspace(-1, 1, D - 1) * 0.9 + np.sqrt(0.9) * rng.normal(size=(1000, D - 1))
    draws[:, 0] = -3 + SD * rng.normal(size=1000)
    whole = draws.copy()
    draws[:4, 0] += 6.0
    whole[::2, 0] += 6.0
    rows, _ = climbed(block, prepared.prior(rng, 128), draws.std(axis=0))
    ends = np.abs(rows[:, 0])
    assert np.mean(np.abs(ends - 3) < 0.1) > 0.9
    assert 0.2 < np.mean(rows[:, 0] > 0) < 0.8
    stages = walk(block, HaisSettings(), prepared.prior(rng, 256), rng)
    rows = spread_out(block, stages.plan(2), rows, rng)
    assert 0.3 * SD < np.std(rows[rows[:, 0] > 2, 0]) < 3 * SD
    log_z = -43.3
    [doubt] = climb_doubts(block.densities, rows, draws, log_z - np.log(2), rng)
    assert doubt.status == "missed_mode"
    assert climb_doubts(block.densities, rows, whole, log_z, rng) == []
