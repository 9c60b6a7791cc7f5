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


def test_persistent_chains_find_a_normal_law(
    mcrbm: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a gradient of the wrong sign: sigma goes to the standard deviation of the data."""
    monkeypatch.setattr(mcrbm, "SETTINGS", {**mcrbm.SETTINGS, "rate": 0.02})
    data = np.random.default_rng(2).normal(0, 2.0, size=(2000, mcrbm.models.M))
    parts, acceptance, _ = mcrbm.learned(4, data, 400, 1)
    assert float(np.exp(parts["log_sigma"][0])) == pytest.approx(2.0, rel=0.1)
    assert acceptance > 0.6


def test_lengths_of_normal_patches_lose_nothing(mcrbm: ModuleType) -> None:
    """Catches laws the wrong way round."""
    rng = np.random.default_rng(3)
    normal = type("Patches", (), {})()
    normal.training, normal.test = (rng.normal(size=(n, mcrbm.models.M)) for n in (4000, 400))
    assert abs(np.mean(mcrbm.lengths(normal)["lost"])) < 0.05
    heavy = type("Patches", (), {})()
    heavy.training, heavy.test = (
        rows * np.exp(rng.normal(0, 0.5, (len(rows), 1))) for rows in (normal.training, normal.test)
    )
    assert np.mean(mcrbm.lengths(heavy)["lost"]) > 2


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
