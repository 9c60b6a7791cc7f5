"""Rows that climb to a mode by gradients: what is beside where a run went."""

from collections.abc import Callable

import numpy as np

from pymc_logz.runners.block import Block

Density = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""From rows (n, d) to a log density (n,) and its gradients (n, d)."""


def can_climb(block: Block, most: int = 2**8) -> bool:
    """Whether there are gradients, and not too many: each mode takes two for each dimension."""
    return block.follows_whole_gradient and block.path.n_dims <= most


def towards_data(block: Block, start: np.ndarray, *, far: bool = False) -> np.ndarray:
    """Rows (n, d) of the prior that climbed the likelihood alone for some steps."""
    # an explanation that fits the data better than others, and has less of the prior, is where rows
    # that climb to the posterior do not get; far data may be a thousand scales of the prior away

    def likelihood(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = block.evaluated(rows)
        value = found.log_ratio
        return np.where(np.isnan(value), -np.inf, value), found.grad_log_ratio

    unit, n_steps = start.std(axis=0), 20
    if far:
        start = _stride_up(likelihood, start, 0.25 * unit, n_steps)
    return climbed(likelihood, start, unit, n_steps)[0]


def _stride_up(density: Density, start: np.ndarray, stride: np.ndarray, n_steps: int) -> np.ndarray:
    """Rows (n, d), each at the highest of the places that it came to by so many strides uphill."""
    # each entry has a stride of its own, twice as long after each step and half as long where it
    # has to turn round: Riedmiller & Braun (1993), doi 10.1109/ICNN.1993.298623
    (value, slope), rows, stride = density(start), start, np.tile(stride, (len(start), 1))
    best, highest = start.copy(), value.copy()
    for _ in range(n_steps):
        tried = rows + stride * np.sign(np.nan_to_num(slope))
        new_value, new_slope = density(tried)
        there = (np.isfinite(new_value) & np.isfinite(new_slope).all(axis=1))[:, None]
        stride = stride * np.where(there & (np.sign(slope) == np.sign(new_slope)), 2.0, 0.5)
        rows, slope = np.where(there, tried, rows), np.where(there, new_slope, slope)
        risen = there[:, 0] & (new_value > highest)
        best[risen], highest[risen] = tried[risen], new_value[risen]
    return best


@np.errstate(over="ignore", invalid="ignore")  # of steps that are not taken
def climbed(
    density: Density, start: np.ndarray, unit: np.ndarray, n_steps: int = 100, memory: int = 6
) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n, d) that L-BFGS took uphill, and their log density (n,).

    It is -inf for those that are still on their way after ``n_steps``, or after 80 for each row on
    average. Each row has a curvature of its own, from the last ``memory`` of its steps, so that it
    also follows a narrow bent ridge to its top. No entry goes further in a step than a quarter of
    its ``unit``: how far rows of the prior are apart, or the target's own, whichever is larger. A
    row stays after two small gains in a row.
    """

    # Nocedal & Wright (2006), Numerical Optimization, algorithm 7.4
    def at(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, slope = density(rows)
        return value, np.where(np.isfinite(slope), slope, 0.0)

    rows, (n, d) = start.copy(), start.shape
    value, slope = at(rows)
    # steps, falls of the slope along them, and one over their products, zero where there are none
    history = (*np.zeros((2, memory, n, d)), np.zeros((memory, n)))
    length, n_small, (going,) = np.ones(n), np.zeros(n, dtype=int), np.nonzero(np.isfinite(value))
    n_left = 80 * n
    for _ in range(n_steps):
        n_left -= going.size
        if not going.size or n_left < 0:
            break
        known = (part[:, going] for part in history)
        step = unit * length[going, None] * _uphill(unit * slope[going], *known)
        step /= np.maximum(np.max(np.abs(step) / (0.25 * unit), axis=1, keepdims=True), 1.0)
        tried = rows[going] + np.where(np.isfinite(step), step, 0.0)
        new_value, new_slope = at(tried)
        gain = new_value - value[going]
        better = gain > 0
        n_small[going] = np.where(gain > 0.02, 0, n_small[going] + better)
        length[going] = np.where(better, 1.0, 0.25 * length[going])
        risen = going[better]
        moved, fall = step[better] / unit, unit * (slope[risen] - new_slope[better])
        rows[risen], value[risen], slope[risen] = (
            part[better] for part in (tried, new_value, new_slope)
        )
        product = (moved * fall).sum(axis=1)
        curved = product > 1e-10 * (fall**2).sum(axis=1)
        bent, latest = risen[curved], (moved[curved], fall[curved], 1 / product[curved])
        for part, new in zip(history, latest, strict=True):
            part[1:, bent], part[0, bent] = part[:-1, bent], new
        going = going[(n_small[going] < 2) & (length[going] > 1e-8)]
    value[going] = -np.inf
    return rows, value


def tops(density: Density, start: np.ndarray, unit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where rows arrived that climbed, shape (m, d), and log densities (m,), none of rounding."""
    ends, height = climbed(density, start, unit)
    arrived = np.isfinite(height)
    ends, height = ends[arrived], height[arrived]
    kept = ~are_rounding(lambda beside: density(beside)[0], ends, height)
    return ends[kept], height[kept]


def are_rounding(
    log_density: Callable[[np.ndarray], np.ndarray], rows: np.ndarray, value: np.ndarray
) -> np.ndarray:
    """Whether log densities (n,) of rows (n, d) are what large terms leave that cancel."""
    # as of a beta-binomial whose concentration is 1e16: other last digits of a row change it a lot
    if not len(rows):
        return np.zeros(0, dtype=bool)
    return ~(np.abs(log_density(rows * (1 + 1e-14)) - value) < 1.0)


def _uphill(
    slope: np.ndarray, steps: np.ndarray, falls: np.ndarray, inverse: np.ndarray
) -> np.ndarray:
    """Steps from slopes (n, d) by two loops over what is remembered, the newest first."""
    way, parts = slope.copy(), []
    for step, fall, one in zip(steps, falls, inverse, strict=True):
        parts.append(one * (step * way).sum(axis=1))
        way -= parts[-1][:, None] * fall
    square = inverse[0] * (falls[0] ** 2).sum(axis=1)
    # what a first step is for a normal whose scale is too large by the square root of two
    way *= np.divide(1.0, square, out=np.full_like(square, 0.5), where=square > 0)[:, None]
    for step, fall, one, part in reversed(list(zip(steps, falls, inverse, parts, strict=True))):
        way += (part - one * (fall * way).sum(axis=1))[:, None] * step
    is_uphill = (way * slope).sum(axis=1) > 0
    return np.where(is_uphill[:, None], way, 0.5 * slope)
