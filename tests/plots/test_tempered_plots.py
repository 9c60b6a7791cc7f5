"""Figures of tempered runs: what they show is what the run holds."""

from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr
from arviz_base import rcParams
from scipy.stats import norm
from support.checks import check_means, make_rng
from support.tempered_draws import PoissonPath, gibbs_draws, ladder, stored_run

import pymc_logz as lz
from pymc_logz.estimators import mbar
from pymc_logz.plots.tempered import mean_log_ratio
from pymc_logz.tempered.results import round_trips
from pymc_logz.trees.kinds import TEMPERED
from pymc_logz.trees.layout import make_tree, stored_draws

PATH, K = PoissonPath(), 7
PLOTS = {
    "plot_tempering": ["level", "occupancy", "round_trips", "rejection_rate"],
    "plot_thermo": ["integrand", "log_z", "difference"],
    "plot_overlap": ["overlap"],
}


@pytest.fixture(scope="module")
def tree() -> xr.DataTree:
    return stored_run(K, "plots")


def from_pm_sample(tree: xr.DataTree) -> xr.DataTree:
    """The same draws as `SimulatedTempering` leaves them."""
    group = tree["tempering"].to_dataset()
    shape = (group.sizes["chain"], group.sizes["draw"], K)
    stats = {
        f"walker_{name}": group[name].transpose("chain", "draw", "walker")
        for name in ("level", "log_ratio")
    }
    for name in ("beta", "log_prior", "log_z_hat"):
        values = np.broadcast_to(group[name].to_numpy(), shape)
        stats[name] = xr.DataArray(values, dims=("chain", "draw", "of_level"))
    stats = xr.Dataset(
        {name: values.drop_vars("beta", errors="ignore") for name, values in stats.items()}
    )
    return xr.DataTree.from_dict({"sample_stats": stats})


def lines(panel) -> list[np.ndarray]:
    """Points (x, y) of the lines of a panel."""
    return [np.asarray(line.get_xydata(), dtype=float) for line in panel.get_lines()]


def draw(name: str, tree: xr.DataTree, **kwargs: object) -> dict[str, mpl.axes.Axes]:
    """Panels of a figure by name."""
    collection = getattr(lz, name)(tree, backend="matplotlib", **kwargs)
    collection.viz["figure"].item().draw_without_rendering()
    mpl.pyplot.close("all")
    return dict(zip(PLOTS[name], collection.viz["plot"].values, strict=True))


@pytest.mark.parametrize("name", PLOTS)
def test_every_backend_draws(name: str, tree: xr.DataTree) -> None:
    """Catches a panel that is lost, or drawn by means that only Matplotlib has."""
    collection = getattr(lz, name)(tree, backend="none")
    assert type(collection).__name__ == "PlotCollection"
    assert list(collection.viz["panel"].to_numpy()) == PLOTS[name]
    assert collection.viz["plot"].size == len(PLOTS[name])
    figure = getattr(lz, name)(tree, backend="matplotlib", figsize=(4, 3)).viz["figure"].item()
    assert tuple(figure.get_size_inches()) == (4, 3)
    mpl.pyplot.close("all")


@pytest.mark.parametrize("name", PLOTS)
def test_draws_of_pm_sample_look_the_same(name: str, tree: xr.DataTree) -> None:
    """Catches draws and walkers confused, or a ladder that is not found."""
    ours, theirs = draw(name, tree), draw(name, from_pm_sample(tree))
    for label, panel in ours.items():
        assert panel.get_title() == theirs[label].get_title()
        for one, other in zip(lines(panel), lines(theirs[label]), strict=True):
            np.testing.assert_allclose(one, other)


@pytest.mark.parametrize("name", PLOTS)
def test_other_trees_are_refused(name: str) -> None:
    """Catches a KeyError where a sentence is due."""
    for wrong in (xr.DataTree(), {"a": 1}):
        with pytest.raises(
            (TypeError, ValueError), match=r"'tempering', as sample_tempered.*SimulatedTempering"
        ):
            getattr(lz, name)(wrong)


def test_walkers_and_shares(tree: xr.DataTree) -> None:
    """Catches a trace of another walker, shares that do not sum to one, trips counted twice."""
    panels, draws = draw("plot_tempering", tree), stored_draws(tree)
    traces = lines(panels["level"])
    assert len(traces) == 3
    np.testing.assert_array_equal(traces[0][:, 1], draws.level[0, :200])
    np.testing.assert_array_equal(traces[-1][:, 1], draws.level[-1, :200])
    *shares, prior = lines(panels["occupancy"])
    assert len(shares) == 2
    np.testing.assert_allclose([share[:, 1].sum() for share in shares], 1.0)
    np.testing.assert_allclose(prior[:, 1], 1 / K)
    # each chain's own: their mean is that of all draws
    mean = draws.level_given(draws.log_ratio.ravel(), draws.segment.ravel()).mean(axis=0)
    np.testing.assert_allclose(np.mean(shares, axis=0)[:, 1], mean)
    trips = round_trips(draws.level, K)
    bars = lz.plot_tempering(tree, backend="none").viz["plot"].values[2][0]
    assert bars["function"] == "hist"
    counts = [
        np.sum((trips > left) & (trips < right))
        for left, right in zip(bars["l_e"], bars["r_e"], strict=True)
    ]
    np.testing.assert_array_equal(bars["y"], counts)
    assert np.sum(counts) == 16
    assert str(trips.sum()) in panels["round_trips"].get_title()


