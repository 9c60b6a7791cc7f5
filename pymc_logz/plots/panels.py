"""Panels of a figure in the style of arviz-plots, and the colours of all figures."""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import xarray as xr
from arviz_base import rcParams
from arviz_plots import PlotCollection

from pymc_logz.arguments import check_choice, check_positive

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


class Panel:
    """One panel of a figure, drawn on by the functions of a backend of arviz-plots."""

    def __init__(self, backend: str, target: Any) -> None:
        self.backend, self.target = backend, target
        self.functions = import_module(f"arviz_plots.backend.{backend}")

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """A function of the backend, such as ``line``: it takes the panel after what it draws."""
        draw = getattr(self.functions, name)
        return lambda *what, **style: draw(*what, self.target, **style)

    def linestyle(self, k: int) -> str:
        """Style of a line beside the solid one: 1 is dashed, 2 is dotted."""
        return str(self.functions.get_default_aes("linestyle", k + 1)[-1])

    def label(self, title: str | None, x: str | None = None, y: str | None = None) -> None:
        """Title of the panel and what its axes show."""
        for write, text in ((self.title, title), (self.xlabel, x), (self.ylabel, y)):
            if text is not None:
                write(text)

    def level_axis(self, n_levels: int) -> None:
        """A horizontal axis of levels."""
        self.xticks(*level_ticks(n_levels))
        self.xlabel("level")

    def beta_axis(self) -> None:
        """A fourth-root axis of inverse temperatures, since most of a path is near 0."""
        ticks = np.array([0.0, 0.01, 0.1, 0.3, 1.0])
        self.xticks(ticks**0.25, [f"{tick:g}" for tick in ticks])
        self.xlabel("inverse temperature beta")


def level_ticks(n_levels: int, most: int = 8) -> tuple[np.ndarray, list[str]]:
    """Places and labels of an axis of levels, which are integers."""
    ticks = np.arange(0, n_levels, -(-n_levels // most))
    return ticks, [str(tick) for tick in ticks]


def make_panels(
    names: list[str],
    height: float,
    backend: str | None,
    figsize: tuple[float, float] | None,
    *,
    n_columns: int = 2,
    sharey: bool = False,
) -> tuple[PlotCollection, list[Panel]]:
    """A collection and its panels, of a figure with this height in inches."""
    found = rcParams["plot.backend"] if backend is None else backend
    # where ArviZ would take its backend "none", which draws nothing and says nothing
    if backend is None and found == "none":
        raise ImportError(
            "there is no plotting library to draw with: python -m pip install matplotlib (or "
            "plotly, or bokeh), and start Python again"
        )
    check_choice(("none", *LIBRARIES), backend=found)
    if found in LIBRARIES and find_spec(found) is None:
        raise ImportError(f"backend={found!r} is not installed: python -m pip install {found}")
    check_positive("inches", figsize=figsize)
    if figsize is not None and np.shape(figsize) != (2,):
        raise ValueError(f"figsize={figsize!r} must be a width and a height, in inches")
    size = np.array((WIDTHS[n_columns], height) if figsize is None else figsize, dtype=float)
    dots, layout = 100, {}  # per inch, of backends that have no other measure
    if found == "matplotlib":
        # keeps titles and labels of panels apart; the other backends do so by themselves
        layout = {"layout": "constrained"}
        dots = import_module("matplotlib").rcParams["figure.dpi"]
    collection = PlotCollection.wrap(
        xr.Dataset({"panels": ("panel", np.arange(len(names)))}, coords={"panel": names}),
        cols=["panel"],
        col_wrap=n_columns,
        backend=found,
        figure_kwargs={
            "sharey": sharey,
            "figsize": tuple(float(side) for side in size * dots),
            "figsize_units": "dots",
            **layout,
        },
    )
    return collection, [Panel(found, one) for one in collection.viz["plot"].to_numpy()]
