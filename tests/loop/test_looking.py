"""The look where the likelihood is zero at nearly all of the prior, and where it makes a funnel."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from generated import generate
from scipy.special import gammaln
from scipy.stats import norm

import pymc_logz as lz

pytestmark = pytest.mark.filterwarnings("ignore:the model has potentials")


@cache
def in_order(n: int) -> tuple[pm.Model, float]:
    """Normal values that are to be in order, one arrangement of n!, and log Z."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=n)
        pm.Potential("order", pt.switch(pt.all(pt.diff(x) > 0), 0.0, -np.inf))
    return model, -gammaln(n + 1)


def test_a_support_that_few_prior_draws_are_in() -> None:
    """Would catch a refusal, or a population of one row, where one draw in 720 has a likelihood."""
    model, exact = in_order(6)
    tree = lz.sample_hais(model=model, random_seed=1, progressbar=False)
    found = tree["evidence"].to_dataset().isel(estimator=0)
    assert found["status"] == "ok"
    assert abs(float(found["log_z"]) - exact) < 4 * float(found["mcse"])


@pytest.mark.filterwarnings("ignore:nested R-hat", "ignore:.*trajectories diverged")
def test_chains_start_within_the_support() -> None:
    """Would catch chains of HMC that never get to where the likelihood is positive."""
    model, _ = in_order(6)
    draws = lz.sample_hmc(50, model=model, tune=50, chains=16, random_seed=2, progressbar=False)
    x = draws["posterior"]["x"].to_numpy()
    assert np.all(np.diff(x, axis=-1) > 0)


def test_tempering_says_so_where_no_walker_finds_the_support() -> None:
    """Would catch rough log Z of minus infinity that goes on into the run."""
    model, _ = in_order(8)
    with pytest.raises(lz.PilotError, match=r"no walker .* use pymc_logz\.sample_hais"):
        lz.sample_tempered(100, 1, model=model, walkers=20, random_seed=3, progressbar=False)


@cache
def beyond_the_prior(n: int = 33, shape: float = 2.915) -> tuple[pm.Model, float]:
    """Uniform data up to ends of which 1.2e-7 of the prior is possible, and log Z."""
    high = np.array([9.81, 6.05])
    y = high[:, None] * np.linspace(0.1, 1.0, n)
    with pm.Model() as model:
        end = pm.Pareto("end", shape, 0.5, shape=2)
        pm.Uniform("y", 0.0, end[:, None], observed=y)
    terms = np.log(shape / (shape + n)) + shape * np.log(0.5) - (shape + n) * np.log(high)
    return model, float(terms.sum())


def in_two_tails() -> tuple[pm.Model, float]:
    """A normal value that is to be far out on either side, and log Z."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Potential("far", pt.switch((x < -6.0) | (x > 6.2), 0.0, -np.inf))
    return model, float(np.logaddexp(*norm.logsf([6.0, 6.2])))


@pytest.mark.parametrize("made", [beyond_the_prior, in_two_tails])
def test_a_support_that_no_prior_draw_is_in(made: Callable[[], tuple[pm.Model, float]]) -> None:
    """Would catch a refusal, and a part of the support that is not found."""
    model, exact = made()
    tree = lz.sample_hais(model=model, random_seed=1, progressbar=False)
    found = tree["evidence"].to_dataset().isel(estimator=0)
    assert found["status"] == "ok"
    assert abs(float(found["log_z"]) - exact) < 4 * float(found["mcse"])


def test_a_path_that_no_draw_of_can_start_is_refused_but_for_draws_of_the_posterior() -> None:
    """Would catch a long run from the prior whose weights are all zero, and a remedy that fails."""
    model, exact = beyond_the_prior()
    with pytest.raises(lz.ModelError, match=r"tiny part of the prior only .*reference="):
        lz.sample_hais(model=model, reference="prior", random_seed=1, progressbar=False)
    high = model.rvs_to_values[model["y"]].data.max(axis=1)
    shares = np.random.default_rng(2).pareto(2.915 + 33, (4, 500, 2))
    draws = xr.DataTree.from_dict({"posterior": from_end(high * (1.0 + shares))})
    tree = lz.sample_hais(model=model, reference=draws, random_seed=1, progressbar=False)
    found = tree["evidence"].to_dataset().isel(estimator=0)
    assert abs(float(found["log_z"]) - exact) < 4 * float(found["mcse"])


def from_end(values: np.ndarray) -> xr.Dataset:
    """Draws (chains, draws, 2) of the ends."""
    return xr.Dataset({"end": (("chain", "draw", "end_dim_0"), values)})


@cache
def drawn(family: str, model_seed: int) -> tuple[pm.Model, float]:
    """A model of a family, compiled once, and log Z."""
    case = generate(family, model_seed)
    return case.build(), case.log_z


@pytest.mark.parametrize("seed", [0, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("family", "model_seed"),
    [
        pytest.param("free_ends", 0, marks=pytest.mark.slow),
        pytest.param("free_ends", 59451518, marks=pytest.mark.slow),
        ("value_each", 0),
    ],
)
def test_the_narrow_end_that_a_likelihood_makes_is_not_lost(
    family: str, model_seed: int, seed: int
) -> None:
    """Would catch particles that move in a funnel as it is: up to 8 errors low, with ``ok``."""
    model, exact = drawn(family, model_seed)
    tree = lz.sample_hais(model=model, random_seed=seed, progressbar=False)
    found = tree["evidence"].to_dataset().isel(estimator=0)
    assert found["status"] == "ok"
    assert abs(float(found["log_z"]) - exact) < 4 * float(found["mcse"])
