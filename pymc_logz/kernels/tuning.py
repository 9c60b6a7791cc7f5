"""Step sizes from acceptance rates."""

import numpy as np
from scipy.special import ndtri

MIN_STEP_SIZE, MAX_STEP_SIZE = 1e-6, 3.0


def leapfrog_step_size(step_size: float, acceptance_rate: float, target_accept: float) -> float:
    """Leapfrog step size expected to have the target acceptance rate.

    The energy error of one leapfrog step is of third order in the step size, and the rejection
    rate follows it; one correction changes the step size by at most a factor of three.
    """
    rejection = np.clip(1.0 - acceptance_rate, 1e-3, 1.0)
    factor = ((1.0 - target_accept) / rejection) ** (1.0 / 3.0)
    return _corrected(step_size, factor)


def random_walk_step_size(step_size: float, acceptance_rate: float, target_accept: float) -> float:
    """Step size of a random walk expected to have the target acceptance rate.

    In many dimensions the acceptance rate is ``2 Phi(-c step_size / 2)``: Roberts, Gelman & Gilks
    (1997), Weak convergence and optimal scaling of random walk Metropolis algorithms, theorem 1.1,
    doi 10.1214/aoap/1034625254. One correction is by at most a factor of three.
    """
    rate = np.clip(acceptance_rate, 1e-3, 1.0 - 1e-3)
    return _corrected(step_size, ndtri(0.5 * target_accept) / ndtri(0.5 * rate))


def _corrected(step_size: float, factor: float) -> float:
    if not np.isfinite(factor):
        factor = 0.5
    return float(np.clip(step_size * np.clip(factor, 1 / 3, 3), MIN_STEP_SIZE, MAX_STEP_SIZE))
