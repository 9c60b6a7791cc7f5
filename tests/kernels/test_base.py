"""What kernels and runners hand to each other."""

import numpy as np

from pymc_logz.kernels.base import KernelState, take_rows
from pymc_logz.paths.geometric import Evaluation


def test_rows_of_a_state_stay_together() -> None:
    """Would catch a field that is left as it was: a row with another one's density."""
    rows = np.arange(4.0)
    matrix = np.stack([rows, rows], axis=1)
    state = KernelState(matrix, matrix + 10, Evaluation(rows, rows, matrix, matrix))
    chosen = np.array([2, 2, 0])
    taken = take_rows(state, chosen)
    assert type(taken.evaluation) is Evaluation
    np.testing.assert_array_equal(taken.momentum, matrix[chosen] + 10)
    for part in (taken.position[:, 0], *taken.evaluation[:2], taken.evaluation[2][:, 1]):
        np.testing.assert_array_equal(part, chosen)
