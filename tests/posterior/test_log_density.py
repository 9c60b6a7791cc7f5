"""Normalised log density of points: exact values, the error that is shared, and the door."""

from collections.abc import Callable

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats
from support import pymc_models as models
from support.checks import make_rng

import pymc_logz as lz

pytestmark = [
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
    pytest.mark.usefixtures("no_look_in_this_file"),
]
FILTERS = np.array([[1.0, 0.4], [-0.3, 0.8]])


@pytest.fixture(scope="module")
def experts() -> lz.energies.Energy:
    return lz.energies.laplace_experts(FILTERS)


@pytest.fixture(scope="module")
def run(experts: lz.energies.Energy) -> xr.DataTree:
    return models.quick(experts.model, draws=1000, reference="prior", betas=64)


def test_exact_density_of_experts(experts: lz.energies.Energy, run: xr.DataTree) -> None:
    """Catches a sign, or a log Z that is counted twice; and that errors of points are one error."""
    points = make_rng("points").standard_normal((50, 2))
    group = lz.log_density(run, experts.model, points)["evidence"].to_dataset()
    exact = -np.abs(points @ FILTERS.T).sum(axis=1) - experts.log_z
    error = group["log_z"].values[0] - exact
    mcse = float(run["evidence"]["mcse"][0])
    np.testing.assert_allclose(error, error[0], atol=1e-10)
    assert abs(error[0]) < 4 * mcse
    assert set(group["mcse"].values[0]) == {mcse}
    assert group.attrs["sum_mcse"] == pytest.approx(50 * mcse)
    assert group.attrs["mean_log_density"] == pytest.approx(exact.mean() + error[0])
    assert group.attrs["mean_standard_error"] == pytest.approx(exact.std(ddof=1) / np.sqrt(50))


def test_bounded_variables_and_points_outside() -> None:
    """Catches a Jacobian that stays in, and a point outside that gets a density."""
    with pm.Model() as model:
        p = pm.Beta("p", 2.0, 3.0)
        pm.Binomial("k", 5, p, observed=1)
    tree = models.quick(model, draws=1000, reference="prior", betas=32)
    points = xr.DataArray([0.1, 0.5, 1.5], dims="place", coords={"place": ["a", "b", "c"]})
    group = lz.log_density(tree, model, {"p": points})["evidence"].to_dataset()
    found = group["log_z"].sel(estimator="hais")
    exact = stats.beta(3.0, 7.0).logpdf([0.1, 0.5])
    assert np.all(np.abs(found.sel(place=["a", "b"]) - exact) < 4 * float(group["mcse"][0, 0]))
    assert float(found.sel(place="c")) == -np.inf


@pytest.mark.parametrize(
    ("points", "words"),
    [
        (np.zeros((3, 3)), r"shape \(3, 3\).*\(n, 2\)"),
        (np.zeros(2), r"shape \(2,\).*\(n, 2\)"),
        (0.5, r"shape \(\).*\(n, 2\)"),
        ({"y": np.zeros((3, 2))}, r"\['y'\].*\['x'\]"),
        (None, "points must be a dict"),
        (np.zeros((0, 2)), "leading axis"),
    ],
)
def test_the_door(
    experts: lz.energies.Energy, run: xr.DataTree, points: object, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        lz.log_density(run, experts.model, points)


def test_a_status_is_carried_over(experts: lz.energies.Energy, run: xr.DataTree) -> None:
    poor = run.copy()
    group = run["evidence"].to_dataset().copy()
    group["status"] = ("estimator", np.array(["high_khat"]))
    poor["evidence"] = xr.DataTree(group)
    found = lz.log_density(poor, experts.model, np.zeros((2, 2)))["evidence"]
    assert set(found["status"].values.ravel()) == {"high_khat"}


def test_a_prior_that_transforms_take_a_part_of() -> None:
    """Catches a density of an ordered normal that integrates to the share of it that is ordered."""
    ordered = pm.distributions.transforms.ordered
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=2, transform=ordered, initval=[-1, 1])
        pm.Normal("y", x, 0.5, observed=[-0.5, 0.6])
    with pytest.warns(lz.EvidenceWarning, match="transforms take only"):
        tree = lz.sample_hais(model=model, random_seed=1, progressbar=False)
    proposal = stats.norm([-0.4, 0.5], 0.7)
    points = proposal.rvs(size=(20_000, 2), random_state=make_rng("ordered"))
    with pytest.warns(lz.EvidenceWarning, match="transforms take only"):
        group = lz.log_density(tree, model, points)["evidence"].to_dataset()
    weight = np.exp(group["log_z"].values[0] - proposal.logpdf(points).sum(axis=1))
    error = np.hypot(weight.std() / np.sqrt(len(points)), float(group["mcse"][0, 0]))
    assert abs(weight.mean() - 1) < 4 * error < 0.1


def test_nan_is_refused_and_points_that_are_all_outside_have_no_density(
    experts: lz.energies.Energy, run: xr.DataTree
) -> None:
    """Catches a NaN that was given density zero, and an error where no point is inside."""
    with pytest.raises(ValueError, match="NaN in 1 of 3"):
        lz.log_density(run, experts.model, np.array([[0.0, 1.0], [np.nan, 0.0], [0.0, 0.0]]))
    found = lz.log_density(run, experts.model, np.full((2, 2), np.inf))["evidence"]
    assert np.all(found["log_z"].values == -np.inf)


