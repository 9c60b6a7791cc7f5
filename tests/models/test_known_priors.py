"""The list of priors that need no check: each passes the check, and nothing else is on it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytest
from scipy.special import betaln
from scipy.stats import beta, kstest
from support.compilations import counted_compilations
from support.prior_masses import check_prior_mass

from pymc_logz.errors import ImproperPriorError
from pymc_logz.models.known_priors import KNOWN, is_known
from pymc_logz.models.prior_check import check_priors

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
COVARIANCE = np.array([[2.0, 0.5], [0.5, 1.0]])
PRIORS: dict[str, Callable[[], Any]] = {
    "AsymmetricLaplace": lambda: pm.AsymmetricLaplace("x", kappa=2, mu=0, b=1),
    "Beta": lambda: pm.Beta("x", 0.7, 2),
    "Cauchy": lambda: pm.Cauchy("x", 1, 2),
    "ChiSquared": lambda: pm.ChiSquared("x", 3),
    "Dirichlet": lambda: pm.Dirichlet("x", np.array([1.0, 2.0, 3.0])),
    "ExGaussian": lambda: pm.ExGaussian("x", mu=1, sigma=0.5, nu=2),
    "Exponential": lambda: pm.Exponential("x", 2),
    "Gamma": lambda: pm.Gamma("x", 0.7, 2),
    "Gumbel": lambda: pm.Gumbel("x", 1, 2),
    "HalfCauchy": lambda: pm.HalfCauchy("x", 2),
    "HalfNormal": lambda: pm.HalfNormal("x", 2),
    "HalfStudentT": lambda: pm.HalfStudentT("x", 3, 2),
    "InverseGamma": lambda: pm.InverseGamma("x", 2, 2),
    "Kumaraswamy": lambda: pm.Kumaraswamy("x", 2, 3),
    "Laplace": lambda: pm.Laplace("x", 1, 2),
    "Logistic": lambda: pm.Logistic("x", 1, 2),
    "LogNormal": lambda: pm.LogNormal("x", 1, 0.5),
    "Moyal": lambda: pm.Moyal("x", 1, 2),
    "MvNormal": lambda: pm.MvNormal("x", np.zeros(2), COVARIANCE),
    "MvStudentT": lambda: pm.MvStudentT("x", nu=5, scale=COVARIANCE, mu=np.zeros(2)),
    "Normal": lambda: pm.Normal("x", 1, 2),
    "Pareto": lambda: pm.Pareto("x", 2, 1.5),
    "Rice": lambda: pm.Rice("x", 1, 2),
    "SkewNormal": lambda: pm.SkewNormal("x", mu=1, sigma=2, alpha=3),
    "SkewStudentT": lambda: pm.SkewStudentT("x", a=3, b=2, mu=1, sigma=2),
    "StickBreakingWeights": lambda: pm.StickBreakingWeights("x", 2.0, 3),
    "StudentT": lambda: pm.StudentT("x", nu=3, mu=1, sigma=2),
    "Triangular": lambda: pm.Triangular("x", lower=-1, c=0, upper=3),
    "TruncatedNormal": lambda: pm.TruncatedNormal("x", 1, 2, lower=0, upper=2),
    "TruncatedNormal above": lambda: pm.TruncatedNormal("x", 1, 2, lower=0),
    "TruncatedNormal below": lambda: pm.TruncatedNormal("x", 1, 2, upper=2),
    "Uniform": lambda: pm.Uniform("x", -1, 3),
    "Wald": lambda: pm.Wald("x", 1, 2),
    "Weibull": lambda: pm.Weibull("x", 1.5, 2),
    "ZeroSumNormal": lambda: pm.ZeroSumNormal("x", 1.0, shape=4),
}


def model_of(prior: Callable[[], Any]) -> pm.Model:
    with pm.Model() as model:
        prior()
    return model


FEW = {
    "Beta",
    "Dirichlet",
    "HalfCauchy",
    "MvStudentT",
    "Normal",
    "TruncatedNormal",
    "Uniform",
    "ZeroSumNormal",
}
"""One for each transform and kind of entries; the others are slow."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in FEW)) for name in PRIORS]
)
def test_a_known_prior_passes_the_check(name: str) -> None:
    """Catches an entry of the list whose density and draws are not of one distribution."""
    model = model_of(PRIORS[name])
    assert is_known(model, model.free_RVs[0])
    [mass] = check_prior_mass(model, np.random.default_rng(1))
    assert mass.looks[0].is_sharp
    assert mass.verdict == "agrees"
    assert mass.log_expected == 0.0


