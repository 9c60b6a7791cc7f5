"""How log Z changes with the target: exact answers and errors, from draws of the old target."""

import numpy as np
import pytest
from support.checks import assert_detects, check_coverage, check_means, make_rng

from pymc_logz.estimators.draws import TemperedDraws
from pymc_logz.per_datum.followed import change_of_log_z

BETAS = np.array([0.0, 0.2, 0.6, 1.0])
LOG_PRIOR = np.log([0.1, 0.2, 0.3, 0.4])


def log_z(y: float) -> np.ndarray:
    """Of mu ~ N(0, 1) with exp(beta * mu * y): half of (beta y)^2."""
    return 0.5 * (BETAS * y) ** 2


def change(label: object, old: float, new: float, shape: tuple[int, int] = (300, 1)):
    """What independent draws say, and what is true."""
    rng = make_rng("change", label)
    level = rng.choice(4, size=shape, p=np.exp(LOG_PRIOR))
    mu = rng.normal(BETAS[level] * old, 1)
    draws = TemperedDraws(level, mu * old, BETAS, LOG_PRIOR, log_z(old))
    return *change_of_log_z(draws, mu * new), log_z(new) - log_z(old)


def test_change_of_log_z_at_each_level() -> None:
    """Catches a change at the wrong level or of the wrong sign, and errors of other walkers."""
    errors, z = [], []
    for i in range(200):
        step, contributions, share, exact = change(i, 1.3, 1.8)
        assert step[0] == pytest.approx(0)
        assert contributions.sum(axis=0) == pytest.approx(0)
        assert 0 < share < 1
        errors.append((step - exact)[1:])
        z.append(errors[-1] / np.sqrt((contributions**2).sum(axis=0))[1:])
    check_means({f"level {k + 1}": values for k, values in enumerate(np.transpose(errors))})
    for values in np.transpose(z):
        check_coverage(np.abs(values) < 1.96)
        assert_detects(check_coverage, np.abs(values) < 1.96 / 2)


def test_draws_of_a_walker_add_up() -> None:
    """Catches draws that count as walkers."""
    step, contributions, _, _ = change("many", 1.3, 1.5, (30, 10))
    assert contributions.shape == (30, 4)
    assert contributions.sum(axis=0) == pytest.approx(0)
    assert np.all(np.isfinite(step))


def test_no_change_is_none() -> None:
    """Catches a correction of what needs none."""
    step, contributions, share, _ = change("none", 1.3, 1.3)
    assert step == pytest.approx(0, abs=1e-12)
    assert contributions == pytest.approx(0, abs=1e-12)
    assert share == pytest.approx(1)


def test_draws_outside_the_support() -> None:
    """Catches NaN from -inf, and draws that count where they cannot be."""
    before = np.array([[-np.inf], [-1.0], [-2.0], [0.0]])
    after = np.array([[0.0], [-np.inf], [-2.0], [0.0]])
    draws = TemperedDraws(np.zeros((4, 1), dtype=int), before, BETAS, LOG_PRIOR, np.zeros(4))
    step, contributions, share = change_of_log_z(draws, after)
    assert np.all(np.isfinite(step))
    assert np.all(np.isfinite(contributions))
    assert np.all(step[1:] < 0)
    assert step[0] == pytest.approx(0)
    assert 0 < share < 1
