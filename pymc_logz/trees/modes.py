"""What rows that walk from the prior say against draws of a posterior."""

import numpy as np

from pymc_logz.models.flat import model_data
from pymc_logz.models.other_modes import MAX_DIMS, N_ROWS, other_mode
from pymc_logz.models.preparation import Prepared
from pymc_logz.models.tails import Densities
from pymc_logz.trees.doubts import Doubt

MAX_DATA = 5000
"""Data up to which 10,000 evaluations of the density are nothing beside the posterior's own: 20,000
data take 5 to 10 seconds."""


def mode_doubts(
    prepared: Prepared,
    densities: Densities,
    draws: np.ndarray,
    log_z: float,
    rng: np.random.Generator,
) -> list[Doubt]:
    """Whether draws lack a mode, as far as rows from the prior find one.

    Nothing is looked for in more than 16 dimensions, and where there are more than 5,000 data.

    Parameters
    ----------
    prepared
        The model.
    densities
        Log prior and log likelihood of rows (n, d).
    draws
        Draws of the posterior, shape (m, d); some may repeat.
    log_z
        Log Z by the draws.
    rng
        Generator of the rows.
    """
    draws = np.unique(draws, axis=0)
    n_data = sum(np.size(data) for data in model_data(prepared.flat)[0].values())
    too_large = draws.shape[1] > MAX_DIMS or n_data > MAX_DATA
    if prepared.prior.obstacle is not None or too_large or len(draws) < 2:
        return []
    found = other_mode(densities, prepared.prior(rng, N_ROWS), draws, log_z, rng)
    if found is None:
        return []
    reason = (
        f"of {N_ROWS} rows that walked from the prior to the posterior {found.share:.0%} ended in "
        f"a mode that no draw is in, with a mass of about {np.exp(found.log_z - log_z):.2g} times "
        "that of the draws"
    )
    return [Doubt("missed_mode", reason)]
