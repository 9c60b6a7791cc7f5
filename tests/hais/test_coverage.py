"""Error bars of whole runs: how often the 95% interval covers the exact log Z."""

import numpy as np
import pytest
from support.checks import assert_detects, check_coverage
from tables.coverage import CASES, Replicates, replicates

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
]
SHORT = [name for name in CASES if name.endswith("too short")]


def check_estimate(one: Replicates) -> None:
    """Fail unless nearly all runs are trusted, and their intervals cover as they should."""
    print(one.row())
    assert one.ok.mean() > 0.95
    check_coverage(one.covered)
    assert 0.90 <= one.covered.mean() <= 0.99
    assert_detects(check_coverage, np.abs(one.z) < 1.96 / 2)
    assert_detects(check_coverage, np.abs(one.z + 2) < 1.96)


def check_upper_bound(one: Replicates) -> None:
    """Fail unless the estimate is at least the exact one, up to its error.

    Reverse rows need not reach what the reference has beyond the target, so that the estimate may
    be higher than its error says, and is not held to more.
    """
    print(one.row())
    check_coverage(one.z > -1.645, most=1.0)


@pytest.mark.parametrize("name", [name for name in CASES if name not in SHORT])
def test_intervals_of_whole_runs_cover_the_exact_log_z(name: str) -> None:
    """Would catch errors that miss a source of variation, and a bias that the error bar hides."""
    for one in replicates(name):
        if one.method == "hais_reverse":
            check_upper_bound(one)
            continue
        check_estimate(one)
        # Z itself, not its logarithm, is what forward weights leave unbiased
        if one.method == "hais":
            ratio = np.exp(one.error)
            assert abs(ratio.mean() - 1) < 5 * ratio.std() / np.sqrt(ratio.size)


@pytest.mark.parametrize("name", SHORT)
def test_a_ladder_that_is_too_short_is_not_ok(name: str) -> None:
    """Would catch a wrong interval that calls itself right."""
    [one] = replicates(name)
    z = (one.error / one.mcse)[np.isfinite(one.error)]
    print(one.row(), f"{z.size / one.error.size:.1%} have a number")
    print(f"{np.mean(np.abs(z) < 1.96):.1%} of these are covered")
    assert np.mean(np.abs(z) < 1.96) < 0.9
    assert one.ok.mean() < 0.01
