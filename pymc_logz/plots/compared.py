"""Figures of log Z: of several models, of both directions, and along a parameter of the prior."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import xarray as xr
from arviz_plots import PlotCollection

from pymc_logz.plots.panels import BLUE, GREY, Panel, color, make_panels
from pymc_logz.trees.comparison import compare_evidence, evidence_of, interval
from pymc_logz.trees.kinds import HAIS_BOTH, check_kind, group_of
from pymc_logz.trees.layout import ESTIMATOR


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
    they are not distinct. A model whose status is not ``"ok"``, which its name then says, has a
    hollow marker. Right, bars from zero. Kass & Raftery (1995) call a log Bayes factor
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
    collection, (left, right) = make_panels(names, rows, backend, figsize, sharey=True)
    heights = np.arange(len(table), 0, -1)
    _draw_bayes_factors(left, table, heights, ci_prob)
    _draw_probabilities(right, table, heights)
    return collection


def _draw_bayes_factors(
    panel: Panel, table: pd.DataFrame, heights: np.ndarray, ci_prob: float | None
) -> None:
    ci_prob, width = interval(ci_prob)
    centre = table["log_bayes_factor"].to_numpy(dtype=float)
    error = table["log_bayes_factor_mcse"].to_numpy(dtype=float)
    half_width = width * error
    panel.vline(0.0, color=GREY, linestyle=panel.linestyle(1))
    for x, half, y in zip(centre, half_width, heights, strict=True):
        panel.line(np.array([x - half, x + half]), np.array([y, y]), color=BLUE, width=3)
    status = np.asarray(table.get("status", ["ok"] * len(table)))
    is_ok = status == "ok"
    panel.scatter(centre[is_ok], heights[is_ok], color=BLUE, size=50)
    hollow = {"facecolor": "B0", "edgecolor": BLUE}  # of the background
    panel.scatter(centre[~is_ok], heights[~is_ok], size=50, width=2, **hollow)
    named = zip(table.index, status, strict=True)
    names = [f"{name}\n({one})" if one != "ok" else str(name) for name, one in named]
    panel.yticks(heights, names)
    panel.ylim((0.4, len(table) + 0.7))
    low = np.nanmin(np.append(centre - half_width, 0.0))
    high = np.nanmax(np.append(centre + half_width, 0.0))
    margin = 0.12 * (high - low) or 1.0
    panel.xlim((low - margin, high + margin))
    for k, (x, y) in enumerate(zip(centre, heights, strict=True)):
        # in the half of the panel where there is room for it
        align = "left" if x < (low + high) / 2 else "right"
        # adding zero takes the sign from a zero
        number = "best" if k == 0 else f"{round(x, 2) + 0.0:.2f} ± {error[k]:.2f}"
        if np.isfinite(x):
            place = x + (0.15 * margin if align == "left" else -0.15 * margin)
            panel.text(place, y + 0.12, number, horizontal_align=align, vertical_align="bottom")
    title = f"log Bayes factor against the best, {ci_prob:.0%} interval"
    panel.label(title, "difference of log Z (nats)")


def _draw_probabilities(panel: Panel, table: pd.DataFrame, heights: np.ndarray) -> None:
    probability = table["probability"].to_numpy(dtype=float)
    for k, (p, y) in enumerate(zip(probability, heights, strict=True)):
        ends = np.array([0.0, 0.0 if np.isnan(p) else p])
        panel.fill_between_y(ends, np.full(2, y - 0.1), np.full(2, y + 0.1), color=BLUE)
        words = f"{p:.3f}" if p >= 0.0005 else f"{p:.1g}"
        if not p <= 0.9995:  # which is not rounded to 1
            words = "unknown" if np.isnan(p) else f"1 - {np.delete(probability, k).sum():.2g}"
        panel.text(0.01, y + 0.14, words, horizontal_align="left", vertical_align="bottom")
    panel.xlim((0.0, 1.02))
    panel.label("Probability", "posterior model probability")


def plot_sandwich(
    trees: xr.DataTree | Sequence[xr.DataTree],
    *,
    log_z: float | None = None,
    ci_prob: float | None = None,
    backend: str | None = None,
    figsize: tuple[float, float] | None = None,
) -> PlotCollection:
    """Forward, reverse and two-sided estimates against the number of temperatures.

    Parameters
    ----------
    trees
        DataTrees of `sandwich`, or of `sample_hais` with ``direction="both"``, that differ in
        their number of temperatures; or one of them.
    log_z
        Exact value to mark, if it is known.
    ci_prob
        Probability of the interval around each estimate; None takes ArviZ's ``stats.ci_prob``.
    backend, figsize
        As in `plot_evidence`.

    Returns
    -------
    arviz_plots.PlotCollection
        Its ``viz`` tree holds the figure and the panel ``"log_z"``.

    Raises
    ------
    ValueError
        If a tree has no reverse estimate, or there is none.

    See Also
    --------
    sandwich

    References
    ----------
    Grosse, Ghahramani & Adams (2015), arXiv 1511.02543.

    Examples
    --------
    .. code-block:: python

        import pymc_logz as lz

        model = lz.energies.beta_bernoulli().model
        lz.plot_sandwich([lz.sandwich(model, betas=k, random_seed=1) for k in (8, 32, 128)])
    """
    trees = [trees] if isinstance(trees, xr.DataTree) else trees
    if not trees:
        raise ValueError("trees are none: give runs of sample_hais(direction='both') or sandwich")
    for tree in trees:
        check_kind(tree, "reverse_annealing", (HAIS_BOTH,))
    groups = [group_of(tree, "evidence") for tree in trees]
    groups = sorted(groups, key=lambda group: group.attrs["n_temperatures"])
    collection, [panel] = make_panels(["log_z"], 3.6, backend, figsize, n_columns=1)
    places = np.log10([float(group.attrs["n_temperatures"]) for group in groups])
    ci_prob, width = interval(ci_prob)
    methods = {"hais": "forward", "hais_reverse": "reverse", "bar": "both (BAR)"}
    labels: list[tuple[float, float, str, str]] = []
    shown: list[np.ndarray] = []
    for k, (method, name) in enumerate(methods.items()):
        entries = [group.sel({ESTIMATOR: method}) for group in groups]
        centre = np.array([float(entry["log_z"]) for entry in entries])
        error = width * np.array([float(entry["mcse"]) for entry in entries])
        shift = places + 0.012 * (k - 1)
        panel.line(shift, centre, color=color(k))
        panel.scatter(shift, centre, color=color(k))
        for x, y, half in zip(shift, centre, error, strict=True):
            panel.line(np.array([x, x]), np.array([y - half, y + half]), color=color(k))
        last = np.isfinite(centre).nonzero()[0]
        if last.size:
            labels.append((centre[last[-1]], shift[last[-1]] + 0.03, name, color(k)))
        shown += [centre - error, centre + error]
    height = float(np.ptp([y for part in shown for y in part if np.isfinite(y)] or [0.0]))
    of_label = 0.07 * height
    lowest = -np.inf
    for y, x, name, paint in sorted(labels):  # moved up where too close to the one below
        lowest = max(y, lowest + of_label)
        text = {"horizontal_align": "left", "vertical_align": "top", "color": paint}
        panel.text(x, lowest + 0.5 * of_label, f" {name}", **text)
    if log_z is not None:
        panel.hline(log_z, color=GREY, linestyle=panel.linestyle(1))
    panel.xticks(places, [f"{10**place:.0f}" for place in places])
    panel.xlim((places.min() - 0.15, places.max() + 0.45))
    title = f"Both directions, {ci_prob:.0%} intervals"
    panel.label(title, "number of temperatures", "log Z (nats)")
    return collection


def plot_sensitivity(
    idata: xr.DataTree,
    against: xr.DataTree | None = None,
    *,
    parameter: str | None = None,
    ci_prob: float | None = None,
    backend: str | None = None,
    figsize: tuple[float, float] | None = None,
) -> PlotCollection:
    """Log Bayes factor as a function of a parameter of the prior; the value in the run is marked.

    Alternatives out of reach of the draws (Pareto k-hat above its threshold) are left out. A prior
    that is made wider and wider makes any model lose in the end (Lindley's paradox): the curve
    falls by one nat for each factor of e.

    Parameters
    ----------
    idata
        DataTree of `evidence_sensitivity`.
    against
        DataTree with a group ``evidence`` of another model. None compares with the prior as it is.
    parameter
        Which of the changed parameters is drawn; None takes the only one.
    ci_prob
        Probability of the band around the curve; None takes ArviZ's ``stats.ci_prob``.
    backend, figsize
        As in `plot_evidence`.

    Returns
    -------
    arviz_plots.PlotCollection
        Its ``viz`` tree holds the figure and the panel ``"bayes"``.

    Raises
    ------
    ValueError
        If the tree has no group ``sensitivity``, or the parameter is no single number.

    See Also
    --------
    evidence_sensitivity

    Examples
    --------
    .. code-block:: python

        import numpy as np
        import pymc as pm
        import pymc_logz as lz

        with pm.Model() as model:
            width = pm.Data("width", 1.0)
            mean = pm.Normal("mean", 0, width)
            pm.Normal("y", mean, 1, observed=[1.0, 2.0, 0.5])

        tree = lz.sample_hais(model=model, random_seed=1)
        widths = {"width": np.geomspace(0.1, 100, 30)}
        lz.plot_sensitivity(lz.evidence_sensitivity(tree, model, widths))
    """
    if "sensitivity" not in getattr(idata, "children", ()):
        raise ValueError("this needs a DataTree with a group 'sensitivity': evidence_sensitivity")
    group = idata["sensitivity"].to_dataset()
    names = [str(name) for name, coord in group.coords.items() if coord.dims == ("alternative",)]
    name = names[0] if parameter is None and len(names) == 1 else parameter
    if name not in names:
        raise ValueError(f"parameter={parameter!r} must be one of {names}")
    centre = group["log_bayes_factor"].to_numpy()
    error = group["log_bayes_factor_mcse"].to_numpy()
    title = "Against the prior as it is (dashed)"
    if against is not None:
        other = evidence_of(against, "against")
        centre = group["log_z"].to_numpy() - float(other["log_z"])
        error = np.hypot(group["mcse"].to_numpy(), float(other["mcse"]))
        title = "Against the other model; prior as it is dashed"
    shown = np.isfinite(centre)
    order = np.argsort(group[name].to_numpy()[shown])
    place, centre, error = (part[shown][order] for part in (group[name].to_numpy(), centre, error))
    on_log = bool(np.all(group[name] > 0))
    place = np.log10(place) if on_log else place
    collection, [panel] = make_panels(["bayes"], 3.6, backend, figsize, n_columns=1)
    ci_prob, width = interval(ci_prob)
    half = width * error
    panel.fill_between_y(place, centre - half, centre + half, color=BLUE, alpha=0.3)
    panel.line(place, centre, color=BLUE, width=2)
    panel.hline(0.0, color=GREY)
    present = float(np.asarray(group.attrs[f"present_{name}"]).ravel()[0])
    present = np.log10(present) if on_log else present
    panel.vline(present, color=GREY, linestyle=panel.linestyle(1))
    if on_log and place.size:
        ticks = np.arange(np.ceil(place.min() - 1e-9), np.floor(place.max() + 1e-9) + 1)
        panel.xticks(ticks, [f"{10.0**tick:g}" for tick in ticks])
    panel.label(f"{title}, {ci_prob:.0%} band", name, "log Bayes factor (nats)")
    return collection
