"""Log Z by chain: what is drawn is what the chains hold."""

from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr
from support.checks import make_rng
from support.tempered_draws import stored_run

from pymc_logz.estimators import importance_log_z
from pymc_logz.plots.chains import plot_chains
from pymc_logz.trees.kinds import HAIS
from pymc_logz.trees.layout import make_tree


def annealed(log_weight: np.ndarray) -> xr.DataTree:
    """A tree such as `sample_hais` makes, of these log weights (chains, draws) alone."""
    group = xr.Dataset({"log_weight": (("chain", "draw"), log_weight)})
    return make_tree({"weighted_posterior": group}, {}, HAIS)


LOG_WEIGHT = make_rng("plot chains").normal([[0.0], [1.0], [2.0]], 0.5, (3, 400))
TREE = annealed(LOG_WEIGHT)


def panel_of(tree: xr.DataTree) -> Any:
    """Matplotlib's axes of the figure."""
    collection = plot_chains(tree, backend="matplotlib")
    collection.viz["figure"].item().draw_without_rendering()
    mpl.pyplot.close("all")
    return collection.viz["plot"].values[0]


def check_lines(tree: xr.DataTree) -> None:
    """Fail unless line i is the interval of row i of `LOG_WEIGHT`."""
    for chain, line in enumerate(panel_of(tree).get_lines()):
        x, y = np.asarray(line.get_xydata(), dtype=float).T
        exact = importance_log_z(LOG_WEIGHT[chain])
        np.testing.assert_array_equal(y, chain)
        np.testing.assert_allclose(x, exact.log_z + 2 * exact.mcse * np.array([-1, 1]))


def test_each_chain_has_its_own_interval() -> None:
    """Catches chains pooled, and a standard error in place of two."""
    check_lines(TREE)
    assert len(panel_of(TREE).get_lines()) == 3


def test_chains_in_another_order_are_found() -> None:
    """Positive control: the same check fails for chains drawn in each other's place."""
    with pytest.raises(AssertionError):
        check_lines(annealed(LOG_WEIGHT[::-1]))


def test_the_kind_of_the_tree_decides() -> None:
    """Catches a tempered run read as log weights, and a group of that name that misleads."""
    tree = stored_run(7, "chains")
    tree["weighted_posterior"] = xr.DataTree(TREE["weighted_posterior"].to_dataset())
    assert len(panel_of(tree).get_lines()) == 2  # chains of the tempered run


def test_a_chain_without_a_number_is_told() -> None:
    """Catches an interval of NaN that looks like no chain at all."""
    lost = np.where(np.arange(3)[:, None] == 1, -np.inf, LOG_WEIGHT)
    panel = panel_of(annealed(lost))
    assert len(panel.get_lines()) == 2
    assert panel.get_title().endswith("no number for 1")


def test_every_backend_draws() -> None:
    """Catches what only Matplotlib can draw."""
    for backend in ("none", "matplotlib"):
        collection = plot_chains(TREE, backend=backend, figsize=(4, 3))
        assert type(collection).__name__ == "PlotCollection"
        assert list(collection.viz["panel"].to_numpy()) == ["log_z"]
    mpl.pyplot.close("all")


def test_other_trees_are_refused() -> None:
    """Catches a KeyError where a sentence is due."""
    for wrong in (xr.DataTree(), {"a": TREE}):
        with pytest.raises((TypeError, ValueError), match="sample_hais"):
            plot_chains(wrong)
