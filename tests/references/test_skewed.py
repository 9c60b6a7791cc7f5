"""Normal entries whose conditionals are skewed, as effects of few trials are if they vary much."""

from functools import cache
from typing import Any

import numpy as np
import pymc as pm
from scipy.special import gammaln, log_expit, logsumexp
from scipy.stats import norm
from support.checks import assert_detects, check_means, check_own_density, make_rng

import pymc_logz as lz
from pymc_logz.hais.settings import HaisSettings
from pymc_logz.loop.planning import block_for
from pymc_logz.models.preparation import prepare
from pymc_logz.references.blend import Blend, Target
from pymc_logz.references.conditional import ConditionalNormal, conditional_normal
from pymc_logz.references.conditional_modes import Conditionals
from pymc_logz.weights import weight_ess

TRIALS, WIDE = 2, 2.5
Y = np.array([0] * 9 + [1] * 3 + [2] * 8)


def effects() -> pm.Model:
    """Twenty subjects of two trials each, most of whom have none or both."""
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 2)
        spread = pm.HalfCauchy("spread", WIDE)
        effect = pm.Normal("effect", mean, spread, shape=len(Y))
        pm.Binomial("y", TRIALS, logit_p=effect, observed=Y)
    return model


def of_subject(y: int, mean: np.ndarray, spread: float) -> np.ndarray:
    """Log likelihood of one subject, its effect integrated out, at means (k,)."""
    z, weight = np.polynomial.hermite_e.hermegauss(200)
    effect = mean[:, None] + spread * z
    log_p = y * log_expit(effect) + (TRIALS - y) * log_expit(-effect) + np.log(weight)
    ways = gammaln(TRIALS + 1) - gammaln(y + 1) - gammaln(TRIALS - y + 1)
    return logsumexp(log_p, axis=1) - 0.5 * np.log(2 * np.pi) + ways


@cache
def exact_log_z() -> float:
    """By quadrature over mean and log spread; four times the nodes of each change it by 2e-7."""
    mean, log_spread = np.linspace(-10, 10, 51), np.linspace(-8, 8, 81)
    log_prior = norm(0, 2).logpdf(mean)
    found = []
    for spread in np.exp(log_spread):
        log_p = log_prior + np.log(2 / (np.pi * WIDE)) - np.log1p((spread / WIDE) ** 2)
        log_p += sum(n * of_subject(y, mean, spread) for y, n in enumerate(np.bincount(Y)))
        found.append(logsumexp(log_p) + np.log(spread))
    return float(logsumexp(found) + np.log((mean[1] - mean[0]) * (log_spread[1] - log_spread[0])))


@cache
def target() -> Target:
    prepared = prepare(effects(), make_rng("prepare"))
    return Target(prepared, block_for(prepared, HaisSettings(), None))


@cache
def fitted() -> ConditionalNormal:
    rows = target().prepared.prior(make_rng("rows"), 512)
    found = conditional_normal(target(), rows, make_rng("fit"))
    assert found is not None
    return found


def test_mean_weight_is_z_and_weights_are_even() -> None:
    """Catches a density of which one side is wider than drawn, and halves that do not join."""

    def check(one: ConditionalNormal) -> np.ndarray:
        blend = Blend((one,), np.ones(1))
        log_weight = blend.weighted(target(), make_rng("weigh"), 4096).log_weight
        check_means({"z": np.exp(log_weight - exact_log_z()) - 1})
        return log_weight

    assert weight_ess(check(fitted())) > 0.3 * 4096  # normals have 0.02
    assert fitted().parts.skewed

    class OneSideOnly(ConditionalNormal):
        def _density(self, outer: np.ndarray, whitened: np.ndarray, *others: Any) -> np.ndarray:
            wider = np.where(whitened > 0, 0.9, 1.0) * whitened
            return super()._density(outer, wider, *others)

    class NotJoined(ConditionalNormal):
        def _density(self, *given: Any) -> np.ndarray:
            sides = given[-1]
            return super()._density(*given) + np.log(sides.mean(axis=2)).sum(axis=1)

    for broken in (OneSideOnly, NotJoined):
        assert_detects(check, broken(**vars(fitted())))


def test_rows_have_the_density_that_they_were_drawn_by() -> None:
    """Catches sides that depend on what was drawn beside a row."""
    check_own_density(fitted(), target(), 60, 23, 1e-9)


def test_marginal_density_of_the_others() -> None:
    """Catches Laplace's method, which is nats off where effects vary much."""
    parts = Conditionals.of_normal_entries(target())
    assert parts is not None
    rows = target().prepared.prior(make_rng("some"), 8)
    scale = np.ones(parts.inner.size)
    spread = np.log([[1.0], [3.0], [10.0]])
    off = []
    for one in (parts, parts.with_sides(rows[:, parts.outer], rows[:, parts.inner], scale)):
        found = one.modes(spread, np.zeros((3, parts.inner.size)), scale)
        off.append(found.log_marginal - exact_marginal(np.exp(spread[:, 0])))
    normal, skewed = (np.ptp(one) for one in off)
    assert normal > 1.0
    assert skewed < 0.5


def exact_marginal(spreads: np.ndarray) -> np.ndarray:
    """Log density of the data and of log spreads, shape (k,)."""
    mean = np.linspace(-12, 12, 481)
    found = []
    for spread in spreads:
        log_p = norm(0, 2).logpdf(mean)
        log_p = log_p + sum(n * of_subject(y, mean, spread) for y, n in enumerate(np.bincount(Y)))
        prior = np.log(2 / (np.pi * WIDE)) - np.log1p((spread / WIDE) ** 2)
        found.append(logsumexp(log_p) + np.log(mean[1] - mean[0]) + prior + np.log(spread))
    return np.array(found)


def test_log_z_by_default() -> None:
    """Catches a path from components, which was 0.2 to 0.3 nats low with an error of 0.04."""
    for seed in (8,):
        tree = lz.sample_hais(model=effects(), random_seed=seed, progressbar=False)
        one = tree["evidence"].to_dataset().isel(estimator=0)
        assert one["status"] == "ok"
        assert abs(float(one["log_z"]) - exact_log_z()) < 4 * float(one["mcse"]) < 0.2
