"""Integrals over boxes of one to three variables, with an accuracy that is measured."""

from collections.abc import Callable

import numpy as np
from adversary.integrals import Rule, interval, log_integral

LogDensity = Callable[..., np.ndarray]
Bounds = tuple[float, float]
NODES = {1: 4_000, 2: 480, 3: 144}
"""Nodes of each variable, by how many there are."""
PIECE = 8
"""Nodes of one piece of a rule."""
NEGLIGIBLE = 30.0
"""Nats below the top at which the integrand no longer counts."""


def box_log_integral(
    log_f: LogDensity, *bounds: Bounds, nodes: int | None = None
) -> tuple[float, float]:
    """Log of the integral of ``exp(log_f(x, ...))``, and how far fewer nodes are from it.

    Parameters
    ----------
    log_f
        Vectorised function of one array for each variable; smooth inside the box.
    bounds
        Ends of each variable.
    nodes
        Of each variable; None for `NODES`.
    """
    n = nodes or NODES[len(bounds)]
    box = list(bounds)
    for _ in range(3):
        axes, profiles = profiled(log_f, box, n)
        box = [
            shrunk(*both, ends)
            for both, ends in zip(zip(axes, profiles, strict=True), box, strict=True)
        ]
    axes, profiles = profiled(log_f, box, n)
    coarse, fine = (
        log_integral(log_f, *(graded(*one, m) for one in zip(axes, profiles, box, strict=True)))
        for m in (3 * n // 4, n)
    )
    return fine, abs(fine - coarse)


def profiled(
    log_f: LogDensity, box: list[Bounds], n: int
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Even grids, and on each axis the largest value over all others, the top being 0."""
    axes = [np.linspace(a, b, n + 2)[1:-1] for a, b in box]
    with np.errstate(all="ignore"):
        values = np.nan_to_num(log_f(*np.meshgrid(*axes, indexing="ij", sparse=True)), nan=-np.inf)
    values = values - values.max()
    every = range(len(axes))
    return axes, [values.max(axis=tuple(j for j in every if j != i)) for i in every]


def shrunk(axis: np.ndarray, profile: np.ndarray, ends: Bounds) -> Bounds:
    """The smallest interval of whole cells around all that counts."""
    inside = np.flatnonzero(profile > -NEGLIGIBLE)
    step = axis[1] - axis[0]
    a, b = axis[inside[0]] - step, axis[inside[-1]] + step
    return float(max(ends[0], a)), float(min(ends[1], b))


def graded(axis: np.ndarray, profile: np.ndarray, ends: Bounds, n: int) -> Rule:
    """Gauss-Legendre with about n nodes: half of the pieces where the mass is, half anywhere."""
    # wider than the mass itself, so that its shoulders are within it
    mass = np.exp(profile / 4)
    share = 0.5 * np.cumsum(mass) / mass.sum() + 0.5 * np.arange(1, axis.size + 1) / axis.size
    inner = np.interp(np.linspace(0, 1, max(n // PIECE, 1) + 1)[1:-1], share, axis)
    return interval(ends[0], *inner, ends[1], n=PIECE)


def pieces(low: float, high: float, n: int) -> Rule:
    """Gauss-Legendre with about n nodes on equal pieces of an interval."""
    return interval(*np.linspace(low, high, max(n // PIECE, 1) + 1), n=PIECE)