def test_every_entry_is_checked() -> None:
    """Catches an entry of the list that no test looks at."""
    assert {type(model_of(prior).free_RVs[0].owner.op) for prior in PRIORS.values()} == KNOWN


transforms = pm.distributions.transforms


class Shifted(transforms.LogTransform):  # type: ignore[misc,name-defined]
    """A transform of the user's, of a class that inherits from PyMC's."""

    def log_jac_det(self, value: Any, *inputs: Any) -> Any:
        return value + 1.0


def test_entries_in_order_are_known() -> None:
    """Catches a check of what is a change of variables of a known prior."""
    model = model_of(lambda: pm.Normal("x", shape=3, transform=transforms.ordered))
    assert is_known(model, model["x"])


UNKNOWN: dict[str, Callable[[], Any]] = {
    "another transform": lambda: pm.Normal("x", transform=transforms.Interval(0, None)),
    "ordered by another one": lambda: pm.HalfNormal(
        "x", shape=2, initval=[0.5, 1.0], default_transform=transforms.Ordered(positive=True)
    ),
    "other bounds": lambda: pm.Uniform("x", 0, 1, default_transform=transforms.Interval(0, 0.5)),
    "inherited transform": lambda: pm.HalfNormal("x", default_transform=Shifted()),
    "no transform": lambda: pm.Exponential("x", 1, default_transform=None),
    "two transforms": lambda: pm.HalfNormal("x", transform=transforms.Interval(0, 3)),
    "CustomDist": lambda: pm.CustomDist(
        "x",
        logp=lambda value: -(value**2),
        random=lambda rng=None, size=None: rng.normal(size=size),
    ),
    "distribution of a function": lambda: pm.CustomDist(
        "x", dist=lambda size: pm.Normal.dist(0, 1, size=size) * 2
    ),
    "truncated": lambda: pm.Truncated("x", pm.Laplace.dist(0, 1), lower=0),
    "mixture": lambda: pm.NormalMixture("x", w=[0.5, 0.5], mu=[-1, 1], sigma=1),
    "walk of mixtures": lambda: pm.RandomWalk(
        "x",
        init_dist=pm.Normal.dist(),
        innovation_dist=pm.NormalMixture.dist(w=[0.5, 0.5], mu=[-1, 1], sigma=1),
        steps=3,
    ),
    "AR": lambda: pm.AR("x", [0.5], sigma=1.0, init_dist=pm.Normal.dist(), steps=3),
    "LKJ with negative scales": lambda: pm.LKJCholeskyCov(
        "x", n=2, eta=2, sd_dist=pm.Normal.dist(1.0, 1.0)
    ),
}


MADE_OF_KNOWN: dict[str, Callable[[int], Any]] = {
    "GaussianRandomWalk": lambda n: pm.GaussianRandomWalk(
        "x", sigma=0.3, init_dist=pm.Normal.dist(0, 1), steps=n
    ),
    "MvGaussianRandomWalk": lambda n: pm.MvGaussianRandomWalk(
        "x",
        np.zeros(2),
        cov=COVARIANCE,
        init_dist=pm.MvNormal.dist(np.zeros(2), np.eye(2)),
        steps=n,
    ),
    "walk of Student-t steps": lambda n: pm.RandomWalk(
        "x", init_dist=pm.Normal.dist(), innovation_dist=pm.StudentT.dist(nu=4), steps=n
    ),
    "LKJ": lambda n: pm.LKJCholeskyCov("x", n=n, eta=1.5, sd_dist=pm.Exponential.dist(1.0)),
}
"""Priors that hold others, by their size."""


