"""Draws of a posterior on a level set, brought back to it where a file has lost digits."""

import numpy as np

from pymc_logz.manifold.model import ConstrainedModel

MAX_CORRECTION = 1e-3
"""Units of the scales by which a draw may be moved: single precision, not another model."""


def on_level_set(constrained: ConstrainedModel, position: np.ndarray) -> np.ndarray:
    """Draws (chains, draws, d) brought to the level set's tolerance, which files may have lost.

    Raises
    ------
    ValueError
        If a draw is not on the level set.
    """
    rows = position.reshape(-1, position.shape[-1])
    polished = rows.copy()
    for i, row in enumerate(rows):
        residual = constrained.residual_at(row)
        if residual > 1.0:
            polished[i], residual = constrained.polish(row)
        if not (residual <= 1.0 and np.abs(polished[i] - row).max() <= MAX_CORRECTION):
            raise ValueError(
                f"draw {i} of the posterior does not meet the exact observations: it is of another "
                "model, of other data, or of a relaxed model (lz.relax), which has an evidence of "
                "its own"
            )
    return polished.reshape(position.shape)
