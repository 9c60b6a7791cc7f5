"""Weights of rows: exact values, and what must not change them."""

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy.special import logsumexp, softmax
from support.checks import CheckFailedError, assert_detects, check_means, make_rng

from pymc_logz.weights import (
    _smoothed_tail,
    conditional_ess,
    ess_of_sums,
    khat_threshold,
    log_mean,
    normalise,
    pareto_khat,
    relative,
    resampled,
    smoothed,
    systematic_resample,
    weight_ess,
    weight_status,
    weighted_mean,
)

WEIGHT = np.array([1.0, 2.0, 3.0, 0.0])
with np.errstate(divide="ignore"):
    LOG_WEIGHT = np.log(WEIGHT)
LOST = np.full(4, -np.inf)


def test_exact_values() -> None:
    """Would catch a sum for a mean, and a row of weight zero that is left out of one."""
    np.testing.assert_allclose(relative(LOG_WEIGHT), WEIGHT / 3)
    np.testing.assert_allclose(normalise(LOG_WEIGHT), WEIGHT / 6)
    assert log_mean(LOG_WEIGHT) == pytest.approx(np.log(1.5))
    assert weight_ess(LOG_WEIGHT) == pytest.approx(36 / 14)
    assert conditional_ess(LOG_WEIGHT) == pytest.approx(36 / 14 / 4)
    assert weighted_mean(np.array([4.0, 1.0, 2.0, 9.0]), LOG_WEIGHT) == pytest.approx(2.0)


def test_effective_numbers_of_sums_and_of_means() -> None:
    """Would catch a share taken for a number, or a square left out."""
    assert ess_of_sums(WEIGHT.sum(), (WEIGHT**2).sum()) == pytest.approx(36 / 14)
    assert ess_of_sums(WEIGHT.mean(), (WEIGHT**2).mean()) == pytest.approx(36 / 14 / 4)
    found = ess_of_sums(np.array([2.0, 0.0]), np.array([2.0, 0.0]))
    np.testing.assert_array_equal(found, [2.0, 0.0])


def test_rows_that_are_all_lost() -> None:
    """Would catch NaN of 0 / 0, which spreads: a lost group must not take others with it."""
    np.testing.assert_array_equal(relative(LOST), 0)
    np.testing.assert_array_equal(normalise(LOST), 0)
    assert log_mean(LOST) == -np.inf
    assert weight_ess(LOST) == conditional_ess(LOST) == 0
    assert np.isnan(weighted_mean(np.ones(4), LOST))
    both = np.stack([LOST, LOG_WEIGHT])
    np.testing.assert_allclose(normalise(both), [np.zeros(4), WEIGHT / 6])
    np.testing.assert_allclose(weight_ess(both), [0, 36 / 14])


def test_one_row() -> None:
    """Would catch a division by n - 1."""
    one = np.array([-700.0])
    assert relative(one) == normalise(one) == weight_ess(one) == conditional_ess(one) == 1
    assert log_mean(one) == -700
    assert weighted_mean(np.array([5.0]), one) == 5


def test_ties_count_alike() -> None:
    """Would catch a largest weight that is counted once where several rows have it."""
    ties = np.array([2.0, 2.0, -np.inf, 2.0])
    np.testing.assert_allclose(normalise(ties), [1 / 3, 1 / 3, 0, 1 / 3])
    assert weight_ess(ties) == pytest.approx(3)
    assert log_mean(ties) == pytest.approx(2 + np.log(0.75))


@pytest.mark.parametrize("shift", [-1e6, -800.0, 800.0, 1e6])
def test_a_constant_changes_nothing_but_the_mean(shift: float) -> None:
    """Would catch an overflow, or an underflow, of exp."""
    log_weight = make_rng("constant").normal(size=(3, 50))
    moved = log_weight + shift
    for function in (relative, normalise, weight_ess):
        np.testing.assert_allclose(function(moved), function(log_weight), rtol=1e-9)
    assert conditional_ess(moved[0]) == pytest.approx(conditional_ess(log_weight[0]))
    assert pareto_khat(moved[0]) == pytest.approx(pareto_khat(log_weight[0]), rel=1e-6)
    assert log_mean(moved) - shift == pytest.approx(log_mean(log_weight), abs=1e-9)
    np.testing.assert_allclose(smoothed(moved[0]) - shift, smoothed(log_weight[0]), atol=1e-8)


def test_normalising_is_softmax_along_the_last_axis() -> None:
    """Would catch weights that are compared across groups."""
    log_weight = make_rng("axes").normal(size=(4, 5, 6))
    np.testing.assert_array_equal(normalise(log_weight), softmax(log_weight, axis=-1))
    shares = np.exp(log_weight - logsumexp(log_weight, axis=-1, keepdims=True))
    np.testing.assert_allclose(normalise(log_weight), shares, rtol=1e-12)


