"""What is fitted to draws and to modes, and how correlations of few rows are shrunk."""

import numpy as np
import pytest
from support.checks import make_rng

from pymc_logz import ModelError
from pymc_logz.paths.elliptical import (
    INFLATION,
    Elliptical,
    check_enough,
    fitted_normal,
    fitted_to_few,
    shrinkage_by_variance,
)

FACTOR = np.array([[2.0, 0.0, 0.0], [-0.5, 0.3, 0.0], [1.0, 0.2, 5.0]])
CENTRE = np.array([1.0, -2.0, 0.5])
COVARIANCE = FACTOR @ FACTOR.T


def covariance_of(law: Elliptical) -> np.ndarray:
    """Scale matrix, which of a normal is the covariance."""
    return law.factor @ law.factor.T


def test_a_fit_to_many_draws_is_the_law_itself() -> None:
    """Would catch a covariance in other units than the draws."""
    rows = Elliptical(CENTRE, FACTOR)(make_rng("fit"), 100_000)
    fitted = fitted_normal(rows)
    np.testing.assert_allclose(fitted.centre, CENTRE, atol=0.06)
    np.testing.assert_allclose(fitted.factor @ fitted.factor.T, COVARIANCE, atol=0.3)


def test_shrinkage_brings_a_fit_closer() -> None:
    """Would catch a share upside down: few draws of many dimensions must be shrunk, many not."""
    rng = make_rng("shrinkage")
    rows = rng.normal(size=(120, 60))
    standard = (rows - rows.mean(axis=0)) / rows.std(axis=0, ddof=1)
    assert shrinkage_by_variance(standard, np.corrcoef(standard.T)) > 0.8
    fitted = fitted_normal(rows)
    plain = np.linalg.slogdet(np.cov(rows.T))[1]
    shrunk = 2 * np.log(np.diag(fitted.factor)).sum()
    assert abs(shrunk) < 0.2 * abs(plain)  # the truth is 0
    long = Elliptical(CENTRE, FACTOR)(rng, 50_000)
    long = (long - long.mean(axis=0)) / long.std(axis=0, ddof=1)
    assert shrinkage_by_variance(long, np.corrcoef(long.T)) < 0.01


def test_draws_that_do_not_vary_are_refused() -> None:
    """Would catch a division by zero, and a singular factor."""
    rows = make_rng("stuck").normal(size=(100, 3))
    rows[:, 1] = 4.0
    with pytest.raises(ModelError, match="1 of 3 unconstrained dimensions do not vary"):
        fitted_normal(rows)


def test_student_fits_have_the_scale_they_say() -> None:
    """Would catch an inflation that is left out or counted twice, or df for df - 2."""
    rows = Elliptical(CENTRE, FACTOR)(make_rng("student fits"), 100_000)
    few = fitted_to_few(rows, 6.0)
    assert few.df == 6.0
    np.testing.assert_allclose(covariance_of(few), INFLATION * 4 / 6 * COVARIANCE, atol=0.3)
    np.testing.assert_allclose(few.centre, CENTRE, atol=0.06)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 10])
def test_a_few_rows_can_be_fitted(n: int) -> None:
    """Would catch a singular factor of fewer rows than dimensions."""
    law = fitted_to_few(make_rng("few", n).normal(size=(n, 3)), 6.0)
    assert np.all(np.isfinite(law.log_density_of(np.zeros((2, 3)))))


def test_too_few_draws_for_a_reference_are_refused() -> None:
    """Would catch a reference with correlations made of noise, or of NaN."""
    rows = make_rng("few draws").normal(size=(30, 3))
    check_enough(rows)
    with pytest.raises(ValueError, match=r"holds 29 draws, 0 .* at least 30 finite ones"):
        check_enough(rows[1:])
    rows[3, 1] = np.inf
    with pytest.raises(ValueError, match="holds 30 draws, 1 of them not finite"):
        check_enough(rows)
