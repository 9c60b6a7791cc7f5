"""Conditional autoregressions, whose constant PyMC leaves out: log Z has it."""

from functools import cache

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import integrate, stats
from support.checks import make_rng

import pymc_logz as lz

pytestmark = [
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
    pytest.mark.usefixtures("no_look_in_this_file"),
]
BESIDE = np.zeros((5, 5))
for one, other in [(0, 1), (0, 3), (1, 2), (2, 3), (3, 4)]:
    BESIDE[one, other] = BESIDE[other, one] = 1
ALPHA, TAU, NOISE = 0.7, 2.0, 0.5
SEEN = np.array([1.0, 2.0, -1.0, 0.5, 0.3])
PRECISION = TAU * (np.diag(BESIDE.sum(axis=0)) - ALPHA * BESIDE)


@cache
def field(kind: str = "matrix") -> pm.Model:
    """One field or two, one of them seen with noise."""
    n = 2 if kind == "two fields" else 1
    with pm.Model() as model:
        weights = pm.Data("weights", BESIDE) if kind == "data" else BESIDE
        shape = (5,) if n == 1 else (n, 5)
        phi = pm.CAR("phi", mu=np.zeros(5), W=weights, alpha=ALPHA, tau=TAU, shape=shape)
        pm.Normal("y", phi if n == 1 else phi[0], NOISE, observed=SEEN)
    return model


EXACT = stats.multivariate_normal(
    np.zeros(5), np.linalg.inv(PRECISION) + NOISE**2 * np.eye(5)
).logpdf(SEEN)


def check(tree: xr.DataTree, n: int = 1) -> None:
    """Fail unless each entry is ok, and right."""
    for k in range(n):
        found = tree["evidence"].to_dataset().isel(estimator=k)
        assert found["status"] == "ok"
        assert abs(float(found["log_z"]) - EXACT) < 4 * float(found["mcse"]) + 1e-6


@pytest.mark.parametrize("kind", ["matrix", "data", "two fields"])
def test_a_field(kind: str) -> None:
    """Catches log Z without the constant: 3.0 nats off, and twice that for two fields."""
    check(lz.sample_hais(model=field(kind), random_seed=1, progressbar=False))


def seen_field(n: int = 1, tau: float | None = None) -> pm.Model:
    """Fields that are data themselves, of a precision that is unknown or given."""
    with pm.Model() as model:
        scale = pm.Gamma("tau", 2, 1) if tau is None else tau
        data = SEEN if n == 1 else np.array([SEEN, SEEN[::-1]])
        pm.CAR("y", mu=np.zeros(5), W=BESIDE, alpha=ALPHA, tau=scale, observed=data)
    return model


@pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_field_that_is_seen(n: int) -> None:
    """Catches a likelihood without its constant, by which models with other ones are compared."""
    of_one = np.linalg.inv(PRECISION / TAU)
    data = [SEEN, SEEN[::-1]][:n]

    def density(tau: float) -> float:
        field = stats.multivariate_normal(np.zeros(5), of_one / tau)
        return np.exp(sum(field.logpdf(one) for one in data)) * stats.gamma(2).pdf(tau)

    exact = np.log(integrate.quad(density, 0, 50, epsabs=0, points=[1])[0])
    found = lz.sample_hais(model=seen_field(n), random_seed=3, progressbar=False)["evidence"]
    assert found["status"].item() == "ok"
    assert abs(float(found["log_z"][0]) - exact) < 4 * float(found["mcse"][0])


def test_a_field_that_is_seen_without_unknowns() -> None:
    found = lz.evidence(seen_field(tau=TAU))["evidence"]
    exact = stats.multivariate_normal(np.zeros(5), np.linalg.inv(PRECISION)).logpdf(SEEN)
    assert float(found["log_z"][0]) == pytest.approx(exact)


def test_every_way_to_its_evidence() -> None:
    model, options = field(), {"random_seed": 2, "progressbar": False}
    check(lz.evidence(model, **options), 2)
    check(lz.sample_tempered(200, 2, model=model, **options))
    rows = make_rng("field").multivariate_normal(
        np.linalg.solve(PRECISION + np.eye(5) / NOISE**2, SEEN / NOISE**2),
        np.linalg.inv(PRECISION + np.eye(5) / NOISE**2),
        size=(4, 1000),
    )
    posterior = xr.Dataset({"phi": (("chain", "draw", "phi_dim_0"), rows)})
    check(lz.bridge_sampling(xr.DataTree.from_dict({"posterior": posterior}), model, **options), 2)
