"""Supports that end: at numbers, at other variables, in the likelihood, in NaN."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import stats
from scipy.special import gammaln, ndtr

from adversary.cases import case
from adversary.integrals import half_line, interval, log_integral


@case(lambda: float(np.log(0.5)), tempered=True)
def half_is_impossible() -> pm.Model:
    """Minus infinity below 0."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Potential("positive", pt.switch(x > 0, 0.0, -np.inf))
    return model


@case(lambda: float(-6 * np.log(2)))
def one_corner_of_64() -> pm.Model:
    """Minus infinity unless all six are positive."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=6)
        pm.Potential("positive", pt.switch(pt.all(x > 0), 0.0, -np.inf))
    return model


@case(lambda: float(stats.norm.logpdf(0.0)), tempered=True)
def nan_below_zero() -> pm.Model:
    """The log of a number that may be negative: NaN there, which counts as minus infinity."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Potential("log", pt.log(x))
    return model


@case(
    lambda: log_integral(
        lambda x: stats.norm.logpdf(x, 0, 3) + np.sqrt(x - 1) - np.exp(0.5 * np.sqrt(x - 1)),
        interval(1, 1.01, 2, 40),
    )
)
def nan_of_a_root() -> pm.Model:
    """A root that is NaN in two thirds of the prior."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 3)
        root = pt.sqrt(x - 1)
        pm.Potential("root", root - pt.exp(0.5 * root))
    return model


def _dependent_exact() -> float:
    def log_f(upper: np.ndarray) -> np.ndarray:
        mass = ndtr((upper - 1.2) / 0.3) - ndtr(-1.2 / 0.3)
        return stats.halfnorm.logpdf(upper, scale=2) + np.log(mass / upper)

    return log_integral(log_f, half_line(100_001, -40, 5))


@case(_dependent_exact, nuts=True, tempered=True)
def bound_that_is_a_variable() -> pm.Model:
    """Uniform up to another variable."""
    with pm.Model() as model:
        upper = pm.HalfNormal("upper", 2)
        share = pm.Uniform("share", 0, upper)
        pm.Normal("y", share, 0.3, observed=1.2)
    return model


INSIDE = np.array([0.3, 2.1, 2.9, 1.1, 0.7])


@case(
    lambda: float(np.log((2.9**-4 - 10.0**-4) / 4) - np.log(10)),
    nuts=True,
    tempered=True,
)
def data_that_bound_a_parameter() -> pm.Model:
    """Uniform data: the upper end lies above the largest."""
    with pm.Model() as model:
        upper = pm.Uniform("upper", 0, 10)
        pm.Uniform("y", 0, upper, observed=INSIDE)
    return model


def _shifted_exact() -> float:
    # the integral of N(loc; 0, 1) exp(5 loc - sum y) up to 0.3 completes to a square
    return float(12.5 - INSIDE.sum() + np.log(ndtr(INSIDE.min() - 5)))


@case(_shifted_exact)
def shifted_exponential() -> pm.Model:
    """Waiting times from an unknown start: the density is highest where it ends."""
    with pm.Model() as model:
        start = pm.Normal("start", 0, 1)
        pm.Potential("y", pt.switch(start < INSIDE.min(), (start - INSIDE).sum(), -np.inf))
    return model


def _truncated_exact() -> float:
    log_f = lambda s, x: (  # noqa: E731
        stats.halfnorm.logpdf(s)
        + stats.halfnorm.logpdf(x / s)
        - np.log(s)
        + stats.norm.logpdf(0.8, x, 0.2)
    )
    return log_integral(log_f, half_line(1501, -25, 3), interval(0, 0.4, 0.8, 1.2, 4, n=200))


@case(_truncated_exact, nuts=True)
def truncated_by_a_random_scale() -> pm.Model:
    """A truncated normal whose scale is a variable."""
    with pm.Model() as model:
        s = pm.HalfNormal("s", 1)
        x = pm.TruncatedNormal("x", 0, s, lower=0)
        pm.Normal("y", x, 0.2, observed=0.8)
    return model


def _far_truncated_exact() -> float:
    prior = stats.truncnorm(4, np.inf)
    log_f = lambda x: prior.logpdf(x) + stats.norm.logpdf(4.5, x, 0.5)  # noqa: E731
    return log_integral(log_f, interval(4, 5, 8, 15))


@case(_far_truncated_exact)
def truncated_far_out() -> pm.Model:
    """A normal truncated four standard deviations out."""
    with pm.Model() as model:
        x = pm.TruncatedNormal("x", 0, 1, lower=4)
        pm.Normal("y", x, 0.5, observed=4.5)
    return model


@case(lambda: float(np.log(np.pi / 4)))
def disc_in_a_square() -> pm.Model:
    """The disc that touches the sides of a square."""
    with pm.Model() as model:
        x = pm.Uniform("x", -1, 1, shape=2)
        pm.Potential("disc", pt.switch((x**2).sum() < 1, 0.0, -np.inf))
    return model


@case(lambda: float(4 * np.log(np.pi) - gammaln(5) - 8 * np.log(2)))
def ball_in_a_cube() -> pm.Model:
    """The ball that touches the sides of a cube of eight dimensions: 1.6% of it."""
    with pm.Model() as model:
        x = pm.Uniform("x", -1, 1, shape=8)
        pm.Potential("ball", pt.switch((x**2).sum() < 1, 0.0, -np.inf))
    return model


@case(
    lambda: float(np.log(ndtr(2.5) - ndtr(1.5))),
    tempered=True,
)
def window_of_a_mean() -> pm.Model:
    """A datum known to be uniform within a half of the mean: sharp edges on both sides."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1)
        pm.Uniform("y", mu - 0.5, mu + 0.5, observed=2.0)
    return model


