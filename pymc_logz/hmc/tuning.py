"""Tuning of many chains that share a step size and scales: a moving average, and their spread."""

from dataclasses import dataclass

import numpy as np

from pymc_logz.kernels.tuning import MAX_STEP_SIZE, MIN_STEP_SIZE
from pymc_logz.pilot.population import ROWS_TO_CORRELATE
from pymc_logz.pilot.scales import population_correlation, population_scale


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

    def update(self, acceptance_rate: float, past: float = 0.9, change: float = 0.02) -> None:
        """Follow the mean acceptance rate of the chains in one move.

        ``past`` is the weight of the past in the moving average, ``change`` the relative change of
        the step size.
        """
        self.average = past * self.average + (1.0 - past) * acceptance_rate
        factor = 1.0 + (change if self.average > self.target_accept else -change)
        self.now = float(np.clip(self.now * factor, MIN_STEP_SIZE, MAX_STEP_SIZE))


def scale_of_chains(position: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Scale from where all chains are: one for each dimension, or a triangular matrix.

    Correlations are taken from enough chains only; ``before`` is the scale so far.
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
