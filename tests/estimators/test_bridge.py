"""Reverse weights and Bennett's acceptance ratio, on work distributions known exactly."""

import numpy as np
import pytest
from support.checks import check_coverage, check_means, make_rng

from pymc_logz.estimators import bar_log_z, importance_log_z, reverse_log_z

LOG_Z = -7.3


def normal_weights(
    rng: np.random.Generator, sigma: float, n_forward: int, n_reverse: int
) -> tuple[np.ndarray, np.ndarray]:
    """Forward and reverse log weights that obey Crooks's relation for log Z exactly."""
    half = 0.5 * sigma**2
    forward = rng.normal(LOG_Z - half, sigma, n_forward)
    return forward, rng.normal(-LOG_Z - half, sigma, n_reverse)


@pytest.mark.parametrize("sigma", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("sizes", [(300, 300), (500, 60)])
def test_bar_is_right_and_its_error_honest(sigma: float, sizes: tuple[int, int]) -> None:
    """Would catch a sign of work, a share of forward rows upside down, or an error of one side."""
    rng = make_rng("bar", sigma, sizes)
    estimates = [bar_log_z(*normal_weights(rng, sigma, *sizes)) for _ in range(400)]
    log_z = np.array([estimate.log_z for estimate in estimates])
    mcse = np.array([estimate.mcse for estimate in estimates])
    # log Z of a finite run is biased by about its variance
    assert abs(log_z.mean() - LOG_Z) < 5 * log_z.std() / 20 + (mcse**2).mean()
    check_coverage(np.abs(log_z - LOG_Z) < 1.96 * mcse)


def test_bar_beats_both_directions() -> None:
    """Would catch a bridge that uses one set of weights only."""
    rng = make_rng("bar beats")
    runs = [normal_weights(rng, 1.0, 200, 200) for _ in range(200)]
    errors = {
        "bar": [bar_log_z(*run).log_z for run in runs],
        "forward": [importance_log_z(run[0]).log_z for run in runs],
        "reverse": [reverse_log_z(run[1]).log_z for run in runs],
    }
    spread = {name: np.std(values) for name, values in errors.items()}
    assert spread["bar"] < 0.9 * min(spread["forward"], spread["reverse"])


def test_reverse_weights_average_to_the_inverse() -> None:
    """Would catch a reverse estimate with the sign of the forward one."""
    _, reverse = normal_weights(make_rng("reverse"), 0.5, 2, 4000)
    check_means({"1/Z": np.exp(reverse + LOG_Z)}, 1.0)
    estimate = reverse_log_z(reverse, log_z_reference=2.0)
    assert abs(estimate.log_z - LOG_Z - 2.0) < 5 * estimate.mcse


def test_a_constant_shifts_log_z_and_nothing_else() -> None:
    """Would catch arithmetic outside the log domain."""
    forward, reverse = normal_weights(make_rng("shift"), 1.0, 100, 150)
    plain, shifted = bar_log_z(forward, reverse), bar_log_z(forward + 900, reverse - 900)
    assert shifted.log_z == pytest.approx(plain.log_z + 900, abs=1e-9)
    assert shifted.mcse == pytest.approx(plain.mcse, rel=1e-6)


def test_no_overlap_gives_no_number() -> None:
    """Would catch a number, with an error of zero, where the two sets do not meet."""
    rng = make_rng("no overlap")
    estimate = bar_log_z(rng.normal(-500, 1, 100), rng.normal(-500, 1, 100))
    assert estimate.status == "no_overlap"
    assert np.isnan(estimate.log_z)
    nothing = np.full(10, -np.inf)
    assert bar_log_z(nothing, nothing).status == "no_overlap"


@pytest.mark.parametrize("bad", [np.array([1.0]), np.array([1.0, np.nan])])
def test_bad_weights_are_refused(bad: np.ndarray) -> None:
    """Would catch a NaN that turns into a number."""
    good = np.zeros(10)
    with pytest.raises(ValueError, match="forward has"):
        bar_log_z(bad, good)
    with pytest.raises(ValueError, match="reverse has"):
        bar_log_z(good, bad)


def test_weights_of_any_size_have_a_bridge() -> None:
    """Catches a root that is sought for a hundred steps between 1e-12 and 1e300."""
    forward, reverse = make_rng("huge").normal([[2.875], [-3.125]], 0.5, size=(2, 100))
    estimate = bar_log_z(np.append(forward, -1e300), reverse)
    assert abs(estimate.log_z - 3 + np.log(101 / 100)) < 4 * estimate.mcse
