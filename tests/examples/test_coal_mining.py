"""The example of change points: its exact sums, and the table and the picture in small."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from support.scripts import load

from pymc_logz import energies

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")


def test_exact_sums_agree() -> None:
    """Catches a year that is counted twice, in the sum that the table is held against."""
    example = load("examples/discrete/coal_mining.py")
    assert example.exact_log_z(1) == pytest.approx(energies.coal_mining().log_z)
    # a second change after the last year is none
    none = example.exact_log_z(1) - np.log(example.N) + np.log(2)
    assert example.exact_log_z(2) > none


@pytest.mark.slow
def test_the_table_and_the_picture_in_small() -> None:
    """Catches a table whose rows are of other models, and a picture that breaks."""
    example = load("examples/discrete/coal_mining.py")
    trees, table = example.compare((0, 1), draws=64, chains=2)
    assert np.all(np.abs(table["log Z"] - table["exact"]) < 5 * table["error"])
    assert table["years"].tolist() == ["none", "['last'] one value at a time"]
    assert table["probability"].sum() == pytest.approx(1.0)
    figure = example.plot({1: trees[1], 2: trees[1]})
    assert len(figure.axes[0].lines) == 2
    plt.close(figure)
