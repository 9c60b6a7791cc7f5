"""How walkers travelled between the ends of the ladder."""

from typing import Any

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection
from scipy.special import softmax

from pymc_logz.estimators import TemperedDraws, rts_log_z
from pymc_logz.plots.panels import BLUE, GREY, color, level_axis, level_ticks, make_panels
from pymc_logz.tempered.results import rejection_rates, round_trips
from pymc_logz.trees.layout import draws_of_group, tempering_of


def plot_tempering(
    idata: xr.DataTree, *, backend: str | None = None, figsize: tuple[float, float] | None = None
) -> PlotCollection:
    """How walkers travelled between the ends of the schedule, and how their time was spent.

    Four panels: the levels of some walkers over the first iterations; the fraction of time at each
    level, one line per chain, against its prior (dotted); how many walkers made how many round
    trips; and the swaps with the next level that would be rejected.

    Parameters
    ----------
    idata
        DataTree of `sample_tempered`, or of ``pm.sample`` with step `SimulatedTempering`.
    backend
        ``"matplotlib"``, ``"bokeh"`` or ``"plotly"``; None takes ArviZ's ``plot.backend``.
    figsize
        Size of the figure in inches.

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
    drawing, collection, panels = make_panels(names, 5.2, backend, figsize)
    _draw_levels(drawing, panels[0], draws)
    _draw_occupancy(drawing, panels[1], group)
    _draw_round_trips(drawing, panels[2], draws)
    rate = rejection_rates(draws)
    drawing.line(np.arange(rate.size), rate, panels[3], color=BLUE)
    drawing.scatter(np.arange(rate.size), rate, panels[3], color=BLUE)
    drawing.ylim((0.0, 1.0), panels[3])
    level_axis(drawing, panels[3], draws.n_levels)
    drawing.ylabel("fraction of swaps", panels[3])
    drawing.title(f"Rejected swaps, sum {np.nansum(rate):.1f}", panels[3])
    return collection


def _draw_levels(
    drawing: Any, panel: Any, draws: TemperedDraws, n_walkers: int = 3, n_iterations: int = 200
) -> None:
    chosen = np.linspace(0, len(draws.level) - 1, n_walkers).astype(int)
    for k, walker in enumerate(np.unique(chosen)):
        trace = draws.level[walker, :n_iterations]
        drawing.line(np.arange(trace.size), trace, panel, color=color(k), alpha=0.8)
    drawing.yticks(*level_ticks(draws.n_levels), panel)
    drawing.xlabel("iteration", panel)
    drawing.ylabel("level", panel)
    drawing.title("Level of some walkers", panel)


def _draw_occupancy(drawing: Any, panel: Any, group: xr.Dataset) -> None:
    shares = []
    for chain in range(group.sizes["chain"]):
        draws = draws_of_group(group.isel(chain=slice(chain, chain + 1)))
        shares.append(softmax(draws.log_prior + rts_log_z(draws) - draws.log_z_hat[0]))
    place = np.arange(draws.n_levels)
    for k, share in enumerate(shares):
        drawing.line(place, share, panel, color=color(k), alpha=0.8)
    dotted = drawing.get_default_aes("linestyle", 3)[-1]
    prior = softmax(draws.log_prior)
    drawing.line(place, prior, panel, color=GREY, linestyle=dotted, width=2)
    drawing.ylim((0.0, 1.3 * max(prior.max(), np.max(shares))), panel)
    level_axis(drawing, panel, draws.n_levels)
    drawing.ylabel("fraction of draws", panel)
    drawing.title("Time at each level, prior dotted", panel)


def _draw_round_trips(drawing: Any, panel: Any, draws: TemperedDraws) -> None:
    trips = round_trips(draws.level, draws.n_levels)
    width = max(1, -(-int(np.ptp(trips) + 1) // 20))
    edges = np.arange(trips.min(), trips.max() + width + 1, width) - 0.5
    counts, edges = np.histogram(trips, edges)
    drawing.hist(counts, edges[:-1], edges[1:], panel, color=BLUE, alpha=0.7)
    ticks = np.arange(trips.min(), trips.max() + 1, -(-int(np.ptp(trips) + 1) // 8))
    drawing.xticks(ticks, [str(tick) for tick in ticks], panel)
    drawing.xlabel("round trips of a walker", panel)
    drawing.ylabel("walkers", panel)
    drawing.title(f"{trips.sum()} round trips of {trips.size} walkers", panel)
