"""Data that are missing, empty, censored, in single precision, many, discrete, all alike."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from scipy import stats
from scipy.special import betaln, gammaln, logsumexp

from adversary.cases import case
from adversary.integrals import half_line, interval, log_integral, normal_log_z

RNG = np.random.default_rng(41)


@case(
    lambda: normal_log_z(np.array([0.5, 1.5, 0.8]), np.ones((3, 1)), np.array([2.0]), 1.0),
    nuts=True,
    tempered=True,
)
def missing_normal_data() -> pm.Model:
    """Two of five data are missing, and become variables."""
    y = np.ma.masked_invalid([0.5, np.nan, 1.5, 0.8, np.nan])
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 2)
        pm.Normal("y", mu, 1, observed=y)
    return model


def _gamma_counts_exact(counts: np.ndarray) -> float:
    s, n = counts.sum(), counts.size
    log_z = gammaln(1 + s) - (1 + s) * np.log(n + 1.0)
    return float(log_z - gammaln(counts + 1).sum())


@case(lambda: _gamma_counts_exact(np.array([3, 1, 4])))
def missing_counts() -> pm.Model:
    """A missing count becomes a discrete variable."""
    y = np.ma.array([3, 0, 1, 4], mask=[0, 1, 0, 0])
    with pm.Model() as model:
        rate = pm.Exponential("rate", 1.0)
        pm.Poisson("y", rate, observed=y)
    return model


SINGLE = np.array([0.5, 1.25, -0.75], dtype="float32")


@case(
    lambda: normal_log_z(SINGLE.astype(float), np.ones((3, 1)), np.array([1.0]), 1.0), tempered=True
)
def single_precision() -> pm.Model:
    """Variables and data in single precision."""
    with pytensor.config.change_flags(floatX="float32"), pm.Model() as model:
        mu = pm.Normal("mu", 0, 1)
        pm.Normal("y", mu, 1, observed=SINGLE)
    return model


@case(lambda: normal_log_z(SINGLE.astype(float), np.ones((3, 1)), np.array([1.0]), 1e-3))
def single_precision_far_from_the_prior() -> pm.Model:
    """Noise of a thousandth in single precision, 800,000 nats from the top."""
    with pytensor.config.change_flags(floatX="float32"), pm.Model() as model:
        mu = pm.Normal("mu", 0, 1)
        pm.Normal("y", mu, np.float32(1e-3), observed=SINGLE)
    return model


@case(lambda: 0.0)
def empty_data() -> pm.Model:
    """Data without a datum."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1)
        pm.Normal("y", mu, 1, observed=np.empty(0))
    return model


@case(lambda: 0.0)
def prior_alone() -> pm.Model:
    """A model without data."""
    with pm.Model() as model:
        s = pm.HalfCauchy("s", 1)
        pm.Normal("x", 0, s)
    return model


@case(lambda: float(stats.norm.logpdf(0.7, 0, np.sqrt(2))))
def variable_without_entries() -> pm.Model:
    """A free variable of shape (0,) beside another one."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1)
        none = pm.Normal("none", 0, 1, shape=(0,))
        pm.Normal("y", mu + none.sum(), 1, observed=0.7)
    return model


@case(lambda: float(stats.norm.logpdf(0.7)))
def no_variable_with_entries() -> pm.Model:
    """A sole free variable of shape (0,)."""
    with pm.Model() as model:
        none = pm.Normal("none", 0, 1, shape=(0,))
        pm.Normal("y", none.sum(), 1, observed=0.7)
    return model


CENSORED = np.array([1.2, 0.4, 3.0, 3.0, 3.0])


def _censored_exact() -> float:
    def log_f(scale: np.ndarray) -> np.ndarray:
        seen = sum(stats.expon.logpdf(y, scale=scale) for y in (1.2, 0.4))
        return stats.invgamma.logpdf(scale, 2, scale=3) + seen + 3 * (-3.0 / scale)

    return log_integral(log_f, half_line(100_001, -20, 30))


@case(_censored_exact, nuts=True, tempered=True)
def censored_data() -> pm.Model:
    """Three of five waiting times are cut off at 3."""
    with pm.Model() as model:
        scale = pm.InverseGamma("scale", 2, 3)
        wait = pm.Exponential.dist(scale=scale)
        pm.Censored("y", wait, lower=None, upper=3.0, observed=CENSORED)
    return model


def _truncated_exact() -> float:
    def log_f(mu: np.ndarray) -> np.ndarray:
        seen = sum(stats.norm.logpdf(y, mu, 1) for y in (0.2, 0.1, 0.7))
        return stats.norm.logpdf(mu, 0, 3) + seen - 3 * stats.norm.logcdf(mu)

    return log_integral(log_f, interval(-30, -10, 0, 10))


@case(_truncated_exact, nuts=True)
def truncated_data() -> pm.Model:
    """Data of a normal truncated at 0: the tail towards minus infinity is long."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 3)
        pm.TruncatedNormal("y", mu, 1, lower=0, observed=np.array([0.2, 0.1, 0.7]))
    return model


