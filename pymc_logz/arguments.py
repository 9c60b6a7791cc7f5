"""Checks of arguments: each names the argument, what was given, and what is allowed.

Arguments are passed by name, ``check_positive(step_size=step_size)``. None stands for a default
that is chosen later, and is let through by those checks that say so.
"""

from collections.abc import Collection
from typing import Any

import numpy as np

SHARE_REPLACED = "it is the share of the momentum variance that is replaced"
"""What a refreshment is, for `check_share`."""


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number; truth values are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_whole(least: int, most: int | None = None, **given: Any) -> None:
    """Raise a ValueError for what is not a whole number in this range."""
    for name, value in given.items():
        if not is_whole(value) or value < least or (most is not None and value > most):
            allowed = f"of at least {least}" if most is None else f"from {least} to {most}"
            raise ValueError(f"{name}={value!r} must be a whole number {allowed}")


def check_positive(unit: str | None = None, **given: Any) -> None:
    """Raise a ValueError for what is neither None nor made of positive, finite numbers."""
    for name, value in given.items():
        if value is None:
            continue
        numbers = _numbers(value)
        if not np.all(np.isfinite(numbers) & (numbers > 0)):
            hint = "" if unit is None else f", in {unit}"
            raise ValueError(f"{name}={value!r} must be positive and finite{hint}")


def check_share(meaning: str, **given: Any) -> None:
    """Raise a ValueError for what is neither None nor a number from 0 to 1; say what it means."""
    for name, value in given.items():
        if value is not None and not np.all((_numbers(value) >= 0) & (_numbers(value) <= 1)):
            raise ValueError(f"{name}={value!r} must lie in [0, 1]: {meaning}")


def check_probability(**given: Any) -> None:
    """Raise a ValueError for what is not a number strictly between 0 and 1."""
    for name, value in given.items():
        if np.ndim(value) or not 0 < float(_numbers(value)) < 1:
            raise ValueError(f"{name}={value!r} must lie strictly between 0 and 1")


def check_choice(allowed: Collection[Any], **given: Any) -> None:
    """Raise a ValueError for what is not among the values that are allowed."""
    for name, value in given.items():
        if not any(value is one or (isinstance(value, str) and value == one) for one in allowed):
            raise ValueError(f"{name}={value!r} must be one of {tuple(allowed)}")


def check_flag(**given: Any) -> None:
    """Raise a ValueError for what is neither True nor False."""
    for name, value in given.items():
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"{name}={value!r} must be True or False")


def _numbers(value: Any) -> np.ndarray:
    """The value as floating-point numbers; NaN where it is none."""
    try:
        return np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        return np.array(np.nan)
