"""Ladders of betas: made, checked, adapted."""

import numpy as np
import pytest

from pymc_logz.paths.schedules import check_betas, linear_betas, next_beta
from pymc_logz.weights import conditional_ess


def effective_share(log_increment: np.ndarray) -> float:
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
        assert effective_share(beta * log_ratio) == pytest.approx(target, abs=1e-3)
    else:
        assert effective_share(log_ratio) >= target


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


@pytest.mark.parametrize("offset", [1e17, -1e17, -1e300])
def test_a_constant_does_not_change_the_conditional_ess(offset: float) -> None:
    """Catches a share computed from logs of totals: equal weights have all of it."""
    assert conditional_ess(np.full(50, offset)) == pytest.approx(1.0)


def test_one_row_far_above_the_rest_still_gives_a_step() -> None:
    """Catches an underflow in the bracket of the root search."""
    log_ratio = np.append(np.zeros(49), 1e300)
    beta = next_beta(log_ratio, 0.0)
    assert 0 < beta < 1e-299
    assert effective_share(beta * log_ratio) == pytest.approx(0.5, abs=1e-3)


def test_conditional_ess_of_known_weights() -> None:
    """Catches an overflow of exp, and a share that is not one of rows."""
    assert conditional_ess(np.array([1e5, 1e5, -np.inf, -np.inf])) == pytest.approx(0.5)
    assert conditional_ess(np.log([3.0, 1.0])) == pytest.approx(16 / 10 / 2)
    assert conditional_ess(np.full(3, -np.inf)) == 0


def test_linear_betas() -> None:
    """Catches K points where K steps are meant."""
    np.testing.assert_allclose(linear_betas(4), [0, 0.25, 0.5, 0.75, 1])
    assert linear_betas(1).tolist() == [0, 1]
    with pytest.raises(ValueError, match="betas=0 is not allowed"):
        linear_betas(0)


def test_check_betas_returns_floats() -> None:
    """Catches integers that later truncate."""
    checked = check_betas([0, 0.5, 1])
    assert checked.dtype == float
    np.testing.assert_array_equal(checked, [0, 0.5, 1])
    assert check_betas(np.array([0, 1])).dtype == float


@pytest.mark.parametrize(
    ("betas", "message"),
    [
        ([0.0], r"shape \(1,\)"),
        ([[0.0, 1.0]], r"shape \(1, 2\)"),
        ([0.1, 1.0], "runs from 0.1 to 1.0"),
        ([0.0, 0.9], "runs from 0.0 to 0.9"),
        ([1.0, 0.0], "runs from 1.0 to 0.0"),
        ([0.0, np.nan, 1.0], "be finite"),
        ([0.0, 0.5, 0.5, 1.0], r"betas\[2\]=0.5 follows betas\[1\]=0.5"),
        ([0.0, 0.7, 0.3, 1.0], r"betas\[2\]=0.3 follows betas\[1\]=0.7"),
        ([0.0, -0.1, 1.0], r"betas\[1\]=-0.1 follows betas\[0\]=0"),
    ],
)
def test_check_betas_names_what_is_wrong(betas: list, message: str) -> None:
    """Catches a ladder that would give a wrong weight, and a message that does not say where."""
    with pytest.raises(ValueError, match=message):
        check_betas(betas)
