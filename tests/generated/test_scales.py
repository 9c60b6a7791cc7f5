"""Priors of scales of generated models: their densities, by draws of PyMC."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from support.checks import make_rng

from generated import scales

PRIORS = [
    scales.half_normal(0.7),
    scales.half_cauchy(2.0),
    scales.exponential(1.5),
    scales.uniform(100.0),
    scales.gamma_precision(0.1, 0.1),
    scales.inverse_gamma_variance(0.4, 0.2),
]


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: prior.about)
def test_priors_of_scales(prior: scales.ScalePrior) -> None:
    """Would catch a Jacobian that was left out: draws of PyMC against the density."""
    with pm.Model():
        given = {"random_seed": make_rng("priors of scales"), "mode": "FAST_COMPILE"}
        draws = np.log(pm.draw(prior.add("sd"), 4_000, **given))
    grid = np.linspace(*prior.bounds, 40_001)
    density = np.exp(prior.log_density(grid))
    cumulative = np.cumsum(density) * (grid[1] - grid[0])
    p = stats.kstest(draws, lambda x: np.interp(x, grid, cumulative)).pvalue
    assert p > 1e-4
