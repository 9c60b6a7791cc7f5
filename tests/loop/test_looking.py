"""The look where the likelihood is zero at nearly all of the prior, and where it makes a funnel."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from generated import generate
from scipy.special import gammaln

import pymc_logz as lz

pytestmark = pytest.mark.filterwarnings("ignore:the model has potentials")


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


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("family", ["free_ends", "value_each"])
def test_the_narrow_end_that_a_likelihood_makes_is_not_lost(family: str, seed: int) -> None:
    """Would catch particles that move in a funnel as it is: up to 8 errors low, with ``ok``."""
    case = generate(family, 0)
    tree = lz.sample_hais(model=case.build(), random_seed=seed, progressbar=False)
    found = tree["evidence"].to_dataset().isel(estimator=0)
    assert found["status"] == "ok"
    assert abs(float(found["log_z"]) - case.log_z) < 4 * float(found["mcse"])
