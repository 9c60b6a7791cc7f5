"""The Bayesian t-test of the sleep data: a published Bayes factor, 17.259."""

from types import ModuleType

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from arviz_base import dict_to_dataset
from scipy.integrate import quad
from support.checks import make_rng
from support.scripts import load

import pymc_logz as lz

PUBLISHED = 17.259
WIDTH = np.sqrt(0.5)


@pytest.fixture(scope="module")
def sleep() -> ModuleType:
    """The example, which has the two models."""
    return load("examples/comparing/sleep.py")


def chains(hours: np.ndarray, *, with_effect: bool, n: int = 3000) -> dict[str, np.ndarray]:
    """Posterior by a random walk in NumPy, four chains, the first half of each thrown away."""
    rng = make_rng("sleep", with_effect)

    def log_density(x: np.ndarray) -> np.ndarray:
        log_sigma, delta = x
        residual = hours / np.exp(log_sigma)[:, None] - delta[:, None]
        prior = -np.log1p((delta / WIDTH) ** 2)
        return prior - hours.size * log_sigma - 0.5 * (residual**2).sum(axis=1)

    x = np.array([rng.normal(0.3, 0.2, 4), rng.normal(1, 0.2, 4) * with_effect])
    step = np.array([[0.35], [0.6 * with_effect]])
    now, kept = log_density(x), np.empty((2 * n, 2, 4))
    for i in range(2 * n):
        new = x + step * rng.standard_normal(x.shape)
        then = log_density(new)
        accept = np.log(rng.uniform(size=4)) < then - now
        x, now = np.where(accept, new, x), np.where(accept, then, now)
        kept[i] = x
    draws = dict(zip(("log_sigma", "delta"), kept[n:].transpose(1, 2, 0), strict=True))
    return draws if with_effect else {"log_sigma": draws["log_sigma"]}


def tree_of(draws: dict[str, np.ndarray]) -> xr.DataTree:
    """A posterior as a tree."""
    return xr.DataTree.from_dict({"posterior": dict_to_dataset(draws)})


def test_published_bayes_factor_by_quadrature(sleep: ModuleType) -> None:
    """Would catch a misprint in the data: Rouder et al. (2009), eq. 1, with their Cauchy prior."""
    n = sleep.HOURS.size
    t = sleep.HOURS.mean() / sleep.HOURS.std(ddof=1) * np.sqrt(n)

    def integrand(g: float) -> float:
        scale = 1 + n * g * WIDTH**2
        power = (1 + t**2 / (scale * (n - 1))) ** (-n / 2)
        return scale**-0.5 * power * (2 * np.pi) ** -0.5 * g**-1.5 * np.exp(-0.5 / g)

    alone = (1 + t**2 / (n - 1)) ** (-n / 2)
    assert quad(integrand, 0, np.inf)[0] / alone == pytest.approx(PUBLISHED, abs=5e-4)


@pytest.mark.slow
def test_bridge_gives_the_published_bayes_factor(sleep: ModuleType) -> None:
    """Would catch a constant that is in one model's log Z and not in the other's."""
    models = {"differs": sleep.differs(), "same": sleep.same()}
    trees = {
        name: lz.evidence(
            tree_of(chains(sleep.HOURS, with_effect=name == "differs")), model, random_seed=1
        )
        for name, model in models.items()
    }
    factor = lz.bayes_factor(trees["differs"], trees["same"])
    assert float(factor["mcse"]) < 0.01
    error = abs(float(factor["log_bayes_factor"]) - np.log(PUBLISHED))
    assert error < 4 * float(factor["mcse"])
    tree = lz.evidence_sensitivity(trees["differs"], models["differs"], {"width": [50.0, 500.0]})
    far = tree["sensitivity"]["log_z"].to_numpy() - float(trees["same"]["evidence"]["log_z"][0])
    # Lindley's paradox: a prior that is vague enough decides for no difference
    assert far[1] < -2
    assert far[0] - far[1] == pytest.approx(np.log(10), abs=0.05)


def test_the_textbook_prior_is_refused_with_the_remedy(sleep: ModuleType) -> None:
    """Would catch a Bayes factor from a constant that does not exist."""
    with pm.Model() as model:
        sigma = pm.HalfFlat("sigma")
        pm.Potential("jeffreys", -pm.math.log(sigma))
        pm.Normal("hours", 0, sigma, observed=sleep.HOURS)
    draws = {"sigma": np.exp(chains(sleep.HOURS, with_effect=False, n=200)["log_sigma"])}
    with pytest.raises(lz.ImproperPriorError, match=r"'sigma' is HalfFlat.*proper prior"):
        lz.evidence(tree_of(draws), model)
