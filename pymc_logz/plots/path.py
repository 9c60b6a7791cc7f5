"""What happened along the path of an annealed run."""

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection

from pymc_logz.plots.panels import make_panels
from pymc_logz.trees.kinds import HAIS, HAIS_BOTH, PER_DATUM, check_kind, group_of


def plot_path(
    idata: xr.DataTree, *, backend: str | None = None, figsize: tuple[float, float] | None = None
) -> PlotCollection:
    """What happened along the path: a first look when a status is not ``"ok"``.

    Four panels against the inverse temperature (on a fourth-root axis, since most of a path is near
    0): the mean log ratio, which is the integrand of thermodynamic integration; the acceptance
    rate; the step size; and the weight ESS as a share of the rows. One line per chain.

    Parameters
    ----------
    idata
        DataTree of `sample_hais` or `marginal_log_likelihood`.
    backend
        ``"matplotlib"``, ``"bokeh"`` or ``"plotly"``; None takes ArviZ's ``plot.backend``.
    figsize
        Size of the figure in inches.

    Returns
    -------
    arviz_plots.PlotCollection
        Its ``viz`` tree holds the figure and the panels ``"mean_log_ratio"``,
        ``"acceptance_rate"``, ``"step_size"`` and ``"weight_ess"``.

    Raises
    ------
    ValueError
        If the tree is not of an annealed run.

    References
    ----------
    Gelman & Meng (1998), doi 10.1214/ss/1028905934, for the mean log ratio.

    Examples
    --------
    .. code-block:: python

        lz.plot_path(lz.sample_hais(model=model))
    """
    check_kind(idata, "annealing", (HAIS, HAIS_BOTH, PER_DATUM))
    stages = group_of(idata, "annealing")
    names = ["mean_log_ratio", "acceptance_rate", "step_size", "weight_ess"]
    titles = ["Mean log ratio (nats)", "Acceptance rate", "Step size", "Weight ESS, share of rows"]
    drawing, collection, panels = make_panels(names, 2.4, backend, figsize)
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
