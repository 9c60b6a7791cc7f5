"""Log Z of both directions above its upper end: reverse rows started at other draws."""

from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest

import pymc_logz as lz
from pymc_logz.hais.results import Directions, doubts_of_ends
from pymc_logz.references.reference import ASKED_FOR


def directions(rng: np.random.Generator, n: int, sd: float, lower: float = 0.0) -> Directions:
    """Weights of a path whose work is normal (log Z = 0), the reverse ones off by some nats."""
    forward, reverse = rng.normal(-(sd**2) / 2, sd, size=(2, n))
    runs = ([SimpleNamespace(log_weight=part)] for part in (forward, reverse + lower))
    return Directions(next(runs), ASKED_FOR, next(runs), exact_starts=True)


@pytest.mark.parametrize(("n", "sd"), [(100, 0.3), (1000, 1.0), (200, 2.5)])
def test_right_starts_are_not_accused(n: int, sd: float) -> None:
    """Catches an error of the difference that is too small: weights may vary a lot."""
    rng = np.random.default_rng(3)
    assert not any(doubts_of_ends(directions(rng, n, sd)) for _ in range(200))


@pytest.mark.parametrize(("n", "sd"), [(100, 0.3), (1000, 1.0)])
def test_other_starts_are_told(n: int, sd: float) -> None:
    """Catches a difference of the wrong sign."""
    rng = np.random.default_rng(4)
    found = [doubts_of_ends(directions(rng, n, sd, lower=1.0)) for _ in range(50)]
    assert sum(map(bool, found)) >= 48
    assert not any(doubts_of_ends(directions(rng, n, sd, lower=-1.0)) for _ in range(50))


def test_starts_from_another_posterior() -> None:
    """Draws of one side of the target: both estimates with a number have the doubt."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Bernoulli("y", 0.05 + 0.9 * pm.math.sigmoid(-10 * (x + 1)), observed=1)
    settings = {"betas": 16, "tune": 1, "random_seed": 1, "progressbar": False}
    settings |= {"model": model, "reference": "prior", "direction": "both"}
    tree = lz.sample_hais(1000, 2, **settings)
    right = lz.sample_hais(1000, 2, posterior_draws=tree, **settings)
    assert "doubts" not in right["evidence"].attrs
    tree["posterior"]["x"] = abs(tree["posterior"]["x"])
    with pytest.warns(lz.EvidenceWarning, match="nats above that of the reverse"):
        both = lz.sample_hais(1000, 2, posterior_draws=tree, **settings)
    assert set(both["evidence"]["status"].to_numpy()) == {"disagrees"}
    assert "nats above that of the reverse" in both["evidence"].attrs["doubts"]
