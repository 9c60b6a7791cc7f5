"""Fits to gradients: exact for normals from few rows, and none where they would mislead."""

import numpy as np
import pytest
from support.checks import make_rng

from pymc_logz.paths.fitting import fitted_normal
from pymc_logz.paths.scores import fitted_to_scores

D = 30


def normal(n: int, d: int = D) -> tuple[np.ndarray, ...]:
    """Rows of a correlated normal on many scales, their gradients, mean and covariance."""
    rng = make_rng("normal", n, d)
    factor = np.geomspace(1e-3, 1e3, d)[:, None] * (
        np.eye(d) + 0.2 * np.tril(rng.standard_normal((d, d)), -1)
    )
    mean = rng.standard_normal(d) * 100
    z = rng.standard_normal((n, d))
    gradient = -np.linalg.solve(factor.T, z.T).T
    return mean + z @ factor.T, gradient, mean, factor @ factor.T


def test_a_normal_is_found_exactly() -> None:
    """Catches a gradient that is not scaled back: rows alone are far off with so few of them."""
    rows, gradient, mean, covariance = normal(2 * D)
    fit = fitted_to_scores(rows, gradient)
    assert fit is not None
    scale = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(fit.centre, mean, atol=1e-4 * scale.max())
    found = fit.factor @ fit.factor.T / np.outer(scale, scale)
    np.testing.assert_allclose(found, covariance / np.outer(scale, scale), atol=1e-4)
    alone = fitted_normal(rows)
    apart = alone.factor @ alone.factor.T / np.outer(scale, scale) - covariance / np.outer(
        scale, scale
    )
    assert np.abs(apart).max() > 0.1


def test_it_has_the_least_fisher_divergence() -> None:
    """On a skewed target: no nearby scale brings the gradients nearer."""
    rng = make_rng("skewed")
    rows = np.log(rng.gamma([3.0, 8.0], size=(4000, 2)))
    rows[:, 1] += 0.5 * rows[:, 0]
    first = 3.0 - np.exp(rows[:, 0])
    second = 8.0 - np.exp(rows[:, 1] - 0.5 * rows[:, 0])
    gradient = np.column_stack([first - 0.5 * second, second])
    fit = fitted_to_scores(rows, gradient)
    assert fit is not None

    def divergence(matrix: np.ndarray) -> float:
        own = -np.linalg.solve(matrix, (rows - fit.centre).T).T
        apart = gradient - own
        return float(np.mean(np.einsum("ni,ij,nj->n", apart, matrix, apart)))

    matrix = fit.factor @ fit.factor.T
    least = divergence(matrix)
    for i, j in ((0, 0), (0, 1), (1, 1)):
        for step in (-0.02, 0.02):
            other = matrix.copy()
            other[i, j] += step
            other[j, i] = other[i, j]
            assert divergence(other) > least


def test_there_is_none_where_it_would_mislead() -> None:
    rows, gradient, *_ = normal(2 * D)
    assert fitted_to_scores(rows[: 2 * D - 1], gradient[: 2 * D - 1]) is None
    assert fitted_to_scores(rows, np.zeros_like(gradient)) is None
    still = rows.copy()
    still[:, 3] = 1.0
    assert fitted_to_scores(still, gradient) is None
    holes = gradient.copy()
    holes[0, 0] = np.nan
    assert fitted_to_scores(np.repeat(rows, 2, axis=0), np.repeat(holes, 2, axis=0)) is not None
    rng = make_rng("funnel")
    log_scale = 1.5 * rng.standard_normal(2000)
    children = np.exp(log_scale)[:, None] * rng.standard_normal((2000, 4))
    slope = -children / np.exp(2 * log_scale)[:, None]
    first = -log_scale / 1.5**2 - 4 + (children**2).sum(axis=1) / np.exp(2 * log_scale)
    funnel = np.column_stack([log_scale, children])
    assert fitted_to_scores(funnel, np.column_stack([first, slope])) is None
    two = rng.standard_normal((2000, 1)) + np.repeat([-5.0, 5.0], 1000)[:, None]
    assert fitted_to_scores(two, np.where(two > 0, 5.0, -5.0) - two) is None


@pytest.mark.parametrize("d", [1, 2])
def test_few_dimensions(d: int) -> None:
    rows, gradient, _, covariance = normal(20, d)
    fit = fitted_to_scores(rows, gradient)
    assert fit is not None
    np.testing.assert_allclose(fit.factor @ fit.factor.T, covariance, rtol=1e-6)
