"""Figures of tempered runs: how walkers travelled, how levels overlap, what estimators say."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection
from scipy.special import logsumexp, softmax

from pymc_logz.estimators import METHODS, LogZCurve, TemperedDraws, mbar
from pymc_logz.plots.panels import BLUE, GREY, RED, Panel, color, level_ticks, make_panels
from pymc_logz.tempered.evidence import check_methods
from pymc_logz.tempered.results import rejection_rates, round_trips
from pymc_logz.tempered.warm_up import level_probabilities
from pymc_logz.trees.comparison import interval
from pymc_logz.trees.layout import ESTIMATOR, draws_of_group, stored_draws, tempering_of


def plot_tempering(
    idata: xr.DataTree, *, backend: str | None = None, figsize: tuple[float, float] | None = None
) -> PlotCollection:
    """How walkers travelled between the ends of the schedule, and where they spent their time.

    Four panels: the levels of some walkers over the first iterations; the fraction of time at each
    level, one line per chain, against its prior (dotted); how many walkers made how many round
    trips; and the swaps with the next level that would be rejected.

    Parameters
    ----------
    idata
        DataTree of `sample_tempered`, or of ``pm.sample`` with step `SimulatedTempering`.
    backend, figsize
        As in `plot_evidence`.

    Returns
    -------
    arviz_plots.PlotCollection
        Its ``viz`` tree holds the figure and the panels ``"level"``, ``"occupancy"``,
        ``"round_trips"`` and ``"rejection_rate"``.

    Raises
    ------
    ValueError
        If the tree is not of a tempered run.

    See Also
    --------
    plot_thermo, plot_overlap, sample_tempered

    Examples
    --------
    .. code-block:: python

        import pymc_logz as lz

        model = lz.energies.ridge().model
        tree = lz.sample_tempered(model=model, random_seed=1)
        lz.plot_tempering(tree)
    """
    group = tempering_of(idata)
    draws = draws_of_group(group)
    names = ["level", "occupancy", "round_trips", "rejection_rate"]
    collection, panels = make_panels(names, 5.2, backend, figsize)
    chosen = np.linspace(0, len(draws.level) - 1, 3).astype(int)
    for k, walker in enumerate(np.unique(chosen)):
        trace = draws.level[walker, :200]
        panels[0].line(np.arange(trace.size), trace, color=color(k), alpha=0.8)
    panels[0].yticks(*level_ticks(draws.n_levels))
    panels[0].label("Level of some walkers", "iteration", "level")
    _draw_occupancy(panels[1], group)
    _draw_round_trips(panels[2], draws)
    rate = rejection_rates(draws)
    panels[3].line(np.arange(rate.size), rate, color=BLUE)
    panels[3].scatter(np.arange(rate.size), rate, color=BLUE)
    panels[3].ylim((0.0, 1.0))
    panels[3].level_axis(draws.n_levels)
    title = f"Rejected swaps, sum {np.nansum(rate):.1f}"
    panels[3].label(title, y="fraction of swaps")
    return collection


def _draw_occupancy(panel: Panel, group: xr.Dataset) -> None:
    chains = [draws_of_group(group.isel(chain=[chain])) for chain in range(group.sizes["chain"])]
    shares, draws = [level_probabilities(chain) for chain in chains], chains[-1]
    place = np.arange(draws.n_levels)
    for k, share in enumerate(shares):
        panel.line(place, share, color=color(k), alpha=0.8)
    prior = softmax(draws.log_prior)
    panel.line(place, prior, color=GREY, linestyle=panel.linestyle(2), width=2)
    panel.ylim((0.0, 1.3 * max(prior.max(), np.max(shares))))
    panel.level_axis(draws.n_levels)
    panel.label("Time at each level, prior dotted", y="fraction of draws")


def _draw_round_trips(panel: Panel, draws: TemperedDraws) -> None:
    trips = round_trips(draws.level, draws.n_levels)
    width = max(1, -(-int(np.ptp(trips) + 1) // 20))
    edges = np.arange(trips.min(), trips.max() + width + 1, width) - 0.5
    counts, edges = np.histogram(trips, edges)
    panel.hist(counts, edges[:-1], edges[1:], color=BLUE, alpha=0.7)
    ticks = np.arange(trips.min(), trips.max() + 1, -(-int(np.ptp(trips) + 1) // 8))
    panel.xticks(ticks, [str(tick) for tick in ticks])
    title = f"{trips.sum()} round trips of {trips.size} walkers"
    panel.label(title, "round trips of a walker", "walkers")


def plot_overlap(
    idata: xr.DataTree, *, backend: str | None = None, figsize: tuple[float, float] | None = None
) -> PlotCollection:
    """The overlap matrix of the levels: at which other levels a draw could also have been made.

    Row j is the mean, over draws at level j, of the probability that they were made at each level,
    given the log ratio and how often each level was visited; rows sum to one. Neighbours should
    share at least a few percent: where a block is isolated on the diagonal, the two sides of the
    schedule are not connected.

    Parameters
    ----------
    idata
        DataTree of `sample_tempered`, or of ``pm.sample`` with step `SimulatedTempering`.
    backend, figsize
        As in `plot_evidence`.

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
    collection, [panel] = make_panels(["overlap"], 5.2, backend, figsize, n_columns=1)
    _draw_cells(panel, matrix)
    next_level = np.diag(matrix, 1)
    worst = int(np.argmin(next_level))
    title = f"Overlap, least {next_level[worst]:.2f} from level {worst} to {worst + 1}"
    panel.label(title, "could have come from level", "draws at level")
    return collection


