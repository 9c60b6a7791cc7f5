"""log Z from importance weights: exact cases, symmetries, failures, coverage."""

import numpy as np
import pytest
from support.checks import assert_detects, check_coverage, check_means, make_rng

from pymc_logz.errors import STATUS_SENTENCES
from pymc_logz.estimators import LogZEstimate, importance_log_z
from pymc_logz.weights import pareto_khat


def lognormal_weights(sigma: float, n: int, label: object = 0) -> np.ndarray:
    """Log weights whose mean weight is exactly one."""
    return make_rng("weights", sigma, n, label).normal(-0.5 * sigma**2, sigma, n)


def test_equal_weights_are_exact() -> None:
    """Catches an error that is not zero where nothing varies, and 0 / 0 in the tail fit."""
    estimate = importance_log_z(np.full(100, 3.25))
    assert (estimate.log_z, estimate.mcse, estimate.weight_ess) == (3.25, 0.0, 100.0)
    assert estimate.status == "ok"
    assert np.isnan(estimate.khat)


def test_numbers_of_a_small_sample_by_hand() -> None:
    """Catches a sum for a mean, ``ddof=0``, or an error of Z in place of that of log Z."""
    weight = np.array([1.0, 2.0, 3.0, 4.0])
    estimate = importance_log_z(np.log(weight))
    assert estimate.log_z == pytest.approx(np.log(2.5))
    assert estimate.mcse == pytest.approx(np.sqrt(5 / 3) / 2 / 2.5)
    assert estimate.weight_ess == pytest.approx(100 / 30)


@pytest.mark.parametrize("sigma", [0.2, 1.0])
def test_lognormal_weights(sigma: float) -> None:
    """Catches a biased mean, and an error or effective size off by a factor."""
    n = 20_000
    estimate = importance_log_z(lognormal_weights(sigma, n))
    exact_error = np.sqrt(np.expm1(sigma**2) / n)
    assert abs(estimate.log_z) < 5 * exact_error
    assert estimate.mcse == pytest.approx(exact_error, rel=0.15)
    assert estimate.weight_ess == pytest.approx(n * np.exp(-(sigma**2)), rel=0.15)
    assert estimate.status == "ok"


@pytest.mark.parametrize("shift", [-1e5, -3.0, 700.0, 1e6])
def test_a_constant_is_added_exactly(shift: float) -> None:
    """Catches overflow of exp, and a constant that changes more than log Z."""
    log_weight = lognormal_weights(1.0, 500)
    plain, shifted = importance_log_z(log_weight), importance_log_z(log_weight + shift)
    assert shifted.log_z - shift == pytest.approx(plain.log_z, abs=1e-9)
    for name in ("mcse", "weight_ess", "khat"):
        assert getattr(shifted, name) == pytest.approx(getattr(plain, name), rel=1e-6)
    reference = importance_log_z(log_weight, log_z_reference=shift)
    assert reference.log_z - shift == pytest.approx(plain.log_z, abs=1e-9)
    assert reference.details["log_mean_weight"] == pytest.approx(plain.log_z, abs=1e-9)


def test_order_and_shape_of_rows_do_not_matter() -> None:
    """Catches rows taken for chains, and a tail fit of unsorted weights."""
    log_weight = lognormal_weights(1.0, 600)
    one = importance_log_z(log_weight)
    other = importance_log_z(make_rng("order").permutation(log_weight).reshape(3, 200))
    for name in ("log_z", "mcse", "weight_ess", "khat"):
        assert getattr(other, name) == pytest.approx(getattr(one, name), rel=1e-9)


def test_rows_of_weight_zero_count() -> None:
    """Catches dead rows dropped from the mean: Z would be too large by their share."""
    alive = lognormal_weights(0.5, 600)
    estimate = importance_log_z(np.concatenate([alive, np.full(400, -np.inf)]))
    assert estimate.log_z == pytest.approx(importance_log_z(alive).log_z + np.log(0.6))
    assert estimate.mcse > np.sqrt(0.4 / 0.6 / 1000)  # at least the error of the share alone
    assert np.isfinite(estimate.khat)
    assert estimate.usable


