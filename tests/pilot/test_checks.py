"""A pilot that stood still is found out, and a good one is not accused."""

import numpy as np
from support.pilot_runs import find_stages

from pymc_logz.pilot.checks import stuck_stages
from pymc_logz.pilot.population import Stages


def test_stuck_stages_are_named() -> None:
    """Catches a pilot that stands still unnoticed."""
    ones = np.ones(3)
    acceptance = np.array([0.9, 0.02, 0.7])
    stages = Stages(np.array([0, 0.25, 1.0]), ones, ones[:, None], None, acceptance)
    np.testing.assert_array_equal(stuck_stages(stages), [0.25])
    assert stuck_stages(find_stages()).size == 0