def test_area_is_log_z_and_methods_differ_by_what_they_differ(tree: xr.DataTree) -> None:
    """Catches an area on the wrong axis, and lines of one method under the name of another."""
    panels = draw("plot_thermo", tree, methods=["rts", "ti_left"])
    group = lz.evidence(tree, methods="rts")["evidence"].to_dataset().isel(estimator=0)
    area = float(panels["integrand"].get_title().split("= ")[1])
    assert abs(area - PATH.log_z(np.ones(1))[0]) < 5 * float(group["mcse"]) + 0.01
    left, first = lines(panels["log_z"])  # the recommended one is drawn last
    np.testing.assert_allclose(first[:, 1], group["log_z_curve"])
    np.testing.assert_allclose(first[:, 0] ** 4, ladder(K))
    # intervals of the two at beta = 1, after the line at zero
    _, same, difference = lines(panels["difference"])
    in_errors = norm.ppf(0.5 + 0.5 * rcParams["stats.ci_prob"])
    half = in_errors * float(group["mcse"])
    np.testing.assert_allclose(same, [[-half, 2.0], [half, 2.0]])
    np.testing.assert_allclose(difference[:, 1], 1.0)
    assert left[-1, 1] < first[-1, 1]
    assert difference[0, 0] < difference[1, 0] <= 10.001 * half / in_errors
    labels = [tick.get_text() for tick in panels["difference"].get_yticklabels()]
    assert labels == ["rts", "ti_left: rule_error"]
    with pytest.raises(ValueError, match="must be 'all' or among"):
        lz.plot_thermo(tree, methods="tarot")


def test_numbers_that_are_there_are_drawn(tree: xr.DataTree) -> None:
    """Catches estimators that are computed again, or those of another method."""
    asked = lz.evidence(tree, methods=["rts", "mbar"])
    group = asked["evidence"].to_dataset()
    changed = group.assign(log_z_curve=group["log_z_curve"] + 7.0)
    asked["evidence"] = xr.DataTree(changed)
    mbar_line, rts_line = lines(draw("plot_thermo", asked, methods=["rts", "mbar"])["log_z"])
    for line, name in ((rts_line, "rts"), (mbar_line, "mbar")):
        expected = group["log_z_curve"].sel(estimator=name) + 7.0
        np.testing.assert_allclose(line[:, 1], expected)


def test_mean_log_ratio_between_levels() -> None:
    """Catches draws weighted by the level they were made at, and a constant of that level."""
    betas = np.array([0.0, 0.02, 0.17, 0.6, 1.0])
    guess = PATH.log_z(ladder(5)) + np.linspace(0, 2, 5)
    errors = []
    for i in range(60):
        rng = make_rng("mean log ratio", i)
        draws = gibbs_draws(PATH, rng, betas=ladder(5), shape=(20, 100), log_z_hat=guess)
        errors.append(mean_log_ratio(draws, betas) - PATH.mean_log_ratio(betas))
    check_means(
        {f"beta={beta}": error for beta, error in zip(betas, np.transpose(errors), strict=True)}
    )


def test_long_runs_are_thinned() -> None:
    """Catches draws and segments thinned apart, or the front of a run alone."""
    draws = gibbs_draws(PATH, make_rng("thinned"), betas=ladder(5), shape=(4, 90))
    thinned = {name: getattr(draws, name)[:, ::3] for name in ("level", "log_ratio", "segment")}
    every_third = replace(draws, **thinned)
    expected = mean_log_ratio(every_third, draws.betas)
    found = mean_log_ratio(draws, draws.betas, max_draws=120)
    np.testing.assert_allclose(found, expected)


def test_overlap_is_that_of_mbar() -> None:
    """Catches a transposed matrix, or rows from the bottom up."""
    tree = stored_run(K, "overlap", log_z_error=2.0)
    panel = draw("plot_overlap", tree)["overlap"]
    overlap = mbar(stored_draws(tree)).details["overlap"]
    cells = {
        (K - 1 - round(text.get_position()[1]), text.get_position()[0]): float(text.get_text())
        for text in panel.texts
    }
    assert len(cells) == np.sum(overlap >= 0.005)
    for (j, k), value in cells.items():
        assert value == pytest.approx(overlap[j, k], abs=0.0051)
    assert abs(overlap - overlap.T).max() > 0.02, "a transposed matrix would go unnoticed"
    assert "least" in panel.get_title()


def test_nothing_overlaps_without_support(tree: xr.DataTree) -> None:
    """Catches a figure of nothing."""
    group = tree["tempering"].to_dataset()
    lost = group.assign(level=0 * group["level"], log_ratio=group["log_ratio"] - np.inf)
    with pytest.raises(ValueError, match="nothing overlaps"):
        lz.plot_overlap(make_tree({"tempering": lost}, {}, TEMPERED))
