"""What a proposal does not reach: posterior draws that move on to where it has no density."""

import numpy as np
import xarray as xr

from pymc_logz.models.density import ROWS_PER_CALL, RowDensity
from pymc_logz.models.flat import constrain
from pymc_logz.models.other_modes import moved_on
from pymc_logz.models.proposals import Proposed, as_draws
from pymc_logz.trees.doubts import Doubt
from pymc_logz.weights import resampled


def reach_doubts(
    density: RowDensity,
    rows: np.ndarray,
    log_weight: np.ndarray,
    proposed: Proposed,
    mcse: float,
    rng: np.random.Generator,
    *,
    n_moves: int = 16,
    noise: float = 4.0,
    errors: float = 2.0,
) -> list[Doubt]:
    """Whether posterior draws, moved on, leave where a proposal has density, or draws.

    Moves leave the posterior as it is, whatever the proposal is. Where the density of the proposal
    is not known, rows are beyond it that exceed all its draws in one of the d dimensions; of n
    independent draws of one distribution another one does so with a probability of at most
    2 d / (n + 1).

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
    n_moves
        Of each row.
    noise
        Standard deviations by which more rows than expected have to be beyond the draws.
    errors
        Errors of log Z that their fraction has to be, to matter.
    """
    n_rows = ROWS_PER_CALL
    start = rows[resampled(log_weight, rng, n_rows)]
    moved = moved_on(density, start, n_moves, rng)
    if proposed.log_density_of is None:
        beyond = ((moved < rows.min(axis=0)) | (moved > rows.max(axis=0))).any(axis=1)
        expected = 2.0 * n_rows * rows.shape[1] / (len(rows) + 1)
        where = "where no draw of the proposal is"
    else:
        beyond = np.isneginf(proposed.log_density_of(_natural(density, moved)))
        expected, where = 0.0, "where the proposal has no density"
    n_beyond = int(beyond.sum())
    fraction = (n_beyond - expected) / n_rows
    if n_beyond <= expected + noise * np.sqrt(expected) or fraction <= errors * mcse:
        return []
    reason = f"of {n_rows} posterior draws that moved on {n_beyond} ended {where}"
    return [Doubt("uncovered", reason)]


def _natural(density: RowDensity, rows: np.ndarray) -> xr.Dataset:
    """Rows (n, d) as draws on the natural scale."""
    values = constrain(density.flat, rows)
    return as_draws({rv.name: values[rv.name] for rv in density.flat.model.free_RVs})
