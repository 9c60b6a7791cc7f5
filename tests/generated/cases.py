"""What a generated model is, and the decorator that adds a family of them."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pymc as pm

ROUNDING = 1e-9
"""Accuracy of a log Z in closed form."""


@dataclass(frozen=True)
class Drawn:
    """What a family makes of a random generator.

    Parameters
    ----------
    build
        Makes the model with its data; the same each time.
    dims
        Length of its flat vector.
    log_z
        Its log Z.
    accuracy
        How far that may be off.
    about
        What was drawn, for the record.
    """

    build: Callable[[], pm.Model]
    dims: int
    log_z: float
    accuracy: float = ROUNDING
    about: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Generated(Drawn):
    """A model with known log Z, drawn from a family by a seed."""

    family: str = ""
    seed: int = 0

    @property
    def name(self) -> str:
        """Family and seed."""
        return f"{self.family}-{self.seed}"


Family = Callable[[np.random.Generator], Drawn]
FAMILIES: dict[str, Family] = {}
"""All families by name, in the order of the table."""


def family(draw: Family) -> Family:
    """Decorator for a function that draws a model and its log Z."""
    if draw.__name__ in FAMILIES:
        raise ValueError(f"there are two families {draw.__name__!r}")
    FAMILIES[draw.__name__] = draw
    return draw


def generate(name: str, seed: int) -> Generated:
    """The model of a family that belongs to a seed; the same each time.

    Parameters
    ----------
    name
        Which family.
    seed
        Any whole number from 0.
    """
    key = [seed, *name.encode()]
    drawn = FAMILIES[name](np.random.default_rng(key))
    return Generated(**vars(drawn), family=name, seed=seed)


def one_of(rng: np.random.Generator, *options):
    """One of the options, each as likely, without NumPy's change of type."""
    return options[rng.integers(len(options))]
