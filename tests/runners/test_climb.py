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
    rows, _ = climbed(block, prepared.prior(rng, 128), np.append(0.4, np.ones(D - 1)))
    ends = np.abs(rows[:, 0])
    assert np.mean(np.abs(ends - 3) < 0.1) > 0.9
    assert 0.2 < np.mean(rows[:, 0] > 0) < 0.8
