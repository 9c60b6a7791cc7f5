"""Figures and tables give one interval."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr
from arviz_base import rcParams

import pymc_logz as lz
from pymc_logz.estimators import LogZEstimate
from pymc_logz.trees import kinds
from pymc_logz.trees.layout import evidence_dataset, make_tree

pytestmark = pytest.mark.usefixtures("no_look_in_this_file")


def stored(log_z: float) -> xr.DataTree:
    estimate = LogZEstimate("hais", log_z, 0.2, 900.0, 0.1, "ok")
    return make_tree({"evidence": evidence_dataset([estimate], {})}, {}, kinds.HAIS)


TREES = {"good": stored(-3.0), "bad": stored(-5.0)}


@pytest.mark.parametrize("ci_prob", [None, 0.5])
def test_a_figure_draws_the_interval_of_the_bayes_factor(ci_prob: float | None) -> None:
    """Catches 95% here and ArviZ's own probability there, and a title that names another one."""
    collection = lz.plot_evidence(TREES, ci_prob=ci_prob, backend="matplotlib")
    panel = collection.viz["plot"].to_numpy()[0]
    bars = [line.get_xdata() for line in panel.lines]
    factor = lz.bayes_factor(TREES["bad"], TREES["good"], ci_prob=ci_prob)
    assert any(np.allclose(bar, factor["interval"]) for bar in bars)
    told = rcParams["stats.ci_prob"] if ci_prob is None else ci_prob
    assert panel.get_title().endswith(f", {told:.0%} interval")
    plt.close("all")


def test_a_probability_out_of_range_is_refused() -> None:
    """Catches a figure that draws an interval of no probability."""
    with pytest.raises(ValueError, match=r"ci_prob=1.*strictly between"):
        lz.plot_evidence(TREES, ci_prob=1.0, backend="matplotlib")
    plt.close("all")


def test_a_tree_by_itself_and_trees_without_evidence_say_what_to_give() -> None:
    """Catches a single run whose groups are taken for models."""
    with pytest.raises(ValueError, match=r"trees is one DataTree.*dictionary"):
        lz.plot_evidence(TREES["good"])  # type: ignore[arg-type]
    posterior = xr.DataTree.from_dict({"posterior": xr.Dataset({"x": ("draw", np.zeros(3))})})
    with pytest.raises(ValueError, match=r"write lz.evidence\(trees\['other'\], model\)"):
        lz.plot_evidence({**TREES, "other": posterior})