@pytest.mark.parametrize("name", MADE_OF_KNOWN)
def test_what_is_made_of_known_priors_passes_the_check(name: str) -> None:
    """Catches a constant that is wrong, at a size that the check can tell of."""
    model = model_of(lambda: MADE_OF_KNOWN[name](3))
    assert is_known(model, model.free_RVs[0])
    [mass] = check_prior_mass(model, np.random.default_rng(1))
    assert mass.looks[0].is_sharp
    assert mass.verdict == "agrees"


@pytest.mark.parametrize(("name", "size"), [("GaussianRandomWalk", 500), ("LKJ", 10)])
def test_sizes_that_no_check_can_tell_of_are_known(name: str, size: int) -> None:
    """Catches a doubt about priors of which nobody has one."""
    assert (
        check_priors(model_of(lambda: MADE_OF_KNOWN[name](size)), np.random.default_rng(1)) is None
    )


@pytest.mark.slow
def test_the_constant_of_a_large_lkj_is_that_of_the_source() -> None:
    """Catches a constant that is right in few dimensions only, and draws of another law."""
    n, eta = 10, 1.5
    chol = pm.LKJCholeskyCov.dist(
        n=n, eta=eta, sd_dist=pm.Exponential.dist(1.0), compute_corr=False
    )
    # the identity: independent standard deviations of one, and the constant of the LKJ law
    packed = np.eye(n)[np.tril_indices(n)]
    k = np.arange(1, n)
    half = eta + (n - k - 1) / 2
    constant = np.sum((n - k) * ((2 * eta - 2 + n - k) * np.log(2.0) + betaln(half, half)))
    assert float(pm.logp(chol, packed).eval()) == pytest.approx(-constant - n)
    drawn = pm.draw(chol, 2000, random_seed=1)
    # every correlation has a scaled Beta law: Joe (2006), doi 10.1016/j.jmva.2005.05.010
    rows = np.zeros((2000, n, n))
    rows[(slice(None), *np.tril_indices(n))] = drawn
    covariance = rows @ rows.swapaxes(1, 2)
    last = covariance[:, 7, 9] / np.sqrt(covariance[:, 7, 7] * covariance[:, 9, 9])
    shape = eta + n / 2 - 1
    assert kstest((last + 1) / 2, beta(shape, shape).cdf).pvalue > 1e-4


@pytest.mark.parametrize("name", UNKNOWN)
def test_others_are_not_known(name: str) -> None:
    """Catches a distribution that is known by the class it derives from, or a transform by name."""
    model = model_of(UNKNOWN[name])
    assert not is_known(model, model.free_RVs[0])


def test_only_doubtful_priors_are_checked_and_once() -> None:
    """Catches a check of known priors, one that is made again, and one that new data outlive."""

    def draw(scale: Any, rng: Any = None, size: Any = None) -> np.ndarray:
        return rng.normal(0.0, min(scale, 2.0), size=size)

    def log_density(value: Any, scale: Any) -> Any:
        return pm.logp(pm.Normal.dist(0.0, scale), value)

    with pm.Model() as model:
        scale = pm.Data("scale", 1.0)
        pm.Normal("known", 0, scale)
        pm.CustomDist("custom", scale, logp=log_density, random=draw)
    rng = np.random.default_rng(1)
    with counted_compilations() as first:
        check_priors(model, rng)
    assert first.by_pytensor > 0
    with counted_compilations() as again:
        check_priors(model, rng)
        # draws and density still agree
        pm.set_data({"scale": 1.5}, model=model)
        check_priors(model, rng)
        pm.set_data({"scale": 8.0}, model=model)
        with pytest.raises(ImproperPriorError, match="custom"):
            check_priors(model, rng)
    assert again.total == 0


def test_known_priors_compile_nothing() -> None:
    """Catches draws of priors that are known, whatever their parameters depend on."""
    with pm.Model() as model:
        mean = pm.Normal("mean")
        sigma = pm.HalfCauchy("sigma", 1)
        pm.Normal("effect", mean, sigma, shape=3)
    with counted_compilations() as count:
        check_priors(model, np.random.default_rng(1))
    assert count.total == 0
