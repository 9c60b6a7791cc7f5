"""log Z under changed priors by re-weighting, against exact values."""

from pathlib import Path

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from arviz_base import dict_to_dataset
from scipy.stats import norm, uniform
from support import pymc_models as models
from support.checks import check_coverage, make_rng

import pymc_logz as lz
from pymc_logz.estimators import reweighted_log_z

pytestmark = pytest.mark.usefixtures("no_look_in_this_file")

Y = np.array([0.9, 1.4, 0.2, 1.1])
WIDTHS = np.array([0.3, 1.0, 3.0, 30.0])


def normal_mean(width: float = 2.0) -> pm.Model:
    """A mean whose prior has its centre and its width as data."""
    with pm.Model() as model:
        centre, scale = pm.Data("centre", 0.0), pm.Data("width", np.float64(width))
        mu = pm.Normal("mu", centre, scale)
        pm.Data("unused", 1.0)
        pm.Normal("y", mu, np.float64(1), observed=pm.Data("y_data", Y))
    return model


def exact_log_z(width: float, centre: float = 0.0) -> float:
    """Log marginal likelihood of `normal_mean`: y is jointly normal."""
    covariance = np.eye(4) + width**2
    deviation = Y - centre
    _, log_det = np.linalg.slogdet(2 * np.pi * covariance)
    return -0.5 * (log_det + deviation @ np.linalg.solve(covariance, deviation))


def posterior_draws(width: float = 2.0, n: int = 1000) -> np.ndarray:
    """Exact draws of the mean, shape (4, n)."""
    variance = 1 / (4 + width**-2)
    rng = make_rng("normal mean", width)
    return rng.normal(variance * Y.sum(), np.sqrt(variance), (4, n))


@pytest.fixture(scope="module")
def model() -> pm.Model:
    """The model of this page."""
    return normal_mean()


@pytest.fixture(scope="module")
def tree(model: pm.Model) -> xr.DataTree:
    """Its posterior with a log Z."""
    draws = {"mu": posterior_draws()}
    found = xr.DataTree.from_dict({"posterior": dict_to_dataset(draws)})
    return lz.bridge_sampling(found, model, random_seed=1)


@pytest.fixture(scope="module")
def swept(tree: xr.DataTree, model: pm.Model) -> xr.DataTree:
    """log Z over widths."""
    return lz.evidence_sensitivity(tree, model, {"width": WIDTHS})


def check_curve(group: xr.Dataset, exact: np.ndarray) -> None:
    """Every alternative is right up to its error."""
    assert (group["status"] == "ok").all()
    error = np.abs(group["log_z"].to_numpy() - exact)
    assert np.all(error < 4 * group["mcse"].to_numpy())
    assert np.all(group["mcse"].to_numpy() < 0.2)


def test_curve_is_exact(swept: xr.DataTree, tree: xr.DataTree) -> None:
    """Would catch a density that is not normalised under the alternative: Lindley's paradox."""
    group = swept["sensitivity"].to_dataset()
    exact = np.array([exact_log_z(width) for width in WIDTHS])
    check_curve(group, exact)
    np.testing.assert_array_equal(group["width"], WIDTHS)
    assert group.attrs["present_width"] == 2.0
    change = group["log_bayes_factor"] - (exact - exact_log_z(2.0))
    assert np.all(np.abs(change) < 4 * group["log_bayes_factor_mcse"])
    assert "sensitivity" not in tree.children
    # ten times wider costs log 10 nats
    far = exact_log_z(300.0) - exact_log_z(30.0)
    assert far == pytest.approx(-np.log(10), abs=0.01)


def test_two_parameters_go_together(tree: xr.DataTree, model: pm.Model) -> None:
    """Would catch data that end up in each other's place."""
    values = {"centre": [0.5, 1.0, -0.5], "width": [1.0, 4.0, 2.0]}
    group = lz.evidence_sensitivity(tree, model, values)["sensitivity"].to_dataset()
    pairs = zip(values["width"], values["centre"], strict=True)
    check_curve(group, np.array([exact_log_z(width, centre) for width, centre in pairs]))
    assert set(group.coords) == {"centre", "width"}


def test_weights_of_annealed_rows_are_used(model: pm.Model) -> None:
    """Would catch resampled draws where weighted ones exist."""
    run = models.quick(model, draws=512)
    group = lz.evidence_sensitivity(run, model, {"width": WIDTHS})["sensitivity"].to_dataset()
    check_curve(group, np.array([exact_log_z(width) for width in WIDTHS]))


