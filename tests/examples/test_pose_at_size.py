"""Figure 3(a) of the constrained HMC paper: what counts at which time, and what the page says."""

from types import ModuleType

import numpy as np
import pytest
from support.checks import make_rng
from support.scripts import load


@pytest.fixture(scope="module")
def example() -> ModuleType:
    """The script."""
    return load("examples/papers/pose_at_size.py")


def test_draws_count_from_when_they_came(example: ModuleType) -> None:
    """Catches means of all draws at each time, and units that are not centimetres."""
    truth = make_rng("pose").normal(size=(19, 3))
    joints = np.stack([truth + 0.03, truth - 0.01, truth + 5.0])
    spent = np.array([0.1, 0.5, 9.0])
    found = example.errors(joints, spent, truth)
    seconds = example.SETTINGS["seconds"]
    alone, both, late = (
        example.experiment.rmse(truth + off, truth) for off in (0.03, 0.01, 1.67333)
    )
    expected = [alone if t < 0.5 else both if t < 9 else late for t in seconds]
    assert found == pytest.approx(np.array(expected), rel=1e-3)


def test_the_page_has_the_numbers(example: ModuleType) -> None:
    """Catches runs that were made again without the page, and a figure of some of them."""
    results = example.Results(example.STORE, example.SETTINGS)
    at_end = {
        name: [example.of_method(results, name, scene)[:, -1] for scene in (1, 2, 3)]
        for name in example.COLOURS
    }
    assert all(len(one) == 10 for found in at_end.values() for one in found)
    ours = np.concatenate(at_end["ConstrainedHMC"])
    lost = [one[one > 10] for one in at_end["NUTS"]]
    assert [len(one) for one in lost] == [0, 1, 1]
    means = [one.mean() for one in at_end["HMC"]]
    page = (example.STORE.parents[3] / "docs" / "theory" / "constrained.md").read_text()
    assert f"{min(at_end['ConstrainedHMC'][1]):.1f} to {ours.max():.1f} cm off in every run" in page
    assert f"({min(means):.0f} to {max(means):.0f} cm on average)" in page
    assert f"({lost[1][0]:.0f} and {lost[2][0]:.0f} cm)" in page
