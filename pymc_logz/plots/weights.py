"""Log weights, and how much of the estimate the largest ones carry."""

from typing import Any

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection

from pymc_logz.estimators import importance_log_z
from pymc_logz.plots.panels import BLUE, GREY, make_panels
from pymc_logz.trees.layout import log_weights
from pymc_logz.weights import log_mean, normalise


def plot_weights(
    idata: xr.DataTree, *, backend: str | None = None, figsize: tuple[float, float] | None = None
) -> PlotCollection:
    """Log weights around log Z, and how much of the estimate the largest ones carry.

    Left, a histogram of log weight minus log Z, from -10 on, below which nothing counts; right, the
    fraction of Z that the largest weights make up, with the diagonal of equal weights. The title
    gives the weight ESS and Pareto k-hat.

    Parameters
    ----------
    idata
        DataTree of `sample_hais`, or of ``pm.sample`` with step `HAIS`.
    backend
        ``"matplotlib"``, ``"bokeh"`` or ``"plotly"``; None takes ArviZ's ``plot.backend``.
    figsize
        Size of the figure in inches.

    Returns
    -------
    arviz_plots.PlotCollection
        Its ``viz`` tree holds the figure and the panels ``"histogram"`` and ``"share"``.

    Raises
    ------
    ValueError
        If the tree is not of an annealed run, or no particle has any weight.

    See Also
    --------
    plot_path, sample_hais

    References
    ----------
    Vehtari et al. (2024), arXiv 1507.02646, for k-hat.

    Examples
    --------
    .. code-block:: python

        import pymc_logz as lz

        model = lz.energies.radiata_pine("density").model
        lz.plot_weights(lz.sample_hais(model=model, random_seed=1))
    """
    log_weight = log_weights(idata).ravel()
    finite = log_weight[np.isfinite(log_weight)]
    if finite.size == 0:
        raise ValueError(
            "every weight of this run is zero or infinite, so there is nothing to draw"
        )
    names = ["histogram", "share"]
    drawing, collection, (left, right) = make_panels(names, 3.0, backend, figsize)
    draw_histogram(drawing, left, log_weight)
    share = np.concatenate([[0.0], np.cumsum(np.sort(normalise(finite))[::-1])])
    count = np.arange(share.size) / log_weight.size
    drawing.line(count, share, right, color=BLUE, width=2)
    drawing.line(np.array([0.0, 1.0]), np.array([0.0, 1.0]), right, color=GREY, alpha=0.7)
    drawing.xlabel("fraction of the particles, largest weights first", right)
    drawing.ylabel("fraction of Z", right)
    drawing.title("What the largest weights make up", right)
    return collection


def draw_histogram(drawing: Any, panel: Any, log_weight: np.ndarray) -> None:
    """Log weights around log Z, those that count."""
    estimate = importance_log_z(log_weight)
    finite = log_weight[np.isfinite(log_weight)]
    if finite.size == 0:
        drawing.title("No particle has any weight", panel)
        return
    # log Z is that of all rows, those of weight zero included
    log_z = log_mean(np.where(np.isfinite(log_weight), log_weight, -np.inf))
    shown = finite[finite > log_z - 10.0]
    bins = np.histogram_bin_edges(shown - log_z, bins="fd")
    counts, edges = np.histogram(shown - log_z, bins=min(bins.size - 1, 60))
    drawing.hist(counts, edges[:-1], edges[1:], panel, color=BLUE, alpha=0.7)
    drawing.vline(0.0, panel, color=GREY)
    drawing.xlabel("log weight - log Z (nats)", panel)
    drawing.ylabel("particles", panel)
    n, ess = log_weight.size, estimate.weight_ess
    drawing.title(f"weight ESS {ess:.0f} of {n}, k-hat {estimate.khat:.2f}", panel)
