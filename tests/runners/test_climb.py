"""Rows that climb from the prior: they get to all modes."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from support.checks import make_rng

from pymc_logz.hais.settings import HaisSettings
from pymc_logz.loop.planning import block_for
from pymc_logz.models.preparation import prepare
from pymc_logz.runners.climb import are_rounding, climbed, tops, towards_data

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
        block.target_and_gradient, prepared.prior(rng, 128), np.append(3.0, np.ones(D - 1))
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
    start = prepared.prior(rng, 512)
    rows, height = climbed(block.target_and_gradient, start, start.std(axis=0))
    assert np.quantile(height, 0.1) > height.max() - 1
    arms = (rows[:, :4] > 0) @ (2 ** np.arange(4))
    assert np.all(np.bincount(arms, minlength=16) > 5)


def test_rows_go_as_far_as_the_data_are() -> None:
    """Catches climbs that end in the flat tail of the likelihood, a hundred scales from its top."""
    with pm.Model() as model:
        x = pm.StudentT("x", nu=3, mu=0, sigma=2, shape=3)
        pm.StudentT("y", nu=2, mu=x, sigma=0.5, observed=[-200.0, 300.0, 1000.0])
    rng = make_rng("far")
    prepared = prepare(model, rng)
    block = block_for(prepared, HaisSettings(), None)
    rows = towards_data(block, prepared.prior(rng, 64), far=True)
    assert np.mean(np.abs(rows / [-200, 300, 1000] - 1).max(axis=1) < 0.5) > 0.9


def test_a_top_that_is_rounding_is_none() -> None:
    """Catches a density of large terms that cancel, whose noise is taken for a mode."""

    def density(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A hill at 2, and beyond 20 a plain whose noise is zero, were it not for rounding."""
        parts = np.exp(rows) * np.arange(1, 30)
        noise = (0.1 * parts + 0.2 * parts - 0.3 * parts).sum(axis=1)
        apart = np.minimum(rows, 20.0) - 2
        return -0.5 * apart[:, 0] ** 2 + noise, np.where(rows < 20.0, -apart, 0.0)

    starts = np.linspace(38.0, 40.0, 20)[:, None]
    ends, height = climbed(density, starts, np.ones(1))
    assert np.isfinite(height).all(), "they have nowhere to go"
    assert are_rounding(lambda x: density(x)[0], ends, height).mean() > 0.9
    rows, height = tops(density, np.append([[0.0]], starts, axis=0), np.ones(1))
    assert abs(rows[0, 0] - 2) < 0.1
    assert np.isfinite(height).all()
    assert len(rows) < 4
    sharp = 2_457_000.0 + 1e-5 * np.linspace(-3, 3, 20)[:, None]  # days, known to a second

    def of_days(x: np.ndarray) -> np.ndarray:
        return -0.5 * ((x[:, 0] - 2_457_000.0) / 1e-5) ** 2

    assert not are_rounding(of_days, sharp, of_days(sharp)).any()
