"""Densities that are infinite: in rounding, far from the prior, and where they grow without end."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import integrate, stats

import pymc_logz as lz

COUNTS = np.array([0, 0, 1, 2, 0, 3])


def exact_of_hurdle() -> float:
    """Log Z of positive counts under a hurdle, the share of them integrated by hand."""
    positive = COUNTS[COUNTS > 0]

    def likelihood(mu: float) -> float:
        log_p = stats.poisson.logpmf(positive, mu) - np.log(-np.expm1(-mu))
        return float(np.exp(log_p.sum() - mu))

    n, k = COUNTS.size, positive.size
    of_share = stats.betabinom(n, 1, 1).logpmf(k) - stats.binom(n, 0.5).logpmf(k) - n * np.log(2)
    return float(np.log(integrate.quad(likelihood, 0, 50, epsabs=0)[0]) + of_share)


def test_a_density_that_is_infinite_in_rounding_counts_as_zero() -> None:
    """Would catch a hurdle that is refused: draws of a fit reach rates of 1e-17 and less."""
    with pm.Model() as model:
        share, rate = pm.Beta("share", 1, 1), pm.Exponential("rate", 1)
        pm.HurdlePoisson("y", share, rate, observed=COUNTS)
    tree = lz.sample_hais(model=model, random_seed=1, progressbar=False)
    found = tree["evidence"].to_dataset().isel(estimator=0)
    assert found["status"] == "ok"
    assert abs(float(found["log_z"]) - exact_of_hurdle()) < 4 * float(found["mcse"])


@pytest.mark.filterwarnings("ignore:the model has potentials", "ignore:invalid value encountered")
def test_a_density_that_grows_without_end_is_refused() -> None:
    """Would catch a number for an infinite log Z: no draw of the prior is where it overflows."""
    with pm.Model() as model:
        pm.Potential("grows", pt.exp(pm.Normal("x") ** 2))
    with pytest.raises(lz.ModelError, match="infinite, by a pole or by rounding, at x="):
        lz.sample_hais(model=model, random_seed=1, progressbar=False)
