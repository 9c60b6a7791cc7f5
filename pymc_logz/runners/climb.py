"""Rows that climb to a mode by gradients: what is beside where a run went."""

import numpy as np

from pymc_logz.runners.block import Block


def climbed(block: Block, start: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n, d) after steps uphill, each of a length of its own, and their log target (n,).

    ``scale`` are standard deviations of the target as far as they are known, and no entry goes
    further in a step than a quarter of those of where rows start. A row stays after four small
    gains in a row.
    """
    # lengths are in units of what would lead to the mode of a normal
    rows, length = start.copy(), np.full(len(start), 0.5)
    farthest = 0.25 * np.maximum(start.std(axis=0), scale)
    value, slope = _at(block, rows)
    n_small, (going,) = np.zeros(len(start), dtype=int), np.nonzero(np.isfinite(value))
    for _ in range(40):
        if not going.size:
            break
        step = length[going, None] * slope[going] * scale**2
        step /= np.maximum(np.max(np.abs(step) / farthest, axis=1, keepdims=True), 1.0)
        tried = rows[going] + np.where(np.isfinite(step), step, 0.0)
        new_value, new_slope = _at(block, tried)
        gain = new_value - value[going]
        better = gain > 0
        n_small[going] = np.where(gain > 0.02, 0, n_small[going] + better)
        risen = going[better]
        rows[risen], value[risen], slope[risen] = (
            part[better] for part in (tried, new_value, new_slope)
        )
        length[going] *= np.where(better, 2.0, 0.25)
        going = going[(n_small[going] < 4) & (length[going] > 1e-8)]
    return rows, value


def _at(block: Block, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log target, and gradients with zeros for what is not finite."""
    value, slope = block.target_and_gradient(rows)
    return value, np.where(np.isfinite(slope), slope, 0.0)
