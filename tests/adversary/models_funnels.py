"""Scales that are themselves unknown."""

import numpy as np
import pymc as pm
from scipy import stats
from scipy.special import logsumexp

from adversary.cases import case
from adversary.integrals import half_line, interval, line, log_integral

EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def _normal(y: float | np.ndarray, mean: float | np.ndarray, var: float | np.ndarray) -> np.ndarray:
    """Log density by the variance, without the checks that make SciPy's slow."""
    return -0.5 * ((y - mean) ** 2 / var + np.log(2 * np.pi * var))


def _groups_exact(y: np.ndarray, errors: np.ndarray, prior_sd: float, log_prior_of_tau) -> float:
    def log_f(tau: np.ndarray) -> np.ndarray:
        """The effects and their mean integrated out."""
        var = errors**2 + tau[:, None] ** 2
        precision = (1 / var).sum(axis=1)
        mean = (y / var).sum(axis=1) / precision
        rest = _normal(y, mean[:, None], var).sum(axis=1) + 0.5 * np.log(2 * np.pi / precision)
        return rest + _normal(mean, 0.0, prior_sd**2 + 1 / precision) + log_prior_of_tau(tau)

    return log_integral(log_f, half_line(20_001, -40, 25))


def _schools_exact() -> float:
    return _groups_exact(EFFECTS, ERRORS, 5.0, lambda tau: stats.halfcauchy.logpdf(tau, scale=5))


@case(_schools_exact, nuts=True, tempered=True)
def eight_schools_centred() -> pm.Model:
    """Eight schools, effects around their mean."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        theta = pm.Normal("theta", mu, tau, shape=8)
        pm.Normal("y", theta, ERRORS, observed=EFFECTS)
    return model


@case(_schools_exact, nuts=True)
def eight_schools() -> pm.Model:
    """Eight schools, effects in units of their spread."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        z = pm.Normal("z", 0, 1, shape=8)
        pm.Normal("y", mu + tau * z, ERRORS, observed=EFFECTS)
    return model


NEAL = np.array([0.1, -0.3, 0.2, 0.05, -0.1, 0.4, -0.2, 0.0, 0.15])


def _neal_exact(noise: float) -> float:
    def log_f(v: np.ndarray) -> np.ndarray:
        return _normal(NEAL, 0.0, np.exp(v)[:, None] + noise**2).sum(axis=1) + _normal(v, 0.0, 9.0)

    return log_integral(log_f, interval(-40, 0, 40))


def _neal(noise: float) -> pm.Model:
    with pm.Model() as model:
        v = pm.Normal("v", 0, 3)
        x = pm.Normal("x", 0, pm.math.exp(v / 2), shape=9)
        pm.Normal("y", x, noise, observed=NEAL)
    return model


@case(lambda: _neal_exact(0.3), nuts=True)
def neals_funnel() -> pm.Model:
    """Neal's funnel of ten dimensions, its mouth seen with noise 0.3."""
    return _neal(0.3)


@case(lambda: _neal_exact(10.0))
def neals_funnel_hardly_seen() -> pm.Model:
    """Neal's funnel of ten dimensions, almost as the prior has it."""
    return _neal(10.0)


