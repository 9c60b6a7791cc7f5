"""Figures of annealed runs: what happened along the path, and log weights."""

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection
from scipy.stats import binned_statistic

from pymc_logz.estimators import importance_log_z
from pymc_logz.plots.panels import BLUE, GREY, RED, Panel, color, make_panels
from pymc_logz.trees.comparison import interval
from pymc_logz.trees.doubts import DOUBTS
from pymc_logz.trees.kinds import HAIS, HAIS_BOTH, PER_DATUM, check_kind, group_of
from pymc_logz.trees.layout import ESTIMATOR, log_weights
from pymc_logz.weights import log_mean, normalise, weight_ess

PANELS = {
    "mean_log_ratio": ("Mean log ratio × dβ/dx, x = β^¼", "nats"),
    "acceptance_rate": ("Acceptance rate", "fraction of moves"),
    "step_size": ("Step size", "scales of the pilot"),
    "weight_ess": ("Weight ESS", "fraction of particles"),
}
"""Of a path, with the title and the unit of each."""


def plot_path(
    idata: xr.DataTree, *, backend: str | None = None, figsize: tuple[float, float] | None = None
) -> PlotCollection:
    """What happened along the path: a first look when a status is not ``"ok"``.

    Four panels against the inverse temperature (on a fourth-root axis x, since most of a path is
    near 0): the mean log ratio times the derivative of beta by x, whose area is what thermodynamic
    integration makes of log Z; the acceptance rate; the step size, from zero; and the weight ESS
    per particle. There is one line per chain. With more than 120 stages, means of neighbouring
    stages are drawn.

    A run of one temperature, as of a reference that was fitted to the posterior, has no path: its
    three panels are the weights, how well the reference covers the posterior (weight ESS of each
    chain as a fraction of its particles), and every estimate of log Z with its status.

    Parameters
    ----------
    idata
        DataTree of `sample_hais` or `marginal_log_likelihood`.
    backend, figsize
        As in `plot_evidence`.

    Returns
    -------
    arviz_plots.PlotCollection
        Its ``viz`` tree holds the figure and the panels ``"mean_log_ratio"``,
        ``"acceptance_rate"``, ``"step_size"`` and ``"weight_ess"``; of one temperature
        ``"weights"``, ``"coverage"`` and ``"checks"``.

    Raises
    ------
    ValueError
        If the tree is not of an annealed run.

    See Also
    --------
    plot_weights, sample_hais

    References
    ----------
    Gelman & Meng (1998), doi 10.1214/ss/1028905934, for the mean log ratio.

    Examples
    --------
    .. code-block:: python

        import pymc_logz as lz

        model = lz.energies.radiata_pine("density").model
        lz.plot_path(lz.sample_hais(model=model, reference="prior", random_seed=1))
    """
    kind = check_kind(idata, "annealing", (HAIS, HAIS_BOTH, PER_DATUM))
    stages = group_of(idata, "annealing")
    if kind != PER_DATUM and stages.sizes["stage"] == 2:
        names = ["weights", "coverage", "checks"]
        collection, panels = make_panels(names, 3.4, backend, figsize, n_columns=3)
        log_weight = log_weights(idata)
        _draw_histogram(panels[0], log_weight.ravel())
        _draw_coverage(panels[1], log_weight)
        _draw_checks(panels[2], idata["evidence"].to_dataset())
        return collection
    collection, panels = make_panels(list(PANELS), 5.2, backend, figsize)
    place = stages["beta"].to_numpy() ** 0.25
    for (name, (title, unit)), panel in zip(PANELS.items(), panels, strict=True):
        lines = np.atleast_2d(stages[name].to_numpy())
        if name == "weight_ess":
            lines = lines / lines[:, :1]
        if name == "mean_log_ratio":
            lines = lines * 4 * place**3
        for k, line in enumerate(lines):
            panel.line(*_means(place, line), color=color(k), alpha=0.8)
        panel.beta_axis()
        panel.label(title, y=unit)
    for panel in panels[1::2]:
        panel.ylim((0.0, 1.02))
    largest = np.nanmax(stages["step_size"].to_numpy(), initial=0.0)
    if np.isfinite(largest) and largest > 0:
        panels[2].ylim((0.0, 1.08 * largest))
    return collection


