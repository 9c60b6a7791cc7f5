"""Rows beside those of a blend: parts that are too narrow, and mirror images that they lack."""

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.special import logsumexp
from support.checks import make_rng

import pymc_logz as lz
from pymc_logz.estimators import importance_log_z
from pymc_logz.loop.planning import block_for
from pymc_logz.loop.search import HEAVY, Search
from pymc_logz.models.preparation import prepare
from pymc_logz.paths.elliptical import Elliptical
from pymc_logz.pilot.settings import RunSettings
from pymc_logz.references.blend import Component, Prior, Target

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
D, NOISE = 6, 1e-4


@cache
def needle() -> Target:
    """A normal posterior of which no row of the prior tells."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=D)
        pm.Normal("y", x, NOISE, observed=np.linspace(-1, 1, D))
    prepared = prepare(model, make_rng("prepare"))
    return Target(prepared, block_for(prepared, RunSettings(), None))


def n_higher(away: float, width: float) -> int:
    """Rows beside those of a component of even weights that are higher than all of them.

    It is so many standard deviations away from the mode, and so many wide.
    """
    target, rng = needle(), make_rng("beside")
    centre = np.linspace(-1, 1, D) + away * NOISE
    search = Search(target, rng)
    search.add_parts([Prior(), Component(Elliptical(centre, width * NOISE * np.eye(D), 30.0))])
    for _ in range(2):
        search.draw()
    shares = search.shares_of_kept_parts()
    seen = search.blend(shares).draw(target, rng, 512)
    rows = search.blend(shares).weigh(seen, rng)
    trial = importance_log_z(rows.log_weight, method="hais")
    assert trial.status == "ok"
    found = search.beside(rows, shares, HEAVY * 512 / trial.weight_ess)
    return int(np.sum(found.log_target > seen.log_target.max()))


@pytest.mark.parametrize("width", [1e-15, 1e-30])
def test_parts_that_are_too_narrow(width: float) -> None:
    """Would catch even weights of rows that are all the same, to the last digit."""
    assert n_higher(2.0, width) > 20
    assert n_higher(20.0, width) > 20


def test_parts_that_fit() -> None:
    assert n_higher(0.0, 1.0) == 0


MIXING = np.eye(5) + make_rng("mixing").normal(size=(5, 5))
TRUE = np.array([2.0, 0.35, -0.16, -1.0, 0.34])


def readings(x: Any) -> list[Any]:
    """Of x: a line, a line, a square, and two cubes."""
    return [x[0], x[1], x[2] ** 2, x[3] + x[3] ** 3 / 3, x[4] + x[4] ** 3 / 3]


def exact_of_readings() -> float:
    """They tell all but a sign, to a millionth."""
    priors = (
        stats.uniform(-3, 6),
        stats.beta(2, 5),
        stats.norm(0.4, 1),
        stats.t(2),
        stats.beta(2, 5),
    )
    slopes = np.array([1, 1, 2 * TRUE[2], 1 + TRUE[3] ** 2, 1 + TRUE[4] ** 2])
    fixed = sum(prior.logpdf(x) for prior, x in zip(priors, TRUE, strict=True))
    both = logsumexp(priors[2].logpdf([TRUE[2], -TRUE[2]])) - priors[2].logpdf(TRUE[2])
    log_det = np.linalg.slogdet(MIXING)[1] + np.log(np.abs(slopes)).sum()
    return float(fixed + both - log_det)


@cache
def signs() -> pm.Model:
    """Five unknowns of which as many exact readings tell all but a sign."""
    with pm.Model() as model:
        x = [pm.Uniform("a", -3, 3), pm.Beta("b", 2, 5), pm.Normal("c", 0.4, 1)]
        x += [pm.StudentT("d", nu=2, mu=0, sigma=1), pm.Beta("e", 2, 5)]
        mu = pm.math.dot(MIXING, pm.math.stack(readings(x)))
        pm.Normal("y", mu, 1e-6, observed=MIXING @ np.array(readings(TRUE)))
    return model


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))]
)
def test_both_signs_of_exact_readings(seed: int) -> None:
    """Catches half of Z, or all of it but a speck: modes of a millionth of the prior each way."""
    tree = lz.sample_hais(model=signs(), random_seed=seed, progressbar=False)
    found = tree["evidence"].to_dataset().isel(estimator=0)
    assert found["status"] == "ok"
    assert abs(float(found["log_z"]) - exact_of_readings()) < 4 * float(found["mcse"])


def test_others_follow_an_entry_that_is_given() -> None:
    """As the mean of a normal is moved by one of its entries."""
    rng = make_rng("follow")
    factor = np.linalg.cholesky(MIXING @ MIXING.T)
    normal, given = Elliptical(TRUE, factor), rng.normal(size=(40_000, 5))
    rows = normal.with_one_entry_of(given, rng)
    moved = rows[np.isclose(rows[:, 1], given[:, 1], rtol=1e-12)]
    assert len(moved) == pytest.approx(8000, rel=0.1)
    slope, covariance = (
        np.polynomial.polynomial.polyfit(moved[:, 1], moved, 1)[1],
        MIXING @ MIXING.T,
    )
    assert slope == pytest.approx(covariance[1] / covariance[1, 1], abs=0.1)


def test_modes_one_entry_away_from_known_ones() -> None:
    """Catches log Z 0.7 nats low, 50 errors: no row of the prior climbs to most of these modes."""
    p, n, noise = 8, 12, 1.1
    rng = make_rng("collinear")
    x = rng.normal(size=(n, p)) + 4 * rng.normal(size=(n, 1))
    y = x @ np.where(rng.random(p) < 0.4, 2 * rng.normal(size=p), 0.0) + noise * rng.normal(size=n)
    with pm.Model() as model:
        parts = [pm.Normal.dist(0, 1e-4), pm.Normal.dist(0, 5)]
        b = pm.Mixture("b", [0.4, 0.6], parts, shape=p)
        pm.Normal("y", x @ b, noise, observed=y)
    free = np.array(list(product([False, True], repeat=p)))
    log_z = [
        stats.multivariate_normal.logpdf(
            y, cov=noise**2 * np.eye(n) + (x * np.where(one, 5, 1e-4) ** 2) @ x.T
        )
        for one in free
    ]
    exact = logsumexp(log_z + np.log(np.where(free, 0.6, 0.4)).sum(axis=1))
    tree = lz.sample_hais(model=model, random_seed=1, progressbar=False, cores=1)
    found = tree["evidence"].to_dataset().isel(estimator=0)
    assert found["status"] == "ok"
    assert abs(float(found["log_z"]) - exact) < 4 * float(found["mcse"])