def test_infinite_values_count_with_their_weight_only() -> None:
    """Would catch 0 * inf, and an impossible row that leaves a finite mean."""
    log_weight = np.array([0.0, 0.0, -np.inf])
    assert weighted_mean(np.array([1.0, 3.0, -np.inf]), log_weight) == 2
    assert weighted_mean(np.array([1.0, -np.inf, 0.0]), log_weight) == -np.inf


@pytest.mark.parametrize("offset", [1e17, -1e17, -1e300])
def test_a_constant_does_not_change_the_conditional_ess(offset: float) -> None:
    """Catches a share computed from logs of totals: equal weights have all of it."""
    assert conditional_ess(np.full(50, offset)) == pytest.approx(1.0)


def test_conditional_ess_of_known_weights() -> None:
    """Catches an overflow of exp, and a share that is not one of rows."""
    assert conditional_ess(np.array([1e5, 1e5, -np.inf, -np.inf])) == pytest.approx(0.5)
    assert conditional_ess(np.log([3.0, 1.0])) == pytest.approx(16 / 10 / 2)
    assert conditional_ess(np.full(3, -np.inf)) == 0


def test_khat_needs_rows() -> None:
    """Catches a tail fitted to a handful of rows, or to rows that are all alike."""
    normal = make_rng("few rows").normal(size=100)
    assert np.isnan(pareto_khat(normal[:19]))
    assert np.isnan(pareto_khat(np.append(np.full(30, 1.0), -np.inf)))
    assert np.isfinite(pareto_khat(normal))
    assert khat_threshold(10) == khat_threshold(20) < khat_threshold(500) < 0.7
    assert khat_threshold(10**6) == 0.7


def test_khat_of_a_tail_too_short_to_matter_is_not_told() -> None:
    """Would catch `high_khat` where the largest of 1,000 weights is twice the mean."""
    rng = make_rng("short tail")
    body, below = np.linspace(0.01, 1.2, 928), np.arange(0.5, 96) / 96
    tail = (1 - below) ** -1.2 - 1  # a Pareto law of shape 1.2, by its quantiles
    short, heavy = (np.log(np.append(body, 1.2 + top * tail / tail.max())) for top in (1.5, 150.0))
    assert np.isnan(pareto_khat(short))
    assert pareto_khat(heavy) > 0.7  # the same tail, a hundred times as long
    # of few rows each is much of the sum
    few = np.log(np.append(body[::6], 1.2 + 1.5 * tail[1::2] / tail.max()))
    assert pareto_khat(few) > khat_threshold(few.size)
    assert 0 < pareto_khat(rng.normal(0, 0.3, 4000)) < 0.5


def test_smoothing_leaves_the_body_as_it_was() -> None:
    """Would catch smoothed weights on another scale, or a row outside the support that gains."""
    log_weight = np.append(0.5 * make_rng("smoothed").exponential(size=400), [-np.inf] * 3)
    found = smoothed(log_weight)
    body = log_weight < np.quantile(log_weight, 0.8)
    np.testing.assert_allclose(found[body], log_weight[body], atol=1e-12)
    assert np.any(found[~body] != log_weight[~body])
    assert np.all(np.isneginf(found[-3:]))


@pytest.mark.parametrize("far", [-1e3, -1e17, -1e300, -np.inf])
def test_a_far_weight_changes_nothing(far: float) -> None:
    """Would catch a tail put back on its scale by a constant that a far value has swallowed."""
    log_weight = make_rng("far").exponential(0.6, size=500)
    beside = np.append(log_weight, [far, far])
    np.testing.assert_allclose(smoothed(beside)[:-2], smoothed(log_weight), atol=1e-12)
    assert np.all(smoothed(beside)[-2:] == far)
    assert pareto_khat(beside) == pareto_khat(log_weight)


@pytest.mark.parametrize(
    "tail", [np.zeros(14), np.repeat([0.0, 1.0], 7), np.full(14, -3.0), np.arange(14.0)]
)
@pytest.mark.parametrize("n_lost", [0, 929])
def test_tails_with_ties(tail: np.ndarray, n_lost: int) -> None:
    """Would catch a crash, or NaN, where k-hat is told from other rows than those smoothed."""
    body = -5 - make_rng("ties").exponential(size=57)
    log_weight = np.concatenate([body, tail, np.full(n_lost, -np.inf)])
    if np.isfinite(pareto_khat(log_weight)):
        found = smoothed(log_weight)
        assert not np.any(np.isnan(found))
        assert found.max() <= log_weight.max()
        np.testing.assert_array_equal(found[:57], log_weight[:57])


