"""Errors of means over autocorrelated walkers, on AR(1) sequences with a known variance."""

import numpy as np
import pytest
from scipy.signal import lfilter
from support.checks import CheckFailedError, assert_detects, check_coverage, make_rng

from pymc_logz.estimators.result import long_run_covariance, long_run_variance

SHAPES = {"few long walkers": (4, 4000), "many short walkers": (64, 60), "one walker": (1, 8000)}


def ar1(rng: np.random.Generator, shape: tuple[int, ...], time: float) -> np.ndarray:
    """Stationary normal sequences along axis 1 with a given autocorrelation time, variance 1."""
    rho = (time - 1) / (time + 1)
    noise = rng.normal(size=shape) * np.sqrt(1 - rho**2)
    noise[:, 0] /= np.sqrt(1 - rho**2)
    return lfilter([1], [1, -rho], noise, axis=1)


def exact_variance(shape: tuple[int, int], time: float) -> float:
    """Variance of the mean of W independent sequences of N values."""
    lags = np.arange(1, shape[1])
    rho = (time - 1) / (time + 1)
    return (1 + 2 * ((1 - lags / shape[1]) * rho**lags).sum()) / (shape[0] * shape[1])


@pytest.mark.parametrize("layout", SHAPES)
@pytest.mark.parametrize("time", [1, 5, 50])
def test_the_error_of_a_mean_is_honest(layout: str, time: float) -> None:
    """Catches errors for independent draws, of walkers as units where they are few, or of lags
    that stop before short walkers have been seen to differ."""
    shape, replicates = SHAPES[layout], 200
    rng = make_rng("ar1", layout, time)
    means = np.empty(replicates)
    variances, sizes, naive = np.empty(replicates), np.empty(replicates), np.empty(replicates)
    for i in range(replicates):
        values = ar1(rng, shape, time)
        means[i] = values.mean()
        contributions = ((values - means[i]) / values.size)[..., None]
        variances[i], sizes[i] = (part[0] for part in long_run_variance(contributions))
        naive[i] = (contributions**2).sum()
    covered = np.abs(means) < 1.96 * np.sqrt(variances)
    check_coverage(covered)
    exact = exact_variance(shape, time)
    assert abs(variances.mean() / exact - 1) < 0.05 + 5 * variances.std() / exact / 200**0.5
    assert sizes.mean() == pytest.approx(1 / exact, rel=0.15)
    if time == 50:
        assert_detects(check_coverage, np.abs(means) < 1.96 * np.sqrt(naive))


def test_walkers_that_never_mix_are_units() -> None:
    """Catches an error that falls with the length of walkers stuck where they began."""
    rng = make_rng("stuck")
    stuck = rng.normal(size=(64, 1)) + 0.01 * rng.normal(size=(64, 100))
    contributions = ((stuck - stuck.mean()) / stuck.size)[..., None]
    variance, n_effective = long_run_variance(contributions)
    between = stuck.mean(axis=1).var(ddof=1) / 64
    assert variance[0] == pytest.approx(between, rel=0.02)
    assert n_effective[0] == pytest.approx(64, rel=0.05)


def test_constants_have_no_error() -> None:
    """Catches 0 / 0 for the first level, whose log Z is known."""
    variance, n_effective = long_run_variance(np.zeros((3, 10, 2)))
    assert variance.tolist() == [0.0, 0.0]
    assert n_effective.tolist() == [30.0, 30.0]
    assert long_run_covariance(np.zeros((3, 10, 2))).tolist() == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("shape", [(4, 3000), (200, 40)])
def test_covariance_of_several_quantities(shape: tuple[int, int]) -> None:
    """Catches correlations of single draws in place of those of long-run sums."""
    rng = make_rng("covariance", shape)
    slow = np.stack([ar1(rng, shape, 15) for _ in range(2)], axis=-1)
    fast = 3 * rng.normal(size=(*shape, 1))
    # over long times the slow part rules, in single draws the fast one, of the other sign
    values = np.concatenate([slow[..., :1] + fast, slow[..., :1] - fast, slow[..., 1:]], axis=-1)
    contributions = (values - values.mean(axis=(0, 1))) / slow[..., 0].size
    covariance = long_run_covariance(contributions)
    assert np.diag(covariance) == pytest.approx(long_run_variance(contributions)[0])
    scale = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(scale, scale)
    expected = (exact_variance(shape, 15) - 9 / slow[..., 0].size) / (
        exact_variance(shape, 15) + 9 / slow[..., 0].size
    )
    # about 64 batches: a correlation has a standard error below 1 / 8
    assert abs(correlation[0, 1] - expected) < 4 * (1 - expected**2) / 8
    assert abs(correlation[0, 2]) < 4 / 8
    assert np.linalg.eigvalsh(covariance).min() > -1e-12 * covariance.max()
    single = np.corrcoef(contributions.reshape(-1, 3).T)[0, 1]
    with pytest.raises(CheckFailedError):
        _near(single, expected, 4 * (1 - expected**2) / 8)


def _near(value: float, expected: float, tolerance: float) -> None:
    if abs(value - expected) > tolerance:
        raise CheckFailedError(f"{value} is not {expected} within {tolerance}")
