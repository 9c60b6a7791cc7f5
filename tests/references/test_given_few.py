"""Entries that are independent given few others: lines through slopes, and rows drawn by them."""

from typing import Any

import numpy as np
import pymc as pm
import pytest
from generated import generate
from scipy import stats
from scipy.special import logsumexp
from support.checks import make_rng

import pymc_logz as lz
from pymc_logz.loop.planning import block_for
from pymc_logz.models.preparation import prepare
from pymc_logz.pilot.settings import RunSettings
from pymc_logz.references.blend import Target
from pymc_logz.references.given_few import (
    Independent,
    Lines,
    Places,
    common_entries,
    independent_given_few,
    with_enough_places,
)
from pymc_logz.weights import NEGLIGIBLE

SKEWED = stats.gumbel_l(1.0, 0.5)
"""Log of an exponential variable, shifted and scaled."""


def slope(x: np.ndarray) -> np.ndarray:
    """Of the log density of `SKEWED`."""
    return (1 - np.exp((x - 1.0) / 0.5)) / 0.5


def places_of(knots: Any, slope: Any, n_more: int) -> Places:
    """Of two copies of a density, refined from a few places."""
    known = np.full((1, 2, len(knots)), np.nan)
    known[:, :, 0] = 0.0
    first = np.tile(knots, (1, 2, 1))
    places = Places(first, slope(first), known)
    for _ in range(n_more):
        new = places.midpoints_of_largest_gaps(1)
        places = places.with_slopes(new, slope(new))
    assert np.all(np.diff(places.knots) >= 0)
    return places


def lines(n_more: int = 20) -> Lines:
    """Of two copies of `SKEWED`, refined from three places."""
    return Lines.of_places(places_of([-8.0, 0.0, 4.0], slope, n_more), np.array([0.1, 0.1]))


def test_lines_are_close_to_the_density_and_normalised():
    found, x = lines(), np.linspace(-40, 12, 200_001)
    both = np.stack([x, np.full_like(x, 0.7)], axis=1)
    each = Lines(*(np.broadcast_to(part, (len(x), *part.shape[1:])) for part in found))
    own = each.log_density_of(both) - each.log_density_of(np.full_like(both, 0.7)) / 2
    assert np.trapezoid(np.exp(own), x) == pytest.approx(1, abs=1e-4)
    there = SKEWED.logpdf(x)
    counted = there > there.max() - 4
    assert np.abs(own - there)[counted].max() < 0.2


def test_heights_across_a_valley_are_known_at_peaks():
    """Would catch a second peak as high as sums of slopes say, which may be e times too low."""

    def log_density(x):
        return np.logaddexp(stats.norm.logpdf(x, -3, 0.3) - 1, stats.norm.logpdf(x, 3, 0.1))

    def slope_of(x):
        return (log_density(x + 1e-6) - log_density(x - 1e-6)) / 2e-6

    places = places_of(np.linspace(-4.03, 4.03, 60), slope_of, 20)
    exact = log_density(places.knots) - log_density(places.knots[:, :, :1])
    off = []
    for known in (places.known, np.where(places.peaks(), exact, places.known)):
        height = places._replace(known=known).heights()
        off.append(np.ptp((height - exact)[places.peaks()]))
    assert off[0] > 0.5
    assert off[1] < 1e-9
    both = Lines.of_places(places._replace(known=known), np.array([0.1, 0.1]))
    assert not both.have_one_peak()
    mass = np.exp(both.log_masses()[0, 0, 1:-1])
    share = mass[places.knots[0, 0, 1:] < 0].sum() / mass.sum()
    assert share == pytest.approx(1 / (1 + np.e), abs=0.02)


def test_heights_do_not_cancel_in_those_of_far_places():
    """Would catch sums that begin where a vague prior ends: the log density is -1e29 there."""
    far, near = [-1e30, -1e10], np.linspace(-6, 6, 121)
    knots = np.concatenate([far, near])
    slopes = np.where(knots < -5, 0.1, -knots)
    known = np.where(knots == near[60], 0.0, np.nan)
    height = Places(*(one[None, None] for one in (knots, slopes, known))).heights()[0, 0]
    inside = np.abs(near) < 5
    assert np.allclose(height[2:][inside], -0.5 * near[inside] ** 2)
    assert height[0] == pytest.approx(-1e29)


def test_places_that_are_looked_at_twice_are_no_valley():
    """Would catch twice the work for densities of one peak."""
    twice = places_of([-8.0, -1.0, -1.0, 0.0, 0.0, 4.0], slope, 0)
    assert Lines.of_places(twice, np.array([0.1, 0.1])).have_one_peak()


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


