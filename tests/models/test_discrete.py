"""Discrete free variables: their values, their place in a row, and models that are refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytest
from arviz_base import dict_to_dataset
from scipy import stats
from support.flat_rows import named_values
from support.prior_masses import check_prior_mass

import pymc_logz as lz
from pymc_logz.graphs.gradients import gradients_of
from pymc_logz.models.flat import constrain, flatten_model, unconstrain
from pymc_logz.models.prior import PriorDraws
from pymc_logz.paths.geometric import Site

FAST = "FAST_COMPILE"
pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")


def mixed() -> pm.Model:
    """Whole numbers between and beside continuous variables, scalar and in arrays."""
    with pm.Model() as model:
        count = pm.Poisson("count", 4.0)
        weight = pm.Dirichlet("weight", np.ones(3))
        label = pm.Categorical("label", weight, shape=(2, 2))
        rate = pm.Exponential("rate", 1.0)
        switch = pm.Bernoulli("switch", 0.4)
        mean = rate * (1 + switch) + count * 0.1 + label.sum() * 0.01
        pm.Normal("y", mean, 1.0, observed=1.3)
    return model


SUPPORTS: dict[str, tuple[Callable[[], object], tuple[int | None, int | None]]] = {
    "bernoulli": (lambda: pm.Bernoulli("k", 0.3), (0, 1)),
    "categorical": (lambda: pm.Categorical("k", [0.1, 0.2, 0.7]), (0, 2)),
    "categorical_of_free": (lambda: pm.Categorical("k", pm.Dirichlet("w", np.ones(4))), (0, 3)),
    "ordered": (lambda: pm.OrderedLogistic("k", 0.2, [-1.0, 1.0]), (0, 2)),
    "discrete_uniform": (lambda: pm.DiscreteUniform("k", -2, 5), (-2, 5)),
    "upper_is_free": (lambda: pm.DiscreteUniform("k", 0, pm.Poisson("top", 5) + 1), (0, None)),
    "binomial": (lambda: pm.Binomial("k", n=7, p=0.2), (0, 7)),
    "binomial_of_free": (lambda: pm.Binomial("k", n=pm.Poisson("n", 5.0), p=0.2), (0, None)),
    "beta_binomial": (lambda: pm.BetaBinomial("k", alpha=1, beta=2, n=6), (0, 6)),
    "hypergeometric": (lambda: pm.HyperGeometric("k", N=20, k=15, n=8), (3, 8)),
    "poisson": (lambda: pm.Poisson("k", 3.0), (0, None)),
    "negative_binomial": (lambda: pm.NegativeBinomial("k", mu=3.0, alpha=1.0), (0, None)),
    "geometric": (lambda: pm.Geometric("k", 0.3), (1, None)),
    "zero_inflated": (lambda: pm.ZeroInflatedPoisson("k", 0.5, 3.0), (None, None)),
    "truncated": (lambda: pm.Truncated("k", pm.Poisson.dist(3.0), upper=6), (None, None)),
}


@pytest.mark.parametrize("name", SUPPORTS)
def test_values_are_those_of_the_distribution(name: str) -> None:
    """Catches a value that Gibbs would never visit, and one that does not exist."""
    make, bounds = SUPPORTS[name]
    with pm.Model() as model:
        make()
        pm.Normal("y", model["k"], 1.0, observed=0.0)
    flat = flatten_model(model, integers=True)
    [site] = [site for site in flat.sites if flat.owners[site.column] == "k"]
    assert site[1:3] == bounds
    draws = PriorDraws(model)(np.random.default_rng(1), 2000)[:, site.column]
    assert np.all(draws == np.round(draws))
    assert site.lower is None or draws.min() >= site.lower
    assert site.upper is None or draws.max() <= site.upper


@pytest.mark.parametrize("name", SUPPORTS)
def test_probabilities_of_priors_add_up(name: str) -> None:
    """Catches a prior of which the check makes another mass than one, known or not."""
    with pm.Model() as model:
        SUPPORTS[name][0]()
    masses = check_prior_mass(model, np.random.default_rng(1))
    [mass] = [mass for mass in masses if mass.name == "k"]
    assert mass.verdict == "agrees", mass


def test_a_prior_that_does_not_add_up_is_refused() -> None:
    """Positive control of the one above: probabilities that are half of what they should be."""
    with pm.Model() as model:
        k = pm.CustomDist(
            "k",
            3.0,
            logp=lambda value, mu: pm.logp(pm.Poisson.dist(mu), value) - np.log(2.0),
            random=lambda mu, rng=None, size=None: rng.poisson(mu, size),
            dtype="int64",
        )
        pm.Normal("y", k, 1.0, observed=0.0)
    with pytest.raises(lz.ImproperPriorError, match="'k' integrates to exp"):
        lz.sample_hais(model=model, progressbar=False)


def test_bounds_follow_the_data() -> None:
    """Catches a support that was read from data of before."""
    with pm.Model() as model:
        trials = pm.Data("trials", 5)
        k = pm.Binomial("k", n=trials, p=0.5)
        pm.Normal("y", k, 1.0, observed=2.0)
    assert flatten_model(model, integers=True).sites == (Site(0, 0, 5),)
    pm.set_data({"trials": 9}, model=model)
    assert flatten_model(model, integers=True).sites == (Site(0, 0, 9),)


def test_rows_hold_whole_numbers_among_others() -> None:
    """Catches a density of other values than the row's, and draws that come back as floats."""
    model = mixed()
    flat = flatten_model(model, integers=True)
    assert flat.owners == ("count", *["weight"] * 2, *["label"] * 4, "rate", "switch")
    assert [site.column for site in flat.sites] == [0, 3, 4, 5, 6, 8]
    assert flat.continuous.tolist() == [1, 2, 7]
    row = PriorDraws(model)(np.random.default_rng(1), 1)
    assert row.dtype == float
    values = constrain(flat, row)
    assert values["label"].dtype.kind == values["count"].dtype.kind == "i"
    dataset = dict_to_dataset({name: value[None] for name, value in values.items()})
    np.testing.assert_allclose(unconstrain(flat, dataset), row, atol=1e-12)
    point = {
        var.name: np.asarray(value, dtype=var.dtype)
        for var, value in zip(model.value_vars, named_values(flat, row[0]).values(), strict=True)
    }
    expected = model.compile_logp(mode=FAST)(point)
    densities = pytensor.function([flat.point], [flat.log_prior, flat.log_ratio], mode=FAST)
    found = sum(densities(row[0]))
    assert found == pytest.approx(expected)


