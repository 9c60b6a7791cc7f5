"""The example of one differential equation by three solvers."""

from importlib.util import find_spec

import matplotlib.pyplot as plt
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from support.scripts import load

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
RATES = [(2.0, 3.0), (1.2, 0.6), (3.5, 5.0)]


@pytest.mark.parametrize("solver", ["by_hand", "in_scipy", "in_diffrax"])
def test_solvers_agree_with_the_solution(solver: str) -> None:
    """Catches measurements that are read a step too early, or steps that are too long."""
    if solver == "in_diffrax" and find_spec("diffrax") is None:
        pytest.skip("diffrax is not installed")
    example = load("examples/black_boxes/decay.py")
    fastest, half = pt.dscalars("fastest", "half")
    mode = "JAX" if solver == "in_diffrax" else "FAST_COMPILE"
    solve = pytensor.function([fastest, half], getattr(example, solver)(fastest, half), mode=mode)
    for rates in RATES:
        np.testing.assert_allclose(solve(*rates), example.exact(*rates), atol=1e-3 * example.NOISE)


@pytest.mark.slow
def test_the_table_and_the_picture_in_small(capsys: pytest.CaptureFixture) -> None:
    """Catches a log Z that is not that of the integral, and a picture that breaks."""
    example = load("examples/black_boxes/decay.py")
    tree, seconds = example.timed(example.by_hand, draws=64)
    entry = tree["evidence"].isel(estimator=0)
    assert abs(entry["log_z"].item() - example.by_quadrature()) < 5 * entry["mcse"].item()
    example.report({"by hand": (tree, seconds)})
    assert "exact" in capsys.readouterr().out
    figure = example.draw({"by hand": (tree, seconds)})
    assert [one.get_text() for one in figure.axes[0].get_xticklabels()] == ["by hand"]
    plt.close(figure)
