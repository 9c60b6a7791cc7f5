"""Draws that all sit in one of two modes never give a log Z with the status ok."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from arviz_base import from_dict
from scipy import stats
from scipy.special import logsumexp
from support.checks import make_rng

import pymc_logz as lz
from pymc_logz import EvidenceWarning
from pymc_logz.checks.missed_modes import no_surer
from pymc_logz.estimators import LogZEstimate

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
CENTRE, SD = 3.0, 0.4
SETTINGS = {"random_seed": 1, "progressbar": False}


@pytest.fixture(scope="module")
def model() -> pm.Model:
    """Two modes in two dimensions, of equal mass: log Z = log 2 less a constant of the prior."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 3, shape=2)
        pm.Normal("y", x**2, 2 * CENTRE * SD, observed=np.full(2, CENTRE**2))
    return model


def draws_in(signs: list[tuple[int, int]]) -> xr.DataTree:
    """Draws in some of the four modes, by reflection of importance draws in the first."""
    rng = make_rng("modes", str(signs))
    x = CENTRE + 3 * SD * rng.standard_normal((100_000, 2))
    log_f = -0.5 * (x / 3) ** 2 - 0.5 * ((x**2 - CENTRE**2) / (2 * CENTRE * SD)) ** 2
    log_weight = (log_f + 0.5 * ((x - CENTRE) / (3 * SD)) ** 2).sum(axis=1)
    log_weight[(x < 0).any(axis=1)] = -np.inf
    kept = x[np.log(rng.random(len(x))) < log_weight - log_weight.max()][:4000]
    chosen = kept * np.array(signs)[rng.integers(len(signs), size=4000)]
    return from_dict({"posterior": {"x": chosen.reshape(4, 1000, 2)}})


ALL = [(1, 1), (1, -1), (-1, 1), (-1, -1)]


def test_a_bridge_from_one_mode_says_so(model: pm.Model) -> None:
    """Catches half of Z, or a quarter, with the status ok."""
    with pytest.warns(EvidenceWarning, match="hardly a draw is on the other side"):
        tree = lz.bridge_sampling(draws_in(ALL[:1]), model, **SETTINGS)
    assert tree["evidence"]["status"][0] == "missed_mode"
    assert "sign of x" in tree["evidence"].attrs["doubts"]
    whole = lz.bridge_sampling(draws_in(ALL), model, **SETTINGS)
    assert whole["evidence"]["status"][0] == "ok"
    change = float(whole["evidence"]["log_z"][0] - tree["evidence"]["log_z"][0])
    assert change == pytest.approx(np.log(4), abs=0.1)


@pytest.mark.filterwarnings("ignore:walkers stay in one part")
def test_a_path_from_one_mode_says_so(model: pm.Model) -> None:
    """Catches a reference fitted to draws of one mode, and methods that do not hear of it."""
    tree = draws_in(ALL[:1])
    with pytest.warns(EvidenceWarning, match="hardly a draw is on the other side"):
        found = lz.sample_tempered(
            100, 2, walkers=32, model=model, reference=tree, cores=1, **SETTINGS
        )
    assert found["evidence"]["status"][0] == "missed_mode"
    methods = lz.evidence(found, methods=["rts", "mbar"])["evidence"]
    assert list(methods["status"].values) == ["missed_mode", "missed_mode"]
    assert "on the other side" in methods.attrs["doubts"]


@pytest.mark.filterwarnings("ignore:the model has potentials")
def test_a_mode_in_many_dimensions_is_found() -> None:
    """Catches `ok` on half of Z where rows that know values alone do not get to the posterior."""
    d, rng = 20, make_rng("many dimensions")
    with pm.Model() as model:
        x = pm.Normal("x", 0, 3, shape=d)
        far = [-0.5 * ((x - place) ** 2).sum() / 0.6**2 for place in (1.0, -2.0)]
        pm.Potential("two", pt.logaddexp(*far))
    tree = from_dict({"posterior": {"x": 1.0 * 0.96 + 0.588 * rng.standard_normal((4, 1000, d))}})
    with pytest.warns(EvidenceWarning, match="disagree"):
        found = lz.bridge_sampling(tree, model, **SETTINGS)
    assert found["evidence"]["status"][0] == "missed_mode"


def test_draws_that_keep_out_of_a_neck_have_a_larger_error() -> None:
    """Catches errors of a third of what is missing, as of NUTS in a centred hierarchy."""
    y = np.array([0.4, -1.1, 0.2, 0.9, -0.3, 1.3, -0.6, 0.1])
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", 1)
        theta = pm.Normal("theta", 0, tau, shape=8)
        pm.Normal("y", theta, 1, observed=y)
    grid = (np.arange(20_000) + 0.5) / 4000
    log_f = stats.halfnorm.logpdf(grid) + stats.norm.logpdf(y[:, None], 0, np.hypot(1, grid)).sum(0)
    exact = logsumexp(log_f) + np.log(grid[1] - grid[0])
    rng, below = make_rng("neck", "500", "0.1"), np.cumsum(np.exp(log_f - logsumexp(log_f)))
    t = np.interp(rng.uniform(0.1, 1, 1000), below, grid)  # of a tenth there are no draws
    mean, sd = (t**2 / (1 + t**2))[:, None] * y, t / np.hypot(1, t)
    theta = mean + sd[:, None] * rng.standard_normal((1000, 8))
    draws = {"tau": t.reshape(2, 500), "theta": theta.reshape(2, 500, 8)}
    found = lz.bridge_sampling(from_dict({"posterior": draws}), model, **SETTINGS)["evidence"]
    assert list(found["status"].values) == ["ok", "ok"]
    assert found.attrs["from_prior_log_z"] == pytest.approx(exact, abs=0.05)
    assert np.all(np.abs(found["log_z"] - exact) < 1.5 * found["mcse"])
    assert float(found["log_z"][0]) < exact - 0.1


def test_errors_are_added_by_moments() -> None:
    """An estimate is no surer than one from the prior that is higher allows."""
    low, near, high = (LogZEstimate("a", log_z, 0.03, 100, 0.1, "ok") for log_z in (-0.1, -0.04, 0))
    assert no_surer(low, high).mcse == pytest.approx(np.sqrt(0.1**2 - 0.03**2))
    assert no_surer(high, low) == high
    assert no_surer(near, high) == near
