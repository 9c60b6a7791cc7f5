"""log Z from replicates: exact cases, coverage where rows depend on each other, failures."""

from collections.abc import Callable

import numpy as np
import pytest
from support.checks import assert_detects, check_coverage, make_rng

from pymc_logz.energies import beta_bernoulli
from pymc_logz.errors import USABLE_STATUSES
from pymc_logz.estimators import LogZEstimate, importance_log_z
from pymc_logz.estimators.replicated import replicated_log_z

Estimator = Callable[[np.ndarray], LogZEstimate]


def dependent_rows(label: object, n_replicates: int = 40) -> np.ndarray:
    """Log weights with mean weight 1; the rows of a replicate share half of the variance."""
    rng = make_rng("replicates", label)
    own, common = rng.normal(size=(n_replicates, 25)), rng.normal(size=(n_replicates, 1))
    return 0.3 * (own + common) - 0.09


def check_intervals(estimator: Estimator) -> None:
    """Fail unless intervals of 300 runs cover the exact log Z, which is 0, as often as they say."""
    estimates = [estimator(dependent_rows(i)) for i in range(300)]
    covered = [abs(estimate.log_z) < 1.96 * estimate.mcse for estimate in estimates]
    check_coverage(np.array(covered))


def test_numbers_of_a_small_sample_by_hand() -> None:
    """Catches ``ddof=0``, an error of Z in place of log Z, and a spread that is not a mean's."""
    weight = np.repeat([1.0, 3.0], 20)[:, None] * np.ones(7)
    estimate = replicated_log_z(np.log(weight), log_z_reference=5.0)
    assert estimate.log_z == pytest.approx(5.0 + np.log(2))
    assert estimate.mcse == pytest.approx(np.sqrt(40 / 39) / 2 / np.sqrt(40))
    assert estimate.weight_ess == pytest.approx(80**2 / 200)


def test_known_log_z() -> None:
    """Catches a mean of logarithms in place of the logarithm of a mean."""
    p = make_rng("coin").random((40, 500))  # draws of the prior
    estimate = replicated_log_z(12 * np.log(p) + 8 * np.log1p(-p))
    assert abs(estimate.log_z - beta_bernoulli(20, 12).log_z) < 5 * estimate.mcse
    assert (estimate.mcse < 0.05, estimate.status) == (True, "ok")


def test_intervals_cover() -> None:
    """Catches an error that does not know what the rows of a replicate have in common."""
    check_intervals(replicated_log_z)


def test_rows_taken_as_independent_do_not() -> None:
    """Positive control: the same check fails where that is forgotten."""
    assert_detects(check_intervals, importance_log_z)


def test_a_constant_is_added_and_order_does_not_matter() -> None:
    """Catches overflow, and replicates told apart by their place."""
    log_weight = dependent_rows("order")
    one = replicated_log_z(log_weight)
    other = replicated_log_z(make_rng("shuffle").permutation(log_weight) + 1e5)
    assert other.log_z - 1e5 == pytest.approx(one.log_z, abs=1e-9)
    assert other.mcse == pytest.approx(one.mcse, rel=1e-6)


def test_no_number_where_there_is_none() -> None:
    """Catches a guess where there is no trustworthy number."""
    one_infinite = np.zeros((40, 5))
    one_infinite[3, 2] = np.inf
    one_carries_all = np.zeros((40, 5))
    one_carries_all[0] = 50.0
    cases = {
        "no_support": np.full((40, 5), -np.inf),
        "infinite_weight": one_infinite,
        "degenerate": one_carries_all,
    }
    for status, log_weight in cases.items():
        estimate = replicated_log_z(log_weight)
        assert estimate.status == status
        assert status not in USABLE_STATUSES
        assert np.isnan([estimate.log_z, estimate.mcse]).all()


def test_few_replicates_say_so() -> None:
    """Catches an error from a handful of values that calls itself ok."""
    assert replicated_log_z(dependent_rows("few", 29)).status == "short_run"
    assert replicated_log_z(dependent_rows("few", 30)).status == "ok"


def test_wrong_shapes_are_refused() -> None:
    """Catches rows of one run taken for replicates."""
    for wrong in (np.zeros(10), np.zeros((1, 10))):
        with pytest.raises(ValueError, match=r"log_weight has shape.*\(replicates, rows\)"):
            replicated_log_z(wrong)
