"""Figures in the style of arviz-plots, from DataTrees."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from arviz_base import rcParams
from arviz_plots import PlotCollection
from scipy.stats import norm

from pymc_logz.comparison import compare_evidence, evidence_of
from pymc_logz.estimators import importance_log_z

LOG_WEIGHTS_SHOWN = 10.0


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
    """
    if not 0 < ci_prob < 1:
        raise ValueError(f"ci_prob={ci_prob!r} must lie strictly between 0 and 1")
    table = trees if isinstance(trees, pd.DataFrame) else compare_evidence(trees)
    names = ["log_bayes_factor", "probability"]
    rows = 0.5 + 0.25 * len(table)
    drawing, collection, (left, right) = make_panels(names, 1, rows, backend, figsize, sharey=True)
    heights = np.arange(len(table), 0, -1)
    _draw_bayes_factors(drawing, left, table, heights, ci_prob)
    _draw_probabilities(drawing, right, table, heights)
    return collection


def plot_path(
    tree: xr.DataTree, *, backend: str | None = None, figsize: tuple[float, float] | None = None
) -> PlotCollection:
    """What happened along the path: a first look when a status is not ``"ok"``.

    Four panels against the inverse temperature (on a fourth-root axis, since most of a path is near
    0): the mean log ratio, which is the integrand of thermodynamic integration; the acceptance
    rate; the step size; and the weight ESS as a share of the rows. One line per chain.

    Parameters
    ----------
    tree
        DataTree of `sample_hais`.
    backend
        ``"matplotlib"``, ``"bokeh"`` or ``"plotly"``; None takes ArviZ's ``plot.backend``.
    figsize
        Size of the figure in inches.

    Returns
    -------
    arviz_plots.PlotCollection

    Raises
    ------
    ValueError
        If the tree has no group ``annealing``.
    """
    stages = _group(tree, "annealing")
    names = ["mean_log_ratio", "acceptance_rate", "step_size", "weight_ess"]
    titles = ["Mean log ratio (nats)", "Acceptance rate", "Step size", "Weight ESS, share of rows"]
    drawing, collection, panels = make_panels(names, 2, 2.4, backend, figsize)
    place = stages["beta"].to_numpy() ** 0.25
    ticks = np.array([0.0, 1e-4, 1e-2, 0.1, 0.3, 1.0])
    for name, title, panel in zip(names, titles, panels, strict=True):
        lines = np.atleast_2d(stages[name].to_numpy())
        if name == "weight_ess":
            lines = lines / lines[:, :1]
        for k, line in enumerate(lines):
            # a prior draw outside the support makes the mean log ratio -inf at beta = 0
            shown = np.isfinite(line)
            drawing.line(place[shown], line[shown], panel, color=f"C{k % 10}", alpha=0.8)
        drawing.xticks(ticks**0.25, [f"{tick:g}" for tick in ticks], panel)
        drawing.xlabel("beta", panel)
        drawing.title(title, panel)
    return collection


