"""The checks themselves: right samples pass at the level they promise, wrong ones fail."""

from functools import partial

import numpy as np
import pytest

from support.checks import (
    SEED_VARIABLE,
    CheckFailedError,
    assert_detects,
    check_coverage,
    check_means,
    check_same_law,
    make_rng,
)


def test_false_alarms_come_as_often_as_promised(rng: np.random.Generator) -> None:
    """Catches a check that cannot fail, and a Bonferroni factor on the wrong side."""
    alarms = {"means": 0, "laws": 0}
    for _ in range(300):
        draws = rng.normal(size=(4, 400))
        try:
            check_means({"a": draws[0], "b": draws[1], "c": draws[2]}, alpha=0.2)
        except CheckFailedError:
            alarms["means"] += 1
        try:
            check_same_law({"a": (draws[0], draws[1]), "b": (draws[2], draws[3])}, alpha=0.2)
        except CheckFailedError:
            alarms["laws"] += 1
    for count in alarms.values():
        # 300 trials at 18 to 20%: five standard deviations either side
        assert 25 < count < 95


def test_checks_detect_a_shift_of_a_few_standard_errors(rng: np.random.Generator) -> None:
    """Catches tolerances that do not shrink with the sample."""
    draws = rng.normal(size=(2, 20_000))
    shift = 10 / np.sqrt(20_000)
    check_means({"x": draws[0]})
    assert_detects(check_means, {"x": draws[0] + shift})
    check_same_law({"x": (draws[0], draws[1])})
    assert_detects(check_same_law, {"x": (draws[0], draws[1] + 2 * shift)})


def test_checks_fail_on_nan(rng: np.random.Generator) -> None:
    """Catches comparisons with NaN, which are all false and pass in silence."""
    draws = rng.normal(size=100)
    broken = np.append(draws, np.nan)
    assert_detects(check_means, {"x": broken})
    assert_detects(check_same_law, {"x": (draws, broken)})


def test_coverage_check_has_two_sides(rng: np.random.Generator) -> None:
    """Catches error bars half as wide, and error bars so wide that they say nothing."""
    check_coverage(rng.random(400) < 0.95)
    assert_detects(check_coverage, rng.random(400) < 0.68)
    assert_detects(partial(check_coverage, most=0.97), np.ones(400, dtype=bool))


def test_assert_detects_wants_a_failure() -> None:
    """Catches a positive control that passes whatever the check says."""
    with pytest.raises(AssertionError, match="passed although"):
        assert_detects(lambda _: None, "anything")
    with pytest.raises(ZeroDivisionError):  # a broken test is no detection
        assert_detects(lambda _: 1 / 0, "anything")


def test_seed_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a sweep over seeds that runs the same numbers every time."""
    first, again = make_rng("a").random(), make_rng("a").random()
    assert first == again
    assert first != make_rng("b").random()
    monkeypatch.setenv(SEED_VARIABLE, "987654")
    assert make_rng("a").random() != first
