"""Figures of a tempered run: how walkers travelled, the path, and the overlap of its levels."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection
from scipy.special import logsumexp, softmax
from scipy.stats import norm

from pymc_logz.diagnostics import rejection_rates, round_trips
from pymc_logz.estimators import METHODS, LogZCurve, TemperedDraws, mbar, rts_log_z
from pymc_logz.plots import make_panels
from pymc_logz.tempered.evidence import check_methods, draws_of_group, walker_group

TRACES = 3
"""Walkers whose levels are drawn."""
TRACE_LENGTH = 200
"""Iterations of them."""
MAX_DRAWS = 20_000
"""Draws that the curve of the mean log ratio is made from."""
N_GRID = 200
BETA_TICKS = np.array([0.0, 1e-4, 1e-2, 0.1, 0.3, 1.0])
MAX_LABELLED = 12
"""Levels up to which the entries of an overlap matrix are written out."""
LEAST_SHOWN = 0.005
SHOWN_ERRORS = 10.0
"""Differences of methods that are shown, in errors of the recommended one."""


def plot_tempering(
    tree: xr.DataTree, *, backend: str | None = None, figsize: tuple[float, float] | None = None
) -> PlotCollection:
    """How walkers travelled between the ends of the ladder, and how their time was spent.

    Four panels: the levels of some walkers over the first iterations; the share of time at each
    level, one line per chain, against its prior (dotted); how many walkers made how many round
    trips; and the swaps with the next level that would be rejected.

    Parameters
    ----------
    tree
        DataTree of `sample_tempered`, or of ``pm.sample`` with step `SimulatedTempering`.
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
        If the tree is not of a tempered run.
    """
    group = _tempering(tree)
    draws = draws_of_group(group)
    names = ["level", "occupancy", "round_trips", "rejection_rate"]
    drawing, collection, panels = make_panels(names, 2, 2.4, backend, figsize)
    _draw_levels(drawing, panels[0], draws)
    _draw_occupancy(drawing, panels[1], group)
    _draw_round_trips(drawing, panels[2], draws)
    rate = rejection_rates(draws)
    drawing.line(np.arange(rate.size), rate, panels[3], color="C0")
    drawing.scatter(np.arange(rate.size), rate, panels[3], color="C0")
    drawing.ylim((0.0, 1.0), panels[3])
    drawing.xlabel("level", panels[3])
    drawing.title(f"Rejected swaps with the next level, sum {np.nansum(rate):.1f}", panels[3])
    return collection


def plot_thermo(
    tree: xr.DataTree,
    *,
    methods: str | Sequence[str] = "all",
    backend: str | None = None,
    figsize: tuple[float, float] | None = None,
) -> PlotCollection:
    """The integrand of log Z with its area, and log Z at every beta by every estimator.

    Left, the mean log ratio from draws of all levels, and that of the draws at each level as
    points. Since most of a path is near 0, beta has a fourth-root axis, and the mean is multiplied
    by the derivative of beta along it, so that the shaded area is log Z. In the middle, log Z by
    each method; right, its difference from the recommended one, whose interval is shaded. What
    leaves that panel departs by more than ten errors.

    Parameters
    ----------
    tree
        DataTree of `sample_tempered`, or of ``pm.sample`` with step `SimulatedTempering`.
    methods
        ``"all"``, or names of estimators as in `evidence`.
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
        If the tree is not of a tempered run, or a method is unknown.
    """
    draws = draws_of_group(_tempering(tree))
    recommended = "rts"
    if "evidence" in tree.children:
        recommended = str(tree["evidence"]["method"].to_numpy()[0])
    curves = [METHODS[name](draws) for name in check_methods(methods, recommended)]
    names = ["integrand", "log_z", "difference"]
    drawing, collection, panels = make_panels(names, 1, 2.2, backend, figsize, n_columns=3)
    _draw_integrand(drawing, panels[0], draws)
    _draw_curves(drawing, panels[1:], curves)
    for panel in panels:
        drawing.xticks(BETA_TICKS**0.25, [f"{tick:g}" for tick in BETA_TICKS], panel)
        drawing.xlabel("beta", panel)
    usable = [k for k, curve in enumerate(curves) if curve.usable]
    colors = [{"color": f"C{k % 10}", "linestyle": _linestyle(drawing, k)} for k in usable]
    drawing.legend(collection, colors, [curves[k].method for k in usable])
    return collection


def plot_overlap(
    tree: xr.DataTree, *, backend: str | None = None, figsize: tuple[float, float] | None = None
) -> PlotCollection:
    """The overlap matrix of the levels: from which levels draws could as well have come.

    Row j is the mean, over draws at level j, of the probability that they were made at each level,
    given the log ratio and how often each level was visited; rows sum to one. Neighbours should
    share at least a few percent: a block that does not leave the diagonal is where the two sides of
    the ladder know nothing of each other.

    Parameters
    ----------
    tree
        DataTree of `sample_tempered`, or of ``pm.sample`` with step `SimulatedTempering`.
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
        If the tree is not of a tempered run, or no draw of it has a finite log ratio.

    References
    ----------
    Klimovich, Shirts & Mobley (2015), doi 10.1007/s10822-015-9840-9.
    """
    draws = draws_of_group(_tempering(tree))
    overlap = mbar(draws).details.get("overlap")
    if overlap is None:
        raise ValueError("this run has no draws in the support of the target, so nothing overlaps")
    matrix = np.nan_to_num(np.asarray(overlap))
    drawing, collection, [panel] = make_panels(["overlap"], 1, 3.4, backend, figsize, n_columns=1)
    _draw_cells(drawing, panel, matrix)
    next_level = np.diag(matrix, 1)
    worst = int(np.argmin(next_level))
    title = f"Overlap, least {next_level[worst]:.2f} from level {worst} to {worst + 1}"
    drawing.title(title, panel)
    return collection


def _tempering(tree: xr.DataTree) -> xr.Dataset:
    """Levels and log ratios of a tempered run, from wherever the tree has them."""
    group = None
    if isinstance(tree, xr.DataTree):
        known = "tempering" in tree.children
        group = tree["tempering"].to_dataset() if known else walker_group(tree)
    if group is None:
        raise ValueError(
            "this needs a DataTree with a group 'tempering', as sample_tempered returns it, or the "
            "statistics of pm.sample(step=SimulatedTempering())"
        )
    return group


def _draw_levels(drawing: Any, panel: Any, draws: TemperedDraws) -> None:
    chosen = np.linspace(0, len(draws.level) - 1, TRACES).astype(int)
    for k, walker in enumerate(np.unique(chosen)):
        trace = draws.level[walker, :TRACE_LENGTH]
        drawing.line(np.arange(trace.size), trace, panel, color=f"C{k}", alpha=0.8)
    drawing.xlabel("iteration", panel)
    drawing.title("Level of some walkers", panel)


def _draw_occupancy(drawing: Any, panel: Any, group: xr.Dataset) -> None:
    shares = []
    for chain in range(group.sizes["chain"]):
        draws = draws_of_group(group.isel(chain=slice(chain, chain + 1)))
        shares.append(softmax(draws.log_prior + rts_log_z(draws) - draws.log_z_hat[0]))
    place = np.arange(draws.n_levels)
    for k, share in enumerate(shares):
        drawing.line(place, share, panel, color=f"C{k % 10}", alpha=0.8)
    dotted = drawing.get_default_aes("linestyle", 3)[-1]
    prior = softmax(draws.log_prior)
    drawing.line(place, prior, panel, color="C7", linestyle=dotted, width=2)
    drawing.ylim((0.0, 1.3 * max(prior.max(), np.max(shares))), panel)
    drawing.xlabel("level", panel)
    drawing.title("Share of time, prior dotted", panel)


def _draw_round_trips(drawing: Any, panel: Any, draws: TemperedDraws) -> None:
    trips = round_trips(draws.level, draws.n_levels)
    width = max(1, -(-int(np.ptp(trips) + 1) // 20))
    edges = np.arange(trips.min(), trips.max() + width + 1, width) - 0.5
    counts, edges = np.histogram(trips, edges)
    drawing.hist(counts, edges[:-1], edges[1:], panel, color="C0", alpha=0.7)
    ticks = np.arange(trips.min(), trips.max() + 1, -(-int(np.ptp(trips) + 1) // 8))
    drawing.xticks(ticks, [str(tick) for tick in ticks], panel)
    drawing.xlabel("round trips of a walker", panel)
    drawing.title(f"Round trips of {trips.size} walkers, {trips.sum()} in all", panel)


def mean_log_ratio(draws: TemperedDraws, betas: np.ndarray) -> np.ndarray:
    """Mean log ratio at any beta from draws of all levels, shape (B,).

    A draw counts with its density at beta over its density as a walker, whatever its level: eq. 21
    of Carlson et al. (2016), arXiv 1603.01912, for betas in between as well.

    Parameters
    ----------
    draws
        A tempered run.
    betas
        Inverse temperatures, shape (B,).
    """
    every = -(-draws.log_ratio.size // MAX_DRAWS)
    log_ratio = draws.log_ratio.ravel()[::every]
    segment = draws.segment.ravel()[::every]
    log_norm = logsumexp(draws.log_level_weight(log_ratio, segment), axis=1)
    inside = np.isfinite(log_ratio)
    weight = softmax(betas[:, None] * log_ratio[inside] - log_norm[inside], axis=1)
    return weight @ log_ratio[inside]


def _draw_integrand(drawing: Any, panel: Any, draws: TemperedDraws) -> None:
    place = np.linspace(0, 1, N_GRID)
    curve = 4 * place**3 * mean_log_ratio(draws, place**4)
    drawing.fill_between_y(place, np.zeros(N_GRID), curve, panel, color="C0", alpha=0.2)
    drawing.line(place, curve, panel, color="C0")
    for k, beta in enumerate(draws.betas):
        here = draws.log_ratio[draws.level == k]
        if beta > 0 and here.size:
            drawing.scatter(beta**0.25, 4 * beta**0.75 * here.mean(), panel, color="C0")
    log_z = float(np.trapezoid(curve, place))
    drawing.ylabel("mean log ratio × dβ/dx, x = β^¼", panel)
    drawing.title(f"Area: log Z = {log_z:.2f}", panel)


def _draw_curves(drawing: Any, panels: Sequence[Any], curves: Sequence[LogZCurve]) -> None:
    left, right = panels
    first = curves[0]
    place = first.betas**0.25
    if first.usable:
        half = norm.ppf(0.975) * first.mcse
        drawing.fill_between_y(place, -half, half, right, color="C0", alpha=0.2)
    for k, curve in enumerate(curves):
        style = {"color": f"C{k % 10}", "linestyle": _linestyle(drawing, k)}
        known = np.isfinite(curve.log_z)
        drawing.line(place[known], curve.log_z[known], left, **style)
        known &= np.isfinite(first.log_z)
        drawing.line(place[known], (curve.log_z - first.log_z)[known], right, **style)
    drawing.ylabel("log Z (nats)", left)
    drawing.title("log Z along the path", left)
    if first.usable:
        limit = SHOWN_ERRORS * first.mcse.max()
        drawing.ylim((-limit, limit), right)
    drawing.title(f"Difference from {first.method}, 95% interval", right)


def _linestyle(drawing: Any, k: int) -> Any:
    """Solid for the first ten lines, dashed for what comes after."""
    return drawing.get_default_aes("linestyle", 2)[k // 10 % 2]


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
