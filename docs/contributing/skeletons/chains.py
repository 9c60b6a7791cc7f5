"""Log Z of each chain by itself."""

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection

from pymc_logz.estimators import LogZEstimate, importance_log_z, rts
from pymc_logz.plots.panels import BLUE, make_panels
from pymc_logz.trees.kinds import LEVELS, material_of
from pymc_logz.trees.layout import draws_of_group, log_weights, tempering_of


def plot_chains(
    idata: xr.DataTree, *, backend: str | None = None, figsize: tuple[float, float] | None = None
) -> PlotCollection:
    """Log Z of each chain by itself, with two standard errors on either side.

    Chains are independent replicates: where they differ by more than their errors say, the errors
    are too small. A chain without a number leaves its place empty.

    Parameters
    ----------
    idata
        DataTree of `sample_hais` or `sample_tempered`, or of ``pm.sample`` with step `HAIS` or
        `SimulatedTempering`.
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
    TypeError, ValueError
        If it is no tree, or one of another kind.

    Examples
    --------
    .. code-block:: python

        from pymc_logz.plots.chains import plot_chains

        plot_chains(lz.sample_hais(model=model))
    """
    estimates = _by_chain(idata)
    collection, [panel] = make_panels(["log_z"], 2.4, backend, figsize, n_columns=1)
    for chain, estimate in enumerate(estimates):
        if estimate.usable:
            ends = estimate.log_z + 2 * estimate.mcse * np.array([-1, 1])
            panel.line(ends, np.array([chain, chain]), color=BLUE, width=3)
            panel.scatter(np.array([estimate.log_z]), np.array([chain]), color=BLUE)
    panel.yticks(np.arange(len(estimates)), [str(i) for i in range(len(estimates))])
    panel.ylim((-0.6, len(estimates) - 0.4))
    without = [str(i) for i, estimate in enumerate(estimates) if not estimate.usable]
    told = f"; no number for {', '.join(without)}" if without else ""
    title = f"Log Z by chain, two standard errors{told}"
    panel.label(title, "log Z less that of the reference (nats)", "chain")
    return collection


def _by_chain(idata: xr.DataTree) -> list[LogZEstimate]:
    """Log Z of each chain, of whatever the kind of the tree says that it left."""
    if isinstance(idata, xr.DataTree) and material_of(idata) == LEVELS:
        group = tempering_of(idata)
        chains = range(group.sizes["chain"])
        return [rts(draws_of_group(group.isel(chain=[i]))).estimate for i in chains]
    # refuses trees of all other kinds
    return [importance_log_z(of_chain) for of_chain in log_weights(idata)]
