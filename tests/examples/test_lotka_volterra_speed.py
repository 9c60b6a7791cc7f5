"""Figure 2(c) of the constrained HMC paper: distances, effective draws, and what the page says."""

from types import ModuleType

import numpy as np
import pytest
from support.checks import make_rng
from support.scripts import load


@pytest.fixture(scope="module")
def example() -> ModuleType:
    """The script."""
    return load("examples/papers/lotka_volterra_speed.py")


def test_the_inputs_that_made_the_data_are_at_no_distance(example: ModuleType) -> None:
    """Catches noise of prey and predators that changes places, and rates on another scale."""
    rates = np.log(example.experiment.RATES) + 2.0
    noise = np.random.RandomState(1234).normal(size=(example.experiment.N_STEPS, 2)).ravel()
    rows = np.stack([np.r_[rates, noise], np.r_[rates + 0.01, noise], np.r_[rates + 30.0, noise]])
    exact, near, lost = example.distances(rows, example.experiment.simulated_data())
    assert exact < 1e-9
    assert 1 < near < 1000
    assert lost == np.inf


def test_chains_shrink_into_the_ball_and_stay(example: ModuleType) -> None:
    """Catches chains outside the radius, and copies that do not take their distance along."""
    data = example.experiment.simulated_data()
    slices = example.Slices(data, make_rng("slices"), 8, 20_000)
    first = slices.radius
    slices.shrink(0.5 * first, 0.8)
    assert slices.distance.max() <= 0.5 * first
    slices.walk(3)
    np.testing.assert_allclose(example.distances(slices.rows, data), slices.distance)
    assert slices.distance.max() <= 0.5 * first


@pytest.mark.parametrize("phi", [0.0, 0.9, -0.5])
def test_effective_draws_of_an_autoregression(example: ModuleType, phi: float) -> None:
    """Catches a spectral density that is not at zero."""
    rng, n = make_rng("autoregression"), 20_000
    x = np.zeros(n)
    for i, noise in enumerate(rng.normal(size=n)):
        x[i] = phi * x[i - 1] + noise
    expected = n * min((1 - phi) / (1 + phi), 1)
    assert example.effective_size(x) == pytest.approx(expected, rel=0.15)


def test_the_page_has_the_numbers(example: ModuleType) -> None:
    """Catches numbers that were made again without the page."""
    results = example.Results(example.STORE, example.SETTINGS)
    page = (example.STORE.parents[3] / "docs" / "theory" / "abc.md").read_text()
    for (name, _), rates in example.per_second(results).items():
        for rate in rates.mean(axis=0):
            assert (f"{rate:,.0f} ±" if name == example.OURS else f"{rate:.1f} ±") in page