def test_no_gradient_leads_through_whole_numbers() -> None:
    """Catches a gradient by an entry that is rounded, or none at all for the others."""
    flat = flatten_model(mixed(), integers=True)
    row = PriorDraws(flat.model)(np.random.default_rng(1), 1)[0]
    for density in (flat.log_prior, flat.log_ratio):
        outputs = [density, *gradients_of([density], flat.point)]
        function = pytensor.function([flat.point], outputs, mode=FAST)
        value, step = function(row)[1], 1e-6
        for j in flat.continuous:
            up, down = (function(row + sign * step * np.eye(row.size)[j])[0] for sign in (1, -1))
            assert value[j] == pytest.approx((up - down) / (2 * step), rel=1e-4, abs=1e-6)
        assert np.all(value[[site.column for site in flat.sites]] == 0)


def test_entries_with_a_fixed_sum_are_known() -> None:
    """Catches counts that are taken for free of each other, or of another row's sum."""
    with pm.Model() as model:
        pm.Poisson("first", 2.0)
        k = pm.Multinomial("k", np.array([5, 7]), np.array([[0.2, 0.3, 0.5]] * 2))
        pm.Normal("y", k[0, 0], 1.0, observed=1.0)
    sites = flatten_model(model, integers=True).sites
    assert [site.tied for site in sites] == [None, 1, 1, 1, 4, 4, 4]
    assert [site.upper for site in sites] == [None, 5, 5, 5, 7, 7, 7]


def test_a_joint_law_of_whole_numbers_is_refused() -> None:
    """Catches states of which it is not known how far they may go, and a refusal without help."""

    def logp(state: Any, p: Any) -> Any:
        return pm.math.log(pm.math.switch(state[1:] > state[:-1], p[1:], 1 - p[1:])).sum()

    with pm.Model() as model:
        stay = np.full(4, 0.9)
        state = pm.CustomDist("state", stay, logp=logp, signature="(n)->(n)", dtype="int64")
        pm.Normal("y", state[0], 1.0, observed=1.0)
    with pytest.raises(lz.DiscreteVariableError, match=r"\['state'\] have a joint.*pm.Potential"):
        lz.sample_hais(model=model, progressbar=False)


def test_a_fitted_reference_is_refused() -> None:
    """Catches a fit by normals to labels."""
    for reference in ("learned", "laplace"):
        with pytest.raises(ValueError, match=r"fit by continuous densities, but \['count'"):
            lz.sample_hais(model=mixed(), reference=reference, sum_out=False, progressbar=False)


@pytest.mark.usefixtures("no_look_from_prior")
def test_a_missing_count_changes_nothing() -> None:
    """Catches an imputed entry whose probabilities do not add up to one."""
    counts = np.ma.masked_array([1, 2, 3], mask=[True, False, False])
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2.0, 1.0)
        with pytest.warns(pm.exceptions.ImputationWarning):
            pm.Poisson("y", rate, observed=counts)
    tree = lz.sample_hais(model=model, random_seed=1, progressbar=False)
    # both observed counts by their negative binomials, one after the other
    exact = stats.nbinom.logpmf(2, 2, 1 / 2) + stats.nbinom.logpmf(3, 4, 2 / 3)
    entry = tree["evidence"].isel(estimator=0)
    assert str(entry["status"].item()) == "ok"
    assert abs(float(entry["log_z"]) - exact) < min(4 * float(entry["mcse"]), 0.05)
    assert tree["posterior"]["y_unobserved"].dtype.kind == "i"
