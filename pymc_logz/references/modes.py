"""Modes of a posterior: where rows of the prior climb to by gradients, and how wide they are there.

A resampled population loses a mode whose share is small on the way, however large it is in the end.
Rows that climb are never resampled: whichever basin holds a row of the prior is found.
"""

from contextlib import suppress
from typing import NamedTuple

import numpy as np

from pymc_logz.paths.elliptical import Elliptical
from pymc_logz.references.blend import N_STARTS
from pymc_logz.runners.block import Block
from pymc_logz.weights import NEGLIGIBLE

MAX_DIMS = 64
"""Dimensions up to which curvatures are dense matrices."""


class Mode(NamedTuple):
    """A maximum of the target, and how wide it is."""

    component: Elliptical
    """Student-t with the curvature there."""
    precision: np.ndarray
    """Minus the second derivatives there, made positive, shape (d, d)."""

    @property
    def row(self) -> np.ndarray:
        """Where it is, shape (d,)."""
        return self.component.centre


def modes_of(
    block: Block, rows: np.ndarray, height: np.ndarray, scale: np.ndarray, most: int = 64
) -> list[Mode]:
    """Modes that rows (n, d) are near, or on the way to, each once.

    They climbed to these heights (n,); ``scale`` are standard deviations of the target as far as
    they are known, shape (d,). A few are followed to their modes, then others that are left, until
    there are ``most`` modes or more.
    """
    found = list[Mode]()
    left = np.arange(len(rows))
    while left.size and len(found) < most:
        new, left = _next_modes(block, rows, height, left, scale, found)
        for mode in new:
            left = left[~_joined(block, mode.component, rows[left], height[left])]
    # no barrier lies between a narrow mode and the foot of one that is far wider
    left = np.arange(len(rows))[~_explained(found, block, rows, height)]
    while left.size and len(found) < most:
        new, left = _next_modes(block, rows, height, left, scale, found)
        if not new:
            break
        left = left[~_explained(new, block, rows[left], height[left])]
    return found


def _next_modes(
    block: Block,
    rows: np.ndarray,
    height: np.ndarray,
    left: np.ndarray,
    scale: np.ndarray,
    found: list[Mode],
) -> tuple[list[Mode], np.ndarray]:
    """Modes that a few of the rows ``left`` lead to, added to those found, and what is left."""
    chosen = left[furthest(rows[left], height[left], scale=scale)]
    new = list[Mode]()
    for mode in followed(block, rows[chosen], scale):
        if not any(_same(mode, one) for one in found + new):
            new.append(mode)
    found += new
    return new, np.setdiff1d(left, chosen)


def _explained(modes: list[Mode], block: Block, rows: np.ndarray, height: np.ndarray) -> np.ndarray:
    """Which rows (n, d) are no higher than a component with a mode's height, to within a nat."""
    explained = np.zeros(len(rows), dtype=bool)
    if not modes:
        return explained
    tops = block.log_target(np.array([mode.row for mode in modes]))
    for (component, _), top in zip(modes, tops, strict=True):
        fall = component.log_density_of(rows) - component.log_constant
        explained |= height < top + fall + 1.0
    return explained


def furthest(
    rows: np.ndarray, height: np.ndarray, n: int = N_STARTS, scale: np.ndarray | None = None
) -> list[int]:
    """A few of some rows (k, d): the highest, and those that are furthest from the ones before.

    In units of a scale (d,), of their standard deviations without one.
    """
    chosen, nearest = list[int](), np.full(len(rows), np.inf)
    while len(chosen) < min(n, len(rows)):
        chosen.append(int(np.argmax(nearest if chosen else height)))
        unit = np.maximum(rows.std(axis=0), 1e-300) if scale is None else scale
        apart = np.linalg.norm((rows - rows[chosen[-1]]) / unit, axis=1)
        nearest = np.minimum(nearest, apart)
        nearest[chosen] = -np.inf
    return chosen


def _same(one: Mode, other: Mode) -> bool:
    """Whether each is within the other."""
    d = len(one.component.centre)
    pairs = ((one.component, other.component), (other.component, one.component))
    return all(a.square_distance(b.centre[None])[0] < 0.1 * d for a, b in pairs)


