"""Panels of a figure in the style of arviz-plots, and the colours of all figures."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import xarray as xr
from arviz_base import rcParams
from arviz_plots import PlotCollection

from pymc_logz.arguments import check_choice

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
"""Told apart by readers who do not see red or green: Okabe & Ito (2008), Color universal design."""
BLUE, RED = COLORS[:2]
GREY = "#767676"
WIDTHS = {1: 6.0, 2: 8.4, 3: 11.4}
"""Inches of figures with so many columns: text stays readable at the width of a page."""
LIBRARIES = ("matplotlib", "bokeh", "plotly")
"""What figures can be drawn with."""


def color(k: int) -> str:
    """Colour of the line number k."""
    return COLORS[k % len(COLORS)]


def drawn_by(backend: str | None) -> str:
    """The plotting library asked for, or that which ArviZ has found; an error if none is."""
    # where ArviZ would take its backend "none", which draws nothing and says nothing
    found = rcParams["plot.backend"] if backend is None else backend
    if backend is None and found == "none":
        raise ImportError(
            "there is no plotting library to draw with: python -m pip install matplotlib (or "
            "plotly, or bokeh), and start Python again"
        )
    check_choice(("none", *LIBRARIES), backend=found)
    if found in LIBRARIES and find_spec(found) is None:
        raise ImportError(f"backend={found!r} is not installed: python -m pip install {found}")
    return str(found)


def make_panels(
    names: list[str],
    height: float,
    backend: str | None,
    figsize: tuple[float, float] | None,
    *,
    n_columns: int = 2,
    sharey: bool = False,
) -> tuple[Any, PlotCollection, list[Any]]:
    """Drawing functions, a collection, and its panels, of a figure with this height in inches."""
    backend = drawn_by(backend)
    drawing = import_module(f"arviz_plots.backend.{backend}")
    size = np.array((WIDTHS[n_columns], height) if figsize is None else figsize, dtype=float)
    dots, layout = 100, {}  # per inch, of backends that have no other measure
    if backend == "matplotlib":
        # keeps titles and labels of panels apart; the other backends do so by themselves
        layout = {"layout": "constrained"}
        dots = import_module("matplotlib").rcParams["figure.dpi"]
    collection = PlotCollection.wrap(
        xr.Dataset({"panels": ("panel", np.arange(len(names)))}, coords={"panel": names}),
        cols=["panel"],
        col_wrap=n_columns,
        backend=backend,
        figure_kwargs={
            "sharey": sharey,
            "figsize": tuple(float(side) for side in size * dots),
            "figsize_units": "dots",
            **layout,
        },
    )
    return drawing, collection, list(collection.viz["plot"].to_numpy())


def level_ticks(n_levels: int, most: int = 8) -> tuple[np.ndarray, list[str]]:
    """Places and labels of an axis of levels, which are integers."""
    ticks = np.arange(0, n_levels, -(-n_levels // most))
    return ticks, [str(tick) for tick in ticks]


def level_axis(drawing: Any, panel: Any, n_levels: int) -> None:
    """A horizontal axis of levels."""
    drawing.xticks(*level_ticks(n_levels), panel)
    drawing.xlabel("level", panel)


def beta_axis(drawing: Any, panel: Any) -> None:
    """A fourth-root axis of inverse temperatures, since most of a path is near 0."""
    ticks = np.array([0.0, 0.01, 0.1, 0.3, 1.0])
    drawing.xticks(ticks**0.25, [f"{tick:g}" for tick in ticks], panel)
    drawing.xlabel("inverse temperature beta", panel)


def dashed(drawing: Any) -> str:
    """Line style of what is there for comparison."""
    return str(drawing.get_default_aes("linestyle", 2)[-1])


def label(
    drawing: Any, panel: Any, title: str | None, x: str | None = None, y: str | None = None
) -> None:
    """Title of a panel and what its axes show."""
    for write, text in ((drawing.title, title), (drawing.xlabel, x), (drawing.ylabel, y)):
        if text is not None:
            write(text, panel)
