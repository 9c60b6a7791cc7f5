"""What there is to see of an annealed run of one temperature, where nothing moves."""

from typing import Any

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection

from pymc_logz.plots.panels import BLUE, GREY, RED, interval, make_panels
from pymc_logz.plots.weights import draw_histogram
from pymc_logz.trees.doubts import DOUBTS
from pymc_logz.trees.layout import ESTIMATOR
from pymc_logz.trees.readers import log_weights
from pymc_logz.weights import weight_ess

PANELS = ["weights", "coverage", "checks"]


def plot_one_temperature(
    idata: xr.DataTree, backend: str | None, figsize: tuple[float, float] | None
) -> PlotCollection:
    """Weights, how well the reference covers the posterior, and what the checks found.

    For a run of `sample_hais` with one temperature.
    """
    drawing, collection, panels = make_panels(PANELS, 3.4, backend, figsize, n_columns=3)
    log_weight = log_weights(idata)
    draw_histogram(drawing, panels[0], log_weight.ravel())
    _draw_coverage(drawing, panels[1], log_weight)
    _draw_checks(drawing, panels[2], idata["evidence"].to_dataset())
    return collection


def _draw_coverage(drawing: Any, panel: Any, log_weight: np.ndarray) -> None:
    """A bar for each chain; all of it where the reference is the posterior."""
    share = weight_ess(log_weight) / log_weight.shape[1]
    chains = np.arange(len(share))
    for chain, height in zip(chains, share, strict=True):
        ends = np.array([chain - 0.35, chain + 0.35])
        drawing.fill_between_y(ends, np.zeros(2), np.full(2, height), panel, color=BLUE, alpha=0.7)
    drawing.xticks(chains, [str(chain) for chain in chains], panel)
    drawing.xlabel("chain", panel)
    drawing.ylim((0.0, 1.02), panel)
    drawing.ylabel("weight ESS, fraction of particles", panel)
    drawing.title("Coverage by the reference (1: all)", panel)


def _draw_checks(drawing: Any, panel: Any, evidence: xr.Dataset) -> None:
    """Every estimate of log Z with its interval and status, the first one at the top."""
    names, status = evidence[ESTIMATOR].to_numpy(), evidence["status"].to_numpy()
    log_z, mcse = evidence["log_z"].to_numpy(), evidence["mcse"].to_numpy()
    heights = np.arange(len(names), 0, -1.0)
    ci_prob, width = interval(None)
    finite = np.isfinite(log_z)
    # differences, since a log Z may have more digits than an axis has room for
    centre = int(np.argmax(finite))
    for x, half, one, y in zip(log_z - log_z[centre], width * mcse, status, heights, strict=True):
        if np.isfinite(x):
            colour = BLUE if one == "ok" else RED
            drawing.line(np.array([x - half, x + half]), np.full(2, y), panel, color=colour)
            drawing.scatter(x, y, panel, color=colour)
    if finite.any():
        drawing.vline(0.0, panel, color=GREY, alpha=0.5)
    labels = [f"{name}: {one}" for name, one in zip(names, status, strict=True)]
    drawing.yticks(heights, labels, panel)
    drawing.ylim((0.4, len(names) + 0.6), panel)
    drawing.xlabel(f"log Z minus {log_z[centre]:.2f} (nats), {ci_prob:.0%} intervals", panel)
    drawing.title("Doubts, see attrs" if DOUBTS in evidence.attrs else "Checks: no doubt", panel)