@case(
    lambda: float(
        logsumexp([stats.poisson.logpmf(k, 3) + stats.norm.logpdf(2.2, k) for k in range(30)])
    )
)
def discrete_variable() -> pm.Model:
    """A free discrete variable."""
    with pm.Model() as model:
        k = pm.Poisson("k", 3.0)
        pm.Normal("y", k, 1, observed=2.2)
    return model


MANY = 0.3 + RNG.normal(size=100_000)


@case(lambda: normal_log_z(MANY, np.ones((MANY.size, 1)), np.array([10.0]), 1.0))
def hundred_thousand_data() -> pm.Model:
    """A mean of 100,000 data."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 10)
        pm.Normal("y", mu, 1, observed=MANY)
    return model


@case(lambda: np.inf, tempered=True)
def data_all_alike() -> pm.Model:
    """Twenty equal data, mean and scale unknown: Z is infinite."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 10)
        s = pm.HalfNormal("s", 1)
        pm.Normal("y", mu, s, observed=np.ones(20))
    return model


TIMES = np.linspace(0, 3, 8)
VALUES = np.sin(2 * TIMES)


def _process_exact() -> float:
    def log_f(length: np.ndarray) -> np.ndarray:
        cov = np.exp(-0.5 * (TIMES[:, None] - TIMES) ** 2 / length[:, None, None] ** 2)
        cov = cov + 0.01 * np.eye(8)
        square = np.einsum("i,nij,j->n", VALUES, np.linalg.inv(cov), VALUES)
        return stats.gamma.logpdf(length, 2) - 0.5 * (
            square + np.linalg.slogdet(2 * np.pi * cov)[1]
        )

    return log_integral(log_f, half_line(4_001, -15, 5))


@case(_process_exact, tempered=True)
def gaussian_process() -> pm.Model:
    """The length scale of a Gaussian process."""
    with pm.Model() as model:
        length = pm.Gamma("length", 2, 1)
        cov = pt.exp(-0.5 * (TIMES[:, None] - TIMES) ** 2 / length**2) + 0.01 * np.eye(8)
        pm.MvNormal("y", np.zeros(8), cov, observed=VALUES)
    return model


ZEROS = np.array([0, 0, 0, 0, 3, 5])


def _inflated_exact() -> float:
    # a share psi of counts is of a Poisson law: sum over how many of the four zeros are
    terms = []
    for k in range(5):
        n, s = k + 2, 8
        rate = 2 * np.log(0.5) + gammaln(2 + s) - (2 + s) * np.log(0.5 + n)
        choose = gammaln(5) - gammaln(k + 1) - gammaln(5 - k)
        share = betaln(1 + k + 2, 1 + 4 - k)
        terms.append(choose + share + rate)
    return float(logsumexp(terms) - gammaln(ZEROS + 1).sum())


@case(_inflated_exact, nuts=True, tempered=True)
def zero_inflated() -> pm.Model:
    """Counts with too many zeros."""
    with pm.Model() as model:
        psi = pm.Beta("psi", 1, 1)
        rate = pm.Gamma("rate", 2, 0.5)
        pm.ZeroInflatedPoisson("y", psi, rate, observed=ZEROS)
    return model


@case(lambda: float(np.log(0.25)))
def coin_of_two_coins() -> pm.Model:
    """A marginalised label: the likelihood is flat."""
    with pm.Model() as model:
        w = pm.Beta("w", 1, 1)
        pm.Potential("y", pt.log(0.25 * w + 0.25 * (1 - w)))
    return model


@case(lambda: -np.inf)
def impossible_data() -> pm.Model:
    """Data outside the support of the likelihood, whatever the parameters."""
    with pm.Model() as model:
        s = pm.HalfNormal("s", 1)
        pm.HalfNormal("y", s, observed=-1.0)
    return model


@case(lambda: np.nan)
def datum_that_is_not_a_number() -> pm.Model:
    """A potential that is NaN everywhere."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Potential("nan", pt.log(-1.0 - x**2))
    return model
