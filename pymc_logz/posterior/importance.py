"""A second opinion on the log Z of a posterior: smoothed importance sampling from a fit to it."""

import numpy as np

from pymc_logz.errors import ModelError
from pymc_logz.estimators import LogZEstimate, importance_log_z
from pymc_logz.models.density import RowDensity
from pymc_logz.paths.elliptical import Elliptical


def importance(
    density: RowDensity, proposal: Elliptical, kind: str, n: int, rng: np.random.Generator
) -> LogZEstimate:
    """Smoothed importance sampling from what was fitted to the draws.

    Parameters
    ----------
    density
        The model's log density.
    proposal
        Normal fitted to draws of the posterior.
    kind
        ``"student"`` for a wider Student-t in place of the normal, or ``"normal"``.
    n
        Number of draws.
    rng
        Generator of the draws.
    """
    source = proposal.with_heavy_tails() if kind == "student" else proposal
    rows = source(rng, n)
    return importance_log_z(checked(density, rows) - source.log_density_of(rows), smooth=True)


def checked(density: RowDensity, rows: np.ndarray) -> np.ndarray:
    """Log target of rows, -inf where it is NaN; an infinite density is refused.

    Parameters
    ----------
    density
        The model's log density.
    rows
        Shape (n, d).

    Raises
    ------
    ModelError
        If the density is infinite somewhere.
    """
    log_target = density.log_target(rows)
    if np.any(log_target == np.inf):
        raise ModelError(
            "the posterior density is infinite at a proposed draw, so log Z may be infinite; bound "
            "the likelihood and the potentials"
        )
    return log_target
