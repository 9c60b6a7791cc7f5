"""Scripts of the papers' own sizes, in small."""

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from support.scripts import load


@pytest.fixture(scope="module")
def mcrbm() -> ModuleType:
    """The script that learns the mean-covariance RBM."""
    return load("examples/papers/mcrbm_learning.py")


def test_distorted_digits_are_of_the_size_and_apart() -> None:
    """Catches digits out of the frame, or held-out ones among those for training."""
    digits = load("examples/papers/digits.py")
    training, held_out = digits.large_digits(3000, np.random.default_rng(1))
    assert training.shape == (3000, 784)
    assert held_out.shape == (297, 784)
    image = held_out.reshape(-1, 28, 28)
    edges = np.concatenate([image[:, 0], image[:, -1], image[:, :, 0], image[:, :, -1]])
    assert (edges > 0.5).mean() < 0.03
    assert 0.1 < (image > 0.5).mean() < 0.3
    # the same digit twice is not the same picture
    assert np.abs(training[:1500] - training[1500:]).max(axis=1).min() > 0.1


def test_persistent_chains_find_a_normal_law(mcrbm: ModuleType) -> None:
    """Catches a gradient of the wrong sign: sigma goes to the standard deviation of the data."""
    rng = np.random.default_rng(2)
    data = rng.normal(0, 2.0, size=(2000, mcrbm.models.M))
    start = mcrbm.models.start_of_mcrbm(4, rng)
    parts, said = mcrbm.chains.learn(mcrbm.flow.mcrbm, start, data, rng, 400, rate=0.02)
    assert float(np.exp(parts["log_sigma"][0])) == pytest.approx(2.0, rel=0.1)
    assert said["acceptance"] > 0.6


def test_trajectories_leave_a_normal_law_as_it_is(mcrbm: ModuleType) -> None:
    """Catches step sizes that depend on where a row is, and rows that are never rejected."""
    x = np.random.default_rng(3).normal(size=(4000, 3))
    key = mcrbm.chains.jax.random.key(1)
    energy = lambda x: 0.5 * (x**2).sum(axis=1)  # noqa: E731
    for _ in range(20):
        key, one = mcrbm.chains.jax.random.split(key)
        x, acceptance = mcrbm.chains.hamiltonian(energy, x, 1.0, mcrbm.chains.SPREAD, one)
    assert 0.3 < float(acceptance.mean()) < 0.9
    assert np.var(np.asarray(x)) == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("mean_square", [True, False])
def test_what_learns_is_what_is_judged(mcrbm: ModuleType, mean_square: bool) -> None:
    """Catches a denominator that is one thing in learning and another in the package."""
    rng = np.random.default_rng(4)
    parts = mcrbm.models.start_of_mcrbm(6, rng)
    x = 0.3 * rng.normal(size=(1, mcrbm.models.M))
    learned = float(mcrbm.flow.mcrbm(parts, x, mean_square)[0])
    model = mcrbm.models.energy_of("mcRBM", parts, x[0], mean_square).model
    log_density = model.compile_logp(jacobian=False, mode="FAST_COMPILE")({"x": x[0]})
    assert -float(log_density) == pytest.approx(learned)


def test_in_painting_at_another_size(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Catches an auto-encoder of the example's size, and pixels out of order."""
    script = load("examples/papers/inpainting_at_size.py")
    for name in ("SIDE", "N_PIXELS", "N_CODE", "N_HIDDEN"):
        monkeypatch.setattr(script.experiment, name, getattr(script.experiment, name))
    small = {"code": 3, "hidden": 8, "steps": 10}
    monkeypatch.setattr(script, "SETTINGS", {**script.SETTINGS, **small})
    script.at_size()
    weights, held_out = script.auto_encoder(tmp_path / "weights.npz")
    assert [part.shape for part in weights[4:8]] == [(3, 8), (8,), (8, 784), (784,)]
    assert held_out.shape == (297, 784)
    assert 0 < held_out.min() < held_out.max() < 1
