"""Modes of a posterior: where rows of the prior climb to by gradients, and how wide they are there.

A resampled population loses a mode whose share is small on the way, however large it is in the end.
Rows that climb are never resampled: whichever basin holds a row of the prior is found.
"""

from contextlib import suppress
from typing import NamedTuple

import numpy as np

from pymc_logz.paths.elliptical import Elliptical
from pymc_logz.references.blend import N_STARTS
from pymc_logz.references.conditional_modes import Conditionals
from pymc_logz.references.matrices import Whole
from pymc_logz.runners.block import Block

MAX_DIMS = 64
"""Dimensions up to which curvatures are dense matrices."""


def has_dense_curvature(block: Block) -> bool:
    """Whether curvatures of all entries are taken, as dense matrices, from gradients."""
    return (
        block.follows_whole_gradient and not block.path.sites and 1 < block.path.n_dims <= MAX_DIMS
    )


class Mode(NamedTuple):
    """A maximum of the target, and how wide it is."""

    component: Elliptical
    """Student-t with the curvature there."""
    precision: np.ndarray
    """Minus the second derivatives there, made positive, shape (d, d)."""


def modes_of(
    block: Block, rows: np.ndarray, height: np.ndarray, scale: np.ndarray, most: int = 64
) -> list[Mode]:
    """Modes that rows (n, d) are near, or on the way to, each once.

    They climbed to these heights (n,); ``scale`` are standard deviations of the target as far as
    they are known, shape (d,). A few are followed to their modes, then twice as many of those that
    are left as have been, until there are ``most`` modes or more.
    """
    found, ahead = list[Mode](), np.ones(len(rows), dtype=bool)

    def followed_from(left: np.ndarray) -> tuple[list[Mode], np.ndarray]:
        """New modes that some of these rows lead to, and the rows that are left."""
        n, n_more = len(found), np.clip(2 * np.sum(~ahead), N_STARTS, most)
        chosen = left[furthest(rows[left], height[left], scale, n_more)]
        ahead[chosen] = False
        for mode in followed(block, rows[chosen], scale):
            if not any(_same(mode, one) for one in found):
                found.append(mode)
        return found[n:], left[ahead[left]]

    left = np.arange(len(rows))
    while left.size and len(found) < most:
        new, left = followed_from(left)
        for mode in new:
            left = left[~_joined(block, mode.component, rows[left], height[left])]
    # no barrier lies between a narrow mode and the foot of one that is far wider
    left = np.flatnonzero(ahead & ~_explained(found, block, rows, height))
    while left.size and len(found) < most:
        new, left = followed_from(left)
        if not new:
            break
        left = left[~_explained(new, block, rows[left], height[left])]
    return found


def _explained(modes: list[Mode], block: Block, rows: np.ndarray, height: np.ndarray) -> np.ndarray:
    """Which rows (n, d) are no higher than a component with a mode's height, to within a nat."""
    explained = np.zeros(len(rows), dtype=bool)
    if not modes:
        return explained
    tops = block.log_target(np.array([component.centre for component, _ in modes]))
    for (component, _), top in zip(modes, tops, strict=True):
        fall = component.log_density_of(rows) - component.log_constant
        explained |= height < top + fall + 1.0
    return explained


def furthest(rows: np.ndarray, height: np.ndarray, scale: np.ndarray, n: int) -> list[int]:
    """At most n of rows (k, d): the highest, and those furthest from them, in units of a scale."""
    chosen, nearest = list[int](), np.full(len(rows), np.inf)
    while len(chosen) < min(n, len(rows)):
        chosen.append(int(np.argmax(nearest if chosen else height)))
        apart = np.linalg.norm((rows - rows[chosen[-1]]) / scale, axis=1)
        nearest = np.minimum(nearest, apart)
        nearest[chosen] = -np.inf
    return chosen


def _same(one: Mode, other: Mode) -> bool:
    """Whether each is within the other."""
    d = len(one.component.centre)
    pairs = ((one.component, other.component), (other.component, one.component))
    return all(a.square_distance(b.centre[None])[0] < 0.1 * d for a, b in pairs)


def followed(block: Block, rows: np.ndarray, scale: np.ndarray) -> list[Mode]:
    """Modes that Newton's method finds from rows (k, d), the highest first."""
    k, d = rows.shape
    parts = Conditionals(block, np.arange(d), np.arange(0), Whole(d))
    found = parts.modes(np.empty((k, 0)), rows, scale)
    height, modes = block.log_target(found.inner), list[Mode]()
    for i in np.argsort(-height):
        # curvatures may be too far apart for a matrix of floats
        with suppress(np.linalg.LinAlgError):
            if np.isfinite(found.log_marginal[i]):
                factor = np.linalg.cholesky(np.linalg.inv(found.precision[i]))
                component = Elliptical(found.inner[i], factor).with_heavy_tails()
                modes.append(Mode(component, found.precision[i]))
    return modes


def _joined(block: Block, mode: Elliptical, rows: np.ndarray, height: np.ndarray) -> np.ndarray:
    """Which rows (n, d) of these log targets belong to a mode: no barrier of a nat lies between."""
    d = rows.shape[1]
    joined = mode.square_distance(rows) < d + 4 * np.sqrt(2 * d)
    (apart,) = np.nonzero(~joined)
    if apart.size:
        part = np.arange(1, 13)[:, None] / 13
        points = rows[apart, None] + part * (mode.centre - rows[apart, None])
        value = block.log_target(points.reshape(-1, d)).reshape(apart.size, 12)
        joined[apart] = value.min(axis=1) > height[apart] - 1.0
    return joined
