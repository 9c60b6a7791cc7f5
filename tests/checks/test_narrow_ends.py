"""Draws that lack the neck of a funnel never give a log Z with the status ok."""

from contextlib import nullcontext

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from arviz_base import from_dict
from support.checks import make_rng

import pymc_logz as lz

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
Y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0]) / 5
SD = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0]) / 5
N = 4000


@pytest.fixture(scope="module")
def model() -> pm.Model:
    """Eight schools, centred, in units of five points."""
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", 1)
        theta = pm.Normal("theta", 0, tau, shape=8)
        pm.Normal("y", theta, SD, observed=Y)
    return model


def exact_draws(at_least: float = 0.0) -> xr.DataTree:
    """The spread from a grid, the schools given it; without what is below a bound."""
    rng = make_rng("necks")
    log_tau = np.linspace(-12, 3, 4001)
    tau = np.exp(log_tau)
    variance = tau[:, None] ** 2 + SD**2
    log_p = -0.5 * (Y**2 / variance + np.log(variance)).sum(axis=1) - 0.5 * tau**2 + log_tau
    log_p[tau < at_least] = -np.inf
    weight = np.exp(log_p - log_p.max())
    chosen = rng.choice(tau, size=N, p=weight / weight.sum())
    precision = 1 / chosen[:, None] ** 2 + 1 / SD**2
    theta = Y / SD**2 / precision + rng.normal(size=(N, 8)) / np.sqrt(precision)
    chains = {"tau": chosen.reshape(4, -1), "theta": theta.reshape(4, -1, 8)}
    return from_dict({"posterior": chains})


@pytest.mark.parametrize(("at_least", "lacks"), [(0.0, False), (0.25, True)])
def test_a_neck_without_draws_has_a_status(model: pm.Model, at_least: float, lacks: bool) -> None:
    """A fifth of Z, which neither R-hat nor a divergence tells of."""
    said = pytest.warns(lz.EvidenceWarning, match="a blend from the prior")
    with said if lacks else nullcontext():
        tree = lz.bridge_sampling(exact_draws(at_least), model, random_seed=1, progressbar=False)
    assert (tree["evidence"]["status"].values[0] == "missed_mode") == lacks
