"""Models drawn at random, family by family, whose log Z is known."""

from generated import (
    chains,
    conjugates,
    curves,
    effects,
    hierarchies,
    labels,
    latents,
    mixtures,
    potentials,
    regressions,
    shapes,
    switches,
    tails,
)
from generated.cases import FAMILIES, Generated, generate

__all__ = [
    "FAMILIES",
    "Generated",
    "chains",
    "conjugates",
    "curves",
    "effects",
    "generate",
    "hierarchies",
    "labels",
    "latents",
    "mixtures",
    "potentials",
    "regressions",
    "shapes",
    "switches",
    "tails",
]
