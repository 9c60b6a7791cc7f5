"""Models of pymc.dims: the same density, names and labels as a model of plain tensors."""

import numpy as np
import pymc as pm
import pymc.dims as pmd
import pytensor.xtensor as px
import pytest
import xarray as xr
from pytensor.graph.traversal import ancestors
from scipy import stats
from support import pymc_models as models
from support.checks import make_rng

import pymc_logz as lz
from pymc_logz.models.labelled import in_tensors, is_labelled

COORDS = {"group": ["a", "b", "c"], "row": range(5), "kind": range(4)}


def labelled(values: np.ndarray, *dims: str) -> px.type.XTensorVariable:
    return pmd.as_xtensor(values, dims=dims)


def many_kinds() -> pm.Model:
    """One variable of each kind of transform, and dimensions in several orders."""
    rng = make_rng("labelled")
    with pm.Model(coords=COORDS) as model:
        tau, mu = pmd.HalfNormal("tau", 1), pmd.Normal("mu", 0, 2, dims="group")
        sigma = pmd.HalfNormal("sigma", pmd.math.exp(mu), dims=("group", "row"))
        alpha = labelled(np.arange(1.0, 5.0), "kind")
        pmd.Dirichlet("share", alpha, core_dims="kind", dims=("group", "kind"))
        cells = pmd.ZeroSumNormal("cells", core_dims=("group", "kind"), dims=("group", "kind"))
        pmd.TruncatedNormal("above", 0, tau, lower=0.3)
        pmd.Uniform(
            "between", labelled(np.array([-1.0, 0.0, 1.0]), "group"), 3.0, dims=("row", "group")
        )
        pmd.Beta("part", 2, 3, dims="kind")
        pmd.VonMises("angle", 0.0, 2.0)
        pmd.HalfStudentT("far", nu=3, sigma=tau)
        cov = labelled(np.eye(4) + 0.3, "kind", "other")
        zero = labelled(np.zeros(4), "kind")
        pmd.MvNormal("normal", zero, cov=cov, core_dims=("kind", "other"), dims=("group", "kind"))
        data = pmd.Data("data", rng.normal(size=(3, 5)), dims=("group", "row"))
        centred = pmd.Deterministic("centred", mu - data.mean("row"))
        pmd.Deterministic("same", mu)
        pmd.Normal("y", mu + cells.sum("kind"), sigma, observed=data, dims=("row", "group"))
        pmd.Potential("near", -0.1 * centred**2)
    return model


def test_density_and_names_are_the_same() -> None:
    """Catches a wrong transform, order of dimensions, or data that are not those that are set."""
    model, rng = many_kinds(), make_rng("points")
    plain = in_tensors(model)
    assert not any(is_labelled(one) for one in ancestors(plain.named_vars.values()))
    assert [*plain.named_vars] == [*model.named_vars]
    assert plain.named_vars_to_dims == model.named_vars_to_dims
    given, found = (one.compile_logp(mode="FAST_COMPILE") for one in (model, plain))
    point = model.initial_point()
    for data in (None, rng.normal(size=(3, 5))):
        if data is not None:
            pm.set_data({"data": data}, model=model)
        moved = {name: value + 0.4 * rng.normal(size=value.shape) for name, value in point.items()}
        assert found(moved) == pytest.approx(given(moved), abs=1e-10)
        seen, same = (
            one["centred"].eval({one["mu"]: np.zeros(3)}, mode="FAST_COMPILE")
            for one in (plain, model)
        )
        np.testing.assert_allclose(seen, same)


def effects(y: np.ndarray) -> pm.Model:
    with pm.Model(coords=COORDS) as model:
        effect = pmd.Normal("effect", 0, 1, dims="group")
        pmd.Normal("y", effect, 1, observed=xr.DataArray(y, dims=("group", "row")))
    return model


@pytest.mark.usefixtures("no_look_from_prior")
def test_log_z_is_exact_and_labels_reach_the_result() -> None:
    """Would catch an error from inside PyTensor, and labels that are lost on the way."""
    y = make_rng("effects").normal(size=(3, 5))
    exact = stats.multivariate_normal.logpdf(y, cov=np.eye(5) + 1).sum()
    model = effects(y)
    tree = models.quick(model)
    models.assert_log_z(tree, exact)
    assert list(tree["posterior"]["effect"]["group"].to_numpy()) == ["a", "b", "c"]
    models.assert_log_z(lz.evidence(tree, model), exact)


def test_steps_move_labelled_variables() -> None:
    """Would catch a step whose values are not those that PyMC names."""
    y = make_rng("effects").normal(size=(3, 5)) + 1.0
    with effects(y):
        step = lz.HAIS(random_seed=1)
        made = {"draws": 200, "tune": 50, "chains": 1, "progressbar": False, "random_seed": 1}
        posterior = pm.sample(step=step, compute_convergence_checks=False, **made)["posterior"]
    assert posterior["effect"].dims == ("chain", "draw", "group")
    mean = posterior["effect"].mean(("chain", "draw")).to_numpy()
    # with a standard deviation of 0.41, and 50 independent draws at least
    np.testing.assert_allclose(mean, y.sum(axis=1) / 6, atol=4 * 0.41 / np.sqrt(50))


def test_a_chain_follows_the_gradient_of_a_labelled_potential() -> None:
    """Would catch a density of labelled graphs, which have no gradient."""
    with pm.Model(coords=COORDS):
        effect = pmd.Normal("effect", 0, 1, dims="group")
        pmd.Potential("seen", -1.5 * (effect - 1) ** 2)
        step = lz.PartialMomentumHMC(rng=1)
        made = {"draws": 600, "tune": 300, "chains": 1, "progressbar": False, "random_seed": 1}
        posterior = pm.sample(step=step, compute_convergence_checks=False, **made)["posterior"]
    mean = posterior["effect"].mean(("chain", "draw")).to_numpy()
    # a normal of mean 3/4 and precision 4, and 50 independent draws at least
    np.testing.assert_allclose(mean, 0.75, atol=4 * 0.5 / np.sqrt(50))


@pytest.mark.filterwarnings("ignore:the model has potentials:pymc_logz.errors.EvidenceWarning")
def test_what_tensors_do_not_have_is_refused() -> None:
    """Would catch values along another dimension than that which sums to one."""
    with pm.Model(coords=COORDS) as model:
        alpha = labelled(np.ones(4), "kind")
        pmd.Dirichlet("share", alpha, core_dims="kind", dims=("kind", "group"))
        pm.Potential("nothing", pmd.math.exp(0.0 * model["share"].sum()).values)
    with pytest.raises(lz.ModelError, match=r"'share'.*\('kind', 'group'\).*last"):
        models.quick(model)