def _draw_cells(panel: Panel, matrix: np.ndarray) -> None:
    """One square for each entry, the darker the larger, row 0 at the top."""
    n, shown, most_labels = len(matrix), matrix >= 0.005, 12
    strength = np.where(shown, matrix / matrix.max(), 0.0)
    _paint(panel, strength[::-1])
    middle = "middle" if panel.backend == "plotly" else "center"
    text = {"horizontal_align": "center", "vertical_align": middle}
    for j, k in np.argwhere(shown) if n <= most_labels else ():
        text["color"] = "white" if strength[j, k] > 0.6 else "black"
        panel.text(int(k), int(n - 1 - j), f"{matrix[j, k]:.2f}", **text)
    ticks, labels = level_ticks(n, most_labels)
    panel.xticks(ticks, labels)
    panel.yticks(n - 1 - ticks, labels)
    panel.xlim((-0.5, n - 0.5))
    panel.ylim((-0.5, n - 0.5))


def _paint(panel: Panel, strength: np.ndarray) -> None:
    """Squares, the lowest row first, drawn all together by the backend."""
    # arviz-plots can only draw them one by one: 300 of them took more than two seconds
    n, rgb = len(strength), [int(BLUE[at : at + 2], 16) for at in (1, 3, 5)]
    style: dict[str, Any]
    match panel.backend:
        case "matplotlib":
            colors = np.dstack([np.broadcast_to(np.array(rgb) / 255, (n, n, 3)), strength])
            extent = (-0.5, n - 0.5, -0.5, n - 0.5)
            style = {"interpolation": "nearest", "aspect": "auto"}
            panel.target.imshow(colors, origin="lower", extent=extent, **style)
        case "bokeh":
            y, x = (index.ravel() for index in np.indices(strength.shape))
            style = {"fill_color": BLUE, "fill_alpha": strength.ravel(), "line_color": None}
            panel.target.rect(x=x, y=y, width=1, height=1, **style)
        case "plotly":
            scale = [[k, f"rgba({','.join(map(str, rgb))},{k})"] for k in (0, 1)]
            heatmap = import_module("plotly.graph_objects").Heatmap
            panel.target.add_trace(heatmap(z=strength, colorscale=scale, showscale=False))
        case _:
            for (j, k), alpha in np.ndenumerate(strength):
                if alpha > 0:
                    side, style = np.array([k - 0.5, k + 0.5]), {"alpha": float(alpha)}
                    panel.fill_between_y(side, j - 0.5, j + 0.5, color=BLUE, **style)


def plot_thermo(
    idata: xr.DataTree,
    *,
    methods: str | Sequence[str] = "all",
    backend: str | None = None,
    figsize: tuple[float, float] | None = None,
) -> PlotCollection:
    """The integrand of log Z with its area, and the value of every estimator from the same draws.

    Left, the mean log ratio from draws of all levels, and that of the draws at each level as
    points. Since most of a path is near 0, beta has a fourth-root axis, and the mean is multiplied
    by the derivative of beta along it, so that the shaded area is log Z. In the middle, log Z at
    every beta: the recommended method in blue, the others in grey. Right, by method, the difference
    of log Z from the recommended one, with intervals of ArviZ's ``stats.ci_prob``; its own is
    shaded. Methods in orange have a status other than ``"ok"``, which is next to the name; those
    beyond the edge differ by more than ten errors.

    Parameters
    ----------
    idata
        DataTree of `sample_tempered`, or of ``pm.sample`` with step `SimulatedTempering`. If
        `evidence` has been called with these methods, its numbers are drawn.
    methods
        ``"all"``, or names of estimators as in `evidence`.
    backend, figsize
        As in `plot_evidence`.

    Returns
    -------
    arviz_plots.PlotCollection
        Its ``viz`` tree holds the figure and the panels ``"integrand"``, ``"log_z"`` and
        ``"difference"``.

    Raises
    ------
    ValueError
        If the tree is not of a tempered run, or a method is unknown.

    See Also
    --------
    plot_tempering, plot_overlap, sample_tempered

    References
    ----------
    Gelman & Meng (1998), doi 10.1214/ss/1028905934; Friel & Pettitt (2008), doi
    10.1111/j.1467-9868.2007.00650.x, for the axis.

    Examples
    --------
    .. code-block:: python

        import pymc_logz as lz

        model = lz.energies.ridge().model
        tree = lz.sample_tempered(model=model, random_seed=1)
        lz.plot_thermo(tree)
    """
    draws = stored_draws(idata)
    stored = idata["evidence"].to_dataset() if "evidence" in idata.children else None
    recommended = "rts" if stored is None else str(stored[ESTIMATOR].to_numpy()[0])
    lines = [_curve(name, draws, stored) for name in check_methods(methods, recommended)]
    names = ["integrand", "log_z", "difference"]
    collection, panels = make_panels(names, 3.6, backend, figsize, n_columns=3)
    _draw_integrand(panels[0], draws)
    # the recommended one last, on top of the others
    for k, line in reversed(list(enumerate(lines))):
        known = np.isfinite(line.log_z)
        style = {"color": GREY, "alpha": 0.5} if k else {"color": BLUE, "width": 2}
        panels[1].line(draws.betas[known] ** 0.25, line.log_z[known], **style)
    title = f"log Z along the path, {lines[0].method} in blue"
    panels[1].label(title, y="log Z (nats)")
    _draw_differences(panels[2], lines)
    for panel in panels[:2]:
        panel.beta_axis()
    return collection