class Waves:
    """Log target of independent values of which a sine is seen, and its gradient."""

    def __init__(self, noise: float) -> None:
        self.noise = noise

    def log_target(self, rows: np.ndarray) -> np.ndarray:
        """Shape (K,)."""
        seen = (0.3 - np.sin(3 * rows)) / self.noise
        return -0.5 * np.sum(seen**2 + rows**2, axis=1)

    def target_and_gradient(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Shapes (K,) and (K, d)."""
        seen = (0.3 - np.sin(3 * rows)) / self.noise
        return self.log_target(rows), 3 * np.cos(3 * rows) * seen / self.noise - rows


@pytest.mark.parametrize(("noise", "n"), [(5.0, 2), (0.6, 41), (0.02, 161)])
def test_as_many_places_as_it_takes(noise: float, n: int):
    """Would catch peaks between places: each entry lacked up to a tenth of its mass, with `ok`."""
    block: Any = Waves(noise)
    x = np.linspace(-6, 6, 240_001)
    log_exact = block.log_target(x[:, None])
    log_exact -= logsumexp(log_exact)
    exact = np.exp(log_exact)
    rows = make_rng("known").choice(x, size=(64, 4), p=exact)
    parts = Independent(block, np.arange(4), np.arange(0), np.empty((0, 4)))
    everywhere = np.vstack([rows, make_rng("prior").standard_normal((4000, 4))])
    parts = with_enough_places(parts, everywhere, rows, np.ones(4), 8)
    assert len(parts.quantiles) == n
    found = parts.modes(rows[:1, :0], rows[:1], np.ones(4)).lines
    each = Lines(*(np.broadcast_to(one, (len(x), *one.shape[1:])) for one in found))
    log_q = each.log_densities_of(np.tile(x[:, None], 4))
    lacking = exact[:, None] * (log_exact[:, None] - np.log(x[1] - x[0]) - log_q > 1)
    assert lacking.sum(axis=0).max() < NEGLIGIBLE


def test_orthogonal_columns_do_not_touch():
    """Catches rounding that is taken for dependence: no entry was independent of any other."""
    x = np.linalg.qr(make_rng("columns").standard_normal((9, 5)))[0]
    with pm.Model() as model:
        size, noise = pm.HalfNormal("size", 1), pm.HalfNormal("noise", 1)
        effects = pm.Laplace("effects", 0, size, shape=5)
        pm.Normal("y", pm.math.dot(x, effects), noise, observed=np.arange(9.0))
    block = block_for(prepare(model, make_rng("prepare")), RunSettings(), None)
    rows = make_rng("rows").standard_normal((8, 7))
    assert common_entries(block, rows).tolist() == [0, 1]


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


def exgauss_log_z() -> float:
    """Values integrated out in closed form, both scales on a grid of their logs."""
    x, y = np.linspace(-12, 1.5, 300), np.linspace(-6, 2, 200)
    a, b = (one[..., None] for one in np.meshgrid(x, y))
    sigma, scale = np.exp(a), np.exp(b)
    log_f = stats.norm.logcdf(DATA / sigma - sigma / scale) + 0.5 * (sigma / scale) ** 2
    log_f = (log_f - DATA / scale - b).sum(axis=-1)
    for log, sd in ((a, 0.5), (b, 1)):
        log_f += (stats.halfnorm.logpdf(np.exp(log), scale=sd) + log)[..., 0]
    return float(logsumexp(log_f) + np.log((x[1] - x[0]) * (y[1] - y[0])))


SEEDS = [[1], pytest.param([0, 2, 3], marks=pytest.mark.slow)]
"""One run by default, and others beside it."""


@pytest.mark.filterwarnings("ignore:.*resampled:UserWarning")
@pytest.mark.parametrize("seeds", SEEDS)
def test_noise_that_may_vanish_is_not_missed(seeds: list[int]):
    """Would catch a mode for each value, and rows that walk, which stop short of small noise."""
    model, exact, z = exgauss(), exgauss_log_z(), []
    for seed in seeds:
        entry = lz.sample_hais(model=model, random_seed=seed, progressbar=False)["evidence"]
        found = entry.isel(estimator=0)
        assert found["status"].item() == "ok"
        z.append((found["log_z"].item() - exact) / found["mcse"].item())
    assert np.abs(z).max() < 4
    assert abs(np.mean(z)) < 2


def two_roots(n: int = 4) -> tuple[pm.Model, float]:
    """Values seen through their squares under a common size, and exact log Z."""
    y, x = np.linspace(0.2, 6, n), np.linspace(-9, 9, 20_001)
    with pm.Model() as model:
        size, value = pm.Gamma("size", 3, 3), pm.Normal("value", 0.3, 1, shape=n)
        pm.Normal("y", size * value**2, 0.2, observed=y)
    grid = np.linspace(-5, 3, 801)
    prior = stats.norm.logpdf(x, 0.3, 1) + np.log(x[1] - x[0])
    each = [
        logsumexp(stats.norm.logpdf(y[:, None], np.exp(t) * x**2, 0.2) + prior, axis=1).sum()
        for t in grid
    ]
    density = np.array(each) + stats.gamma.logpdf(np.exp(grid), 3, scale=1 / 3) + grid
    return model, float(logsumexp(density) + np.log(grid[1] - grid[0]))


@pytest.mark.slow
def test_values_with_many_narrow_peaks_each():
    """Would catch peaks that lie between the places of a density: a tenth of Z, with ``ok``."""
    case = generate("seen_through", 2097757687)
    tree = lz.sample_hais(model=case.build(), random_seed=225807727, progressbar=False)
    found = tree["evidence"].isel(estimator=0)
    assert found["status"].item() == "ok"
    assert abs(found["log_z"].item() - case.log_z) < 4 * found["mcse"].item()


@pytest.mark.parametrize("seeds", SEEDS)
def test_values_with_two_peaks_each(seeds: list[int]):
    """Would catch a part that takes one of 16 combinations of signs, or weighs them by slopes."""
    model, exact = two_roots()
    for seed in seeds:
        entry = lz.sample_hais(model=model, random_seed=seed, progressbar=False)["evidence"]
        found = entry.isel(estimator=0)
        assert found["status"].item() == "ok"
        assert abs(found["log_z"].item() - exact) < 4 * found["mcse"].item()
        assert found["mcse"].item() < 0.05
