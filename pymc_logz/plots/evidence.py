"""Log Bayes factors and posterior model probabilities."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from arviz_plots import PlotCollection

from pymc_logz.plots.panels import BLUE, GREY, dashed, interval, make_panels
from pymc_logz.trees.comparison import compare_evidence


def plot_evidence(
    trees: Mapping[str, xr.DataTree] | pd.DataFrame,
    *,
    ci_prob: float | None = None,
    backend: str | None = None,
    figsize: tuple[float, float] | None = None,
) -> PlotCollection:
    """Log Bayes factors against the best model, and posterior model probabilities.

    Left, the difference of each log Z from that of the best model, with the interval of the
    difference: both errors are in it, and the best model has none of its own. Where it holds zero
    they are not distinct. Right, bars from zero. Kass & Raftery (1995) call a log Bayes factor
    below 1 worth no more than a bare mention, from 1 to 3 positive evidence, to 5 strong, and above
    that very strong.

    Parameters
    ----------
    trees
        DataTrees with a group ``evidence`` by the name of the model, or the table that
        `compare_evidence` made of them (with prior odds, for example).
    ci_prob
        Probability of the interval drawn around each log Bayes factor, which the title names; None
        takes ArviZ's ``stats.ci_prob``, as `bayes_factor` does.
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

    See Also
    --------
    compare_evidence : the numbers.

    References
    ----------
    Kass & Raftery (1995), doi 10.1080/01621459.1995.10476572.

    Examples
    --------
    .. code-block:: python

        import pymc_logz as lz

        runs = {
            name: lz.sample_hais(model=lz.energies.radiata_pine(name).model, random_seed=1)
            for name in ("density", "adjusted")
        }
        lz.plot_evidence(runs)
    """
    table = trees if isinstance(trees, pd.DataFrame) else compare_evidence(trees)
    names = ["log_bayes_factor", "probability"]
    rows = 1.3 + 0.5 * len(table)
    drawing, collection, (left, right) = make_panels(names, rows, backend, figsize, sharey=True)
    heights = np.arange(len(table), 0, -1)
    _draw_bayes_factors(drawing, left, table, heights, ci_prob)
    _draw_probabilities(drawing, right, table, heights)
    return collection


def _draw_bayes_factors(
    drawing: Any, target: Any, table: pd.DataFrame, heights: np.ndarray, ci_prob: float | None
) -> None:
    ci_prob, width = interval(ci_prob)
    centre = table["log_bayes_factor"].to_numpy(dtype=float)
    error = table["log_bayes_factor_mcse"].to_numpy(dtype=float)
    half_width = width * error
    drawing.vline(0.0, target, color=GREY, linestyle=dashed(drawing))
    for x, half, y in zip(centre, half_width, heights, strict=True):
        drawing.line(np.array([x - half, x + half]), np.array([y, y]), target, color=BLUE, width=3)
    drawing.scatter(centre, heights, target, color=BLUE, size=50)
    drawing.yticks(heights, [str(name) for name in table.index], target)
    drawing.ylim((0.4, len(table) + 0.7), target)
    low = np.nanmin(np.append(centre - half_width, 0.0))
    high = np.nanmax(np.append(centre + half_width, 0.0))
    margin = 0.12 * (high - low) or 1.0
    drawing.xlim((low - margin, high + margin), target)
    for k, (x, y) in enumerate(zip(centre, heights, strict=True)):
        # in the half of the panel where there is room for it
        align = "left" if x < (low + high) / 2 else "right"
        label = "best" if k == 0 else f"{x:.2f} ± {error[k]:.2f}"
        if np.isfinite(x):
            text = {"horizontal_align": align, "vertical_align": "bottom"}
            aside = 0.15 * margin if align == "left" else -0.15 * margin
            drawing.text(x + aside, y + 0.12, label, target, **text)
    drawing.xlabel("log Bayes factor against the best model (nats)", target)
    drawing.title(f"Difference of log Z ± error; bar: {ci_prob:.0%}", target)


def _draw_probabilities(
    drawing: Any, target: Any, table: pd.DataFrame, heights: np.ndarray
) -> None:
    probability = table["probability"].to_numpy(dtype=float)
    for k, (p, y) in enumerate(zip(probability, heights, strict=True)):
        ends = np.array([0.0, 0.0 if np.isnan(p) else p])
        drawing.fill_between_y(ends, np.full(2, y - 0.1), np.full(2, y + 0.1), target, color=BLUE)
        drawing.text(
            0.01,
            y + 0.14,
            _in_words(p, float(np.delete(probability, k).sum())),
            target,
            horizontal_align="left",
            vertical_align="bottom",
        )
    drawing.xlim((0.0, 1.02), target)
    drawing.xlabel("posterior model probability", target)
    drawing.title("Probability", target)


def _in_words(probability: float, of_others: float) -> str:
    """A probability, which is not rounded to 1."""
    if np.isnan(probability):
        return "unknown"
    return f"1 - {of_others:.2g}" if probability > 0.9995 else f"{probability:.3g}"
