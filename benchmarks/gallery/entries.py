"""What the gallery keeps of a model, and the decorator that puts it there."""

from collections.abc import Callable
from dataclasses import dataclass

import pymc as pm

Build = Callable[[], pm.Model]


@dataclass(frozen=True)
class Entry:
    """A model of the gallery.

    Parameters
    ----------
    name
        Name of the function that builds it.
    build
        Makes the model with its data; the same each time.
    exact
        Computes its log Z by quadrature or in closed form; None where nobody can.
    """

    name: str
    build: Build
    exact: Callable[[], float] | None = None

    @property
    def about(self) -> str:
        """One line on the model."""
        return (self.build.__doc__ or "").strip().splitlines()[0]


MODELS: dict[str, Entry] = {}
"""The gallery by name, in the order of a table."""


def ordinary(exact: Callable[[], float] | None = None) -> Callable[[Build], Build]:
    """Decorator for a function that builds a model of the gallery."""

    def register(build: Build) -> Build:
        MODELS[build.__name__] = Entry(build.__name__, build, exact)
        return build

    return register
