"""The figure of a comparison: its panels, numbers that are unknown, wrong arguments."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import pymc_logz as lz
from pymc_logz.trees.kinds import HAIS
from pymc_logz.trees.layout import evidence_dataset, make_tree

pytestmark = pytest.mark.usefixtures("no_look_in_this_file")

mpl.use("Agg")


def three() -> dict[str, xr.DataTree]:
    """Trees of three models, the best one in the middle."""
    found = {"a": (-12.0, 0.03), "b": (-10.0, 0.04), "c": (-11.0, 0.05)}
    trees = {}
    for name, (log_z, mcse) in found.items():
        estimate = lz.estimators.LogZEstimate("hais", log_z, mcse, 500.0, 0.1, "ok")
        data = xr.Dataset({"y": ("obs", [1.0, 2.0])})
        groups = {"evidence": evidence_dataset([estimate], {}), "observed_data": data}
        trees[name] = make_tree(groups, {}, HAIS)
    return trees


@pytest.mark.parametrize("backend", ["matplotlib", "none"])
def test_plot_has_two_panels(backend: str) -> None:
    """Would catch a figure that cannot be drawn, or a collection without its panels."""
    collection = lz.plot_evidence(three(), backend=backend)
    assert type(collection).__name__ == "PlotCollection"
    assert list(collection.viz["panel"].to_numpy()) == ["log_bayes_factor", "probability"]
    assert collection.viz["plot"].size == 2
    if backend == "matplotlib":
        labels = [tick.get_text() for tick in collection.viz["plot"].values[0].get_yticklabels()]
        assert labels == ["b", "c", "a"]
        mpl.pyplot.close("all")


def test_plot_of_a_table_with_unknown_models() -> None:
    """Would catch NaN that breaks the figure, or prior odds of a table that get lost."""
    table = lz.compare_evidence(three(), prior_odds=[20, 1, 1])
    panel = lz.plot_evidence(table).viz["plot"].values[1]
    texts = {text.get_text() for text in panel.texts}
    assert texts == {f"{p:.3f}" for p in table["probability"]}
    unknown = table.assign(probability=np.nan)
    panel = lz.plot_evidence(unknown, figsize=(8, 3)).viz["plot"].values[1]
    assert {text.get_text() for text in panel.texts} == {"unknown"}
    mpl.pyplot.close("all")


def test_plot_of_models_that_are_not_ok() -> None:
    """Would catch a doubtful log Z that looks like a good one."""
    table = lz.compare_evidence(three()).assign(status=["ok", "high_khat", "ok"])
    table.loc["c", "log_bayes_factor"] = -1e-9  # nobody wants to see a zero with a sign
    panel = lz.plot_evidence(table).viz["plot"].values[0]
    labels = [tick.get_text() for tick in panel.get_yticklabels()]
    assert labels == ["b", "c\n(high_khat)", "a"]
    shown = [text.get_text() for text in panel.texts]
    assert any(text.startswith("0.00 ±") for text in shown), shown
    full, hollow = (len(points.get_offsets()) for points in panel.collections[-2:])
    assert (full, hollow) == (2, 1)
    mpl.pyplot.close("all")


def test_plot_wrong_arguments() -> None:
    """Would catch an interval that is not a probability, or a table of another kind."""
    with pytest.raises(ValueError, match="ci_prob=95"):
        lz.plot_evidence(three(), ci_prob=95)
    assert isinstance(lz.compare_evidence(three()), pd.DataFrame)
