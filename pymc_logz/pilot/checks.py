"""Was the pilot any good? Its population is compared with rows that never were resampled."""

import numpy as np
from scipy.special import stdtrit

from pymc_logz.errors import warn
from pymc_logz.pilot.population import Stages
from pymc_logz.runners.anneal import Annealed
from pymc_logz.weights import log_mean, relative, weight_ess

STUCK = 0.1
"""Acceptance rate below which the rows of a stage hardly move."""
SIGNIFICANT = 1.8
"""Kolmogorov-Smirnov distance, in units of its scale, exceeded by chance in one of 300 tests."""


def stuck_stages(stages: Stages) -> np.ndarray:
    """Inverse temperatures at which the rows hardly moved."""
    return stages.betas[stages.acceptance_rate < STUCK]


def lost_part(stages: Stages, trial: Annealed) -> float:
    """Share of the target that the pilot's population misses or has too much of; 0 if none is seen.

    The largest Kolmogorov-Smirnov distance, over dimensions, of the population at beta = 1 from
    weighted rows that were annealed along the stages. Rows of the population that descend from one
    row of the start count as one, since they may all be in its mode.
    """
    if stages.end is None:
        return 0.0
    if not np.isfinite(trial.log_weight.max(initial=-np.inf)):
        return 0.0
    weight = relative(trial.log_weight)
    scale = np.sqrt(1.0 / stages.n_founders + 1.0 / weight_ess(trial.log_weight))
    distance = max(
        _distance(end, row, weight) for end, row in zip(stages.end.T, trial.position.T, strict=True)
    )
    return distance if distance > SIGNIFICANT * scale else 0.0


def _distance(sample: np.ndarray, other: np.ndarray, weight: np.ndarray) -> float:
    """Kolmogorov-Smirnov distance of a sample from a weighted one."""
    values = np.concatenate([sample, other])
    jumps = np.concatenate([np.full(sample.size, 1.0 / sample.size), -weight / weight.sum()])
    # what is equal, as whole numbers are, jumps together
    _, place = np.unique(values, return_inverse=True)
    return float(np.abs(np.cumsum(np.bincount(place, jumps))).max())


def islands_log_z(stages: Stages) -> tuple[float, float]:
    """Log Z of a pilot's islands together, and its error, in nats."""
    assert stages.log_z is not None
    island = relative(stages.log_z)
    error = island.std(ddof=1) / island.mean() / np.sqrt(island.size) if island.size > 1 else np.inf
    return log_mean(stages.log_z), float(error)


def exceeds(stages: Stages, log_z: float, error: float, alpha: float = 1e-3) -> bool:
    """Whether the rows of a pilot found more than another log Z, beyond chance.

    They are resampled in islands, each of which has an unbiased Z of its own, however badly its
    rows move; so their mean is above Z by chance only, which a t-test bounds. That it is below says
    nothing.

    ``stages`` is a pilot from a reference whose log Z is the other one's too; ``alpha`` the
    probability that a right one is exceeded.
    """
    if stages.log_z is None or stages.log_z.size < 2:
        return False
    own, own_error = islands_log_z(stages)
    limit = stdtrit(stages.log_z.size - 1, 1 - alpha)
    return bool(own - log_z > limit * np.hypot(own_error, error))


def warn_of_lost_part(share: float) -> None:
    """Say that the pilot's settings may not fit all of the posterior."""
    if share:
        warn(
            f"the pilot's population and the annealed particles disagree about {share:.0%} of the "
            "posterior, so a mode got lost on the way and the settings may not fit it: use a "
            "larger tune, draws=512, or reference= draws that cover all modes"
        )


def warn_of_stuck(betas: np.ndarray) -> None:
    """Say where the rows did not move."""
    if betas.size:
        warn(
            f"particles hardly move at {betas.size} stages of the pilot, first at "
            f"beta={betas[0]:.3g}: give the kernel a smaller step_size or leave it to the pilot, "
            "use a larger tune, or kernel='slice'"
        )
