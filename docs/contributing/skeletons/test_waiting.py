"""Waiting times: log Z, density and draws, each against SciPy and quadrature."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats
from support.checks import assert_detects, check_means, make_rng

from pymc_logz.energies import Energy
from pymc_logz.energies.waiting import waiting_times

TIMES, SHAPE, RATE = (0.3, 0.9), 2.0, 1.5
ENERGY = waiting_times(TIMES, SHAPE, RATE)


def density(events: float) -> float:
    """Prior times likelihood."""
    prior = stats.gamma.pdf(events, SHAPE, scale=1 / RATE)
    return float(prior * np.prod(stats.expon.pdf(TIMES, scale=1 / events)))


def integral(g: Callable[[float], float]) -> float:
    """Integral of g times the density, by adaptive quadrature."""
    pieces = [integrate.quad(lambda x: g(x) * density(x), *ends) for ends in ((0, 2), (2, 50))]
    return float(sum(value for value, _ in pieces))


def check_draws(energy: Energy) -> None:
    """Fail unless bounded moments of the draws are those of the posterior."""
    assert energy.sample_posterior is not None
    events = energy.sample_posterior(make_rng("waiting"), 20_000)["events"]
    total = integral(lambda x: 1.0)
    for g in (np.tanh, lambda x: np.tanh(x) ** 2, lambda x: np.exp(-x)):
        check_means({"moment": g(events)}, integral(g) / total)


def test_log_z() -> None:
    """Catches a lost constant, and a shape taken for a rate."""
    assert ENERGY.log_z == pytest.approx(np.log(integral(lambda x: 1.0)), abs=1e-9)


def test_the_model_has_that_density() -> None:
    """Catches a mean for a rate, data that do not enter, and a constant in single precision."""
    logp = ENERGY.model.compile_logp(jacobian=False, mode="FAST_COMPILE")
    for events in (0.1, 1.0, 4.0):
        actual = float(logp({"events_log__": np.array(np.log(events))}))
        assert actual == pytest.approx(np.log(density(events)), abs=1e-11)


def test_draws() -> None:
    """Catches a scale for a rate, and a posterior that forgot an observation."""
    check_draws(ENERGY)


def test_draws_of_another_law_are_found() -> None:
    """Positive control: draws that lack one of the observations must not pass."""
    forgetful = waiting_times(TIMES[:1], SHAPE, RATE).sample_posterior
    assert_detects(check_draws, replace(ENERGY, sample_posterior=forgetful))


def test_times_that_are_none() -> None:
    """Catches a log Z of NaN in place of a message."""
    for wrong in ((0.0, 1.0), (np.inf,), 3.0):
        with pytest.raises(ValueError, match=r"times=.*positive, finite"):
            waiting_times(wrong)  # type: ignore[arg-type]
