"""The in-painting example: its training bound, its two models, its pictures."""

from types import ModuleType
from typing import Any

import numpy as np
import pytensor.tensor as pt
import pytest
from scipy import stats
from scipy.special import expit
from support.checks import make_rng
from support.scripts import load

import pymc_logz as lz


@pytest.fixture(scope="module")
def example() -> ModuleType:
    return load("examples/constrained/inpainting.py")


@pytest.fixture(scope="module")
def weights(example: ModuleType) -> list[np.ndarray]:
    """Of an auto-encoder that was not trained, each pixel with a noise of its own."""
    rng = make_rng()
    weights = example.initial_weights(rng)
    return [*weights[:8], rng.uniform(-3.0, 0.5, size=example.N_PIXELS)]


def decoded(weights: list[np.ndarray], h: np.ndarray) -> np.ndarray:
    """Mean of the pixels, in NumPy."""
    return expit(np.tanh(h @ weights[4] + weights[5]) @ weights[6] + weights[7])


def test_bound_is_exact_where_code_does_nothing(
    example: ModuleType, weights: list[np.ndarray]
) -> None:
    """Catches a wrong sign or a lost term: the posterior of a code without effect is the prior."""
    rng = make_rng()
    images, noise = rng.random((5, example.N_PIXELS)), rng.normal(size=(5, example.N_CODE))
    idle = [np.zeros_like(value) for value in weights[:8]]
    idle[7] = rng.normal(size=example.N_PIXELS)
    bound = example.lower_bound(pt.constant(images), noise, [*idle, weights[8]])
    exact = stats.norm(expit(idle[7]), np.exp(weights[8])).logpdf(images)
    assert bound.eval(mode="FAST_COMPILE") == pytest.approx(exact.sum(axis=1).mean(), rel=1e-12)

    # codes of mean 1 and sd 2 that still have no effect lose their divergence from the prior
    idle[3] = np.repeat([1.0, np.log(2.0)], example.N_CODE)
    loose = example.lower_bound(pt.constant(images), noise, [*idle, weights[8]])
    lost = example.N_CODE * (2.0 - np.log(2.0))
    assert (bound - loose).eval(mode="FAST_COMPILE") == pytest.approx(lost, rel=1e-12)


def test_simulator_and_likelihood_are_one_model(
    example: ModuleType, weights: list[np.ndarray]
) -> None:
    """Catches a noise, a region or a prior of a digit that one of the two models has otherwise."""
    rng = make_rng()
    seen = example.REGIONS["top quarter"]
    pixels, inputs = rng.random(example.N_PIXELS), rng.normal(size=example.N_CODE)
    prior = rng.normal(size=example.N_CODE), np.tril(rng.normal(size=(example.N_CODE,) * 2))
    settings: dict[str, Any] = {"mode": "FAST_COMPILE"}

    known = example.with_likelihood(pixels, seen, weights, prior)
    expected = known.compile_logp(**settings)({"inputs": inputs})
    # given the inputs, an output is observed where its noise is the error over its sd; there a
    # normal of sd 1 around the output has the density of its mean
    simulator = lz.relax(example.simulator(pixels, seen, weights, prior), tolerance=1.0)
    sd = np.exp(weights[8][seen])
    noise = (pixels[seen] - decoded(weights, prior[0] + prior[1] @ inputs)[seen]) / sd
    relaxed = simulator.compile_logp(**settings)({"inputs": inputs, "noise": noise})
    at_mean = -0.5 * len(seen) * np.log(2.0 * np.pi)
    assert relaxed - at_mean - np.log(sd).sum() == pytest.approx(expected, rel=1e-10)


def test_pictures_show_what_was_seen_in_reverse(example: ModuleType) -> None:
    """Catches images that are transposed or shuffled when they are put together."""
    images = make_rng().random((6, example.N_PIXELS))
    seen = example.REGIONS["top half"]
    picture = example.mosaic(images, seen, n_columns=3, zoom=2)
    size = 2 * example.SIDE + 4
    # second image of the second row
    tile = picture[size + 1 :: 2, size + 1 :: 2][: example.SIDE, : example.SIDE]
    ink = images[4].reshape(example.SIDE, example.SIDE)
    np.testing.assert_allclose(tile[:4], np.repeat(1.0 - ink[:4, :, None], 3, axis=2))
    assert np.all(stats.spearmanr(tile[4:, :, 1].ravel(), ink[4:].ravel()).statistic > 0.99)