def followed(block: Block, rows: np.ndarray, scale: np.ndarray) -> list[Mode]:
    """Modes that Newton's method finds from rows (k, d), the highest first.

    It has ended where a step promises a negligible number of nats.
    """
    lengths = 0.5 ** np.arange(6)
    rows, d = rows.copy(), rows.shape[1]
    going = np.arange(len(rows))
    value, precision = np.full(len(rows), -np.inf), np.tile(np.eye(d), (len(rows), 1, 1))
    for _ in range(12):
        if not going.size:
            break
        value[going], slope, precision[going] = _curvature(block, rows[going], scale)
        alive = np.isfinite(value[going])
        step = np.zeros_like(slope)
        step[alive] = np.linalg.solve(precision[going[alive]], slope[alive][..., None])[..., 0]
        promising = (slope * step).sum(axis=1) > NEGLIGIBLE
        going, step = going[promising], step[promising]
        if not going.size:
            break
        tried = rows[going, None] + lengths[:, None] * step[:, None]
        heights = block.log_target(tried.reshape(-1, d)).reshape(going.size, -1)
        best = np.argmax(heights, axis=1)
        each = np.arange(going.size)
        better = heights[each, best] > value[going]
        rows[going[better]] = tried[each, best][better]
        going = going[better]
    modes = list[Mode]()
    for k in np.argsort(-value):
        # curvatures may be too far apart for a matrix of floats
        with suppress(np.linalg.LinAlgError):
            if np.isfinite(value[k]):
                factor = np.linalg.cholesky(np.linalg.inv(precision[k]))
                modes.append(Mode(Elliptical(rows[k], factor).with_heavy_tails(), precision[k]))
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


def _curvature(
    block: Block, rows: np.ndarray, scale: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log targets of rows (k, d), gradients, and minus the second derivatives, made positive.

    The first are -inf where the others are not finite.
    """
    values, slopes, second = second_derivatives(block, rows, scale)
    whole = np.isfinite(second).all(axis=(1, 2)) & np.isfinite(values)
    second = np.where(whole[:, None, None], second, 0.0)
    unit = _equilibrated(second, scale)
    curvature, axes = np.linalg.eigh(-second * unit[:, None] * unit[:, :, None])
    curvature = np.abs(curvature)
    least = np.maximum(1e-8 * curvature.max(axis=1, keepdims=True), 1e-12)
    axes = axes / unit[:, :, None]
    precision = (axes * np.maximum(curvature, least)[:, None]) @ axes.transpose(0, 2, 1)
    return np.where(whole, values, -np.inf), np.where(whole[:, None], slopes, 0.0), precision


def _equilibrated(second: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Units (k, d) in which the largest number in each row of k matrices (d, d) is about one.

    A mode may be far narrower or wider than the target is elsewhere; no unit is a million scales.
    """
    # Ruiz (2001), A scaling algorithm to equilibrate both rows and columns norms in matrices
    unit = np.tile(scale, (len(second), 1))
    for _ in range(4):
        size = np.abs(second * unit[:, None] * unit[:, :, None]).max(axis=2)
        unit = np.minimum(unit / np.sqrt(np.maximum(size, 1e-12)), 1e6 * scale)
    return unit


def second_derivatives(
    block: Block, rows: np.ndarray, scale: np.ndarray, relative_step: float = 1e-4
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log targets of rows (k, d), gradients (k, d), and second derivatives (k, d, d).

    The last are differences of gradients, at steps in units of a scale (d,).
    """
    k, d = rows.shape
    step = relative_step * scale
    moves = np.concatenate([np.zeros((1, d)), np.diag(step), -np.diag(step)])
    values, slopes = block.target_and_gradient((rows[:, None] + moves).reshape(-1, d))
    values, slopes = values.reshape(k, -1), slopes.reshape(k, -1, d)
    with np.errstate(invalid="ignore"):
        second = (slopes[:, 1 : d + 1] - slopes[:, d + 1 :]) / (2 * step[:, None])
    return values[:, 0], slopes[:, 0], 0.5 * (second + second.transpose(0, 2, 1))
