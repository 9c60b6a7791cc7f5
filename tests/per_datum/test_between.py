"""From the posterior of one model to that of another: log Bayes factors against exact ones."""

from functools import cache
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from scipy import stats
from support import pymc_models as models

import pymc_logz as lz
from pymc_logz import energies
from pymc_logz.hais.results import bayes_factor
from pymc_logz.per_datum import between as module
from pymc_logz.runners import running
from pymc_logz.runners.anneal import Annealed

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
Y = np.array([1.2, 0.3, 2.1, 1.4, 0.8])
QUICK = {"draws": 128, "chains": 2, "random_seed": 1, "progressbar": False}


def normal(prior_sd: float, sd: float, *, swapped: bool = False) -> pm.Model:
    """A mean and a nuisance that the data do not know of, in either order."""
    with pm.Model() as model:
        if swapped:
            pm.Normal("nuisance", shape=2)
        mean = pm.Normal("mean", 0.0, prior_sd)
        if not swapped:
            pm.Normal("nuisance", shape=2)
        pm.Normal("y", mean, sd, observed=Y)
    return model


def normal_log_z(prior_sd: float, sd: float) -> float:
    """In closed form."""
    covariance = sd**2 * np.eye(Y.size) + prior_sd**2
    return float(stats.multivariate_normal.logpdf(Y, np.zeros(Y.size), covariance))


MODELS = {"wide": (2.0, 1.0, False), "narrow": (0.7, 1.5, True)}


@cache
def made(name: str) -> pm.Model:
    """One of the two, with what is compiled for it."""
    prior_sd, sd, swapped = MODELS[name]
    return normal(prior_sd, sd, swapped=swapped)


@cache
def between(one: str, other: str) -> xr.DataTree:
    """A run from the second model to the first."""
    return lz.sample_hais(model=made(one), reference=made(other), **QUICK)


@pytest.mark.parametrize(("one", "other"), [("wide", "narrow"), ("narrow", "wide")])
def test_log_bayes_factor_is_exact(one: str, other: str) -> None:
    """Catches a sign, variables that change places, and weights of one half of the path."""
    tree = between(one, other)
    log_z = {name: normal_log_z(*MODELS[name][:2]) for name in (one, other)}
    factor = tree["bayes_factor"]
    error = float(factor["log_bayes_factor_mcse"])
    exact = log_z[one] - log_z[other]
    assert abs(float(factor["log_bayes_factor"]) - exact) < 4 * error < 0.3
    assert str(factor["status"].item()) == "ok"
    models.assert_log_z(tree, log_z[one], within=0.2)
    found = float(factor["log_z_other"])
    assert abs(found - log_z[other]) < 4 * float(factor["mcse_other"])


@pytest.mark.parametrize("lost", [0, 1])
def test_an_interrupted_run_compares_the_chains_that_got_there(
    lost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Would catch an error in place of a result, and weights of one chain on rows of another."""
    whole = running.anneal_each

    def interrupted(*chains: Any, **how: Any) -> list[Annealed | None]:
        found = whole(*chains, **how)
        return [None if i == lost else one for i, one in enumerate(found)]

    monkeypatch.setattr(module, "anneal_each", interrupted)
    model, other = made("wide"), made("narrow")
    with pytest.warns(UserWarning, match="interrupted: 1 of 2 chains are finished"):
        tree = lz.sample_hais(model=model, reference=other, **QUICK)
    factor, exact = tree["bayes_factor"], normal_log_z(2.0, 1.0) - normal_log_z(0.7, 1.5)
    assert abs(float(factor["log_bayes_factor"]) - exact) < 4 * factor["log_bayes_factor_mcse"]
    assert tree["weighted_posterior"].sizes["chain"] == 1


def test_both_directions_agree() -> None:
    """Catches a path whose two ends are not those of the one the other way."""
    factors = [
        between(*names)["bayes_factor"] for names in (("wide", "narrow"), ("narrow", "wide"))
    ]
    there, back = (float(factor["log_bayes_factor"]) for factor in factors)
    errors = [float(factor["log_bayes_factor_mcse"]) for factor in factors]
    assert abs(there + back) < 4 * np.hypot(*errors)


@pytest.mark.slow
def test_models_with_whole_numbers() -> None:
    """Catches whole numbers that do not go on from one model to the other."""
    counts = energies.conjugate.COAL_MINING[30:60]
    one, other = (energies.coal_mining(counts, rate=rate) for rate in (1.0, 0.5))
    tree = lz.sample_hais(model=one.model, reference=other.model, **QUICK)
    factor = tree["bayes_factor"]
    error = float(factor["log_bayes_factor_mcse"])
    assert abs(float(factor["log_bayes_factor"]) - (one.log_z - other.log_z)) < 4 * error < 0.4
    assert tree["posterior"]["change"].dtype.kind == "i"


def test_error_is_that_of_a_ratio_of_the_same_rows() -> None:
    """Catches errors of two means that are added up as if they were independent."""
    rng = np.random.default_rng(1)
    empty = dict.fromkeys(Annealed._fields, np.zeros(1))
    found, errors = [], []
    for _ in range(300):
        before = rng.normal(0, 0.7, 400)
        after = before + rng.normal(0.1, 0.2, 400)
        pair = [Annealed(**{**empty, "log_weight": weight}) for weight in (before, after)]
        estimate = bayes_factor(pair[:1], pair[1:])
        found.append(estimate.log_z)
        errors.append(estimate.mcse)
    assert np.mean(found) == pytest.approx(0.1 + 0.02, abs=4 * np.std(found) / 300**0.5)
    assert np.mean(errors) == pytest.approx(np.std(found), rel=0.2)
    assert np.std(found) < 0.5 * np.sqrt(2 * np.expm1(0.49) / 400)


def test_models_of_other_variables_are_refused() -> None:
    """Catches rows that are read as those of other variables."""
    with pm.Model() as other:
        pm.Normal("y", pm.Normal("mean"), 1.0, observed=Y)
    model = normal(1.0, 1.0)
    with pytest.raises(ValueError, match=r"model of other variables.*nuisance"):
        lz.sample_hais(model=model, reference=other, progressbar=False)
    with pytest.raises(ValueError, match="direction='both' does not apply"):
        lz.sample_hais(model=model, reference=model, direction="both")


def one_of_two(shares: list[float]) -> pm.Model:
    """Normal modes with these shares at 2 and -2, of which any may be absent."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 3.0, shape=1)
        parts = [
            np.log(share) - 5 * pt.sum((x - centre) ** 2)
            for share, centre in zip(shares, (2.0, -2.0), strict=False)
        ]
        pm.Potential("modes", pt.logsumexp(pt.stack(parts)))
    return model


@pytest.mark.filterwarnings("ignore:the model has potentials")
def test_a_mode_that_the_reference_lacks_is_told() -> None:
    """Catches a path along which no row comes to a mode of the model, and a false alarm of one."""
    both, one = one_of_two([0.6, 0.4]), one_of_two([0.6])
    with pytest.warns(UserWarning, match="a blend from the prior"):
        lacking = lz.sample_hais(model=both, reference=one, **QUICK)
    assert set(lacking["evidence"]["status"].values) == {"missed_mode"}
    whole = lz.sample_hais(model=one, reference=both, **QUICK)
    assert str(whole["evidence"]["status"].values[0]) == "ok"
