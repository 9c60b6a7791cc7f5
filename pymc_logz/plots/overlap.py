"""How much the levels of a tempered run overlap."""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection

from pymc_logz.estimators import mbar
from pymc_logz.plots.panels import BLUE, make_panels
from pymc_logz.trees.layout import stored_draws


def plot_overlap(
    idata: xr.DataTree, *, backend: str | None = None, figsize: tuple[float, float] | None = None
) -> PlotCollection:
    """The overlap matrix of the levels: from which levels draws could as well have come.

    Row j is the mean, over draws at level j, of the probability that they were made at each level,
    given the log ratio and how often each level was visited; rows sum to one. Neighbours should
    share at least a few percent: a block that does not leave the diagonal is where the two sides of
    the schedule know nothing of each other.

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

    See Also
    --------
    plot_tempering, plot_thermo, sample_tempered

    References
    ----------
    Klimovich, Shirts & Mobley (2015), doi 10.1007/s10822-015-9840-9.

    Examples
    --------
    .. code-block:: python

        import pymc_logz as lz

        model = lz.energies.ridge().model
        tree = lz.sample_tempered(model=model, random_seed=1)
        lz.plot_overlap(tree)
    """
    draws = stored_draws(idata)
    overlap = mbar(draws).details.get("overlap")
    if overlap is None:
        raise ValueError("this run has no draws in the support of the target, so nothing overlaps")
    matrix = np.nan_to_num(np.asarray(overlap))
    drawing, collection, [panel] = make_panels(["overlap"], 5.2, backend, figsize, n_columns=1)
    _draw_cells(drawing, panel, matrix)
    next_level = np.diag(matrix, 1)
    worst = int(np.argmin(next_level))
    title = f"Overlap, least {next_level[worst]:.2f} from level {worst} to {worst + 1}"
    drawing.title(title, panel)
    return collection


def _draw_cells(drawing: Any, panel: Any, matrix: np.ndarray, most_labels: int = 12) -> None:
    """One square for each entry, the darker the larger, row 0 at the top."""
    n, shown = len(matrix), matrix >= 0.005
    strength = np.where(shown, matrix / matrix.max(), 0.0)
    backend = drawing.__name__.rpartition(".")[2]
    (PAINT.get(backend) or partial(_paint, drawing))(panel, strength[::-1])
    middle = "middle" if backend == "plotly" else "center"
    if n <= most_labels:
        for j, k in np.argwhere(shown):
            text = {"horizontal_align": "center", "vertical_align": middle}
            text["color"] = "white" if strength[j, k] > 0.6 else "black"
            drawing.text(int(k), int(n - 1 - j), f"{matrix[j, k]:.2f}", panel, **text)
    ticks = np.arange(0, n, -(-n // most_labels))
    labels = [str(tick) for tick in ticks]
    drawing.xticks(ticks, labels, panel)
    drawing.yticks(n - 1 - ticks, labels, panel)
    drawing.xlim((-0.5, n - 0.5), panel)
    drawing.ylim((-0.5, n - 0.5), panel)
    drawing.xlabel("could have come from level", panel)
    drawing.ylabel("draws at level", panel)


def _paint(drawing: Any, panel: Any, strength: np.ndarray) -> None:
    """Squares one by one, the lowest row first: arviz-plots has nothing for all of them."""
    for (j, k), alpha in np.ndenumerate(strength):
        if alpha > 0:
            side = np.array([k - 0.5, k + 0.5])
            drawing.fill_between_y(side, j - 0.5, j + 0.5, panel, color=BLUE, alpha=float(alpha))


def _paint_matplotlib(panel: Any, strength: np.ndarray) -> None:
    colors = np.zeros((*strength.shape, 4))
    colors[..., :3] = [int(BLUE[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    colors[..., 3] = strength
    n = len(strength)
    extent = (-0.5, n - 0.5, -0.5, n - 0.5)
    panel.imshow(colors, origin="lower", extent=extent, aspect="auto", interpolation="nearest")


def _paint_bokeh(panel: Any, strength: np.ndarray) -> None:
    y, x = (index.ravel() for index in np.indices(strength.shape))
    style = {"fill_color": BLUE, "fill_alpha": strength.ravel(), "line_color": None}
    panel.rect(x=x, y=y, width=1, height=1, **style)


def _paint_plotly(panel: Any, strength: np.ndarray) -> None:
    red, green, blue = (int(BLUE[at : at + 2], 16) for at in (1, 3, 5))
    scale = [[0, f"rgba({red},{green},{blue},0)"], [1, f"rgba({red},{green},{blue},1)"]]
    graph_objects = import_module("plotly.graph_objects")
    panel.add_trace(graph_objects.Heatmap(z=strength, colorscale=scale, showscale=False))


PAINT: dict[str, Callable[[Any, np.ndarray], None]] = {
    "matplotlib": _paint_matplotlib,
    "bokeh": _paint_bokeh,
    "plotly": _paint_plotly,
}
"""All squares in one call, by backend: one by one, 300 of them took more than two seconds."""
