"""Ladders of betas: made, checked, adapted."""

import numpy as np
import pytest
from scipy.interpolate import PchipInterpolator
from support.checks import make_rng

from pymc_logz.paths.schedules import betas_between, linear_betas, next_beta


def effective_fraction(log_increment: np.ndarray) -> float:
    weight = np.exp(log_increment - log_increment.max())
    return float(weight.sum() ** 2 / (weight**2).sum() / weight.size)


@pytest.mark.parametrize("scale", [1e-2, 1.0, 1e3, 1e8, 1e100, 1e300])
@pytest.mark.parametrize("target", [0.3, 0.5, 0.9])
def test_next_beta_reaches_the_conditional_ess(
    scale: float, target: float, rng: np.random.Generator
) -> None:
    """Catches a step on the wrong scale: log ratios span 300 orders of magnitude."""
    log_ratio = scale * rng.gumbel(size=500) * 20
    beta = next_beta(log_ratio, 0.0, target)
    assert 0 < beta <= 1
    if beta < 1:
        assert effective_fraction(beta * log_ratio) == pytest.approx(target, abs=1e-3)
    else:
        assert effective_fraction(log_ratio) >= target


@pytest.mark.parametrize("beta", [0.2, 0.9])
def test_next_beta_goes_on_from_where_the_rows_are(beta: float, rng: np.random.Generator) -> None:
    """Catches a step measured from zero."""
    log_ratio = rng.normal(size=500) * 100
    step = next_beta(log_ratio, 0.0)
    assert next_beta(log_ratio, beta) == pytest.approx(beta + step, rel=1e-4)
    assert next_beta(log_ratio / 1e4, beta) == 1.0


def test_next_beta_asks_only_for_the_rest_of_the_way(rng: np.random.Generator) -> None:
    """Catches a last step judged as if it led from zero to one."""
    log_ratio = rng.normal(size=500) * 3
    assert next_beta(log_ratio, 0.0) < 1
    assert next_beta(log_ratio, 0.9) == 1.0


def test_next_beta_ignores_rows_that_die_at_any_step(rng: np.random.Generator) -> None:
    """Catches a pilot that creeps because half of the prior is outside the support."""
    alive = rng.normal(size=200) * 50
    dead = np.full(800, -np.inf)
    assert next_beta(np.concatenate([dead, alive]), 0.0) == pytest.approx(next_beta(alive, 0.0))


@pytest.mark.parametrize(
    "log_ratio",
    [
        np.full(50, -7.0),
        np.append(np.zeros(49), -1e300),
        np.append(np.full(49, -np.inf), 2.0),
        np.zeros(50) + 1e-13 * np.arange(50),
    ],
    ids=["equal", "one tiny weight", "one row alive", "rounding"],
)
def test_next_beta_goes_to_one_when_weights_stay_equal(log_ratio: np.ndarray) -> None:
    """Catches a root search where there is no root."""
    assert next_beta(log_ratio, 0.0) == 1.0


def test_one_row_far_above_the_rest_still_gives_a_step() -> None:
    """Catches an underflow in the bracket of the root search."""
    log_ratio = np.append(np.zeros(49), 1e300)
    beta = next_beta(log_ratio, 0.0)
    assert 0 < beta < 1e-299
    assert effective_fraction(beta * log_ratio) == pytest.approx(0.5, abs=1e-3)


def test_linear_betas() -> None:
    """Catches K points where K steps are meant."""
    np.testing.assert_allclose(linear_betas(4), [0, 0.25, 0.5, 0.75, 1])
    assert linear_betas(1).tolist() == [0, 1]
    with pytest.raises(ValueError, match="betas=0 is not allowed"):
        linear_betas(0)


@pytest.mark.parametrize("n_stages", [1, 2, 3, 12])
def test_the_curve_through_betas_is_that_of_scipy(n_stages: int) -> None:
    """Would catch a wrong slope, and a ladder that falls between stages of very unequal length."""
    rise = make_rng("curve", n_stages).exponential(size=n_stages) ** 6
    betas = np.concatenate([[0.0], np.cumsum(rise) / rise.sum()])
    coordinate = np.linspace(0, n_stages, 500)
    found = betas_between(betas, coordinate)
    expected = PchipInterpolator(np.arange(n_stages + 1), betas)(coordinate)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)
    assert np.all(np.diff(found) >= 0)
