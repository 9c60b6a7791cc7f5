"""Was the pilot any good? Whether its rows moved, and what they say of log Z."""

import numpy as np
from scipy.special import stdtrit

from pymc_logz.errors import warn
from pymc_logz.pilot.population import Stages
from pymc_logz.weights import ALPHA, log_mean, relative


def stuck_stages(stages: Stages, least: float = 0.1) -> np.ndarray:
    """Inverse temperatures at which the rows hardly moved: fewer moves than that were accepted."""
    return stages.betas[stages.acceptance_rate < least]


def islands_log_z(stages: Stages) -> tuple[float, float]:
    """Log Z of a pilot's islands together, and its error, in nats."""
    assert stages.log_z is not None
    island = relative(stages.log_z)
    error = island.std(ddof=1) / island.mean() / np.sqrt(island.size) if island.size > 1 else np.inf
    return log_mean(stages.log_z), float(error)


def exceeds(stages: Stages, log_z: float, error: float) -> bool:
    """Whether the rows of a pilot found more than another log Z, beyond chance.

    They are resampled in islands, each of which has an unbiased Z of its own, however badly its
    rows move; so their mean is above Z by chance only, which a t-test bounds. That it is below says
    nothing.

    ``stages`` is a pilot from a reference whose log Z is the other one's too.
    """
    if stages.log_z is None or stages.log_z.size < 2:
        return False
    own, own_error = islands_log_z(stages)
    limit = stdtrit(stages.log_z.size - 1, 1 - ALPHA)
    return bool(own - log_z > limit * np.hypot(own_error, error))


def warn_of_stuck(stages: Stages) -> None:
    """Say where the rows did not move."""
    if (betas := stuck_stages(stages)).size:
        warn(
            f"particles hardly move at {betas.size} stages of the pilot, first at "
            f"beta={betas[0]:.3g}: give the kernel a smaller step_size or leave it to the pilot, "
            "use a larger tune, or kernel='slice'"
        )
