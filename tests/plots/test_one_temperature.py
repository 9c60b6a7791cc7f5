"""`plot_path` of a run of one temperature, which has no path."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr

import pymc_logz as lz


@pytest.fixture(scope="module")
def tree() -> xr.DataTree:
    model = lz.energies.beta_bernoulli().model
    return lz.evidence(model, random_seed=1, progressbar=False)


def test_nothing_that_moved_has_an_acceptance_rate(tree: xr.DataTree) -> None:
    """Would catch a rate of 0.0, which reads as if every move had been refused."""
    assert int(tree["evidence"].attrs["n_temperatures"]) == 1
    assert np.isnan(tree["sample_stats"]["acceptance_rate"]).all()
    assert np.isnan(tree["annealing"]["acceptance_rate"]).all()


def test_each_panel_says_something(tree: xr.DataTree) -> None:
    """Would catch the empty panels of a path."""
    collection = lz.plot_path(tree, backend="matplotlib")
    panels = dict(
        zip(["weights", "coverage", "checks"], collection.viz["plot"].values, strict=True)
    )
    assert list(collection.viz["plot"]["panel"].values) == list(panels)
    assert all(panel.has_data() for panel in panels.values())
    estimators = tree["evidence"]["estimator"].values
    named = [tick.get_text() for tick in panels["checks"].get_yticklabels()]
    assert [tick.split(":")[0] for tick in named] == list(estimators)
    assert len(panels["coverage"].collections) == tree["annealing"].sizes["chain"]
    plt.close("all")
