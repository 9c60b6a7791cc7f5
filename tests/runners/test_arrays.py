"""Records of arrays, whose rows are chosen, repeated and joined."""

import numpy as np

from pymc_logz.kernels.base import KernelState
from pymc_logz.paths.geometric import Evaluation
from pymc_logz.runners.arrays import joined, lengthened, rows_of


def test_rows_of_a_state_stay_together() -> None:
    """Would catch a field that is left as it was: a row with another one's density."""
    rows = np.arange(4.0)
    matrix = np.stack([rows, rows], axis=1)
    state = KernelState(matrix, matrix + 10, Evaluation(rows, rows, matrix, matrix))
    chosen = np.array([2, 2, 0])
    taken = rows_of(state, chosen)
    assert type(taken.evaluation) is Evaluation
    np.testing.assert_array_equal(taken.momentum, matrix[chosen] + 10)
    for part in (taken.position[:, 0], *taken.evaluation[:2], taken.evaluation[2][:, 1]):
        np.testing.assert_array_equal(part, chosen)


def test_rows_are_repeated_and_joined_along_an_axis() -> None:
    """Would catch padding by another row than the last one, or parts joined along another axis."""
    noise = (np.arange(6.0).reshape(2, 3), [np.arange(6.0).reshape(2, 3, 1)])
    longer = lengthened(noise, 5, axis=1)
    np.testing.assert_array_equal(longer[0], [[0, 1, 2, 2, 2], [3, 4, 5, 5, 5]])
    assert lengthened(noise, 3, axis=1)[0] is noise[0]
    whole = joined([noise, longer], axis=1)
    assert type(whole) is tuple
    np.testing.assert_array_equal(whole[1][0][1, :, 0], [3, 4, 5, 3, 4, 5, 5, 5])
