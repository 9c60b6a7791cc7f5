"""Mixtures of Student-t components fitted to rows of which the mixture is known."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp
from support.checks import CheckFailedError, assert_detects, make_rng

from pymc_logz.paths import elliptical
from pymc_logz.paths.elliptical import Clusters, fit_clusters, fitted_clusters

N = 1024


def normals(shares: list[float], apart: float, n: int = N, d: int = 3) -> tuple[np.ndarray, ...]:
    """Rows of normals whose centres lie apart along a diagonal; the rows, and the centres."""
    rng = make_rng("normals", shares, apart, n, d)
    centres = apart * np.outer(np.arange(len(shares)), np.ones(d)) / np.sqrt(d)
    origin = rng.choice(len(shares), size=n, p=shares)
    return centres[origin] + rng.standard_normal((n, d)), centres


def likelihood_by_scipy(fit: Clusters, rows: np.ndarray) -> float:
    parts = [
        np.log(share) + stats.multivariate_t(c.centre, c.factor @ c.factor.T, df=c.df).logpdf(rows)
        for c, share in zip(fit.components, fit.shares, strict=True)
    ]
    return float(logsumexp(parts, axis=0).sum())


@pytest.mark.parametrize("shares", [[1.0], [0.5, 0.5], [0.9, 0.1], [0.6, 0.3, 0.1]], ids=str)
def test_known_mixtures_are_found(shares: list[float]) -> None:
    """Catches components too few or too many, at the wrong places, or with the wrong shares."""
    rows, centres = normals(shares, apart=12.0)
    fit = fitted_clusters(rows, N, make_rng("guess"))
    assert len(fit.components) == len(shares)
    order = np.argsort([part.centre[0] for part in fit.components])
    assert fit.shares.sum() == pytest.approx(1.0)
    for k, (share, centre) in enumerate(zip(shares, centres, strict=True)):
        part, n_rows = fit.components[order[k]], share * N
        # five standard errors of a mean, of a share, and of a variance
        np.testing.assert_allclose(part.centre, centre, atol=5 / np.sqrt(n_rows))
        assert abs(fit.shares[order[k]] - share) < 5 * np.sqrt(share * (1 - share) / N) + 1e-6
        # a Student-t's scale matrix is somewhat narrower than the covariance
        spread = np.diag(part.factor @ part.factor.T)
        np.testing.assert_allclose(spread, 0.9, atol=0.1 + 5 * np.sqrt(2 / n_rows))


def test_the_likelihood_is_that_of_scipy() -> None:
    """Catches a criterion of standardised rows that forgot how they were scaled."""
    rows, _ = normals([0.7, 0.3], apart=6.0)
    rows = rows * [0.01, 1.0, 100.0] + [5.0, -2.0, 1e3]
    for k in (1, 2, 4):
        fit, log_likelihood = fit_clusters(rows, k, 5.0, 1.0, make_rng("guess", k))
        # at convergence the last step changes it by no more than the tolerance
        slack = 1e-3 * N
        assert log_likelihood == pytest.approx(likelihood_by_scipy(fit, rows), abs=slack)


def test_a_fit_does_not_depend_on_units() -> None:
    """Catches guesses and floors in the units of one variable."""
    rows, _ = normals([0.6, 0.4], apart=8.0)
    scale, shift = np.array([1e-6, 1.0, 1e5]), np.array([1.0, -3.0, 1e4])
    one = fitted_clusters(rows, N, make_rng("units"))
    other = fitted_clusters(rows * scale + shift, N, make_rng("units"))
    np.testing.assert_allclose(other.shares, one.shares, rtol=1e-6)
    for left, right in zip(one.components, other.components, strict=True):
        np.testing.assert_allclose(right.centre, left.centre * scale + shift, rtol=1e-6)
        np.testing.assert_allclose(right.factor, left.factor * scale[:, None], rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("d", [1, 3, 10])
def test_one_normal_is_not_split(d: int) -> None:
    """Catches a criterion without a price for components, or one that is too low."""

    def check(n_effective: float) -> None:
        numbers = []
        for i in range(8):
            rows = make_rng("one", d, i).standard_normal((512, d))
            numbers.append(len(fitted_clusters(rows, n_effective, make_rng(i)).components))
        if numbers != [1] * 8:
            raise CheckFailedError(f"{numbers} components were fitted to one normal")

    check(512)
    check(256)


def test_no_price_for_components_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a check of the number of components that could not fail."""

    def check(rows: np.ndarray) -> None:
        if len(fitted_clusters(rows, len(rows), make_rng("free")).components) > 1:
            raise CheckFailedError("one normal was split")

    rows = make_rng("one normal").standard_normal((512, 2))
    check(rows)
    monkeypatch.setattr(elliptical, "_criterion", lambda log_likelihood, *_: log_likelihood)
    assert_detects(check, rows)


def test_rows_that_are_worth_less_make_fewer_components() -> None:
    """Catches relatives that are counted as if they were independent."""
    rows, _ = normals([0.5, 0.5], apart=3.2, n=128, d=2)
    copies = np.repeat(rows, 8, axis=0)
    honest = fitted_clusters(copies, 128, make_rng("copies"))
    assert len(honest.components) <= 2
    assert len(fitted_clusters(copies, 1024, make_rng("copies")).components) >= len(
        honest.components
    )


def test_copies_of_one_row_have_a_density() -> None:
    """Catches a factor of zeros, or a Cholesky factor that does not exist."""
    for rows in (
        np.ones((256, 3)) * [1.0, 0.0, -2e5],
        np.repeat(make_rng("few").normal(size=(2, 3)), 128, axis=0),
        np.column_stack([make_rng("flat").normal(size=256), np.full((256, 2), 7.0)]),
    ):
        fit = fitted_clusters(rows, 256, make_rng("guess"))
        assert fit.shares.sum() == pytest.approx(1.0)
        for part in fit.components:
            assert np.all(np.isfinite(part.factor))
            assert np.all(np.diag(part.factor) > 0)
            assert np.all(np.isfinite(part.log_density_of(rows)))


def test_more_dimensions_than_rows() -> None:
    """Catches a covariance without an inverse, and one that is far too narrow for other rows."""
    d, n = 60, 40
    rows, fresh = make_rng("wide").standard_normal((2, n, d))
    fit = fitted_clusters(rows, n, make_rng("guess"))
    assert len(fit.components) == 1
    exact = stats.norm.logpdf(fresh).sum(axis=1)
    # shrunk towards independence, a fit to so few rows is still of use for others, in nats a row
    assert np.mean(exact - fit.components[0].log_density_of(fresh)) < 0.35 * d


def test_heavy_tails_are_told_from_light_ones() -> None:
    """Catches degrees of freedom that are chosen by something else than the rows."""
    rng = make_rng("tails")
    light = fitted_clusters(rng.standard_normal((N, 2)), N, rng)
    heavy = fitted_clusters(rng.standard_t(3, (N, 2)), N, rng)
    heaviest = fitted_clusters(rng.standard_cauchy((N, 1)), N, rng)
    assert {part.df for part in light.components} == {20.0}
    assert {part.df for part in heavy.components} == {5.0}
    assert {part.df for part in heaviest.components} == {1.0}


def test_components_are_never_more_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a fit that goes on adding components to rows of many modes."""
    monkeypatch.setattr(elliptical, "MAX_COMPONENTS", 3)
    rows, _ = normals([0.2] * 5, apart=30.0)
    assert len(fitted_clusters(rows, N, make_rng("many")).components) == 3