def plot_weights(
    tree: xr.DataTree, *, backend: str | None = None, figsize: tuple[float, float] | None = None
) -> PlotCollection:
    """Log weights around log Z, and how much of the estimate the largest ones carry.

    Left, a histogram of log weight minus log Z, from -10 on, below which nothing counts; right, the
    share of Z that the largest weights make up, with the diagonal of equal weights. The title gives
    the weight ESS and Pareto k-hat.

    Parameters
    ----------
    tree
        DataTree of `sample_hais`.
    backend
        ``"matplotlib"``, ``"bokeh"`` or ``"plotly"``; None takes ArviZ's ``plot.backend``.
    figsize
        Size of the figure in inches.

    Returns
    -------
    arviz_plots.PlotCollection

    Raises
    ------
    ValueError
        If the tree has no weighted draws, or none of them has any weight.
    """
    log_weight = _group(tree, "weighted_posterior")["log_weight"].to_numpy().ravel()
    estimate = importance_log_z(log_weight)
    finite = log_weight[np.isfinite(log_weight)]
    if finite.size == 0:
        raise ValueError(
            "every weight of this run is zero or infinite, so there is nothing to draw"
        )
    names = ["histogram", "share"]
    drawing, collection, (left, right) = make_panels(names, 1, 1.2, backend, figsize)
    log_mean = np.logaddexp.reduce(finite) - np.log(log_weight.size)
    shown = finite[finite > log_mean - LOG_WEIGHTS_SHOWN]
    counts, edges = np.histogram(shown - log_mean, bins="fd")
    drawing.hist(counts, edges[:-1], edges[1:], left, color="C0", alpha=0.7)
    drawing.vline(0.0, left, color="C7")
    drawing.xlabel("log weight - log Z (nats)", left)
    n, ess = log_weight.size, estimate.weight_ess
    drawing.title(f"weight ESS {ess:.0f} of {n}, k-hat {estimate.khat:.2f}", left)
    weight = np.sort(np.exp(finite - finite.max()))[::-1]
    share = np.concatenate([[0.0], np.cumsum(weight) / weight.sum()])
    count = np.arange(share.size) / n
    drawing.line(count, share, right, color="C0", width=2)
    drawing.line(np.array([0.0, 1.0]), np.array([0.0, 1.0]), right, color="C7", alpha=0.7)
    drawing.xlabel("share of the rows, largest weights first", right)
    drawing.title("Share of Z", right)
    return collection


def plot_sandwich(
    trees: Sequence[xr.DataTree],
    *,
    log_z: float | None = None,
    ci_prob: float = 0.95,
    backend: str | None = None,
    figsize: tuple[float, float] | None = None,
) -> PlotCollection:
    """Forward, reverse and two-sided estimates against the number of temperatures.

    Parameters
    ----------
    trees
        DataTrees of `sandwich`, or of `sample_hais` with ``direction="both"``, that differ in
        their number of temperatures.
    log_z
        Exact value to mark, if it is known.
    ci_prob
        Probability of the interval around each estimate.
    backend
        ``"matplotlib"``, ``"bokeh"`` or ``"plotly"``; None takes ArviZ's ``plot.backend``.
    figsize
        Size of the figure in inches.

    Returns
    -------
    arviz_plots.PlotCollection

    Raises
    ------
    ValueError
        If a tree has no reverse estimate.
    """
    groups = [_group(tree, "evidence") for tree in trees]
    if not groups or any("hais_reverse" not in group["method"] for group in groups):
        raise ValueError("each tree needs a reverse estimate: run with direction='both'")
    groups = sorted(groups, key=lambda group: group.attrs["n_temperatures"])
    drawing, collection, [panel] = make_panels(["log_z"], 1, 1.4, backend, figsize, n_columns=1)
    places = np.log10([float(group.attrs["n_temperatures"]) for group in groups])
    width = norm.ppf(0.5 + 0.5 * ci_prob)
    methods = {"hais": "forward", "hais_reverse": "reverse", "bar": "both (BAR)"}
    for k, (method, label) in enumerate(methods.items()):
        entries = [group.sel({"method": method}) for group in groups]
        centre = np.array([float(entry["log_z"]) for entry in entries])
        error = width * np.array([float(entry["mcse"]) for entry in entries])
        shift = places + 0.012 * (k - 1)
        drawing.line(shift, centre, panel, color=f"C{k}", label=label)
        drawing.scatter(shift, centre, panel, color=f"C{k}")
        for x, y, half in zip(shift, centre, error, strict=True):
            drawing.line(np.array([x, x]), np.array([y - half, y + half]), panel, color=f"C{k}")
        last = np.isfinite(centre).nonzero()[0]
        if last.size:
            text = {"horizontal_align": "left", "color": f"C{k}"}
            drawing.text(shift[last[-1]] + 0.03, centre[last[-1]], f" {label}", panel, **text)
    if log_z is not None:
        drawing.hline(
            log_z, panel, color="C7", linestyle=drawing.get_default_aes("linestyle", 2)[-1]
        )
    drawing.xticks(places, [f"{10**place:.0f}" for place in places], panel)
    drawing.xlim((places.min() - 0.15, places.max() + 0.45), panel)
    drawing.xlabel("temperatures", panel)
    drawing.ylabel("log Z (nats)", panel)
    drawing.title(f"Both directions, {ci_prob:.0%} intervals", panel)
    return collection


