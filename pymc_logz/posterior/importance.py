"""A second opinion on the log Z of a posterior: smoothed importance sampling from a fit to it."""

import numpy as np

from pymc_logz.errors import ModelError
from pymc_logz.estimators import LogZEstimate, importance_log_z
from pymc_logz.models.density import RowDensity
from pymc_logz.paths.elliptical import Elliptical


def importance(
    density: RowDensity, proposal: Elliptical, kind: str, n: int, rng: np.random.Generator
) -> LogZEstimate:
    """Smoothed importance sampling by n draws of a normal that was fitted to the posterior's.

    Of kind ``"student"`` it gives way to a wider Student-t; ``"normal"`` takes it as it is.
    """
    source = proposal.with_heavy_tails() if kind == "student" else proposal
    rows = source(rng, n)
    return importance_log_z(checked(density, rows) - source.log_density_of(rows), smooth=True)


def checked(density: RowDensity, rows: np.ndarray) -> np.ndarray:
    """Log target of rows (n, d), -inf where it is NaN; a ModelError if it is infinite somewhere."""
    log_target = density.log_target(rows)
    if np.any(log_target == np.inf):
        raise ModelError(
            "the posterior density is infinite at a proposed draw, so log Z may be infinite; bound "
            "the likelihood and the potentials"
        )
    return log_target
