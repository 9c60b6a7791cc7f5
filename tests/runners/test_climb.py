"""Rows that climb from the prior: they get to all modes."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from support.checks import make_rng

from pymc_logz.hais.settings import HaisSettings
from pymc_logz.loop.planning import block_for
from pymc_logz.models.preparation import prepare
from pymc_logz.runners.climb import climbed

D, SD = 20, 0.1


@pytest.mark.filterwarnings("ignore:the model has potentials")
def test_rows_come_to_both_modes() -> None:
    """Catches rows that stay where they start, and rows that all come to one of two modes."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 3, shape=D)
        pm.Normal("y", x[1:], 1, observed=np.linspace(-1, 1, D - 1))
        at = [-0.5 * (x[0] - place) ** 2 / SD**2 for place in (3, -3)]
        pm.Potential("two", pt.logaddexp(*at))
    rng = make_rng("climb")
    prepared = prepare(model, rng)
    block = block_for(prepared, HaisSettings(), None)
    rows, _ = climbed(
        block.target_and_gradient, prepared.prior(rng, 128), np.append(0.4, np.ones(D - 1))
    )
    ends = np.abs(rows[:, 0])
    assert np.mean(np.abs(ends - 3) < 0.1) > 0.9
    assert 0.2 < np.mean(rows[:, 0] > 0) < 0.8


def bent_ridges() -> pm.Model:
    """Four pairs in narrow bent ridges, each with two arms: sixteen modes of like mass."""
    with pm.Model() as model:
        u = pm.Normal("u", 0, 1.5, shape=4)
        v = pm.Normal("v", 2 * u**2, 0.1, shape=4)
        pm.Normal("y", v, 0.5, observed=[3.0, 5.0, 2.0, 8.0])
    return model


def test_rows_climb_along_bent_ridges() -> None:
    """Catches climbs that stop where a ridge bends, far below its top, and one arm of two."""
    rng = make_rng("bent ridges")
    prepared = prepare(bent_ridges(), rng)
    block = block_for(prepared, HaisSettings(), None)
    rows, height = climbed(block.target_and_gradient, prepared.prior(rng, 512), np.full(8, 0.1))
    assert np.quantile(height, 0.1) > height.max() - 1
    arms = (rows[:, :4] > 0) @ (2 ** np.arange(4))
    assert np.all(np.bincount(arms, minlength=16) > 5)