@case(
    lambda: _groups_exact(
        1e-3 * EFFECTS, 1e-3 * ERRORS, 5.0, lambda tau: stats.halfnorm.logpdf(tau, scale=100)
    )
)
def spread_far_below_its_prior() -> pm.Model:
    """Effects of thousandths under a prior of hundreds for their spread."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfNormal("tau", 100)
        theta = pm.Normal("theta", mu, tau, shape=8)
        pm.Normal("y", theta, 1e-3 * ERRORS, observed=1e-3 * EFFECTS)
    return model


SPARSE = np.array([0.0, 0.1, -0.2, 10.0, 0.3])


def _horseshoe_exact() -> float:
    def log_f(scale: np.ndarray, y: float) -> np.ndarray:
        return _normal(y, 0.0, 1 + scale**2) + stats.halfcauchy.logpdf(scale)

    return sum(log_integral(lambda s, y=y: log_f(s, y), half_line()) for y in SPARSE)


@case(_horseshoe_exact)
def horseshoe() -> pm.Model:
    """Five effects with a half-Cauchy scale each, one of them large."""
    with pm.Model() as model:
        scale = pm.HalfCauchy("scale", 1, shape=5)
        theta = pm.Normal("theta", 0, scale, shape=5)
        pm.Normal("y", theta, 1, observed=SPARSE)
    return model


CHAIN = 0.7


def _chain_exact() -> float:
    def log_f(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return (
            _normal(a, 0.0, 1.0)
            + _normal(b, 0.0, np.exp(2 * a))
            + _normal(CHAIN, 0.0, np.exp(2 * b))
        )

    return log_integral(log_f, interval(-9, 0, 9, n=600), line(0, 0.01, 4001, 16))


@case(_chain_exact)
def funnel_in_a_funnel() -> pm.Model:
    """The log scale of the log scale of one datum."""
    with pm.Model() as model:
        a = pm.Normal("a", 0, 1)
        b = pm.Normal("b", 0, pm.math.exp(a))
        pm.Normal("y", 0, pm.math.exp(b), observed=CHAIN)
    return model


def _outliers_exact() -> float:
    y = np.array([0.1, 0.0, -0.1, 8.0])

    def log_f(mu: np.ndarray, sigma: np.ndarray) -> np.ndarray:
        prior = stats.norm.logpdf(mu, 0, 10) + stats.halfnorm.logpdf(sigma, scale=1)
        return prior + sum(stats.t.logpdf(one, 2, mu, sigma) for one in y)

    return log_integral(log_f, line(0, 0.1, 1501, 10), half_line(1501, -16, 3))


@case(_outliers_exact, nuts=True)
def outlier_by_student_t() -> pm.Model:
    """Three data at 0 and one at 8, location and scale of a Student-t."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 10)
        sigma = pm.HalfNormal("sigma", 1)
        pm.StudentT("y", nu=2, mu=mu, sigma=sigma, observed=np.array([0.1, 0.0, -0.1, 8.0]))
    return model


def _volatility_exact() -> float:
    y = np.array([0.5, -2.0])
    h = np.linspace(-16, 16, 1601)
    step = np.log(h[1] - h[0])
    first = _normal(h, 0, 4.0) + _normal(y[0], 0, np.exp(h))
    second = logsumexp(first[:, None] + _normal(h[None], h[:, None], 1.0), axis=0) + step
    return float(logsumexp(second + _normal(y[1], 0, np.exp(h))) + step)


@case(_volatility_exact)
def two_volatilities() -> pm.Model:
    """Log variances of two data, one after the other."""
    with pm.Model() as model:
        first = pm.Normal("first", 0, 2)
        second = pm.Normal("second", first, 1)
        h = pm.math.stack([first, second])
        pm.Normal("y", 0, pm.math.exp(h / 2), observed=np.array([0.5, -2.0]))
    return model


ONE_EACH = np.array([-0.2, 1.1, 3.2, 1.6])
MORE_OF_ONE_EACH = np.concatenate([ONE_EACH + 2 * shift for shift in np.linspace(-1, 1, 6)])


def _confounded_exact(y: np.ndarray) -> float:
    """Effects and their mean integrated out, which leaves the sum of both variances."""
    edges = half_line(1501, -14, 8)
    n, spread = len(y), ((y - y.mean()) ** 2).sum()

    def log_f(tau: np.ndarray, sigma: np.ndarray) -> np.ndarray:
        var = tau**2 + sigma**2
        rest = -0.5 * (n * np.log(2 * np.pi * var) + spread / var - np.log(2 * np.pi * var / n))
        return (
            rest
            + _normal(y.mean(), 0.0, 9.0 + var / n)
            + stats.halfcauchy.logpdf(tau)
            + stats.halfcauchy.logpdf(sigma)
        )

    return log_integral(log_f, edges, edges)


def _confounded(y: np.ndarray) -> pm.Model:
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 3)
        tau, sigma = pm.HalfCauchy("tau", 1), pm.HalfCauchy("sigma", 1)
        z = pm.Normal("z", 0, 1, shape=len(y))
        pm.Normal("y", mu + tau * z, sigma, observed=y)
    return model


@case(lambda: _confounded_exact(ONE_EACH))
def confounded_spreads() -> pm.Model:
    """One observation of each of four effects, whose spread and noise only add up."""
    return _confounded(ONE_EACH)


@case(lambda: _confounded_exact(MORE_OF_ONE_EACH))
def many_confounded_spreads() -> pm.Model:
    """The same with 24 effects."""
    return _confounded(MORE_OF_ONE_EACH)
