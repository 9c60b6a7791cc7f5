"""Checks of arguments: each names the argument, what was given, and what is allowed.

Arguments are passed by name, ``check_positive(step_size=step_size)``. None stands for a default
that is chosen later, and is let through by those checks that say so.
"""

import math
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from inspect import signature
from typing import Any

import numpy as np


def settings_among(given: Mapping[str, Any], kind: Callable[..., Any]) -> dict[str, Any]:
    """Those of the arguments of a call that settings of this kind, or a function, take too."""
    return {name: given[name] for name in signature(kind).parameters if name in given}


def is_integer(value: Any) -> bool:
    """Whether a value is an integer; truth values are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_integer(least: int, most: int | None = None, **given: Any) -> None:
    """Raise a ValueError for what is not an integer in this range."""
    for name, value in given.items():
        if not is_integer(value) or value < least or (most is not None and value > most):
            allowed = f"of at least {least}" if most is None else f"from {least} to {most}"
            is_float = isinstance(value, float) and value.is_integer()
            hint = f"; write {value:.0f}" if is_float and value >= least else ""
            raise ValueError(f"{name}={value!r} must be an integer {allowed}{hint}")


def check_positive(unit: str | None = None, *, one: bool = False, **given: Any) -> None:
    """Raise a ValueError for what is not None or positive, finite numbers; ``one`` if so."""
    for name, value in given.items():
        if value is None:
            continue
        numbers = numbers_of(value)
        if one and numbers.ndim:
            raise ValueError(f"{name}={value!r} must be one positive number, not several")
        if not np.all(np.isfinite(numbers) & (numbers > 0)):
            hint = "" if unit is None else f", in {unit}"
            raise ValueError(f"{name}={value!r} must be positive and finite{hint}")


def check_fraction(meaning: str, **given: Any) -> None:
    """Raise a ValueError for what is neither None nor a number from 0 to 1; say what it means."""
    for name, value in given.items():
        if value is not None and not np.all((numbers_of(value) >= 0) & (numbers_of(value) <= 1)):
            raise ValueError(f"{name}={value!r} must lie in [0, 1]: {meaning}")


def check_probability(**given: Any) -> None:
    """Raise a ValueError for what is not a number strictly between 0 and 1."""
    for name, value in given.items():
        if np.ndim(value) or not 0 < float(numbers_of(value)) < 1:
            raise ValueError(f"{name}={value!r} must lie strictly between 0 and 1")


def check_below_one(**given: Any) -> None:
    """Raise a ValueError for what is not a number of at least 0 and below 1."""
    for name, value in given.items():
        if np.ndim(value) or not 0 <= float(numbers_of(value)) < 1:
            raise ValueError(f"{name}={value!r} must lie in [0, 1)")


def check_choice(allowed: Collection[Any], others: str = "", **given: Any) -> None:
    """Raise a ValueError for what is not among the values that are allowed; ``others`` may be."""
    for name, value in given.items():
        if not any(value is one or (isinstance(value, str) and value == one) for one in allowed):
            raise ValueError(f"{name}={value!r} must be one of {tuple(allowed)}{others}")


def check_flag(**given: Any) -> None:
    """Raise a ValueError for what is neither True nor False."""
    for name, value in given.items():
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"{name}={value!r} must be True or False")


def check_log_weight(**given: np.ndarray) -> None:
    """Raise a ValueError for log weights of fewer than two rows, or with NaN among them."""
    for name, values in given.items():
        if values.size < 2:
            raise ValueError(f"{name} has {values.size} entries; an error needs at least 2")
        bad = np.count_nonzero(np.isnan(values))
        if bad:
            raise ValueError(
                f"{name} has no number for each row: {bad} of {values.size} entries of {name} are "
                f"NaN; a row outside the support has weight zero, {name}=-inf"
            )


def check_log_density(*, may_be_zero: bool, **given: np.ndarray) -> None:
    """Raise a ValueError for log densities with NaN or infinities, but for -inf if that may be."""
    wanted = "finite numbers, or -inf for a density of zero" if may_be_zero else "finite"
    for name, values in given.items():
        allowed = np.isfinite(values) | (np.isneginf(values) if may_be_zero else False)
        bad = np.count_nonzero(~allowed)
        if bad:
            raise ValueError(
                f"{bad} of {values.size} entries of {name} are NaN or infinite; they must be "
                f"{wanted}"
            )


def as_bytes(max_memory: Any) -> int | None:
    """A bound on memory as a number of bytes, from such a number or from text like ``"2 GB"``."""
    if max_memory is None:
        return None
    units = {"KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
    text = str(max_memory).strip().upper()
    unit = next((unit for unit in units if text.endswith(unit)), "")
    try:
        value = float(text.removesuffix(unit)) * units.get(unit, 1)
    except ValueError:
        value = np.nan
    if isinstance(max_memory, bool) or not (np.isfinite(value) and value >= 1):
        raise ValueError(
            f"max_memory={max_memory!r} must be a positive number of bytes, or text such as '2 GB'"
        )
    return int(value)


def check_room(n_bytes: int, **given: int) -> None:
    """Raise a ValueError for numbers whose product this machine has no memory for, each so large.

    That is known of systems with POSIX's ``sysconf``.
    """
    if not hasattr(os, "sysconf"):
        return
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if (needed := n_bytes * math.prod(given.values())) > there:
        numbers = ", ".join(f"{name}={value}" for name, value in given.items())
        raise ValueError(
            f"{numbers} need at least {needed / 2**30:,.0f} GB of memory, and this machine has "
            f"{there / 2**30:,.0f} GB: use smaller numbers"
        )


def check_betas(betas: Any, remedy: str = "") -> np.ndarray:
    """The ladder as an array that rises strictly from 0 to 1; ``remedy`` says what else may be."""
    given, betas = betas, numbers_of(betas)
    if betas.ndim != 1 or betas.size < 2:
        raise ValueError(
            f"betas={given!r:.100} has shape {betas.shape}; give a one-dimensional array of at "
            f"least 2 inverse temperatures{remedy}"
        )
    if not np.all(np.isfinite(betas)):
        where = int(np.argmin(np.isfinite(betas)))
        raise ValueError(f"betas[{where}]={betas[where]}, but all of betas must be finite")
    if betas[0] != 0 or betas[-1] != 1:
        raise ValueError(
            f"betas runs from {betas[0]} to {betas[-1]}; it must go from 0 to 1: start at "
            "exactly 0 (the reference) and end at exactly 1 (the target)"
        )
    if np.any(np.diff(betas) <= 0):
        where = int(np.argmax(np.diff(betas) <= 0))
        raise ValueError(
            f"betas must increase strictly, but betas[{where + 1}]={betas[where + 1]} follows "
            f"betas[{where}]={betas[where]}; sort it and remove repeats"
        )
    return betas


def listed(names: Any) -> list[Any]:
    """Names that a user gave, one or several; what is no name is left to be refused."""
    several = isinstance(names, Iterable) and not isinstance(names, str)
    return list(names) if several else [names]


def numbers_of(value: Any) -> np.ndarray:
    """The value as floating-point numbers; NaN where it is none, as text is."""
    try:
        is_text = np.asarray(value).dtype.kind in "SU"
        return np.array(np.nan) if is_text else np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        return np.array(np.nan)