def _curve(method: str, draws: TemperedDraws, stored: xr.Dataset | None) -> LogZCurve:
    """What a method makes of the draws, or has made of them already."""
    if stored is None or "log_z_curve" not in stored or method not in stored[ESTIMATOR]:
        return METHODS[method](draws)
    one, nothing = stored.sel({ESTIMATOR: method}), np.empty(0)
    log_z, mcse = one["log_z_curve"].to_numpy(), one["mcse_curve"].to_numpy()
    status = str(one["status"].item())
    return LogZCurve(method, draws.betas, log_z, mcse, np.nan, np.nan, status, nothing)


def mean_log_ratio(draws: TemperedDraws, betas: np.ndarray, max_draws: int = 10_000) -> np.ndarray:
    """Mean log ratio at any beta from draws of all levels, shape (B,)."""
    # Carlson et al. (2016), arXiv 1603.01912, eq. 21, for betas in between as well
    every = -(-draws.log_ratio.size // max_draws)
    log_ratio = draws.log_ratio.ravel()[::every]
    segment = draws.segment.ravel()[::every]
    log_norm = logsumexp(draws.log_level_weight(log_ratio, segment), axis=1)
    inside = np.isfinite(log_ratio)
    weight = softmax(betas[:, None] * log_ratio[inside] - log_norm[inside], axis=1)
    return weight @ log_ratio[inside]


def _draw_integrand(panel: Panel, draws: TemperedDraws) -> None:
    place = np.linspace(0, 1, 200)
    curve = 4 * place**3 * mean_log_ratio(draws, place**4)
    panel.fill_between_y(place, np.zeros_like(place), curve, color=BLUE, alpha=0.2)
    panel.line(place, curve, color=BLUE)
    for k, beta in enumerate(draws.betas):
        here = draws.log_ratio[draws.level == k]
        if beta > 0 and here.size:
            panel.scatter(beta**0.25, 4 * beta**0.75 * here.mean(), color=BLUE)
    log_z = float(np.trapezoid(curve, place))
    shown = "mean log ratio × dβ/dx, x = β^¼ (nats)"
    panel.label(f"Area: log Z = {log_z:.2f}", y=shown)


def _draw_differences(panel: Panel, lines: Sequence[LogZCurve]) -> None:
    """One row for each method, the recommended one at the top."""
    first, (ci_prob, factor) = lines[0], interval(None)
    heights = np.arange(len(lines), 0, -1.0)
    limit = 10.0 * first.mcse[-1] if first.usable else np.nan
    if first.usable:
        band = np.array([-1, 1]) * factor * first.mcse[-1]
        ends = np.array([0.4, len(lines) + 0.6])
        panel.fill_between_y(band, *ends, color=BLUE, alpha=0.15)
        panel.vline(0.0, color=GREY)
    for line, height in zip(lines, heights, strict=True):
        if not line.usable:
            continue
        colour = BLUE if line.status == "ok" else RED
        centre = line.log_z[-1] - first.log_z[-1] if first.usable else line.log_z[-1]
        half = factor * line.mcse[-1]
        ends = np.clip([centre - half, centre + half], -limit, limit)
        panel.line(ends, np.full(2, height), color=colour, alpha=0.7)
        if not abs(centre) > limit:
            panel.scatter(centre, height, color=colour)
    if first.usable:
        panel.xlim((-1.05 * limit, 1.05 * limit))
        if tick := float(f"{0.7 * limit:.0e}"):  # more of such small numbers run into each other
            panel.xticks([-tick, 0.0, tick], [f"{-tick:g}", "0", f"{tick:g}"])
    panel.yticks(heights, [f"{one.method}: {one.status}".removesuffix(": ok") for one in lines])
    panel.ylim((0.4, len(lines) + 0.6))
    title = f"Estimators, {ci_prob:.0%} intervals"
    panel.label(title, f"log Z minus that of {first.method} (nats)")
