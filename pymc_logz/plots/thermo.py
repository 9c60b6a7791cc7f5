"""The integrand of thermodynamic integration, and what each estimator makes of a run."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection
from scipy.special import logsumexp, softmax
from scipy.stats import norm

from pymc_logz.estimators import METHODS, LogZCurve, TemperedDraws
from pymc_logz.plots.panels import make_panels
from pymc_logz.tempered.evidence import check_methods
from pymc_logz.trees.layout import ESTIMATOR
from pymc_logz.trees.readers import stored_draws

MAX_DRAWS = 20_000
"""Draws that the curve of the mean log ratio is made from."""
N_GRID = 200
BETA_TICKS = np.array([0.0, 1e-4, 1e-2, 0.1, 0.3, 1.0])
SHOWN_ERRORS = 10.0
"""Differences of methods that are shown, in errors of the recommended one."""


def plot_thermo(
    idata: xr.DataTree,
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
    idata
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
        Its ``viz`` tree holds the figure and the panels ``"integrand"``, ``"log_z"`` and
        ``"difference"``.

    Raises
    ------
    ValueError
        If the tree is not of a tempered run, or a method is unknown.

    References
    ----------
    Gelman & Meng (1998), doi 10.1214/ss/1028905934; Friel & Pettitt (2008), doi
    10.1111/j.1467-9868.2007.00650.x, for the axis.

    Examples
    --------
    .. code-block:: python

        lz.plot_thermo(lz.sample_tempered(model=model))
    """
    draws = stored_draws(idata)
    recommended = "rts"
    if "evidence" in idata.children:
        recommended = str(idata["evidence"][ESTIMATOR].to_numpy()[0])
    curves = [METHODS[name](draws) for name in check_methods(methods, recommended)]
    names = ["integrand", "log_z", "difference"]
    drawing, collection, panels = make_panels(names, 2.2, backend, figsize, n_columns=3)
    _draw_integrand(drawing, panels[0], draws)
    _draw_curves(drawing, panels[1:], curves)
    for panel in panels:
        drawing.xticks(BETA_TICKS**0.25, [f"{tick:g}" for tick in BETA_TICKS], panel)
        drawing.xlabel("beta", panel)
    usable = [k for k, curve in enumerate(curves) if curve.usable]
    colors = [{"color": f"C{k % 10}", "linestyle": _linestyle(drawing, k)} for k in usable]
    drawing.legend(collection, colors, [curves[k].method for k in usable])
    return collection


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
