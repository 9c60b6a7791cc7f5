"""How a Bayes factor depends on a parameter of the prior."""

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection

from pymc_logz.plots.panels import BLUE, GREY, dashed, interval, make_panels
from pymc_logz.trees.comparison import evidence_of


def plot_sensitivity(
    idata: xr.DataTree,
    against: xr.DataTree | None = None,
    *,
    parameter: str | None = None,
    ci_prob: float | None = None,
    backend: str | None = None,
    figsize: tuple[float, float] | None = None,
) -> PlotCollection:
    """Log Bayes factor against a parameter of the prior, with the value that the run had.

    Alternatives out of reach of the draws (Pareto k-hat above its threshold) are left out. A prior
    that is made wider and wider makes any model lose in the end (Lindley's paradox): the curve
    falls by one nat for each factor of e.

    Parameters
    ----------
    idata
        DataTree of `evidence_sensitivity`.
    against
        DataTree with a group ``evidence`` of another model. None compares with the prior as it is.
    parameter
        Which of the changed parameters is drawn; None takes the only one.
    ci_prob
        Probability of the band around the curve; None takes ArviZ's ``stats.ci_prob``.
    backend
        ``"matplotlib"``, ``"bokeh"`` or ``"plotly"``; None takes ArviZ's ``plot.backend``.
    figsize
        Size of the figure in inches.

    Returns
    -------
    arviz_plots.PlotCollection
        Its ``viz`` tree holds the figure and the panel ``"bayes"``.

    Raises
    ------
    ValueError
        If the tree has no group ``sensitivity``, or the parameter is no single number.

    See Also
    --------
    evidence_sensitivity

    Examples
    --------
    .. code-block:: python

        import numpy as np
        import pymc as pm
        import pymc_logz as lz

        with pm.Model() as model:
            width = pm.Data("width", 1.0)
            mean = pm.Normal("mean", 0, width)
            pm.Normal("y", mean, 1, observed=[1.0, 2.0, 0.5])

        tree = lz.sample_hais(model=model, random_seed=1)
        widths = {"width": np.geomspace(0.1, 100, 30)}
        lz.plot_sensitivity(lz.evidence_sensitivity(tree, model, widths))
    """
    if "sensitivity" not in getattr(idata, "children", ()):
        raise ValueError("this needs a DataTree with a group 'sensitivity': evidence_sensitivity")
    group = idata["sensitivity"].to_dataset()
    name = _parameter(group, parameter)
    centre = group["log_bayes_factor"].to_numpy()
    error = group["log_bayes_factor_mcse"].to_numpy()
    title = "Against the prior as it is (dashed)"
    if against is not None:
        other = evidence_of(against, "against")
        centre = group["log_z"].to_numpy() - float(other["log_z"])
        error = np.hypot(group["mcse"].to_numpy(), float(other["mcse"]))
        title = "Against the other model; prior as it is dashed"
    shown = np.isfinite(centre)
    order = np.argsort(group[name].to_numpy()[shown])
    place, centre, error = (part[shown][order] for part in (group[name].to_numpy(), centre, error))
    on_log = bool(np.all(group[name] > 0))
    place = np.log10(place) if on_log else place
    drawing, collection, [panel] = make_panels(["bayes"], 3.6, backend, figsize, n_columns=1)
    ci_prob, width = interval(ci_prob)
    half = width * error
    drawing.fill_between_y(place, centre - half, centre + half, panel, color=BLUE, alpha=0.3)
    drawing.line(place, centre, panel, color=BLUE, width=2)
    drawing.hline(0.0, panel, color=GREY)
    present = float(np.asarray(group.attrs[f"present_{name}"]).ravel()[0])
    drawing.vline(
        np.log10(present) if on_log else present, panel, color=GREY, linestyle=dashed(drawing)
    )
    if on_log and place.size:
        ticks = np.arange(np.ceil(place.min() - 1e-9), np.floor(place.max() + 1e-9) + 1)
        drawing.xticks(ticks, [f"{10.0**tick:g}" for tick in ticks], panel)
    drawing.xlabel(name, panel)
    drawing.ylabel("log Bayes factor (nats)", panel)
    drawing.title(f"{title}, {ci_prob:.0%} band", panel)
    return collection


def _parameter(group: xr.Dataset, parameter: str | None) -> str:
    """Name of the changed parameter to draw."""
    names = [str(name) for name, coord in group.coords.items() if coord.dims == ("alternative",)]
    if parameter is None and len(names) == 1:
        return names[0]
    if parameter not in names:
        raise ValueError(f"parameter={parameter!r} must be one of {names}")
    return str(parameter)