@pytest.mark.parametrize(
    ("log_weight", "status"),
    [
        (np.full(10, -np.inf), "no_support"),
        (np.append(np.zeros(10), np.inf), "infinite_weight"),
        (np.full(10, np.inf), "infinite_weight"),
        (1e4 * np.arange(100.0), "degenerate"),
        (np.append(np.full(99, -np.inf), 0.0), "degenerate"),
    ],
    ids=["all zero", "one infinite", "all infinite", "one row carries all", "one row alive"],
)
def test_no_number_where_there_is_none(log_weight: np.ndarray, status: str) -> None:
    """Catches a guess where there is no trustworthy number."""
    estimate = importance_log_z(log_weight)
    assert estimate.status == status
    assert np.isnan(estimate.log_z)
    assert np.isnan(estimate.mcse)
    assert not estimate.usable
    assert status in STATUS_SENTENCES


def test_arguments_without_an_estimate_are_refused() -> None:
    """Catches NaN that passes as a number, and an error from a single row."""
    with pytest.raises(ValueError, match="1 of 3 entries of log_weight are NaN"):
        importance_log_z(np.array([0.0, np.nan, 1.0]))
    for few in ([], [0.0]):
        with pytest.raises(ValueError, match="an error needs at least 2"):
            importance_log_z(np.array(few))
    with pytest.raises(ValueError, match="status='fine' is not one of"):
        LogZEstimate("importance", 0.0, 0.0, 1.0, 0.0, "fine")


def test_one_of_two_rows_with_all_the_weight_is_not_ok() -> None:
    """Catches a verdict that no sample of two rows can fail."""
    assert importance_log_z(np.array([0.0, -1e4])).status != "ok"


def test_khat_tells_heavy_from_light_tails() -> None:
    """Catches the sign: a tail fit of 1 / w calls the dangerous weights safe and the safe ones not.

    ``w = exp(k e)`` with e exponential is Pareto of shape k; ``w = exp(-k e)`` is bounded, and its
    reciprocal is not.
    """
    e = make_rng("khat").exponential(size=4000)
    heavy, light = pareto_khat(1.2 * e), pareto_khat(-1.2 * e)
    assert heavy > 0.7
    assert light < 0.5
    assert heavy == pytest.approx(1.2, abs=0.3)
    assert pareto_khat(lognormal_weights(0.3, 4000)) < 0.5
    assert importance_log_z(1.2 * e).status in {"high_khat", "degenerate"}


def test_mean_weight_is_unbiased() -> None:
    """Catches a median or a mean of logs: over many replicates Z is right on average."""
    z = [np.exp(importance_log_z(lognormal_weights(0.7, 200, i)).log_z) for i in range(500)]
    check_means({"Z": np.array(z)}, 1.0)
    logs = np.array([np.exp(lognormal_weights(0.7, 200, i).mean()) for i in range(500)])
    assert_detects(lambda x: check_means(x, 1.0), {"exp of mean log": logs})


@pytest.mark.parametrize("sigma", [0.5, 1.0])
def test_intervals_cover(sigma: float) -> None:
    """Catches an error too small or too large by a constant factor."""
    estimates = [importance_log_z(lognormal_weights(sigma, 1000, i)) for i in range(400)]
    z = np.array([estimate.log_z / estimate.mcse for estimate in estimates])
    covered = np.abs(z) < 1.96
    check_coverage(covered)
    assert 0.90 <= covered.mean() <= 0.99
    assert_detects(check_coverage, np.abs(z) < 1.96 / 2)
    assert np.mean(np.abs(z) < 1.96 * 2) > 0.99, "errors twice as large would go unnoticed"


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


def test_a_far_weight_leaves_log_z_alone() -> None:
    """Catches -8.29 with status ok for 0.48: a tail on the scale of the smallest weight."""
    log_weight = make_rng("far weight").normal(0.4, 0.4, size=1000)
    alone = importance_log_z(log_weight, smooth=True)
    for far in (-1e17, -1e300, -np.inf):
        found = importance_log_z(np.append(log_weight, far), smooth=True)
        assert found.log_z == pytest.approx(alone.log_z - np.log(1001 / 1000), abs=1e-9)
        assert found.mcse == pytest.approx(alone.mcse, rel=0.01)
        assert found.status == "ok"
