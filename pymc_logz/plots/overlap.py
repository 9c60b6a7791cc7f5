"""How much the levels of a tempered run overlap."""

from typing import Any

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection

from pymc_logz.estimators import mbar
from pymc_logz.plots.panels import make_panels
from pymc_logz.trees.readers import stored_draws

MAX_LABELLED = 12
"""Levels up to which the entries of an overlap matrix are written out."""
LEAST_SHOWN = 0.005


def plot_overlap(
    idata: xr.DataTree, *, backend: str | None = None, figsize: tuple[float, float] | None = None
) -> PlotCollection:
    """The overlap matrix of the levels: from which levels draws could as well have come.

    Row j is the mean, over draws at level j, of the probability that they were made at each level,
    given the log ratio and how often each level was visited; rows sum to one. Neighbours should
    share at least a few percent: a block that does not leave the diagonal is where the two sides of
    the ladder know nothing of each other.

    Parameters
    ----------
    idata
        DataTree of `sample_tempered`, or of ``pm.sample`` with step `SimulatedTempering`.
    backend
        ``"matplotlib"``, ``"bokeh"`` or ``"plotly"``; None takes ArviZ's ``plot.backend``.
    figsize
        Size of the figure in inches.

    Returns
    -------
    arviz_plots.PlotCollection
        Its ``viz`` tree holds the figure and the panel ``"overlap"``.

    Raises
    ------
    ValueError
        If the tree is not of a tempered run, or no draw of it has a finite log ratio.

    References
    ----------
    Klimovich, Shirts & Mobley (2015), doi 10.1007/s10822-015-9840-9.

    Examples
    --------
    .. code-block:: python

        lz.plot_overlap(lz.sample_tempered(model=model))
    """
    draws = stored_draws(idata)
    overlap = mbar(draws).details.get("overlap")
    if overlap is None:
        raise ValueError("this run has no draws in the support of the target, so nothing overlaps")
    matrix = np.nan_to_num(np.asarray(overlap))
    drawing, collection, [panel] = make_panels(["overlap"], 3.4, backend, figsize, n_columns=1)
    _draw_cells(drawing, panel, matrix)
    next_level = np.diag(matrix, 1)
    worst = int(np.argmin(next_level))
    title = f"Overlap, least {next_level[worst]:.2f} from level {worst} to {worst + 1}"
    drawing.title(title, panel)
    return collection


def _draw_cells(drawing: Any, panel: Any, matrix: np.ndarray) -> None:
    """One square for each entry, the darker the larger, row 0 at the top."""
    n = len(matrix)
    edges = np.arange(n + 1) - 0.5
    for j, row in enumerate(matrix):
        for k in np.flatnonzero(row >= LEAST_SHOWN):
            low, high = n - 1.5 - j, n - 0.5 - j
            alpha = float(row[k] / matrix.max())
            drawing.fill_between_y(edges[k : k + 2], low, high, panel, color="C0", alpha=alpha)
            if n <= MAX_LABELLED:
                text = {"horizontal_align": "center", "vertical_align": "center"}
                drawing.text(k, n - 1 - j, f"{row[k]:.2f}", panel, **text)
    ticks = np.arange(0, n, -(-n // MAX_LABELLED))
    labels = [str(tick) for tick in ticks]
    drawing.xticks(ticks, labels, panel)
    drawing.yticks(n - 1 - ticks, labels, panel)
    drawing.xlim((-0.5, n - 0.5), panel)
    drawing.ylim((-0.5, n - 0.5), panel)
    drawing.xlabel("could have come from level", panel)
    drawing.ylabel("draws at level", panel)
