"""Settings: what they make of what they are given."""

import numpy as np

from pymc_logz.tempered.settings import TemperedSettings


def test_exponential_prior() -> None:
    """Would catch a prior of another rate, or of 1 - beta: section 4.4 of Carlson et al."""
    betas = np.array([0.0, 0.5, 1.0])
    log_prior = TemperedSettings(level_prior="exp").log_prior(betas)
    np.testing.assert_allclose(np.diff(log_prior), 1.0)
