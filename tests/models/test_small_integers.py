"""Models whose own density, or draws, PyMC computes in other numbers than were meant."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import integrate, stats

import pymc_logz as lz
from pymc_logz.graphs.functions import wider

pytestmark = pytest.mark.usefixtures("no_look_in_this_file")

Y = np.array([15.0, 12.0, 17.0])


def found(model: pm.Model) -> tuple[float, float]:
    """Log Z, and its error, of a run that is ok."""
    tree = lz.sample_hais(model=model, random_seed=1, progressbar=False)
    first = tree["evidence"].to_dataset().isel(estimator=0)
    assert first["status"] == "ok"
    return float(first["log_z"]), float(first["mcse"])


def test_a_range_that_no_int8_has() -> None:
    """Would catch a log Z of NaN, or data outside a support: 100 - -100 is -56."""
    with pm.Model() as model:
        pm.Normal("y", pm.Uniform("x", -100, 100), 3, observed=Y)
    log_z, mcse = found(model)
    among = stats.norm(Y.mean(), 3 / np.sqrt(3))
    exact = stats.norm(0, 3).logpdf(Y).sum() - among.logpdf(0) - np.log(200)
    assert abs(log_z - exact) < 4 * mcse


def test_a_square_that_no_int8_has() -> None:
    """Would catch the density of another width, 18 nats too high with ``ok``: 12**2 is -112."""
    with pm.Model() as model:
        pm.ExGaussian("y", mu=pm.Normal("mu", 0, 1), sigma=12, nu=3, observed=Y)
    log_z, mcse = found(model)

    def likelihood(mu: float) -> float:
        log_p = stats.exponnorm(3 / 12, mu, 12).logpdf(Y).sum()
        return float(np.exp(log_p) * stats.norm.pdf(mu))

    assert abs(log_z - np.log(integrate.quad(likelihood, -8, 8, epsabs=0)[0])) < 4 * mcse


def test_graphs_of_other_numbers_are_left() -> None:
    """Would catch graphs that are made anew for nothing."""
    x = pt.vector("x")
    outputs = [x**2 + 3, pt.exp(0.5 * x)]
    assert wider(outputs) == outputs


def test_a_latent_sum_of_draws() -> None:
    """Would catch a refusal: each entry of PyMC's density depends on the entry before."""
    y = np.array([0.3, 0.5, -1.0, 0.1])

    def walk(sd, size):
        return pt.cumsum(pm.Normal.dist(0, sd, size=size))

    with pm.Model() as model:
        pm.Normal("y", pm.CustomDist("x", 1.0, dist=walk, shape=(4,)), 1, observed=y)
    log_z, mcse = found(model)
    covariance = np.minimum.outer(np.arange(1, 5), np.arange(1, 5)) + np.eye(4)
    assert abs(log_z - stats.multivariate_normal(np.zeros(4), covariance).logpdf(y)) < 4 * mcse


def test_rounded_draws_are_refused() -> None:
    """Would catch a density of whole numbers that is taken for one of all numbers, with ``ok``."""

    def rounded(size):
        return pt.round(pm.Normal.dist(0, 2, size=size))

    with pm.Model() as model:
        pm.Normal("y", pm.CustomDist("x", dist=rounded), 0.3, observed=np.array([1.0, 1.1, 0.9]))
    with pytest.raises(lz.ImproperPriorError, match="draws of 'x' repeat each other"):
        lz.sample_hais(model=model, random_seed=1, progressbar=False)
