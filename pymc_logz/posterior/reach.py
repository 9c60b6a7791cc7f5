"""What a proposal does not reach: posterior draws that move on to where it has no density."""

import numpy as np
import xarray as xr

from pymc_logz.models.density import RowDensity
from pymc_logz.models.flat import constrain
from pymc_logz.models.other_modes import moved_on
from pymc_logz.models.proposals import Proposed, as_draws
from pymc_logz.trees.doubts import Doubt
from pymc_logz.weights import resampled

N_ROWS, N_MOVES = 512, 16
"""Rows that move on, as many as one call evaluates, and how often."""
NOISE = 4.0
"""Standard deviations by which more rows than expected have to be beyond the draws."""
ERRORS = 2.0
"""Errors of log Z that their share has to be, to matter."""


def reach_doubts(
    density: RowDensity,
    rows: np.ndarray,
    log_weight: np.ndarray,
    proposed: Proposed,
    mcse: float,
    rng: np.random.Generator,
) -> list[Doubt]:
    """Whether posterior draws, moved on, leave where a proposal has density, or draws.

    Moves leave the posterior as it is, whatever the proposal is. Where the density of the proposal
    is not known, rows are beyond it that exceed all its draws in one of the d dimensions; of n
    independent draws of one law another one does so with a probability of at most 2 d / (n + 1).

    Parameters
    ----------
    density
        Of the model.
    rows, log_weight
        Draws of the proposal that are within the support, shape (n, d), and their log weights.
    proposed
        The proposal.
    mcse
        Error of log Z.
    rng
        Generator of the moves.
    """
    start = rows[resampled(log_weight, rng, N_ROWS)]
    moved = moved_on(density, start, N_MOVES, rng)
    if proposed.log_density_of is None:
        beyond = ((moved < rows.min(axis=0)) | (moved > rows.max(axis=0))).any(axis=1)
        expected = 2.0 * N_ROWS * rows.shape[1] / (len(rows) + 1)
        where = "where no draw of the proposal is"
    else:
        beyond = np.isneginf(proposed.log_density_of(_natural(density, moved)))
        expected, where = 0.0, "where the proposal has no density"
    n_beyond = int(beyond.sum())
    share = (n_beyond - expected) / N_ROWS
    if n_beyond <= expected + NOISE * np.sqrt(expected) or share <= ERRORS * mcse:
        return []
    reason = f"of {N_ROWS} posterior draws that moved on {n_beyond} ended {where}"
    return [Doubt("uncovered", reason)]


def _natural(density: RowDensity, rows: np.ndarray) -> xr.Dataset:
    """Rows (n, d) as draws on the natural scale."""
    values = constrain(density.flat, rows)
    return as_draws({rv.name: values[rv.name] for rv in density.flat.model.free_RVs})
