"""Every figure on every backend, in colours that readers can tell apart."""

import inspect
from importlib.util import find_spec

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from arviz_plots import PlotCollection
from support.tempered_draws import stored_run

import pymc_logz as lz
from pymc_logz.plots.panels import COLORS

PLOTS = [name for name in lz.__all__ if name.startswith("plot_")]
NEEDS = {"matplotlib": "matplotlib", "bokeh": "bokeh", "plotly": "webcolors"}
"""Package without which arviz-plots has no such backend."""
BACKENDS = [
    pytest.param(
        backend,
        marks=pytest.mark.skipif(find_spec(package) is None, reason=f"{package} is not installed"),
    )
    for backend, package in NEEDS.items()
]
DEUTERANOPIA = np.array([[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]])
"""Linear RGB as seen without green cones: Machado, Oliveira & Fernandes (2009), table 1."""


@pytest.fixture(scope="module")
def made() -> dict[str, object]:
    """What each figure is drawn from: one model, annealed from both ends and at a fixed ladder."""
    model = lz.energies.beta_bernoulli().model
    both = lz.sandwich(model, 64, 2, betas=24, random_seed=1, progressbar=False)
    sensitivity = xr.Dataset(
        {
            name: ("alternative", values)
            for name, values in {
                "log_z": [-3.0, -2.0, np.nan],
                "mcse": [0.1, 0.2, np.nan],
                "log_bayes_factor": [0.0, 1.0, np.nan],
                "log_bayes_factor_mcse": [0.0, 0.2, np.nan],
            }.items()
        },
        coords={"width": ("alternative", [0.1, 1.0, 10.0])},
        attrs={"present_width": 1.0},
    )
    tempered = stored_run(7, "every backend")
    table = pd.DataFrame(
        {
            "log_bayes_factor": [0.0, -0.2, np.nan],
            "log_bayes_factor_mcse": [0.0, 0.1, np.nan],
            "probability": [0.6, 0.4, np.nan],
        },
        index=["a", "b", "unknown"],
    )
    return {
        "plot_evidence": table,
        "plot_overlap": tempered,
        "plot_path": both,
        "plot_sandwich": both,
        "plot_sensitivity": xr.DataTree.from_dict({"sensitivity": sensitivity}),
        "plot_tempering": tempered,
        "plot_thermo": tempered,
        "plot_weights": both,
    }


@pytest.fixture(autouse=True)
def closed():
    """No figure is left open."""
    yield
    plt.close("all")


def test_every_figure_is_tried(made: dict[str, object]) -> None:
    """Would catch a figure that is new, and drawn on one backend only."""
    assert sorted(made) == sorted(PLOTS)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PLOTS)
# Bokeh's own deprecations
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_figures_on_every_backend(name: str, backend: str, made: dict[str, object]) -> None:
    """Would catch an argument that only Matplotlib knows, and a figure that cannot be laid out."""
    collection = getattr(lz, name)(made[name], backend=backend)
    assert isinstance(collection, PlotCollection)
    figure = collection.viz["figure"].item()
    if backend == "matplotlib":
        figure.draw_without_rendering()
    elif backend == "plotly":
        assert len(figure.to_plotly_json()["data"]) > 0
    else:
        from bokeh.embed import json_item

        assert json_item(figure)["doc"]


@pytest.mark.parametrize("name", PLOTS)
def test_axes_say_what_they_measure(name: str, made: dict[str, object]) -> None:
    """Would catch an axis without a name; an axis of names of models or methods has ticks."""
    collection = getattr(lz, name)(made[name], backend="matplotlib")
    for panel in collection.viz["plot"].values:
        assert panel.get_xlabel()
        ticks = [tick.get_text() for tick in panel.get_yticklabels()]
        named = any(tick[:1].isalpha() for tick in ticks) or panel.get_shared_y_axes().joined(
            panel, collection.viz["plot"].values[0]
        )
        assert panel.get_ylabel() or named, panel.get_title()


@pytest.mark.parametrize("name", PLOTS)
def test_figures_say_what_they_return(name: str) -> None:
    """Would catch a figure that cannot be drawn on a backend of choice."""
    assert {"backend", "figsize"} <= set(inspect.signature(getattr(lz, name)).parameters)


def as_seen(color: str) -> np.ndarray:
    """A colour as seen without green cones, in linear RGB."""
    values = np.array([int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    return np.clip(DEUTERANOPIA @ linear, 0, 1) ** (1 / 2.4)


def nearest_pair(colors: tuple[str, ...]) -> float:
    """Distance of the two colours that are hardest to tell apart."""
    seen = [as_seen(color) for color in colors]
    return min(float(np.linalg.norm(a - b)) for k, a in enumerate(seen) for b in seen[k + 1 :])


def test_colours_can_be_told_apart() -> None:
    """Would catch a colour that readers without green cones take for another one."""
    assert nearest_pair(COLORS) > 0.15
    # positive control: two of Matplotlib's own
    assert nearest_pair(("#2ca02c", "#d62728")) < 0.15