def test_a_bound_may_move() -> None:
    """Would catch draws that stay inside the old bound: an exact ratio of constants."""
    with pm.Model() as model:
        upper = pm.Data("upper", np.float64(1))
        theta = pm.Uniform("theta", 0, upper)
        pm.Exponential("y", 1 / theta, observed=0.7)
    grid = (np.arange(20_000) + 0.5) / 20_000

    def log_z(upper: float) -> float:
        theta = upper * grid
        return float(np.log(np.mean(np.exp(-0.7 / theta) / theta)))

    density = np.exp(-0.7 / grid) / grid
    rng = make_rng("bound")
    draws = rng.choice(grid, (4, 1000), p=density / density.sum())
    draws += rng.uniform(-0.5, 0.5, draws.shape) / grid.size
    tree = xr.DataTree.from_dict({"posterior": dict_to_dataset({"theta": draws})})
    tree = lz.bridge_sampling(tree, model, random_seed=1)
    found = lz.evidence_sensitivity(tree, model, {"upper": [0.8, 1.3, 2.0]})
    check_curve(found["sensitivity"].to_dataset(), np.array([log_z(u) for u in (0.8, 1.3, 2.0)]))


@pytest.mark.filterwarnings("ignore:the transforms take only")
def test_what_a_transform_leaves_of_the_prior_changes_with_it() -> None:
    """Would catch 0.4 to 1.2 nats with status ok: the share of the prior that is in order."""
    with pm.Model() as model:
        centre, order = pm.Data("centre", [0.0, 1.0]), pm.distributions.transforms.ordered
        mu = pm.Normal("mu", centre, 1, shape=2, transform=order, initval=[0.0, 1.0])
        pm.Normal("y", mu, 1, observed=[0.2, 0.9])
    values = np.array([[0.0, 1.0], [0.0, 0.0], [1.0, 0.0]])
    run = models.quick(model, draws=1024, random_seed=7)
    group = lz.evidence_sensitivity(run, model, {"centre": values})["sensitivity"].to_dataset()
    exact = norm(values, np.sqrt(2)).logpdf([0.2, 0.9]).sum(axis=1)
    apart = np.diff(values)[:, 0]
    exact += norm.logcdf((apart + 0.7) / 2) - norm.logcdf(apart / np.sqrt(2))
    check_curve(group, exact)
    np.testing.assert_array_equal(model["centre"].get_value(), [0.0, 1.0])


def test_alternatives_out_of_reach_have_no_number(tree: xr.DataTree, model: pm.Model) -> None:
    """Would catch an extrapolation with a straight face."""
    with pytest.warns(lz.EvidenceWarning, match="2 of 3 alternatives: Hardly any draw is in"):
        found = lz.evidence_sensitivity(
            tree, model, {"centre": [0.0, -9.0, 0.5], "width": [1.0, 0.2, 1e-3]}
        )
    group = found["sensitivity"].to_dataset()
    assert list(group["status"].values) == ["ok", "too_far", "too_far"]
    assert np.all(np.isnan(group["log_z"][1:]))