def test_a_table_of_both_kinds_of_models_is_one_loop(
    experts: lz.energies.Energy, run: xr.DataTree
) -> None:
    """Catches a name or a dimension that only one of the two layouts has."""
    x = make_rng("table").standard_normal((20, 2))
    model = lz.energies.linear_generative(FILTERS, x[0], noise=0.5).model
    settings = {"random_seed": 1, "progressbar": False}
    trees = [
        lz.log_density(run, experts.model, x),
        lz.marginal_log_likelihood(model, {"x": x}, **settings),
    ]
    covariance = FILTERS @ FILTERS.T + 0.25 * np.eye(2)
    exact = [
        -np.abs(x @ FILTERS.T).sum(axis=1) - experts.log_z,
        stats.multivariate_normal(np.zeros(2), covariance).logpdf(x),
    ]
    for tree, log_p in zip(trees, exact, strict=True):
        group = tree["evidence"].to_dataset()
        assert group["log_z"].dims == ("estimator", "data_row")
        assert abs(group.attrs["mean_log_density"] - log_p.mean()) < 4 * group.attrs["mean_mcse"]
        standard_error = log_p.std(ddof=1) / np.sqrt(20)
        assert group.attrs["mean_standard_error"] == pytest.approx(standard_error, rel=0.1)


def test_labels_are_not_read_by_position() -> None:
    """Would catch 42 nats with status ok: entries of a point, or of data, in another order."""
    with pm.Model(coords={"k": ["p", "q"]}) as model:
        width = pm.Data("width", [1.0, 2.0], dims="k")
        b = pm.Normal("b", 0, width, dims="k")
        pm.Normal("y", b, 1, observed=[0.5, 4.0], dims="k")
    tree = lz.sample_hais(128, model=model, random_seed=1, progressbar=False)
    values = xr.DataArray([[1.0, 2.0], [1.5, 2.5]], dims=("row", "k"), coords={"k": ["p", "q"]})
    assert lz.log_density(tree, model, values)["evidence"].sizes["row"] == 2
    assert lz.evidence_sensitivity(tree, model, {"width": values})["sensitivity"].sizes
    for wrong, message in (
        (values.isel(k=[1, 0]), "other labels along 'k'"),
        (values.transpose(), "first and the others in that order"),
    ):
        with pytest.raises(ValueError, match=message):
            lz.log_density(tree, model, wrong)
        with pytest.raises(ValueError, match=message):
            lz.evidence_sensitivity(tree, model, {"width": wrong})


def machine(seed: int) -> lz.energies.BernoulliRBM:
    rng = np.random.default_rng(seed)
    return lz.energies.bernoulli_rbm(*map(rng.standard_normal, ((6, 4), 6, 4)))


@pytest.mark.parametrize("sampler", [lz.sample_hais, lz.sample_tempered])
def test_machines_of_bits(sampler: Callable[..., xr.DataTree]) -> None:
    """Catches energies that are refused, and hidden units that are not summed out."""
    rbm = machine(1)
    tree = sampler(model=rbm, random_seed=1, progressbar=False)
    visible = np.array([[int(bit) for bit in f"{i:06b}"] for i in range(64)])
    group = lz.log_density(tree, rbm, visible)["evidence"].to_dataset()
    error = rbm.log_z - float(tree["evidence"]["log_z"][0])
    np.testing.assert_allclose(np.exp(group["log_z"].values - error).sum(), 1.0)
    np.testing.assert_array_equal(group["mcse"].values[0], float(tree["evidence"]["mcse"][0]))
    both = {"visible": visible, "hidden": np.ones((64, 4))}
    found = lz.log_density(tree, rbm, both)["evidence"]["log_z"].values[0]
    np.testing.assert_allclose(found - error, rbm.log_density(both) - rbm.log_z)
    with pytest.raises(ValueError, match="'lp'"):
        lz.log_density(tree, machine(2), visible)
    with pytest.raises(ValueError, match="another model"):
        lz.log_density(tree, lz.energies.ising_torus((3, 3), 0.1), np.ones((2, 3, 3)))
    with pytest.raises(ValueError, match=r"values among \(0, 1\)"):
        lz.log_density(tree, rbm, visible / 2)
    with pytest.raises(ValueError, match=r"\['hidden'\].*\['visible'\]|\['hidden', 'visible'\]"):
        lz.log_density(tree, rbm, {"hidden": np.ones((2, 4))})


def test_spins_on_a_torus() -> None:
    torus = lz.energies.ising_torus((3, 3), coupling=0.2)
    tree = lz.sample_hais(model=torus, random_seed=1, progressbar=False)
    up = xr.DataArray(np.ones((2, 3, 3)), dims=("place", "row", "column"))
    group = lz.log_density(tree, torus, up)["evidence"].to_dataset()
    exact = 18 * 0.2 - torus.log_z
    assert np.all(np.abs(group["log_z"].sel(estimator="hais") - exact) < 4 * group["mcse"])
    assert group["log_z"].dims == ("estimator", "place")
