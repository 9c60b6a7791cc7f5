"""Whether entries that are not normal have a peak far from the rows of a run."""

import numpy as np

from pymc_logz.models.other_modes import far_rows
from pymc_logz.paths.elliptical import Elliptical
from pymc_logz.pilot.conditional_modes import Conditionals
from pymc_logz.pilot.nested import highest_peak, most_apart
from pymc_logz.pilot.nested_map import scale_of
from pymc_logz.trees.doubts import Doubt
from pymc_logz.trees.modes import LEAST_MASS
from pymc_logz.weights import log_mean

MAX_OUTER = 6
"""Entries that are not normal, at most."""
N_ROWS = 8
"""Rows of the run whose density others are compared with."""
BELOW = 10.0
"""Nats below the highest of these down to which another place may be a peak."""
N_PLACES, WIDER, DF = 128, 1.4, 5.0
"""Places around a peak, and the Student-t that they are drawn from."""


def peak_doubts(
    parts: Conditionals,
    ends: np.ndarray,
    rows: np.ndarray,
    log_z: float,
    rng: np.random.Generator,
) -> list[Doubt]:
    """Whether rows that climbed from the prior found a peak that no row of the run is near.

    Among many normal entries a second, narrow peak of one that is not normal is no further from the
    rows than they are from each other. It is among the entries that are not normal, whose density
    Laplace's method has.

    Parameters
    ----------
    parts
        Normal entries, and the others.
    ends
        Rows that climbed from the prior, shape (k, d).
    rows
        Of the posterior as the run has it, shape (n, d).
    log_z
        Of the run.
    rng
        Generator of places around a peak.
    """
    seen, tried = (x[:, parts.outer] for x in (rows, ends))
    if not 0 < parts.outer.size <= MAX_OUTER or not parts.inner.size:
        return []
    far = far_rows(tried, seen, rng)[0]
    scale = np.maximum(rows[:, parts.inner].std(axis=0), 1e-300)
    if not far.size:
        return []
    far = far[most_apart(np.arange(far.size), tried[far], parts.at(ends[far])[0])]
    some = rows[rng.permutation(len(rows))[:N_ROWS]]
    usual = parts.modes(some[:, parts.outer], some[:, parts.inner], scale).log_marginal.max()
    for one in far:
        start = parts.modes(tried[[one]], ends[[one]][:, parts.inner], scale)
        if not start.log_marginal[0] > usual - BELOW:
            continue
        peak = highest_peak(parts, tried[[one]], start, scale)
        if peak is None:
            continue
        around = Elliptical(peak.outer, WIDER * peak.factor, DF)
        places = around(rng, N_PLACES)
        apart = far_rows(places, seen, rng)[0]
        if not apart.size:
            continue
        places, inner = places[apart], np.tile(peak.inner, (apart.size, 1))
        found = parts.modes(places, inner, scale_of(peak.precision)).log_marginal
        log_mass = log_mean(found - around.log_density_of(places)) + np.log(apart.size / N_PLACES)
        if log_mass > log_z + np.log(LEAST_MASS):
            reason = (
                f"a row that climbed from the prior ended in a peak with about "
                f"{np.exp(log_mass - log_z):.2g} times the mass of the rows, none of which is near "
                "by its variables that are not normal"
            )
            return [Doubt("missed_mode", reason)]
    return []
