"""Models drawn at random, family by family, whose log Z is known."""

from generated import (
    conjugates,
    hierarchies,
    mixtures,
    potentials,
    regressions,
    tails,
)
from generated.cases import FAMILIES, Generated, generate

__all__ = [
    "FAMILIES",
    "Generated",
    "conjugates",
    "generate",
    "hierarchies",
    "mixtures",
    "potentials",
    "regressions",
    "tails",
]
