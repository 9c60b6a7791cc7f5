"""Latent-variable models of one datum with known log likelihoods, and checks of many data rows."""

from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from scipy import stats
from scipy.special import expit, logsumexp

import pymc_logz as lz
from support.checks import CheckFailedError, make_rng

LOADINGS = make_rng("loadings").normal(size=(3, 5))
MEAN = np.array([0.5, -1.0, 2.0, 0.0, 3.0])
NOISE = 0.5
PIXELS = [f"p{i}" for i in range(5)]


def factor_analysis(own: np.ndarray) -> pm.Model:
    with pm.Model(coords={"pixel": PIXELS, "cause": range(3)}) as model:
        x = pm.Data("x", own, dims="pixel")
        cause = pm.Normal("cause_size", 0, 1, dims="cause")
        pm.Normal("image", cause @ LOADINGS + MEAN, NOISE, observed=x, dims="pixel")
    return model


def images(n: int) -> np.ndarray:
    """Rows of factor analysis, the first of which is far from what the model expects."""
    rng = make_rng("images", n)
    rows = rng.normal(size=(n, 3)) @ LOADINGS + MEAN + NOISE * rng.normal(size=(n, 5))
    rows[0] += 2.5
    return rows


def exact_images(rows: np.ndarray) -> np.ndarray:
    covariance = LOADINGS.T @ LOADINGS + NOISE**2 * np.eye(5)
    return stats.multivariate_normal(MEAN, covariance).logpdf(rows)


def survey(x: Any = (0.0, 0.0, 0.0), counts: Any = (0, 0), answers: Any = (0, 0, 1)) -> pm.Model:
    """A skewed trait behind counts (a plain array), and answers that depend on a covariate."""
    with pm.Model() as model:
        x = pm.Data("x", np.array(x))
        trait = pm.SkewNormal("trait", mu=0.3, sigma=1.0, alpha=4.0)
        pm.Poisson("counts", pm.math.exp(0.5 + 0.6 * trait), observed=np.array(counts))
        pm.Bernoulli("answers", logit_p=2 * x * trait - 0.5, observed=np.array(answers))
    return model


def people(n: int) -> dict[str, np.ndarray]:
    rng = make_rng("people", n)
    x = rng.normal(size=(n, 3))
    trait = stats.skewnorm.rvs(4, 0.3, 1, size=(n, 1), random_state=rng)
    counts = rng.poisson(np.exp(0.5 + 0.6 * trait), size=(n, 2))
    counts[0] = [14, 0]
    answers = rng.random((n, 3)) < expit(2 * x * trait - 0.5)
    return {"x": x, "counts": counts, "answers": answers.astype(int)}


def exact_people(data: dict[str, np.ndarray]) -> np.ndarray:
    """By quadrature over the trait."""
    trait, step = np.linspace(-8, 12, 8001, retstep=True)
    log_p = stats.skewnorm.logpdf(trait, 4, 0.3, 1)
    log_p = log_p + stats.poisson.logpmf(data["counts"][..., None], np.exp(0.5 + 0.6 * trait)).sum(
        axis=1
    )
    yes = expit(2 * data["x"][..., None] * trait - 0.5)
    log_p = log_p + stats.bernoulli.logpmf(data["answers"][..., None], yes).sum(axis=1)
    return logsumexp(log_p, axis=1) + np.log(step)


PEOPLE = people(12)


def run(model: pm.Model | None, data: Any, **kwargs: Any) -> xr.DataTree:
    settings = {"draws": 128, "random_seed": 1, "cores": 1, "progressbar": False, **kwargs}
    return lz.marginal_log_likelihood(model, data, **settings)


def check_rows(triple: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    """Fail unless (log z - exact) / error has the squares that its number of rows should have."""
    log_z, mcse, exact = triple
    square = (((log_z - exact) / mcse) ** 2).sum()
    low, high = stats.chi2(exact.size).ppf([1e-6, 1 - 1e-6])
    if not low < square < high:
        raise CheckFailedError(f"chi-square {square:.3g} is not in ({low:.3g}, {high:.3g})")


def numbers(tree: xr.DataTree) -> tuple[np.ndarray, np.ndarray]:
    entry = tree["evidence"].to_dataset().isel(estimator=0)
    return entry["log_z"].to_numpy(), entry["mcse"].to_numpy()
