"""Checks of arguments: what each lets through, what it refuses, and in which words."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pymc_logz.arguments import (
    check_betas,
    check_choice,
    check_flag,
    check_fraction,
    check_integer,
    check_log_density,
    check_log_weight,
    check_positive,
    check_probability,
    is_integer,
)
from pymc_logz.seeds import random_generator

INF, NAN = np.inf, np.nan


def share(**given: Any) -> None:
    """The check of a refreshment."""
    check_fraction("it is the share of the momentum variance", **given)


def positive(**given: Any) -> None:
    """The check of a length in some unit."""
    check_positive("nats", **given)


def whole(**given: Any) -> None:
    """The check of a number of draws."""
    check_integer(2, **given)


def from_two_to_five(**given: Any) -> None:
    """The check of a number that has a largest value too."""
    check_integer(2, 5, **given)


def choice(**given: Any) -> None:
    """The check of a word, None among those allowed."""
    check_choice(("a", "b", None), **given)


def zero(**given: Any) -> None:
    """The check of log densities that may be -inf."""
    check_log_density(may_be_zero=True, **given)


def not_zero(**given: Any) -> None:
    """The check of log densities that may not."""
    check_log_density(may_be_zero=False, **given)


@pytest.mark.parametrize("seed", ["a", 1.5, -1])
def test_a_seed_is_a_whole_number(seed: Any) -> None:
    """Would catch NumPy's words about entropy, which do not say which argument is wrong."""
    with pytest.raises((TypeError, ValueError), match=f"random_seed={seed!r} must be"):
        random_generator(seed)


@pytest.mark.parametrize(
    ("check", "good"),
    [
        (whole, [2, 10**9, np.int64(2)]),
        (from_two_to_five, [2, 5]),
        (positive, [1, 0.5, None, np.array([1e-300, 1e300]), [1, 2]]),
        (share, [0, 1, 0.5, None, np.array([0.0, 1.0])]),
        (check_probability, [0.5, 1e-9, np.float64(0.99)]),
        (choice, ["a", "b", None]),
        (check_flag, [True, False, np.bool_(True)]),
        (check_log_weight, [np.array([0.0, -INF]), np.full(3, -INF), np.array([0.0, INF])]),
        (zero, [np.array([0.0, -INF]), np.array(-INF)]),
        (not_zero, [np.array([0.0, -1e300])]),
    ],
)
def test_what_is_allowed_passes(check: Callable[..., None], good: list[Any]) -> None:
    """Would catch an end of a range taken for outside, and NumPy's numbers for none."""
    for value in good:
        check(name=value)
    check(**{f"name_{i}": value for i, value in enumerate(good)})


@pytest.mark.parametrize(
    ("check", "value", "message"),
    [
        (whole, 1, "name=1 must be an integer of at least 2"),
        (whole, 2.0, "name=2.0 must be an integer of at least 2; write 2$"),
        (whole, 1.0, "name=1.0 must be an integer of at least 2$"),
        (whole, True, "name=True must be an integer of at least 2"),
        (whole, None, "name=None must be an integer of at least 2"),
        (from_two_to_five, 6, "name=6 must be an integer from 2 to 5"),
        (positive, 0, "name=0 must be positive and finite, in nats"),
        (positive, INF, "name=inf must be positive and finite, in nats"),
        (positive, [1, -1], r"name=\[1, -1\] must be positive and finite, in nats"),
        (positive, "wide", "name='wide' must be positive and finite, in nats"),
        (positive, "3", "name='3' must be positive and finite, in nats"),
        (check_positive, NAN, "name=nan must be positive and finite$"),
        (share, 1.1, r"name=1.1 must lie in \[0, 1\]: it is the share of the momentum variance"),
        (share, NAN, r"name=nan must lie in \[0, 1\]"),
        (share, "half", r"name='half' must lie in \[0, 1\]"),
        (check_probability, 0, "name=0 must lie strictly between 0 and 1"),
        (check_probability, 1, "name=1 must lie strictly between 0 and 1"),
        (check_probability, None, "name=None must lie strictly between 0 and 1"),
        (check_probability, [0.5], r"name=\[0.5\] must lie strictly between 0 and 1"),
        (choice, "c", r"name='c' must be one of \('a', 'b', None\)"),
        (choice, np.zeros(2), "name=array.* must be one of"),
        (check_flag, 1, "name=1 must be True or False"),
        (check_flag, None, "name=None must be True or False"),
        (check_log_weight, np.zeros(1), "name has 1 entries; an error needs at least 2"),
        (check_log_weight, np.array([0, NAN]), "1 of 2 entries of name are NaN; .* name=-inf"),
        (zero, np.array([0, NAN]), "1 of 2 entries of name are NaN or infinite; .* or -inf"),
        (zero, np.array([INF, INF]), "2 of 2 entries of name are NaN or infinite"),
        (not_zero, np.array([0, -INF]), "1 of 2 entries of name .* they must be finite$"),
    ],
)
def test_what_is_not_allowed_is_named(check: Callable[..., None], value: Any, message: str) -> None:
    """Would catch a message that does not name the argument, the value and the remedy."""
    with pytest.raises(ValueError, match=message):
        check(name=value)


def test_the_one_at_fault_is_named() -> None:
    """Would catch a check that stops at the first argument, or names another one."""
    with pytest.raises(ValueError, match="tune=0 must be"):
        check_integer(1, draws=5, tune=0)


def test_truth_values_are_no_numbers() -> None:
    """Would catch draws=True taken for one draw."""
    assert all(map(is_integer, (3, np.int32(3))))
    assert not any(map(is_integer, (True, np.bool_(True), 3.0, "3", None)))


def test_check_betas_returns_floats() -> None:
    """Catches integers that later truncate."""
    checked = check_betas([0, 0.5, 1])
    assert checked.dtype == float
    np.testing.assert_array_equal(checked, [0, 0.5, 1])
    assert check_betas(np.array([0, 1])).dtype == float


@pytest.mark.parametrize(
    ("betas", "message"),
    [
        ([0.0], r"shape \(1,\)"),
        ([[0.0, 1.0]], r"shape \(1, 2\)"),
        ([0.1, 1.0], "runs from 0.1 to 1.0"),
        ([0.0, 0.9], "runs from 0.0 to 0.9"),
        ([1.0, 0.0], "runs from 1.0 to 0.0"),
        ([0.0, np.nan, 1.0], r"^betas\[1\]=nan, but all of betas must be finite$"),
        (True, r"betas=True has shape \(\)"),
        (1.5, r"betas=1.5 has shape \(\)"),
        (["a", "b"], r"betas=\['a', 'b'\] has"),
        ([0.0, 0.5, 0.5, 1.0], r"betas\[2\]=0.5 follows betas\[1\]=0.5"),
        ([0.0, 0.7, 0.3, 1.0], r"betas\[2\]=0.3 follows betas\[1\]=0.7"),
        ([0.0, -0.1, 1.0], r"betas\[1\]=-0.1 follows betas\[0\]=0"),
    ],
)
def test_check_betas_names_what_is_wrong(betas: list, message: str) -> None:
    """Catches a ladder that would give a wrong weight, and a message that does not say where."""
    with pytest.raises(ValueError, match=message):
        check_betas(betas)


def test_what_else_betas_may_be_is_said() -> None:
    """Would catch a remedy that is lost on the way."""
    with pytest.raises(ValueError, match=r"2 inverse temperatures, or 'adaptive'$"):
        check_betas([0.0], remedy=", or 'adaptive'")
