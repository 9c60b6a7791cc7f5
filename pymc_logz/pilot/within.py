"""Rows of a prior of which next to nothing is within the support of the likelihood."""

import numpy as np

from pymc_logz.models.context import n_affordable
from pymc_logz.models.flat import function_of_rows
from pymc_logz.models.preparation import Prepared
from pymc_logz.pilot.exchanges import metropolis
from pymc_logz.runners.block import Block

LONGER = np.array([1.0, 2.0, 4.0, 8.0])
"""Factors in how far from their median rows are that look beyond where the prior has draws."""


def rows_within(
    prepared: Prepared,
    block: Block,
    rng: np.random.Generator,
    few: int = 2**8,
    many: int = 2**10,
    n_moves: int = 32,
) -> np.ndarray:
    """Rows (n, d) about as the prior is where the likelihood is positive; none if none are found.

    Data, and entries of potentials, are possible one by one: of rows, some of them beyond the
    prior's draws, those stay at which the most are possible, and move by the prior's density to
    where no fewer are, until all are possible (subset simulation: Au & Beck 2001).
    """
    flat = prepared.flat
    if flat.sites or flat.summed is not None or flat.observed or block.row_data:
        return np.empty((0, flat.n_dims))
    logp = flat.model.logp([*flat.model.observed_RVs, *flat.model.potentials], sum=False)
    entries_of = function_of_rows(flat.model, logp)

    def n_impossible(rows: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            values = entries_of(rows)
        is_possible = [one.reshape(len(rows), -1) > -np.inf for one in values]
        return np.sum(~np.concatenate(is_possible, axis=1), axis=1)

    rows = prepared.prior(rng, n_affordable(flat, few, many))
    n, centre = len(rows), np.median(rows, axis=0)
    apart = rows - centre
    scale = np.median(np.abs(apart), axis=0)
    rows = centre + np.resize(LONGER, n)[:, None] * apart

    def density(position: np.ndarray) -> np.ndarray:
        is_within = n_impossible(position) <= most
        return np.where(is_within, block.densities(position)[0], -np.inf)

    def proposed(position: np.ndarray) -> np.ndarray:
        # by any length, along any number of entries
        length = LONGER[-1] * rng.random((n, 1)) ** LONGER.size
        moves = rng.random(rows.shape) < np.maximum(rng.random((n, 1)), 1.0 / flat.n_dims)
        return position + moves * length * scale * rng.standard_normal(rows.shape)

    now = n_impossible(rows)
    most = now.max()
    while now.min() < most:
        most = min(now[now < most].max(), np.quantile(now, 0.25, method="higher"))
        rows = rows[rng.choice(np.flatnonzero(now <= most), n)]
        rows = metropolis(density, rows, proposed, rng, n_moves)
        now = n_impossible(rows)
    return rows[now == 0]
