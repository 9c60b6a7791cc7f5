"""What is fitted to draws, and log densities of many rows: against SciPy and PyMC."""

import numpy as np
import pytest
from scipy import stats
from support import pymc_models as models
from support.checks import make_rng

from pymc_logz import ModelError
from pymc_logz.estimators import importance_log_z
from pymc_logz.models.density import ROWS_PER_CALL, RowDensity
from pymc_logz.models.flat import flatten_model
from pymc_logz.paths.elliptical import NormalProposal, StudentReference, fitted_normal, shrinkage

FACTOR = np.array([[2.0, 0.0, 0.0], [-0.5, 0.3, 0.0], [1.0, 0.2, 5.0]])
CENTRE = np.array([1.0, -2.0, 0.5])
COVARIANCE = FACTOR @ FACTOR.T


def test_densities_are_those_of_scipy() -> None:
    """Would catch a factor that is transposed, or a determinant left out."""
    rows = make_rng("densities").normal(size=(50, 3))
    normal = NormalProposal(CENTRE, FACTOR).log_density_of(rows)
    student = StudentReference(CENTRE, FACTOR, df=4.0).log_density_of(rows)
    np.testing.assert_allclose(normal, stats.multivariate_normal(CENTRE, COVARIANCE).logpdf(rows))
    np.testing.assert_allclose(student, stats.multivariate_t(CENTRE, COVARIANCE, 4.0).logpdf(rows))


def test_draws_have_the_density_they_are_given() -> None:
    """Would catch draws from another law than the density: their mean weight would not be one."""
    rng = make_rng("weights of proposals")
    normal = NormalProposal(CENTRE, FACTOR)
    student = StudentReference(CENTRE, FACTOR * 1.3, df=5.0)
    rows = student(rng, 4000)
    estimate = importance_log_z(normal.log_density_of(rows) - student.log_density_of(rows))
    assert abs(estimate.log_z) < 4 * estimate.mcse < 0.2
    mirrored = normal.mirrored(rows)
    np.testing.assert_allclose(normal.log_density_of(mirrored), normal.log_density_of(rows))


def test_a_fit_to_many_draws_is_the_law_itself() -> None:
    """Would catch a covariance in other units than the draws."""
    rows = NormalProposal(CENTRE, FACTOR)(make_rng("fit"), 100_000)
    fitted = fitted_normal(rows)
    np.testing.assert_allclose(fitted.centre, CENTRE, atol=0.06)
    np.testing.assert_allclose(fitted.factor @ fitted.factor.T, COVARIANCE, atol=0.3)


def test_shrinkage_brings_a_fit_closer() -> None:
    """Would catch a share upside down: few draws of many dimensions must be shrunk, many not."""
    rng = make_rng("shrinkage")
    rows = rng.normal(size=(120, 60))
    standard = (rows - rows.mean(axis=0)) / rows.std(axis=0, ddof=1)
    assert shrinkage(standard, np.corrcoef(standard.T)) > 0.8
    fitted = fitted_normal(rows)
    plain = np.linalg.slogdet(np.cov(rows.T))[1]
    shrunk = 2 * np.log(np.diag(fitted.factor)).sum()
    assert abs(shrunk) < 0.2 * abs(plain)  # the truth is 0
    long = NormalProposal(CENTRE, FACTOR)(rng, 50_000)
    long = (long - long.mean(axis=0)) / long.std(axis=0, ddof=1)
    assert shrinkage(long, np.corrcoef(long.T)) < 0.01


def test_draws_that_do_not_vary_are_refused() -> None:
    """Would catch a division by zero, and a singular factor."""
    rows = make_rng("stuck").normal(size=(100, 3))
    rows[:, 1] = 4.0
    with pytest.raises(ModelError, match="1 of 3 unconstrained dimensions do not vary"):
        fitted_normal(rows)


@pytest.mark.parametrize("name", ["regression", "lkj"])
@pytest.mark.parametrize("batching", ["vector", "row"])
@pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
def test_rows_have_the_models_density(name: str, batching: str) -> None:
    """Would catch rows that are mixed up across calls, or a Jacobian left out."""
    model = models.MODELS[name]()
    flat = flatten_model(model)
    rows = make_rng("rows", name).normal(size=(ROWS_PER_CALL + 5, flat.n_dims))
    density = RowDensity(flat, batching=batching)
    log_prior, log_ratio = density(rows)
    logp = model.compile_logp(mode="FAST_COMPILE")
    for i in (0, 7, ROWS_PER_CALL - 1, ROWS_PER_CALL, ROWS_PER_CALL + 4):
        expected = float(logp(flat.named_values(rows[i])))
        assert log_prior[i] + log_ratio[i] == pytest.approx(expected, rel=1e-6)


def test_smoothed_weights_keep_the_body_and_calm_the_tail() -> None:
    """Would catch smoothing that changes the scale of the weights."""
    rng = make_rng("smoothing")
    shape, errors = 0.5, []
    for _ in range(200):
        log_weight = shape * rng.exponential(size=1000) + np.log(1 - shape)
        both = [importance_log_z(log_weight, smooth=smooth) for smooth in (False, True)]
        assert both[0].khat == both[1].khat
        errors.append([one.log_z for one in both if one.usable] if both[0].usable else [0.0, 0.0])
    spread = np.std(errors, axis=0)
    assert spread[1] < spread[0]
    assert abs(np.mean(errors, axis=0)[1]) < 0.03
