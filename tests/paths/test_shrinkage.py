"""How correlations of few rows are drawn towards none: shares, ends, and what stays."""

import numpy as np
import pytest
from support.checks import make_rng

from pymc_logz.paths.elliptical import (
    LEAST_VARIANCE,
    shrinkage_by_divergence,
    shrinkage_by_variance,
    shrunk_correlation,
    shrunk_covariance,
    shrunk_to_variances,
)

COVARIANCE = np.array([[4.0, 1.8], [1.8, 1.0]])


def test_two_rules_by_the_number_of_rows_are_one() -> None:
    """Would catch a share upside down: at n rows of d dimensions it is d / (d + n)."""
    assert shrunk_correlation(COVARIANCE, 6.0)[0, 1] == pytest.approx(0.9 * 6 / 8)
    np.testing.assert_array_equal(np.diag(shrunk_correlation(COVARIANCE, 6.0)), 1.0)
    covariance = shrunk_covariance(COVARIANCE, 6.0)
    sd = np.array([2.0, 1.0])
    np.testing.assert_allclose(covariance / np.outer(sd, sd), shrunk_correlation(COVARIANCE, 6.0))
    np.testing.assert_allclose(np.diag(covariance), [4.0, 1.0])


def test_variances_have_a_floor() -> None:
    """Would catch a singular map where rows have collapsed to a point."""
    covariance = shrunk_covariance(np.zeros((2, 2)), 2.0)
    np.testing.assert_allclose(covariance, 0.5 * LEAST_VARIANCE * np.eye(2))


@pytest.mark.parametrize(("n", "share"), [(1, 1.0), (3, 1.0), (6, 0.5), (300, 0.01)])
def test_few_draws_keep_their_variances_alone(n: int, share: float) -> None:
    """Would catch a share that is not all at d + 1 draws, whose covariance is singular."""
    covariance = shrunk_to_variances(COVARIANCE, n)
    assert covariance[0, 1] == pytest.approx((1 - share) * 1.8, abs=1e-12)
    np.testing.assert_allclose(np.diag(covariance), [4.0, 1.0])


def test_noise_is_read_off_the_draws() -> None:
    """Would catch a share of the size of the sample alone: strong correlations must be kept."""
    rng = make_rng("noise share")
    independent = rng.normal(size=(50, 5))
    common = independent + 3 * rng.normal(size=(50, 1))
    shares = []
    for rows in (independent, common):
        standard = (rows - rows.mean(axis=0)) / rows.std(axis=0, ddof=1)
        shares.append(shrinkage_by_variance(standard, np.corrcoef(standard.T)))
    assert shares[0] > 0.5
    assert shares[1] < 0.05
    assert shrinkage_by_variance(standard[:, :1], np.ones((1, 1))) == 0.0


def divergence(made: np.ndarray, true: np.ndarray) -> float:
    """Of normals with these covariances, in nats."""
    _, log_made = np.linalg.slogdet(made)
    _, log_true = np.linalg.slogdet(true)
    trace = np.trace(np.linalg.solve(made, true))
    return float(log_made - log_true + trace - len(true)) / 2


def test_a_narrow_direction_stays_narrow() -> None:
    """Would catch a share that is best entry by entry, and ten times too wide across a plane."""
    rng = make_rng("narrow")
    basis = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    true = basis @ np.diag([1.0, 1.0, 1.0, 1.0, 1.0, 1e-5]) @ basis.T
    rows = rng.multivariate_normal(np.zeros(6), true, size=1000)
    standard = (rows - rows.mean(axis=0)) / rows.std(axis=0, ddof=1)
    correlation = np.corrcoef(standard.T)
    most = shrinkage_by_variance(standard, correlation)
    share = shrinkage_by_divergence(correlation, len(rows), most)
    sd = rows.std(axis=0, ddof=1)
    of_rows = true / np.outer(sd, sd)
    made = [(1 - one) * correlation + one * np.eye(6) for one in (most, share)]
    assert divergence(made[0], of_rows) > 0.5
    assert divergence(made[1], of_rows) < 0.02


def test_noise_is_still_taken_out() -> None:
    """Would catch a share that is never worth its cost."""
    rng = make_rng("noise taken out")
    for n in (100, 150, 600):
        rows = rng.normal(size=(n, 40))
        correlation = np.corrcoef(rows.T)
        share = shrinkage_by_divergence(correlation, n, 0.9)
        left = divergence((1 - share) * correlation + share * np.eye(40), np.eye(40))
        assert left < 0.2 * divergence(correlation, np.eye(40))
    assert shrinkage_by_divergence(correlation, 80, 0.7) == 0.7  # too few rows to tell
