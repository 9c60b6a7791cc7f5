"""What the search keeps of a model, and the decorator that puts it there."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pymc as pm

Build = Callable[[], pm.Model]
Draws = Callable[[np.random.Generator, int], dict[str, np.ndarray]]


@dataclass(frozen=True)
class Case:
    """A model whose log Z is known.

    Parameters
    ----------
    name
        Name of the function that builds it.
    kind
        File that it is in.
    build
        Makes the model with its data; the same each time.
    exact
        Computes its log Z: infinite where Z is, NaN where there is none (an improper prior, a
        density that is not normalised), so that any number with a clean status is wrong.
    draws
        Exact draws of the posterior, n of each free variable.
    nuts
        Whether a short ``pm.sample`` samples it, or fails in a way that the search should see.
    tempered
        Whether it is of the subset that the dearer routes take: tempering, `evidence`.
    needle
        Why nothing can find all of the mass; such a case is known to be wrong, and tells if not.
    """

    name: str
    kind: str
    build: Build
    exact: Callable[[], float]
    draws: Draws | None = None
    nuts: bool = False
    tempered: bool = False
    needle: str = ""


CASES: dict[str, Case] = {}
"""All cases by name, in the order of the table."""


def case(
    exact: Callable[[], float],
    *,
    draws: Draws | None = None,
    nuts: bool = False,
    tempered: bool = False,
    needle: str = "",
) -> Callable[[Build], Build]:
    """Decorator for a function that builds a model of the search."""

    def register(build: Build) -> Build:
        name = build.__name__
        if name in CASES:
            raise ValueError(f"there are two cases {name!r}")
        kind = build.__module__.rsplit(".", 1)[-1].removeprefix("models_").replace("_", " ")
        CASES[name] = Case(name, kind, build, exact, draws, nuts, tempered, needle)
        return build

    return register
