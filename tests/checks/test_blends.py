"""Log Z by whatever did not come from a blend, against that of weighted rows of one."""

import warnings
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from arviz_base import from_dict
from scipy import stats
from scipy.special import logsumexp
from support import pymc_models as models
from support.checks import make_rng

import pymc_logz as lz
from pymc_logz import energies
from pymc_logz.checks.missed_modes import larger, log_z_of_blend
from pymc_logz.estimators import LogZEstimate
from pymc_logz.hais.settings import HaisSettings
from pymc_logz.kernels import Langevin
from pymc_logz.loop.calls import begun, ready
from pymc_logz.loop.from_prior import look
from pymc_logz.loop.planning import plan_run
from pymc_logz.references.blend import Target
from pymc_logz.tempered.settings import TemperedSettings
from pymc_logz.trees.doubts import disagreements

D = 120
NOISES = np.array([0.3, 0.6])
VARIANCE = 1 + NOISES**2
LENGTH = np.sqrt(D * np.log(VARIANCE[1] / VARIANCE[0]) / (1 / VARIANCE[0] - 1 / VARIANCE[1]))
"""Of the data, by which both noises explain them as well."""


def two_phases() -> pm.Model:
    """All data have small noise or large noise: no walker gets from one to the other."""
    with pm.Model() as model:
        latent = pm.Normal("latent", 0, 1, shape=D)
        is_large = pm.Bernoulli("is_large", 0.5)
        noise = pt.switch(is_large, NOISES[1], NOISES[0])
        pm.Normal("y", latent, noise, observed=np.full(D, LENGTH / np.sqrt(D)))
    return model


def exact_of_phases() -> float:
    each = -0.5 * (D * np.log(2 * np.pi * VARIANCE) + LENGTH**2 / VARIANCE)
    return float(logsumexp(each) + np.log(0.5))


@cache
def looked() -> tuple[Any, Target, float]:
    """A blend from the prior, what it is of, and its log Z."""
    energy = lz.energies.beta_bernoulli()
    settings = TemperedSettings.from_arguments(draws=10)
    with begun(settings, 5, False) as call:
        subject = ready(energy.model, call, sum_out=False)
        prepared, block = subject.what, subject.block
        _, _, blend = look(prepared, block, settings, call.rngs.pilot, blended=True)
    assert blend is not None
    return blend, Target(prepared, block), energy.log_z


@pytest.mark.parametrize(("off", "expected"), [(0.0, []), (-0.3, ["missed_mode"]), (0.3, [])])
def test_another_log_z_is_accused(off: float, expected: list[str]) -> None:
    """Would catch a check that never speaks, or always, or where a blend may lack a mode."""
    blend, target, log_z = looked()
    said = LogZEstimate("rts", log_z + off, 0.01, 500.0, np.nan, "ok")
    doubts = larger(log_z_of_blend(blend, target, said, make_rng("blends")), said)
    assert [doubt.status for doubt in doubts] == expected
    unknown = replace(said, status="degenerate", log_z=np.nan, mcse=np.nan)
    assert not larger(log_z_of_blend(blend, target, unknown, make_rng("none")), unknown)


@pytest.mark.parametrize(("tried", "n_told"), [(0.5, 1), (0.1, 0), (-0.5, 0), (np.nan, 0)], ids=str)
def test_a_path_below_what_was_given_up(tried: float, n_told: int) -> None:
    """Would catch a path that lacks what a blend of uneven weights had, by 7 errors, with ok."""
    path = LogZEstimate("hais", -3.0, 0.04, 370.0, 0.2, "ok")
    blend = LogZEstimate("hais", -3.0 + tried, 0.05, 260.0, 0.95, "high_khat")
    found = disagreements(path, [blend], only_higher=True)
    assert [one.status for one in found] == ["disagrees"] * n_told


@pytest.mark.slow
def test_walkers_that_stay_in_one_phase() -> None:
    """Would catch `ok` on half of the posterior, of which walkers themselves do not know."""
    with pytest.warns(lz.EvidenceWarning):
        tree = lz.sample_tempered(model=two_phases(), random_seed=1, progressbar=False, cores=1)
    found = tree["evidence"]
    off = abs(float(found["log_z"][0]) - exact_of_phases())
    assert str(found["status"].values[0]) != "ok"
    assert off > 4 * float(found["mcse"][0])


@pytest.mark.filterwarnings("ignore:the model has potentials")
@pytest.mark.filterwarnings("ignore::pymc_logz.EvidenceWarning")
def test_steps_that_are_too_small() -> None:
    """Would catch `ok` on a log Z that is 12 errors off, though all weights look alike."""
    experts = energies.student_t_experts(energies.random_filters(1, 8), np.linspace(3, 5, 8))
    tree = models.quick(
        experts.model,
        kernel=Langevin(step_size=0.2, scale=1.0),
        betas=200,
        chains=4,
        random_seed=12,
    )
    log_z, mcse, status = models.log_z_of(tree)
    assert log_z < experts.log_z - 4 * mcse
    assert status == "missed_mode"


def test_a_prior_that_leads_nowhere_says_nothing() -> None:
    """Would catch an error of a check, after which the bridge that was right is lost."""
    d, rng = 20, make_rng("nowhere")
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=d)
        pm.Potential("box", pt.switch(pt.all(pt.abs(x - 1.5) < 0.5), 0.0, -np.inf))
    draws = stats.truncnorm.rvs(1.0, 2.0, size=(4, 500, d), random_state=rng)
    tree = from_dict({"posterior": {"x": draws}})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lz.EvidenceWarning)
        found = lz.bridge_sampling(tree, model, random_seed=1, progressbar=False)
    exact = d * np.log(stats.norm.cdf(2.0) - stats.norm.cdf(1.0))
    assert abs(float(found["evidence"]["log_z"][0]) - exact) < 0.5


def test_a_nested_blend_that_did_not_hold_leads_to_a_path() -> None:
    """Would catch a part of several components whose share was counted as that of one."""
    rng = make_rng("nested")
    x = rng.normal(size=(30, 5))
    y = x @ np.ones(5) + rng.normal(size=30)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=5)
        pm.Normal("y", x @ beta, pm.HalfNormal("noise", 1), observed=y)
    settings = HaisSettings()
    with begun(settings, 3, False) as call:
        subject = ready(model, call, sum_out=None)
        of = subject.what, subject.block, settings, call.rngs.pilot
        first = plan_run(*of, direct=True)
        assert first.blend is not None
        assert first.reference.taken == "nested_laplace"
        again = plan_run(*of, tried=first, direct=False)
    assert again.blend is None
    assert again.plan.n_temperatures > 0
