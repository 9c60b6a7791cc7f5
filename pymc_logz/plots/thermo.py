"""The integrand of thermodynamic integration, and what each estimator makes of a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection
from scipy.special import logsumexp, softmax

from pymc_logz.errors import USABLE_STATUSES
from pymc_logz.estimators import METHODS, TemperedDraws
from pymc_logz.plots.panels import BLUE, GREY, RED, beta_axis, interval, make_panels
from pymc_logz.tempered.evidence import check_methods
from pymc_logz.trees.layout import ESTIMATOR, stored_draws


@dataclass(frozen=True)
class Line:
    """log Z at every beta by one method."""

    method: str
    log_z: np.ndarray
    mcse: np.ndarray
    status: str

    @property
    def usable(self) -> bool:
        """Whether there is a number at beta = 1."""
        return self.status in USABLE_STATUSES


def plot_thermo(
    idata: xr.DataTree,
    *,
    methods: str | Sequence[str] = "all",
    backend: str | None = None,
    figsize: tuple[float, float] | None = None,
) -> PlotCollection:
    """The integrand of log Z with its area, and what every estimator makes of the same draws.

    Left, the mean log ratio from draws of all levels, and that of the draws at each level as
    points. Since most of a path is near 0, beta has a fourth-root axis, and the mean is multiplied
    by the derivative of beta along it, so that the shaded area is log Z. In the middle, log Z at
    every beta: the recommended method in blue, the others in grey. Right, by method, the difference
    of log Z from the recommended one, with intervals of ArviZ's
    ``stats.ci_prob``; its own is shaded. Red are methods that
    have a status of their own, and those beyond the edge differ by more than ten errors.

    Parameters
    ----------
    idata
        DataTree of `sample_tempered`, or of ``pm.sample`` with step `SimulatedTempering`. If
        `evidence` has been called with these methods, its numbers are drawn.
    methods
        ``"all"``, or names of estimators as in `evidence`.
    backend
        ``"matplotlib"``, ``"bokeh"`` or ``"plotly"``; None takes ArviZ's ``plot.backend``.
    figsize
        Size of the figure in inches.

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
    lines = [_line(name, draws, stored) for name in check_methods(methods, recommended)]
    names = ["integrand", "log_z", "difference"]
    drawing, collection, panels = make_panels(names, 3.6, backend, figsize, n_columns=3)
    _draw_integrand(drawing, panels[0], draws)
    _draw_curves(drawing, panels[1], draws.betas, lines)
    _draw_differences(drawing, panels[2], lines)
    for panel in panels[:2]:
        beta_axis(drawing, panel)
    return collection


def _line(method: str, draws: TemperedDraws, stored: xr.Dataset | None) -> Line:
    """What a method makes of the draws, or has made of them already."""
    if stored is not None and "log_z_curve" in stored and method in stored[ESTIMATOR]:
        one = stored.sel({ESTIMATOR: method})
        log_z, mcse = one["log_z_curve"].to_numpy(), one["mcse_curve"].to_numpy()
        return Line(method, log_z, mcse, str(one["status"].item()))
    curve = METHODS[method](draws)
    return Line(method, curve.log_z, curve.mcse, curve.status)


def mean_log_ratio(draws: TemperedDraws, betas: np.ndarray, max_draws: int = 10_000) -> np.ndarray:
    """Mean log ratio at any beta from draws of all levels, shape (B,).

    A draw counts with its density at beta over its density as a walker, whatever its level: eq. 21
    of Carlson et al. (2016), arXiv 1603.01912, for betas in between as well.
    """
    every = -(-draws.log_ratio.size // max_draws)
    log_ratio = draws.log_ratio.ravel()[::every]
    segment = draws.segment.ravel()[::every]
    log_norm = logsumexp(draws.log_level_weight(log_ratio, segment), axis=1)
    inside = np.isfinite(log_ratio)
    weight = softmax(betas[:, None] * log_ratio[inside] - log_norm[inside], axis=1)
    return weight @ log_ratio[inside]


def _draw_integrand(drawing: Any, panel: Any, draws: TemperedDraws) -> None:
    place = np.linspace(0, 1, 200)
    curve = 4 * place**3 * mean_log_ratio(draws, place**4)
    drawing.fill_between_y(place, np.zeros_like(place), curve, panel, color=BLUE, alpha=0.2)
    drawing.line(place, curve, panel, color=BLUE)
    for k, beta in enumerate(draws.betas):
        here = draws.log_ratio[draws.level == k]
        if beta > 0 and here.size:
            drawing.scatter(beta**0.25, 4 * beta**0.75 * here.mean(), panel, color=BLUE)
    log_z = float(np.trapezoid(curve, place))
    drawing.ylabel("mean log ratio × dβ/dx, x = β^¼ (nats)", panel)
    drawing.title(f"Area: log Z = {log_z:.2f}", panel)


def _draw_curves(drawing: Any, panel: Any, betas: np.ndarray, lines: Sequence[Line]) -> None:
    # the recommended one last, on top of the others
    for k, line in reversed(list(enumerate(lines))):
        known = np.isfinite(line.log_z)
        style = {"color": GREY, "alpha": 0.5} if k else {"color": BLUE, "width": 2}
        drawing.line(betas[known] ** 0.25, line.log_z[known], panel, **style)
    drawing.ylabel("log Z (nats)", panel)
    drawing.title(f"log Z along the path, {lines[0].method} in blue", panel)


def _draw_differences(drawing: Any, panel: Any, lines: Sequence[Line]) -> None:
    """One row for each method, the recommended one at the top."""
    first, (ci_prob, factor) = lines[0], interval(None)
    heights = np.arange(len(lines), 0, -1.0)
    limit = 10.0 * first.mcse[-1] if first.usable else np.nan
    if first.usable:
        band = np.array([-1, 1]) * factor * first.mcse[-1]
        ends = np.array([0.4, len(lines) + 0.6])
        drawing.fill_between_y(band, *ends, panel, color=BLUE, alpha=0.15)
        drawing.vline(0.0, panel, color=GREY)
    for line, height in zip(lines, heights, strict=True):
        if not line.usable:
            continue
        colour = BLUE if line.status == "ok" else RED
        centre = line.log_z[-1] - first.log_z[-1] if first.usable else line.log_z[-1]
        half = factor * line.mcse[-1]
        drawing.line(
            np.clip([centre - half, centre + half], -limit, limit),
            np.full(2, height),
            panel,
            color=colour,
            alpha=0.7,
        )
        if not abs(centre) > limit:
            drawing.scatter(centre, height, panel, color=colour)
    if first.usable:
        drawing.xlim((-1.05 * limit, 1.05 * limit), panel)
    labels = [line.method if line.usable else f"{line.method} (none)" for line in lines]
    drawing.yticks(heights, labels, panel)
    drawing.ylim((0.4, len(lines) + 0.6), panel)
    drawing.xlabel(f"log Z minus that of {first.method} (nats)", panel)
    drawing.title(f"Estimators, {ci_prob:.0%} intervals", panel)