@pytest.mark.parametrize(
    ("ess", "khat", "n_rows", "status"),
    [
        (4.9, 0.1, 1000, "degenerate"),
        (4.9, np.nan, 8, "few_rows"),
        (2.0, np.nan, 2, "few_rows"),
        (20.0, np.nan, 20, "ok"),
        (200.0, 0.71, 1000, "high_khat"),
        (200.0, np.nan, 1000, "ok"),
        (49.0, 0.1, 1000, "low_weight_ess"),
        (300.0, 0.1, 10_000, "low_weight_ess"),
        (300.0, 0.1, 1000, "ok"),
    ],
)
def test_verdicts(ess: float, khat: float, n_rows: int, status: str) -> None:
    """Catches a comparison the wrong way round, and a milder status that hides a worse one."""
    assert weight_status(ess, khat, n_rows) == status


def test_systematic_resampling_keeps_expected_counts(rng: np.random.Generator) -> None:
    """Catches an index one too far, a weight of zero that is drawn, an unequal chance."""
    weight = np.array([0.5, 0.0, 0.125, 0.375])
    counts = np.bincount(systematic_resample(weight, 8, rng), minlength=4)
    np.testing.assert_array_equal(counts, [4, 0, 1, 3])
    weight = np.array([0.31, 0.0, 0.69])
    draws = np.array([systematic_resample(weight, 1, rng)[0] for _ in range(4000)])
    check_means({"first": (draws == 0) - 0.31, "last": (draws == 2) - 0.69})


def draws_of_rows(draw: object, n_replicates: int = 2000) -> dict[str, np.ndarray]:
    """How often each row was chosen, less what its weight asks for."""
    rng = make_rng("chosen")
    counts = np.array([np.bincount(draw(rng), minlength=4) for _ in range(n_replicates)])
    return dict(zip("abcd", (counts - 10 * WEIGHT / 6).T, strict=True))


@pytest.mark.parametrize("shuffled", [False, True])
def test_resampled_rows_count_alike(shuffled: bool) -> None:
    """Would catch rows drawn with log weights for weights, and a row of weight zero."""
    check_means(draws_of_rows(lambda rng: resampled(LOG_WEIGHT, rng, 10, shuffled=shuffled)))


def test_rows_drawn_with_other_weights_are_found() -> None:
    """Would catch a check of resampling that cannot fail."""
    broken = draws_of_rows(lambda rng: systematic_resample(np.sqrt(WEIGHT), 10, rng))
    assert_detects(check_means, broken)
    with pytest.raises(CheckFailedError):
        check_means(draws_of_rows(lambda rng: resampled(LOST, rng, 10)))


def test_order_of_resampled_rows() -> None:
    """Would catch rows shuffled where time counts, and rows sorted where it must not."""
    log_weight = make_rng("order").normal(size=(4, 25))
    kept = resampled(log_weight, make_rng("resampled"))
    mixed = resampled(log_weight, make_rng("resampled"), shuffled=True)
    assert kept.size == 100
    assert np.all(np.diff(kept) >= 0)
    np.testing.assert_array_equal(np.sort(mixed), kept)
    assert np.any(mixed != kept)


def test_rows_without_weight_are_taken_at_even_distances() -> None:
    """Would catch an index out of range, or NaN in place of rows, where no row has a weight."""
    rng = make_rng("lost")
    for shuffled in (False, True):
        assert resampled(LOST, rng, shuffled=shuffled).tolist() == [0, 1, 2, 3]
    assert resampled(np.full(9, -np.inf), rng, 3).tolist() == [0, 4, 8]


@pytest.mark.parametrize("n_rows", [25, 26, 225, 226, 4000])
@pytest.mark.parametrize("shape", [0.01, 0.5, 1.5, 40.0])
def test_tails_are_those_of_arviz(n_rows: int, shape: float) -> None:
    """Would catch any departure from the published fit: in the tail's length, fit or quantiles."""
    values = shape * make_rng("tail", n_rows).exponential(size=n_rows)
    partly = np.where(np.arange(n_rows) < n_rows // 3, -np.inf, values)
    for log_weight in (values, partly, shape * np.round(values / shape, 1)):
        with np.errstate(all="ignore"):
            expected, khat = array_stats.psislw(-log_weight)
            rows, tail, own_khat = _smoothed_tail(log_weight)
            found = log_weight.copy()
            found[rows] = tail
            found -= logsumexp(found)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)
        np.testing.assert_allclose(own_khat, khat, rtol=0, atol=1e-10)