def _means(place: np.ndarray, line: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points of a line, or means of those that are next to each other if there are many."""
    # a prior draw outside the support makes the mean log ratio -inf at beta = 0
    shown, most = np.isfinite(line), 120
    place, line = place[shown], line[shown]
    if line.size <= most:
        return place, line
    # parts of equal length on the axis, each with as many stages as fall into it
    means = binned_statistic(place, [place, line], bins=most, range=(0, 1)).statistic
    place, line = means[:, np.isfinite(means[0])]
    return place, line


def _draw_coverage(panel: Panel, log_weight: np.ndarray) -> None:
    """A bar for each chain; all of it where the reference is the posterior."""
    share = weight_ess(log_weight) / log_weight.shape[1]
    chains = np.arange(len(share))
    for chain, height in zip(chains, share, strict=True):
        ends = np.array([chain - 0.35, chain + 0.35])
        panel.fill_between_y(ends, np.zeros(2), np.full(2, height), color=BLUE, alpha=0.7)
    panel.xticks(chains, [str(chain) for chain in chains])
    panel.ylim((0.0, 1.02))
    shown = "weight ESS, fraction of particles"
    panel.label("Coverage by the reference (1: all)", "chain", shown)


def _draw_checks(panel: Panel, evidence: xr.Dataset) -> None:
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
            panel.line(np.array([x - half, x + half]), np.full(2, y), color=colour)
            panel.scatter(x, y, color=colour)
    if finite.any():
        panel.vline(0.0, color=GREY, alpha=0.5)
    labels = [f"{name}: {one}" for name, one in zip(names, status, strict=True)]
    panel.yticks(heights, labels)
    panel.ylim((0.4, len(names) + 0.6))
    title = "Doubts, see attrs" if DOUBTS in evidence.attrs else "Checks: no doubt"
    shown = f"log Z minus {log_z[centre]:.2f} (nats), {ci_prob:.0%} intervals"
    panel.label(title, shown)


def plot_weights(
    idata: xr.DataTree, *, backend: str | None = None, figsize: tuple[float, float] | None = None
) -> PlotCollection:
    """Log weights relative to log Z, and how much of the estimate the largest ones carry.

    Left, a histogram of log weight minus log Z, from -10 on, below which nothing counts; right, the
    fraction of Z that the largest weights make up, with the diagonal of equal weights. The title
    gives the weight ESS, and Pareto k-hat if any weight is large enough to have one.

    Parameters
    ----------
    idata
        DataTree of `sample_hais`, or of ``pm.sample`` with step `HAIS`.
    backend, figsize
        As in `plot_evidence`.

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
    collection, (left, right) = make_panels(names, 3.0, backend, figsize)
    _draw_histogram(left, log_weight)
    share = np.concatenate([[0.0], np.cumsum(np.sort(normalise(finite))[::-1])])
    count = np.arange(share.size) / log_weight.size
    right.line(count, share, color=BLUE, width=2)
    right.line(np.array([0.0, 1.0]), np.array([0.0, 1.0]), color=GREY, alpha=0.7)
    shown = "fraction of the particles, largest weights first"
    right.label("What the largest weights make up", shown, "fraction of Z")
    return collection


def _draw_histogram(panel: Panel, log_weight: np.ndarray) -> None:
    """Log weights around log Z, those that count."""
    estimate = importance_log_z(log_weight)
    finite = log_weight[np.isfinite(log_weight)]
    if finite.size == 0:
        panel.title("No particle has any weight")
        return
    # log Z is that of all rows, those of weight zero included
    log_z = log_mean(np.where(np.isfinite(log_weight), log_weight, -np.inf))
    shown = finite[finite > log_z - 10.0]
    bins = np.histogram_bin_edges(shown - log_z, bins="fd")
    counts, edges = np.histogram(shown - log_z, bins=min(bins.size - 1, 60))
    panel.hist(counts, edges[:-1], edges[1:], color=BLUE, alpha=0.7)
    panel.vline(0.0, color=GREY)
    khat = f", k-hat {estimate.khat:.2f}" if np.isfinite(estimate.khat) else ""
    title = f"weight ESS {estimate.weight_ess:.0f} of {log_weight.size}{khat}"
    panel.label(title, "log weight - log Z (nats)", "particles")
