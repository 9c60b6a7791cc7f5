"""Entries that are independent given few others: lines through slopes, and rows drawn by them."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from support.checks import make_rng

import pymc_logz as lz
from pymc_logz.loop.planning import block_for
from pymc_logz.models.preparation import prepare
from pymc_logz.pilot.settings import RunSettings
from pymc_logz.references.blend import Target
from pymc_logz.references.given_few import (
    Lines,
    common_entries,
    independent_given_few,
    inserted,
    where_most_is_missing,
)

SKEWED = stats.gumbel_l(1.0, 0.5)
"""Log of an exponential variable, shifted and scaled."""


def slope(x: np.ndarray) -> np.ndarray:
    """Of the log density of `SKEWED`."""
    return (1 - np.exp((x - 1.0) / 0.5)) / 0.5


def lines(n_more: int = 20) -> Lines:
    """Of two copies of `SKEWED`, refined from three places."""
    knots = np.tile([-8.0, 0.0, 4.0], (1, 2, 1))
    for _ in range(n_more):
        new = where_most_is_missing(knots, slope(knots))
        knots = inserted(knots, new, (knots < new[:, :, None]).sum(axis=2))
    assert np.all(np.diff(knots) > 0)
    return Lines.of_slopes(knots, slope(knots), np.array([0.1, 0.1]))


def test_lines_are_close_to_the_density_and_normalised():
    found, x = lines(), np.linspace(-40, 12, 200_001)
    both = np.stack([x, np.full_like(x, 0.7)], axis=1)
    each = Lines(*(np.broadcast_to(part, (len(x), *part.shape[1:])) for part in found))
    own = each.log_density_of(both) - each.log_density_of(np.full_like(both, 0.7)) / 2
    assert np.trapezoid(np.exp(own), x) == pytest.approx(1, abs=1e-4)
    there = SKEWED.logpdf(x)
    counted = there > there.max() - 4
    assert np.abs(own - there)[counted].max() < 0.2


@pytest.mark.parametrize("error", [0.0, 0.1])
def test_draws_are_of_the_density(error):
    """Densities that are off by a tenth of a nat on one side are told from those of the draws."""
    found = lines()
    each = Lines(*(np.broadcast_to(part, (20_000, *part.shape[1:])) for part in found))
    rows = each.drawn(make_rng(1))
    log_q = each.log_density_of(rows) + error * (rows[:, 0] > 0.7)
    weight = np.exp(SKEWED.logpdf(rows).sum(axis=1) - log_q)
    z = (weight.mean() - 1) / (weight.std() / np.sqrt(len(weight)))
    assert (abs(z) < 4) == (error == 0)


DATA = np.random.default_rng(3).exponential(0.5, 8)


def exgauss() -> pm.Model:
    """Exponential values under normal noise whose spread may vanish."""
    with pm.Model() as model:
        sigma, scale = pm.HalfNormal("sigma", 0.5), pm.HalfNormal("scale", 1)
        value = pm.Exponential("value", scale=scale, shape=DATA.size)
        pm.Normal("y", value, sigma, observed=DATA)
    return model


def test_common_entries_are_those_that_touch_others():
    prepared = prepare(exgauss(), make_rng(1))
    block = block_for(prepared, RunSettings(), None)
    rows = prepared.prior(make_rng(2), 8)
    assert common_entries(block, rows).tolist() == [0, 1]


def test_a_part_needs_few_others():
    with pm.Model() as model:
        x = pm.MvNormal("x", np.zeros(4), 0.5 * np.eye(4) + 0.5)
        pm.Normal("y", x, 1, observed=np.zeros(4))
    prepared = prepare(model, make_rng(1))
    target = Target(prepared, block_for(prepared, RunSettings(), None))
    assert independent_given_few(target, prepared.prior(make_rng(2), 64), make_rng(1)) is None


@pytest.mark.filterwarnings("ignore:.*resampled:UserWarning")
def test_noise_that_may_vanish_is_not_missed():
    """Would catch a mode for each value, and rows that walk, which stop short of small noise."""
    model = exgauss()
    with pm.Model() as marginal:
        sigma, scale = pm.HalfNormal("sigma", 0.5), pm.HalfNormal("scale", 1)
        pm.ExGaussian("y", mu=0, sigma=sigma, nu=scale, observed=DATA)
    truth = lz.sample_hais(model=marginal, draws=4000, random_seed=1, progressbar=False)
    exact = truth["evidence"].isel(estimator=0)
    z = []
    for seed in range(4):
        entry = lz.sample_hais(model=model, random_seed=seed, progressbar=False)["evidence"]
        found = entry.isel(estimator=0)
        assert found["status"].item() == "ok"
        error = np.hypot(found["mcse"].item(), exact["mcse"].item())
        z.append((found["log_z"].item() - exact["log_z"].item()) / error)
    assert np.abs(z).max() < 4
    assert abs(np.mean(z)) < 2
