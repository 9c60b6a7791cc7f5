"""Estimates of both directions against the number of temperatures."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection

from pymc_logz.plots.panels import GREY, color, dashed, interval, make_panels
from pymc_logz.trees.kinds import HAIS_BOTH, check_kind, group_of
from pymc_logz.trees.layout import ESTIMATOR


def plot_sandwich(
    trees: Sequence[xr.DataTree],
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
        their number of temperatures.
    log_z
        Exact value to mark, if it is known.
    ci_prob
        Probability of the interval around each estimate; None takes ArviZ's ``stats.ci_prob``.
    backend
        ``"matplotlib"``, ``"bokeh"`` or ``"plotly"``; None takes ArviZ's ``plot.backend``.
    figsize
        Size of the figure in inches.

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
    if not trees:
        raise ValueError("trees are none: give runs of sample_hais(direction='both') or sandwich")
    for tree in trees:
        check_kind(tree, "reverse_annealing", (HAIS_BOTH,))
    groups = [group_of(tree, "evidence") for tree in trees]
    groups = sorted(groups, key=lambda group: group.attrs["n_temperatures"])
    drawing, collection, [panel] = make_panels(["log_z"], 3.6, backend, figsize, n_columns=1)
    places = np.log10([float(group.attrs["n_temperatures"]) for group in groups])
    ci_prob, width = interval(ci_prob)
    methods = {"hais": "forward", "hais_reverse": "reverse", "bar": "both (BAR)"}
    labels: list[tuple[float, float, str, str]] = []
    shown: list[np.ndarray] = []
    for k, (method, label) in enumerate(methods.items()):
        entries = [group.sel({ESTIMATOR: method}) for group in groups]
        centre = np.array([float(entry["log_z"]) for entry in entries])
        error = width * np.array([float(entry["mcse"]) for entry in entries])
        shift = places + 0.012 * (k - 1)
        drawing.line(shift, centre, panel, color=color(k))
        drawing.scatter(shift, centre, panel, color=color(k))
        for x, y, half in zip(shift, centre, error, strict=True):
            drawing.line(np.array([x, x]), np.array([y - half, y + half]), panel, color=color(k))
        last = np.isfinite(centre).nonzero()[0]
        if last.size:
            labels.append((centre[last[-1]], shift[last[-1]] + 0.03, label, color(k)))
        shown += [centre - error, centre + error]
    height = float(np.ptp([y for part in shown for y in part if np.isfinite(y)] or [0.0]))
    of_label = 0.07 * height
    for place, (_, x, label, paint) in zip(
        _apart([label[0] for label in sorted(labels)], of_label), sorted(labels), strict=True
    ):
        text = {"horizontal_align": "left", "vertical_align": "top", "color": paint}
        drawing.text(x, place + 0.5 * of_label, f" {label}", panel, **text)
    if log_z is not None:
        drawing.hline(log_z, panel, color=GREY, linestyle=dashed(drawing))
    drawing.xticks(places, [f"{10**place:.0f}" for place in places], panel)
    drawing.xlim((places.min() - 0.15, places.max() + 0.45), panel)
    drawing.xlabel("number of temperatures", panel)
    drawing.ylabel("log Z (nats)", panel)
    drawing.title(f"Both directions, {ci_prob:.0%} intervals", panel)
    return collection


def _apart(places: list[float], least: float) -> list[float]:
    """Places that rise, moved up where they are too close to the one below."""
    moved: list[float] = []
    for place in places:
        moved.append(max(place, moved[-1] + least) if moved else place)
    return moved
