"""Natural images in small: what learns finds what made the data."""

import sys
from types import ModuleType

import jax.numpy as jnp
import numpy as np
import pytest
from support.checks import make_rng
from support.scripts import load

from pymc_logz.energies import laplace_experts

pytestmark = pytest.mark.filterwarnings("ignore::pymc_logz.EvidenceWarning")
FILTERS = np.array([[1.0, 0.4], [-0.5, 2.0]])


@pytest.fixture(scope="module")
def example() -> ModuleType:
    """The script, whose parts can be imported then."""
    return load("examples/papers/natural_images.py")


def log_likelihood(filters: np.ndarray, x: np.ndarray) -> float:
    return float(-np.abs(x @ filters.T).sum(axis=1).mean() - laplace_experts(filters).log_z)


def test_minimum_probability_flow_finds_the_filters(example: ModuleType) -> None:
    """Catches a kinetic term of the wrong sign, and neighbours of other parameters."""
    flow = sys.modules["natural_images_parts.flow"]
    rng = make_rng("flow")
    sample = laplace_experts(FILTERS).sample_posterior
    assert sample is not None
    x = sample(rng, 4000)["x"]
    start = {"filters": jnp.eye(2)}
    found = flow.learn(flow.laplace, start, x, rng, n_rounds=20)["filters"]
    best = log_likelihood(FILTERS, x)
    assert log_likelihood(np.eye(2), x) < best - 0.2
    assert log_likelihood(found, x) > best - 0.02


def test_expectation_maximization_finds_the_covariance(example: ModuleType) -> None:
    """Catches posterior draws under the parameters of the round before, or of another patch."""
    expectation = sys.modules["natural_images_parts.expectation"]
    rng = make_rng("expectation")
    bases = np.array([[2.0, 0.0], [1.0, 0.5]])
    x = rng.normal(size=(1000, 2)) @ bases.T + expectation.NOISE * rng.normal(size=(1000, 2))
    found = expectation.learn_linear(x, 2, "normal", n_rounds=15, n_moves=5, seed=1)
    expected = x.T @ x / len(x) - expectation.NOISE**2 * np.eye(2)
    np.testing.assert_allclose(found @ found.T, expected, rtol=0.02, atol=0.02)


def test_independent_parts_are_found(example: ModuleType) -> None:
    """Catches a natural gradient that goes uphill: mixed Laplace variables come apart."""
    expectation = sys.modules["natural_images_parts.expectation"]
    a = make_rng("independent").laplace(size=(4000, 2)) @ np.array([[1.0, 0.0], [0.6, 0.8]]).T
    turn = np.eye(2)
    for _ in range(20):
        turn = expectation.independent(a @ turn.T) @ turn
    assert log_likelihood(turn, a) > log_likelihood(np.linalg.inv([[1, 0], [0.6, 0.8]]), a) - 0.01
    assert log_likelihood(np.eye(2), a) < log_likelihood(turn, a) - 0.1


def test_patches_for_testing_are_apart(example: ModuleType) -> None:
    """Catches test patches that overlap with training patches, and patches without contrast."""
    patches = sys.modules["natural_images_parts.patches"]
    rng = make_rng("patches")
    # strips for testing are rougher
    strip = np.arange(400) % patches.EVERY < patches.WIDTH
    rough = rng.normal(size=(60, 400)) * np.where(strip, 100, 1)
    training, test = (patches.cut([rough], 50, testing, rng) for testing in (False, True))
    assert np.abs(training).max() < 10
    assert test.reshape(50, 16, 16).std(axis=1).min() > 20
    data = patches.patches(2000, strips=True)
    assert data.test.shape == (100, 36)
    np.testing.assert_allclose(np.cov(data.training.T), np.eye(36), atol=1e-8)
    np.testing.assert_allclose(data.whiten @ data.colour, np.eye(36), atol=1e-8)


def test_photographs_are_apart(example: ModuleType) -> None:
    """Catches one photograph in two parts, and patches from some more often than from others."""
    pytest.importorskip("skimage")
    patches = sys.modules["natural_images_parts.patches"]
    names = [name for part in patches.PHOTOGRAPHS.values() for name in part]
    assert len(names) == len(set(names)) == 11
    rough = 5 * make_rng("photographs").normal(size=(40, 60))
    some = patches.cut([rough, 0.1 * rough, 0.04 * rough], 3, None, make_rng("where"))
    np.testing.assert_allclose(some.std(axis=1), [5, 0.5, 0.2], rtol=0.2)


def test_statuses_are_said(example: ModuleType) -> None:
    """Catches a row of the table that hides what is not ok."""
    assert example.models.said(np.array(["ok", "ok"])) == "ok"
    assert example.models.said(np.array(["ok", "high_khat"])) == "high_khat (1)"
    assert example.models.said(np.array(["high_khat", "high_khat"])) == "high_khat"
