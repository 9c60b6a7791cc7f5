"""Log Bayes factors and posterior model probabilities."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from arviz_plots import PlotCollection
from scipy.stats import norm

from pymc_logz.arguments import check_probability
from pymc_logz.plots.panels import make_panels
from pymc_logz.trees.comparison import compare_evidence


def plot_evidence(
    trees: Mapping[str, xr.DataTree] | pd.DataFrame,
    *,
    ci_prob: float = 0.95,
    backend: str | None = None,
    figsize: tuple[float, float] | None = None,
) -> PlotCollection:
    """Log Bayes factors against the best model, and posterior model probabilities.

    Parameters
    ----------
    trees
        DataTrees with a group ``evidence`` by the name of the model, or the table that
        `compare_evidence` made of them (with prior odds, for example).
    ci_prob
        Probability of the interval drawn around each log Bayes factor.
    backend
        ``"matplotlib"``, ``"bokeh"`` or ``"plotly"``; None takes ArviZ's ``plot.backend``.
    figsize
        Size of the figure in inches.

    Returns
    -------
    arviz_plots.PlotCollection
        Its ``viz`` tree holds the figure and the two panels, ``"log_bayes_factor"`` and
        ``"probability"``.

    Raises
    ------
    ValueError
        If a tree has no evidence, or ``ci_prob`` is not in (0, 1).

    References
    ----------
    Kass & Raftery (1995), doi 10.1080/01621459.1995.10476572.

    Examples
    --------
    .. code-block:: python

        lz.plot_evidence({"density": tree_a, "adjusted": tree_b})
    """
    check_probability(ci_prob=ci_prob)
    table = trees if isinstance(trees, pd.DataFrame) else compare_evidence(trees)
    names = ["log_bayes_factor", "probability"]
    rows = 0.5 + 0.25 * len(table)
    drawing, collection, (left, right) = make_panels(names, rows, backend, figsize, sharey=True)
    heights = np.arange(len(table), 0, -1)
    _draw_bayes_factors(drawing, left, table, heights, ci_prob)
    _draw_probabilities(drawing, right, table, heights)
    return collection


def _draw_bayes_factors(
    drawing: Any, target: Any, table: pd.DataFrame, heights: np.ndarray, ci_prob: float
) -> None:
    centre = table["log_bayes_factor"].to_numpy(dtype=float)
    # the interval of a model's own log Z: the best model has an error too
    half_width = norm.ppf(0.5 + 0.5 * ci_prob) * table["mcse"].to_numpy(dtype=float)
    drawing.vline(0.0, target, color="C7", linestyle=drawing.get_default_aes("linestyle", 2)[-1])
    for x, half, y in zip(centre, half_width, heights, strict=True):
        drawing.line(np.array([x - half, x + half]), np.array([y, y]), target, color="C0", width=3)
    drawing.scatter(centre, heights, target, color="C0", size=60)
    drawing.yticks(heights, [str(name) for name in table.index], target)
    drawing.ylim((0.4, len(table) + 0.6), target)
    drawing.xlabel("log Z relative to the best model (nats)", target)
    drawing.title(f"Log evidence, {ci_prob:.0%} interval", target)


def _draw_probabilities(
    drawing: Any, target: Any, table: pd.DataFrame, heights: np.ndarray
) -> None:
    probability = table["probability"].to_numpy(dtype=float)
    for p, y in zip(probability, heights, strict=True):
        drawing.line(np.array([0.0, p]), np.array([y, y]), target, color="C1", width=10)
        label = "unknown" if np.isnan(p) else f"{p:.3g}"
        drawing.text(
            0.03,
            y + 0.22,
            label,
            target,
            horizontal_align="left",
            vertical_align="center",
        )
    drawing.xlim((0.0, 1.02), target)
    drawing.xlabel("posterior probability", target)
    drawing.title("Model probability", target)
