"""Tuning of many chains that share a step size and scales: a moving average, and their spread."""

from dataclasses import dataclass

import numpy as np

from pymc_logz.kernels.tuning import MAX_STEP_SIZE, MIN_STEP_SIZE
from pymc_logz.pilot.population import ROWS_TO_CORRELATE
from pymc_logz.pilot.scales import population_correlation, population_scale

SLOWNESS = 0.9
"""Weight of the past in the moving average of acceptance rates."""
LONGER, SHORTER = 1.02, 0.98
"""Factors of the step size after a move, by which side of its aim the average is on."""


@dataclass
class StepSize:
    """A step size that follows a moving average of acceptance rates, until it is frozen.

    References
    ----------
    Theano Development Team (2013), Deep Learning Tutorials, chapter Hybrid Monte-Carlo Sampling,
    https://github.com/lisa-lab/DeepLearningTutorials.
    """

    now: float
    """Step size of the next move, in units of the scales."""
    target_accept: float
    """Acceptance rate that is aimed at."""
    average: float
    """Moving average of the mean acceptance rate of all chains."""

    def update(self, acceptance_rate: float) -> None:
        """Follow the mean acceptance rate of the chains in one move."""
        self.average = SLOWNESS * self.average + (1.0 - SLOWNESS) * acceptance_rate
        factor = LONGER if self.average > self.target_accept else SHORTER
        self.now = float(np.clip(self.now * factor, MIN_STEP_SIZE, MAX_STEP_SIZE))


def scale_of_chains(position: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Scale from where all chains are: one for each dimension, or a triangular matrix.

    Parameters
    ----------
    position
        Shape (n, d).
    before
        The scale so far, shape (d,) or (d, d). Correlations are taken from enough chains only.

    Returns
    -------
    np.ndarray
        Of the shape of ``before``.
    """
    n, d = position.shape
    alike = np.full(n, 1.0 / n)
    lengths = before if before.ndim == 1 else np.sqrt((before**2).sum(axis=1))
    scale = population_scale(position, alike, lengths)
    if before.ndim == 1:
        return scale
    if n < ROWS_TO_CORRELATE * d:
        return before * (scale / lengths)[:, None]
    return scale[:, None] * population_correlation(position, alike)
