"""Panels of a figure in the style of arviz-plots, and what the figures have in common."""

from importlib import import_module
from typing import Any

import numpy as np
import xarray as xr
from arviz_base import rcParams
from arviz_plots import PlotCollection

from pymc_logz.tempered.evidence import walker_group


def _group(tree: xr.DataTree, name: str) -> xr.Dataset:
    if not isinstance(tree, xr.DataTree) or name not in tree.children:
        raise ValueError(f"this needs a DataTree with a group {name!r}, as sample_hais returns it")
    return tree[name].to_dataset()


def make_panels(
    names: list[str],
    n_rows: int,
    height: float,
    backend: str | None,
    figsize: tuple[float, float] | None,
    *,
    n_columns: int = 2,
    sharey: bool = False,
) -> tuple[Any, PlotCollection, list[Any]]:
    """Drawing functions of the backend, a collection, and its empty panels by name."""
    backend = rcParams["plot.backend"] if backend is None else backend
    drawing = import_module(f"arviz_plots.backend.{backend}")
    # keeps titles and labels of panels apart; the other backends do so by themselves
    layout = {"layout": "constrained"} if backend == "matplotlib" else {}
    figure, grid = drawing.create_plotting_grid(
        len(names),
        n_rows,
        n_columns,
        squeeze=False,
        sharey=sharey,
        figsize=drawing.scale_fig_size(figsize, rows=height, cols=1.1 * n_columns),
        figsize_units="dots",
        **layout,
    )
    panels = list(grid.ravel())
    plots = np.empty(len(names), dtype=object)
    plots[:] = panels
    viz = xr.Dataset(
        {"figure": ((), np.array(figure, dtype=object)), "plot": ("panel", plots)},
        coords={"panel": names},
    )
    collection = PlotCollection(
        xr.Dataset(), viz_dt=xr.DataTree.from_dict({"/": viz}), backend=backend
    )
    return drawing, collection, panels


def _tempering(tree: xr.DataTree) -> xr.Dataset:
    """Levels and log ratios of a tempered run, from wherever the tree has them."""
    group = None
    if isinstance(tree, xr.DataTree):
        known = "tempering" in tree.children
        group = tree["tempering"].to_dataset() if known else walker_group(tree)
    if group is None:
        raise ValueError(
            "this needs a DataTree with a group 'tempering', as sample_tempered returns it, or the "
            "statistics of pm.sample(step=SimulatedTempering())"
        )
    return group
