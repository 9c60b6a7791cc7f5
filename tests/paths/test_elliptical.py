"""Normals and Student-t distributions: densities of SciPy's, and draws that have them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from support.checks import assert_detects, check_means, make_rng

from pymc_logz.paths.elliptical import INFLATION, STUDENT_DF, Elliptical

FACTOR = np.array([[2.0, 0.0, 0.0], [-0.5, 0.3, 0.0], [1.0, 0.2, 5.0]])
CENTRE = np.array([1.0, -2.0, 0.5])
COVARIANCE = FACTOR @ FACTOR.T
NORMAL = Elliptical(CENTRE, FACTOR)
STUDENT = Elliptical(CENTRE, FACTOR, df=4.0)
ALL = pytest.mark.parametrize("law", [NORMAL, STUDENT], ids=["normal", "student"])


def scipys(law: Elliptical) -> stats.rv_continuous:
    """The same distribution, by SciPy."""
    covariance = law.factor @ law.factor.T
    if np.isinf(law.df):
        return stats.multivariate_normal(law.centre, covariance)
    return stats.multivariate_t(law.centre, covariance, law.df)


@ALL
def test_densities_are_those_of_scipy(law: Elliptical) -> None:
    """Would catch a factor that is transposed, or a determinant left out."""
    rows = make_rng("densities").normal(size=(50, 3))
    np.testing.assert_allclose(law.log_density_of(rows), scipys(law).logpdf(rows))
    assert law.log_constant == pytest.approx(scipys(law).logpdf(CENTRE))


def mean_weight(law: Elliptical, drawn: Elliptical) -> dict[str, np.ndarray]:
    """Ratios of SciPy's density, of something narrower, to the density of draws: of mean one."""
    narrow = replace(law, factor=0.7 * law.factor, df=np.inf)
    rows = drawn(make_rng("weights", law.df), 20_000)
    ratio = np.exp(scipys(narrow).logpdf(rows) - law.log_density_of(rows))
    return {"weight": ratio, "moment": ratio * (1 + rows[:, 2] - CENTRE[2])}


@ALL
def test_draws_have_the_density_they_are_given(law: Elliptical) -> None:
    """Would catch draws from another law than the density: their mean weight would not be one."""
    check_means(mean_weight(law, law), 1.0)


@pytest.mark.parametrize(
    "change",
    [{"factor": 1.1 * FACTOR}, {"df": 2.5}, {"centre": CENTRE + 0.3}],
    ids=["wider", "heavier", "moved"],
)
@ALL
def test_draws_of_another_law_are_found(law: Elliptical, change: dict) -> None:
    """Would catch a check of draws that cannot fail."""
    assert_detects(lambda drawn: check_means(mean_weight(law, drawn), 1.0), replace(law, **change))


@ALL
def test_marginals_of_draws_are_those_of_scipy(law: Elliptical) -> None:
    """Would catch one stretch for all rows, or one for each dimension."""
    rows = (law(make_rng("marginals", law.df), 4000) - CENTRE) @ np.linalg.inv(FACTOR).T
    squares = (rows**2).sum(axis=1)
    exact = stats.chi2(3) if np.isinf(law.df) else stats.f(3, law.df, scale=3)
    assert stats.kstest(squares, exact.cdf).pvalue > 1e-6
    assert stats.kstest(rows[:, 0], stats.t(law.df).cdf).pvalue > 1e-6


def test_a_student_t_of_many_degrees_of_freedom_is_normal() -> None:
    """Would catch two families that do not meet."""
    rows = make_rng("limit").normal(size=(20, 3))
    near = replace(NORMAL, df=1e8)
    np.testing.assert_allclose(near.log_density_of(rows), NORMAL.log_density_of(rows), rtol=1e-5)


def test_mirrored_rows_have_the_same_density() -> None:
    """Would catch a reflection in the origin."""
    rows = make_rng("mirror").normal(size=(20, 3))
    mirrored = NORMAL.mirrored(rows)
    np.testing.assert_allclose(NORMAL.log_density_of(mirrored), NORMAL.log_density_of(rows))
    np.testing.assert_allclose(NORMAL.mirrored(mirrored), rows)


def test_heavy_tails_bound_the_weights_of_the_normal() -> None:
    """Would catch a narrower proposal, whose weights have no bound."""
    heavy = NORMAL.with_heavy_tails()
    assert heavy.df == STUDENT_DF
    np.testing.assert_allclose(heavy.factor @ heavy.factor.T, INFLATION * COVARIANCE)
    far = CENTRE + np.geomspace(1, 100, 20)[:, None] * FACTOR[:, 0]
    log_weight = NORMAL.log_density_of(far) - heavy.log_density_of(far)
    assert log_weight.max() < 2
    assert log_weight[-1] == log_weight.min()
