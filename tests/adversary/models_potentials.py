"""Potentials: large constants, Z that is infinite, and Z that almost is."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import stats
from scipy.special import gammaln

from adversary.cases import case
from adversary.integrals import half_line, interval, log_integral

INFINITE = np.inf


def _offset(size: float) -> pm.Model:
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1)
        pm.Normal("y", mu, 1, observed=0.7)
        pm.Potential("offset", pt.as_tensor(np.float64(size)))
    return model


def _offset_exact(size: float) -> float:
    return float(stats.norm.logpdf(0.7, 0, np.sqrt(2)) + size)


@case(lambda: _offset_exact(-1000.0), tempered=True)
def offset_of_minus_a_thousand() -> pm.Model:
    """A constant of -1000 nats."""
    return _offset(-1000.0)


@case(lambda: _offset_exact(1e6))
def offset_of_a_million() -> pm.Model:
    """A constant of a million nats."""
    return _offset(1e6)


@case(lambda: 0.5 * np.log(1 / 0.02), nuts=True)
def potential_that_grows() -> pm.Model:
    """A quadratic that takes back 98% of the prior's."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Potential("back", 0.49 * x**2)
    return model


@case(lambda: INFINITE, tempered=True)
def normal_times_its_square() -> pm.Model:
    """A quadratic that grows faster than the prior falls: Z is infinite."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Potential("back", 0.6 * x**2)
    return model


@case(lambda: INFINITE)
def normal_times_its_inverse() -> pm.Model:
    """The integrand is 1: Z is infinite."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Potential("back", 0.5 * x**2)
    return model


@case(lambda: INFINITE, tempered=True)
def scale_of_a_zero() -> pm.Model:
    """A datum of 0 whose scale goes to 0: Z diverges like a logarithm."""
    with pm.Model() as model:
        s = pm.HalfNormal("s", 1)
        pm.Normal("y", 0, s, observed=0.0)
    return model


@case(lambda: INFINITE)
def scale_of_three_zeros() -> pm.Model:
    """Three data of 0: Z diverges like a power."""
    with pm.Model() as model:
        s = pm.Uniform("s", 0, 1)
        pm.Normal("y", 0, s, observed=np.zeros(3))
    return model


@case(lambda: INFINITE)
def mixture_that_takes_a_datum() -> pm.Model:
    """A component whose mean is a datum may shrink onto it: Z diverges like a logarithm."""
    with pm.Model() as model:
        s = pm.HalfNormal("s", 1, shape=2)
        pm.NormalMixture(
            "y", np.full(2, 0.5), np.array([0.0, 1.0]), s, observed=np.array([0.0, 1.0, 1.1, 2.0])
        )
    return model


def _cauchy_power(power: float) -> pm.Model:
    with pm.Model() as model:
        x = pm.Cauchy("x", 0, 1)
        pm.Potential("growth", power * pt.log1p(x**2))
    return model


def _cauchy_power_exact(power: float) -> float:
    a = 1 - power  # the integral of (1 + x^2)^-a / pi
    return float(gammaln(a - 0.5) - gammaln(a) - 0.5 * np.log(np.pi))


@case(lambda: _cauchy_power_exact(0.3))
def cauchy_times_a_power() -> pm.Model:
    """Tails of the power -1.4: finite, and heavier than the prior's."""
    return _cauchy_power(0.3)


@case(lambda: _cauchy_power_exact(0.45))
def cauchy_times_almost_too_much() -> pm.Model:
    """Tails of the power -1.1: finite, just."""
    return _cauchy_power(0.45)


@case(lambda: INFINITE, tempered=True)
def cauchy_times_too_much() -> pm.Model:
    """Tails of the power -1: Z diverges like a logarithm."""
    return _cauchy_power(0.5)


@case(lambda: INFINITE)
def cauchy_times_far_too_much() -> pm.Model:
    """Tails of the power -0.6."""
    return _cauchy_power(0.7)


@case(lambda: float(np.log(10.0 / np.sqrt(2 * np.pi))), tempered=True)
def scale_of_a_zero_just_finite() -> pm.Model:
    """A datum of 0 under a Gamma prior of its scale that vanishes at 0, just."""
    with pm.Model() as model:
        s = pm.Gamma("s", 1.1, 1.0)
        pm.Normal("y", 0, s, observed=0.0)
    return model


def _near_zero_exact() -> float:
    log_f = lambda s: stats.halfnorm.logpdf(s) + stats.norm.logpdf(1e-6, 0, s)  # noqa: E731
    return log_integral(log_f, half_line(400_001, -40, 5))


@case(_near_zero_exact, tempered=True)
def scale_of_a_millionth() -> pm.Model:
    """A datum of 1e-6: scales count over six orders of magnitude."""
    with pm.Model() as model:
        s = pm.HalfNormal("s", 1)
        pm.Normal("y", 0, s, observed=1e-6)
    return model


@case(
    lambda: log_integral(
        lambda x: stats.norm.logpdf(x, 0, 5) - np.abs(x) ** 0.5 * 20, interval(-60, -1, 0, 1, 60)
    )
)
def cusp() -> pm.Model:
    """A potential whose slope is infinite at its top."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 5)
        pm.Potential("cusp", -20 * pt.sqrt(pt.abs(x)))
    return model


@case(
    lambda: (
        log_integral(
            lambda x: stats.norm.logpdf(x) - 0.8 * np.log(np.abs(x)),
            half_line(400_001, -300, 5),
        )
        + np.log(2)
    )
)
def pole_that_is_integrable() -> pm.Model:
    """A potential that is infinite at 0, and has an integral."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Potential("pole", -0.8 * pt.log(pt.abs(x)))
    return model


@case(lambda: INFINITE)
def pole_that_is_not() -> pm.Model:
    """A potential that is infinite at 0, and has none."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Potential("pole", -1.2 * pt.log(pt.abs(x)))
    return model