def plot_sensitivity(
    tree: xr.DataTree,
    against: xr.DataTree | None = None,
    *,
    parameter: str | None = None,
    ci_prob: float = 0.95,
    backend: str | None = None,
    figsize: tuple[float, float] | None = None,
) -> PlotCollection:
    """Log Bayes factor against a parameter of the prior, with the value that the run had.

    Alternatives out of reach of the draws (Pareto k-hat above its threshold) are left out. A prior
    that is made wider and wider makes any model lose in the end (Lindley's paradox): the curve
    falls by one nat for each factor of e.

    Parameters
    ----------
    tree
        DataTree of `evidence_sensitivity`.
    against
        DataTree with a group ``evidence`` of another model. None compares with the prior as it is.
    parameter
        Which of the changed parameters is drawn; None takes the only one.
    ci_prob
        Probability of the band around the curve.
    backend
        ``"matplotlib"``, ``"bokeh"`` or ``"plotly"``; None takes ArviZ's ``plot.backend``.
    figsize
        Size of the figure in inches.

    Returns
    -------
    arviz_plots.PlotCollection

    Raises
    ------
    ValueError
        If the tree has no group ``sensitivity``, or the parameter is no single number.
    """
    if "sensitivity" not in getattr(tree, "children", ()):
        raise ValueError("this needs a DataTree with a group 'sensitivity': evidence_sensitivity")
    group = tree["sensitivity"].to_dataset()
    name = _parameter(group, parameter)
    centre = group["log_bayes_factor"].to_numpy()
    error = group["log_bayes_factor_mcse"].to_numpy()
    title = "Log Bayes factor against the prior as it is"
    if against is not None:
        other = evidence_of(against, "against")
        centre = group["log_z"].to_numpy() - float(other["log_z"])
        error = np.hypot(group["mcse"].to_numpy(), float(other["mcse"]))
        title = "Log Bayes factor"
    shown = np.isfinite(centre)
    order = np.argsort(group[name].to_numpy()[shown])
    place, centre, error = (part[shown][order] for part in (group[name].to_numpy(), centre, error))
    on_log = bool(np.all(group[name] > 0))
    place = np.log10(place) if on_log else place
    drawing, collection, [panel] = make_panels(["bayes"], 1, 1.4, backend, figsize, n_columns=1)
    half = norm.ppf(0.5 + 0.5 * ci_prob) * error
    drawing.fill_between_y(place, centre - half, centre + half, panel, color="C0", alpha=0.3)
    drawing.line(place, centre, panel, color="C0", width=2)
    dashed = drawing.get_default_aes("linestyle", 2)[-1]
    drawing.hline(0.0, panel, color="C7")
    present = float(np.asarray(group.attrs[f"present_{name}"]).ravel()[0])
    drawing.vline(np.log10(present) if on_log else present, panel, color="C7", linestyle=dashed)
    if on_log and place.size:
        ticks = np.arange(np.ceil(place.min() - 1e-9), np.floor(place.max() + 1e-9) + 1)
        drawing.xticks(ticks, [f"{10.0**tick:g}" for tick in ticks], panel)
    drawing.xlabel(name, panel)
    drawing.ylabel("nats", panel)
    drawing.title(f"{title}, {ci_prob:.0%} band", panel)
    return collection


def _parameter(group: xr.Dataset, parameter: str | None) -> str:
    """Name of the changed parameter to draw."""
    names = [str(name) for name, coord in group.coords.items() if coord.dims == ("alternative",)]
    if parameter is None and len(names) == 1:
        return names[0]
    if parameter not in names:
        raise ValueError(f"parameter={parameter!r} must be one of {names}")
    return str(parameter)


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