def _simplex_exact() -> float:
    log_f = lambda a: stats.norm.logpdf(0.2, a, 0.001)  # noqa: E731
    # a of a flat Dirichlet of three has the density 2 (1 - a)
    return log_integral(lambda a: log_f(a) + np.log(2 * (1 - a)), interval(0, 0.19, 0.2, 0.21, 1))


@case(_simplex_exact)
def share_of_a_simplex() -> pm.Model:
    """One share of three, known to a thousandth."""
    with pm.Model() as model:
        p = pm.Dirichlet("p", np.ones(3))
        pm.Normal("y", p[0], 0.001, observed=0.2)
    return model


@case(
    lambda: log_integral(lambda x: stats.norm.logpdf(0.0, x, 0.1), interval(0, 1e-3, 0.1, 1)),
    nuts=True,
)
def mode_on_the_bound() -> pm.Model:
    """A uniform variable whose posterior is highest at its end."""
    with pm.Model() as model:
        x = pm.Uniform("x", 0, 1)
        pm.Normal("y", x, 0.1, observed=0.0)
    return model


@case(
    lambda: log_integral(lambda x: stats.norm.logpdf(-3.0, x, 0.1), interval(0, 1e-3, 0.1, 1)),
    tempered=True,
)
def mode_far_outside() -> pm.Model:
    """A uniform variable whose likelihood has its top 30 widths beyond the end."""
    with pm.Model() as model:
        x = pm.Uniform("x", 0, 1)
        pm.Normal("y", x, 0.1, observed=-3.0)
    return model


def _overflow_exact() -> float:
    log_f = lambda x: stats.norm.logpdf(x, 0, 100) + 3 * x - np.exp(x) - gammaln(4)  # noqa: E731
    return log_integral(log_f, interval(-700, -50, -5, 0, 5, 50))


@case(_overflow_exact, nuts=True, tempered=True)
def poisson_that_overflows() -> pm.Model:
    """A log rate with prior sd 100: the rate overflows in most of the prior."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 100)
        pm.Poisson("y", pm.math.exp(x), observed=3)
    return model


@case(
    lambda: log_integral(
        lambda x: stats.norm.logpdf(x, 0, 3) - np.exp(np.exp(x)), interval(-40, -5, 0, 3)
    )
)
def exponential_of_exponential() -> pm.Model:
    """A potential that is minus infinity in floating point beyond 6."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 3)
        pm.Potential("wall", -pm.math.exp(pm.math.exp(x)))
    return model