REFUSED = {
    "nothing": ({}, "must be a dictionary"),
    "no data": ({"mu": [1.0]}, "is no pm.Data"),
    "observed": ({"y_data": [Y]}, "is observed data"),
    "scalar": ({"width": 1.0}, r"has shape \(\), but must have \(A,\): .* {'width': \[value\]}"),
    "shape": ({"width": [[1.0]]}, "has shape"),
    "lengths": ({"width": [1.0], "centre": [0.0, 1.0]}, "as many"),
    "unused": ({"unused": [2.0]}, "change nothing"),
    "no scale": ({"width": [1.0, -3.0]}, r"no prior with {'width': -3.0}"),
    "NaN": ({"centre": [np.nan]}, "has NaN"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_arguments_are_checked(case: str, tree: xr.DataTree, model: pm.Model) -> None:
    """Would catch an alternative that is another than meant."""
    alternatives, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        lz.evidence_sensitivity(tree, model, alternatives)


def test_draws_of_another_model_are_refused(tree: xr.DataTree) -> None:
    """Would catch a baseline that is not the model as it was sampled."""
    moved = tree.copy(deep=True)
    moved["observed_data"] = xr.DataTree(xr.Dataset({"y": ("i", Y + 1)}))
    with pytest.raises(ValueError, match="other data"):
        lz.evidence_sensitivity(moved, normal_mean(), {"width": [1.0]})
    with pytest.raises(ValueError, match="has no log Z yet"):
        lz.evidence_sensitivity(
            tree.filter(lambda node: node.name != "evidence"), normal_mean(), {"width": [1.0]}
        )


def test_result_can_be_stored_and_drawn(swept: xr.DataTree, tmp_path: Path) -> None:
    """Would catch attributes that no file can hold, and a picture of the wrong parameter."""
    swept.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    swept.to_zarr(tmp_path / "a.zarr")
    again = xr.open_datatree(tmp_path / "a.nc", engine="h5netcdf")
    assert again["sensitivity"].load().identical(swept["sensitivity"])
    panel = lz.plot_sensitivity(again, backend="none").viz["plot"].values[0]
    assert panel is not None
    lz.plot_sensitivity(swept, against=swept, backend="none")
    with pytest.raises(ValueError, match="parameter='mu' must be one of"):
        lz.plot_sensitivity(swept, parameter="mu", backend="none")
    with pytest.raises(ValueError, match="evidence_sensitivity"):
        lz.plot_sensitivity(xr.DataTree())


def reweighted(rng: np.random.Generator, correlation: float, weighted: bool) -> tuple[float, float]:
    """Error and mcse of the ratio of a shifted normal to a standard one: a ratio of 1."""
    chain = rng.standard_normal((4, 500))
    chain[:, 1:] *= np.sqrt(1 - correlation**2)
    for i in range(1, 500):
        chain[:, i] += correlation * chain[:, i - 1]
    target = norm(0.4, 0.9)
    if not weighted:
        estimate = reweighted_log_z(target.logpdf(chain) - norm.logpdf(chain))
    else:
        # rows of a uniform law, weighted for the standard normal
        rows = rng.uniform(-5, 5, chain.shape)
        log_weight = norm.logpdf(rows) - uniform(-5, 10).logpdf(rows)
        estimate = reweighted_log_z(target.logpdf(rows) - norm.logpdf(rows), log_weight)
    return estimate.log_z, estimate.mcse


@pytest.mark.parametrize(("correlation", "weighted"), [(0.0, False), (0.7, False), (0.0, True)])
def test_error_of_the_ratio_is_honest(correlation: float, weighted: bool) -> None:
    """Would catch an error blind to autocorrelation, or to the weights below the ratio."""
    rng = make_rng("ratio", correlation, weighted)
    runs = np.array([reweighted(rng, correlation, weighted) for _ in range(100)])
    check_coverage(np.abs(runs[:, 0]) < 1.96 * runs[:, 1])


def test_bad_arrays_are_refused() -> None:
    """Would catch a NaN that turns into a number."""
    good = np.zeros((2, 10))
    with pytest.raises(ValueError, match="both must be"):
        reweighted_log_z(good, np.zeros((2, 9)))
    with pytest.raises(ValueError, match="at least 4"):
        reweighted_log_z(good[:, :3])
    with pytest.raises(ValueError, match="NaN or"):
        reweighted_log_z(np.full((2, 10), np.nan))
    assert reweighted_log_z(np.full((2, 10), -np.inf)).status == "too_far"
    assert reweighted_log_z(good + 3.0).log_z == pytest.approx(3.0)


def test_weighted_draws_of_other_data_are_refused() -> None:
    """Would catch a base of another prior: log Z off by what the change of the data makes."""
    with pm.Model() as model:
        width = pm.Data("width", 1.0)
        mu = pm.Normal("mu", 0, width)
        pm.Normal("y", mu, 1, observed=[0.3, 0.5])
    settings = {"betas": 8, "draws": 64, "chains": 1, "cores": 1, "progressbar": False}
    tree = lz.sample_hais(model=model, random_seed=1, **settings)
    lz.evidence_sensitivity(tree, model, {"width": [2.0]}, progressbar=False)
    model.set_data("width", 3.0)
    with pytest.raises(ValueError, match="made with other data: 'width'"):
        lz.evidence_sensitivity(tree, model, {"width": [2.0]}, progressbar=False)


@pytest.mark.filterwarnings("ignore:the model has potentials")
def test_a_mode_that_a_wider_prior_opens_is_told() -> None:
    """Catches weights that are even where hardly any draw, but half of the posterior, would be."""
    with pm.Model() as model:
        width = pm.Data("width", 0.5)
        x = pm.Normal("x", 0, width, shape=2)
        parts = [-10 * pt.sum((x - centre) ** 2) for centre in (0.5, -4.0)]
        pm.Potential("modes", pt.logsumexp(pt.stack(parts)))
    tree = lz.sample_hais(model=model, random_seed=1, progressbar=False)
    with pytest.warns(UserWarning, match="alternative 1: .* walked from the prior"):
        changed = lz.evidence_sensitivity(tree, model, {"width": [0.8, 4.0]})["sensitivity"]
    assert list(changed["status"].values) == ["ok", "missed_mode"]
    assert float(model["width"].get_value()) == 0.5
