"""Rows that climb to a mode by gradients: what is beside where a run went."""

import numpy as np

from pymc_logz.runners.block import Block

N_STEPS = 40
LONGEST = 0.25
"""Longest step in any entry, in standard deviations of where rows start."""
FIRST, LONGER, SHORTER = 0.5, 2.0, 0.25
"""First length of a step, in units of what would reach the mode of a normal of the given scale, and
factors after one that went up and one that did not."""
SMALL, PATIENCE, SHORTEST = 0.02, 4, 1e-8
"""Nats that a step has to gain, steps in a row that gain less after which a row stays, and length
of a step that does not go up."""


def climbed(block: Block, start: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n, d) after steps uphill, each of a length of its own, and their log target (n,).

    Parameters
    ----------
    block
        On a path whose target is climbed.
    start
        Shape (n, d).
    scale
        Standard deviations of the target as far as it is known, shape (d,).
    """
    rows, length = start.copy(), np.full(len(start), FIRST)
    farthest = LONGEST * np.maximum(start.std(axis=0), scale)
    value, slope = _at(block, rows)
    n_small, (going,) = np.zeros(len(start), dtype=int), np.nonzero(np.isfinite(value))
    for _ in range(N_STEPS):
        if not going.size:
            break
        step = length[going, None] * slope[going] * scale**2
        step /= np.maximum(np.max(np.abs(step) / farthest, axis=1, keepdims=True), 1.0)
        tried = rows[going] + np.where(np.isfinite(step), step, 0.0)
        new_value, new_slope = _at(block, tried)
        gain = new_value - value[going]
        better = gain > 0
        n_small[going] = np.where(gain > SMALL, 0, n_small[going] + better)
        risen = going[better]
        rows[risen], value[risen], slope[risen] = (
            part[better] for part in (tried, new_value, new_slope)
        )
        length[going] *= np.where(better, LONGER, SHORTER)
        going = going[(n_small[going] < PATIENCE) & (length[going] > SHORTEST)]
    return rows, value


def _at(block: Block, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log target, and gradients with zeros for what is not finite."""
    value, slope = block.target_and_gradient(rows)
    return value, np.where(np.isfinite(slope), slope, 0.0)
