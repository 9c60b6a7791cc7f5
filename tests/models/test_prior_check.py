"""The check of priors: what it refuses, what it lets pass, and what it cannot tell."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytest
from support.checks import make_rng
from support.prior_masses import check_prior_mass

from pymc_logz.errors import EvidenceWarning, ImproperPriorError
from pymc_logz.models.prior import PriorDraws
from pymc_logz.models.prior_check import PriorMass, check_priors
from pymc_logz.models.prior_looks import Bounds, Look

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
transforms = pm.distributions.transforms


def chain(n: int) -> np.ndarray:
    """Neighbours on a line."""
    return np.eye(n, k=1) + np.eye(n, k=-1)


def normals(n: int, shift: float, **kwargs: Any) -> Callable[[], Any]:
    """Normal priors whose log densities are all off by a constant."""

    def log_density(value: Any) -> Any:
        return pm.logp(pm.Normal.dist(), value) + shift

    def draw(rng: Any = None, size: Any = None) -> np.ndarray:
        return rng.normal(size=size)

    def made() -> None:
        for i in range(n):
            pm.CustomDist(f"x{i}", logp=log_density, random=draw, **kwargs)

    return made


def mixture() -> Any:
    """Two far modes in three dimensions: between them kernels and normals have mass, draws none."""
    parts = [pm.MvNormal.dist(np.full(3, at), 0.1 * np.eye(3)) for at in (-5.0, 5.0)]
    return pm.Mixture("x", [0.5, 0.5], parts)


def check(prior: Callable[[], Any]) -> list[PriorMass]:
    """What the check says of a model with this prior."""
    with pm.Model() as model:
        prior()
    return check_prior_mass(model, make_rng("prior check"))


REFUSED = {
    "CAR": (lambda: pm.CAR("x", np.zeros(10), chain(10), 0.5, 1.0), r"'x' integrates to exp\(5"),
    "long CAR": (lambda: pm.CAR("x", np.zeros(50), chain(50), 0.5, 1.0), "'x' integrates"),
    "one": (normals(1, 0.09), r"'x0' integrates to exp\(0\.09\)"),
    "eight": (normals(8, 0.015), r"'x7'\] together integrate to exp\(0\.12\)"),
    "many": (normals(1, 0.001, shape=1000), r"together integrate to exp\(1\.00\)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_priors_that_are_off_are_refused(name: str) -> None:
    """Catches looks whose disagreement counts as agreement, and small faults that add up."""
    prior, message = REFUSED[name]
    with pytest.raises(ImproperPriorError, match=message):
        check(prior)


PASSED = {
    "normals": normals(2, 0.0),
    "many": normals(1, 0.0, shape=1000),
    "modes": mixture,
    "spike and slab": lambda: pm.NormalMixture("x", [0.9, 0.1], [0, 0], [1e-3, 10.0], shape=6),
    "random walk": lambda: pm.GaussianRandomWalk("x", init_dist=pm.Normal.dist(), steps=50),
    "LKJ": lambda: pm.LKJCholeskyCov("x", n=4, eta=2, sd_dist=pm.Exponential.dist(1.0)),
    "restricted": lambda: pm.Normal("x", shape=50, transform=transforms.Interval(0, None)),
    "heavy tails": lambda: pm.Truncated("x", pm.Cauchy.dist(0, 1), lower=-1.0),
}


@pytest.mark.parametrize("name", PASSED)
def test_proper_priors_pass(name: str) -> None:
    """Catches a refusal of what integrates to one, and a check that never has anything to say."""
    for mass in check(PASSED[name]):
        assert mass.verdict == "agrees"
        assert mass.looks[0].is_sharp


@pytest.mark.slow  # two minutes of drawing
def test_a_check_without_a_verdict_says_so_each_time() -> None:
    """Catches a prior that passes because it cannot be told: 500 dimensions from 4,000 draws."""
    with pm.Model() as model:
        pm.AR("x", [0.5], sigma=1.0, init_dist=pm.Normal.dist(), steps=500)
    for _ in range(2):
        with pytest.warns(EvidenceWarning, match=r"inconclusive: the mass of 'x' is not known"):
            reason = check_priors(model, make_rng("inconclusive"))
        assert "'x'" in str(reason)


def test_draws_that_are_no_numbers_are_named() -> None:
    """Would catch an error that leaves open which of many variables cannot be drawn."""

    def draw(rng: Any = None, size: Any = None) -> np.ndarray:
        return np.log(-rng.uniform(size=size))

    def log_density(value: Any) -> Any:
        return pm.logp(pm.Normal.dist(), value)

    with pm.Model() as model:
        pm.Normal("z")
        pm.CustomDist("x", logp=log_density, random=draw)
    with (
        np.errstate(invalid="ignore"),
        pytest.raises(ImproperPriorError, match=r"nothing is left of those of \['x'\]"),
    ):
        PriorDraws(model)(make_rng("no numbers"), 2000)


def test_verdicts() -> None:
    """Catches looks that outvote one that can be trusted, either way."""

    def verdict(*looks: tuple[float, float, float], **kwargs: Any) -> str:
        return PriorMass("x", tuple(Look(*look) for look in looks), 0.0, 0.0, 1, **kwargs).verdict

    bad_draws = PriorMass("x", (Look(0.0, 0.0, 0.0), Look(-0.5, 0.02, 0.1)), 0.0, 0.0, 1)
    assert bad_draws.seen == -0.5  # what is printed is what failed
    bounded = PriorMass("x", (Look(0.0, 0.0, 0.0),), 0.0, 0.0, 1, bounds=Bounds(-2.0, -0.4, 0.01))
    assert (bounded.verdict, bounded.seen) == ("off", -0.4)
    assert verdict((0.0, 0.0, 0.0), (0.5, 0.02, 0.1)) == "agrees"  # a gap
    assert verdict((0.0, 0.0, 0.0), (-0.5, 0.02, 0.1)) == "off"  # draws of another law
    assert verdict((0.1, 0.0, 0.0), (0.1, 0.02, 0.1)) == "off"
    assert verdict((np.nan, np.nan, 0.0), (9.0, 0.5, 0.1)) == "inconclusive"
    assert verdict((0.0, 0.1, 0.0), bounds=Bounds(3.0, 9.0, 0.1)) == "off"
    assert verdict((0.0, 0.1, 0.0), bounds=Bounds(-9.0, -3.0, 0.1)) == "off"
    assert verdict((0.0, 0.1, 0.0), bounds=Bounds(-9.0, 3.0, 0.1)) == "agrees"
