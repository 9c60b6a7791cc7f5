"""Panels of a figure in the style of arviz-plots."""

from importlib import import_module
from typing import Any

import numpy as np
import xarray as xr
from arviz_base import rcParams
from arviz_plots import PlotCollection


def make_panels(
    names: list[str],
    height: float,
    backend: str | None,
    figsize: tuple[float, float] | None,
    *,
    n_columns: int = 2,
    sharey: bool = False,
) -> tuple[Any, PlotCollection, list[Any]]:
    """Drawing functions of the backend, a collection, and its empty panels.

    Parameters
    ----------
    names
        One for each panel, the coordinate ``panel`` of the collection.
    height
        Of the whole figure, in units of a usual row's.
    backend, figsize
        As in the figures.
    n_columns
        Panels beside each other.
    sharey
        Whether they share their y axis.
    """
    backend = rcParams["plot.backend"] if backend is None else backend
    drawing = import_module(f"arviz_plots.backend.{backend}")
    # keeps titles and labels of panels apart; the other backends do so by themselves
    layout = {"layout": "constrained"} if backend == "matplotlib" else {}
    collection = PlotCollection.wrap(
        xr.Dataset({"panels": ("panel", np.arange(len(names)))}, coords={"panel": names}),
        cols=["panel"],
        col_wrap=n_columns,
        backend=backend,
        figure_kwargs={
            "sharey": sharey,
            "figsize": drawing.scale_fig_size(figsize, rows=height, cols=1.1 * n_columns),
            "figsize_units": "dots",
            **layout,
        },
    )
    return drawing, collection, list(collection.viz["plot"].to_numpy())
