"""Posteriors in closed form: very narrow, very wide, nearly singular, far from the prior."""

import numpy as np
import pymc as pm
from scipy import stats
from scipy.special import betaln, gammaln

from adversary.cases import case
from adversary.integrals import normal_log_z

RNG = np.random.default_rng(14)
NOISE = RNG.normal(size=40)


def _normal_draws(y: np.ndarray, sd: float, prior_sd: float, name: str = "mu"):
    """Draws of a normal mean given data."""
    precision = y.size / sd**2 + 1 / prior_sd**2

    def draws(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        return {name: rng.normal(y.sum() / sd**2 / precision, precision**-0.5, size=n)}

    return draws


def _mean_log_z(y: np.ndarray, sd: float, prior_sd: float) -> float:
    return normal_log_z(y, np.ones((y.size, 1)), np.array([prior_sd]), sd)


def _normal_mean(y: np.ndarray, sd: float, prior_sd: float) -> pm.Model:
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, prior_sd)
        pm.Normal("y", mu, sd, observed=y)
    return model


@case(
    lambda: -np.log(101.0),
    draws=lambda rng, n: {"p": rng.beta(51, 51, size=n)},
    nuts=True,
    tempered=True,
)
def beta_binomial() -> pm.Model:
    """A share, 50 of 100."""
    with pm.Model() as model:
        p = pm.Beta("p", 1, 1)
        pm.Binomial("y", 100, p, observed=50)
    return model


@case(
    lambda: -np.log(1e6 + 1),
    draws=lambda rng, n: {"p": rng.beta(500_001, 500_001, size=n)},
)
def beta_binomial_of_a_million() -> pm.Model:
    """A share, known to a thousandth."""
    with pm.Model() as model:
        p = pm.Beta("p", 1, 1)
        pm.Binomial("y", 1_000_000, p, observed=500_000)
    return model


@case(lambda: -np.log(1001.0), draws=lambda rng, n: {"p": rng.beta(1, 1001, size=n)})
def beta_binomial_at_the_edge() -> pm.Model:
    """A share of nothing in a thousand: the posterior piles up at 0."""
    with pm.Model() as model:
        p = pm.Beta("p", 1, 1)
        pm.Binomial("y", 1000, p, observed=0)
    return model


COUNTS = np.array([3, 0, 7, 2, 5, 4])


def _gamma_poisson_exact() -> float:
    n, s = COUNTS.size, COUNTS.sum()
    log_z = gammaln(2 + s) - gammaln(2) + 2 * np.log(0.1) - (2 + s) * np.log(n + 0.1)
    return float(log_z - gammaln(COUNTS + 1).sum())


@case(
    _gamma_poisson_exact,
    draws=lambda rng, n: {"rate": rng.gamma(2 + COUNTS.sum(), 1 / (COUNTS.size + 0.1), size=n)},
    nuts=True,
    tempered=True,
)
def gamma_poisson() -> pm.Model:
    """A rate of counts."""
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2, 0.1)
        pm.Poisson("y", rate, observed=COUNTS)
    return model


WIDE = 3.0 + NOISE[:20]


@case(lambda: _mean_log_z(WIDE, 1.0, 1e6), draws=_normal_draws(WIDE, 1.0, 1e6), tempered=True)
def prior_sd_of_a_million() -> pm.Model:
    """A mean near 3 under a prior of sd 1e6."""
    return _normal_mean(WIDE, 1.0, 1e6)


TIGHT = np.array([0.3])


@case(lambda: _mean_log_z(TIGHT, 1e-8, 1.0), draws=_normal_draws(TIGHT, 1e-8, 1.0))
def noise_of_1e_8() -> pm.Model:
    """One datum with noise 1e-8 under a prior of sd 1."""
    return _normal_mean(TIGHT, 1e-8, 1.0)


FAR = np.array([50.0])


@case(lambda: _mean_log_z(FAR, 0.1, 1.0), draws=_normal_draws(FAR, 0.1, 1.0), tempered=True)
def prior_in_conflict() -> pm.Model:
    """A datum 50 prior standard deviations out."""
    return _normal_mean(FAR, 0.1, 1.0)


HUGE = 1e8 * (1 + 0.1 * NOISE[:10])


@case(lambda: _mean_log_z(HUGE, 1e7, 1e9), draws=_normal_draws(HUGE, 1e7, 1e9))
def data_of_1e8() -> pm.Model:
    """Data of the order of 1e8."""
    return _normal_mean(HUGE, 1e7, 1e9)


SCALES = np.array([1e-4, 1.0, 1e4])
COVARIATES = RNG.normal(size=(30, 3)) * SCALES
RESPONSES = COVARIATES @ (np.array([1.0, -2.0, 0.5]) / SCALES) + 0.5 * RNG.normal(size=30)


@case(lambda: normal_log_z(RESPONSES, COVARIATES, 3 / SCALES, 0.5))
def scales_1e8_apart() -> pm.Model:
    """Coefficients of sizes 1e-4 to 1e4."""
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 3 / SCALES, shape=3)
        pm.Normal("y", pm.math.dot(COVARIATES, b), 0.5, observed=RESPONSES)
    return model


SUM = np.ones((1, 2))


@case(
    lambda: normal_log_z(np.array([1.0]), SUM, np.ones(2), 1e-3),
    nuts=True,
    tempered=True,
)
def nearly_singular_sum() -> pm.Model:
    """Two coefficients whose sum alone is known, to a thousandth."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=2)
        pm.Normal("y", x.sum(), 1e-3, observed=1.0)
    return model


ALIKE = RNG.normal(size=(50, 1)) + 1e-4 * RNG.normal(size=(50, 8))
ALIKE_Y = ALIKE.sum(axis=1) + 0.3 * RNG.normal(size=50)


@case(lambda: normal_log_z(ALIKE_Y, ALIKE, np.full(8, 5.0), 0.3))
def nearly_collinear_regression() -> pm.Model:
    """Eight covariates that are one, but for 1e-4."""
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 5.0, shape=8)
        pm.Normal("y", pm.math.dot(ALIKE, b), 0.3, observed=ALIKE_Y)
    return model


COVARIANCE = np.full((5, 5), 0.9999) + 1e-4 * np.eye(5)
SEEN = np.array([1.0, 1.1, 0.9, 1.0, 1.05])


@case(
    lambda: float(
        stats.multivariate_normal(np.zeros(5), COVARIANCE + 0.04 * np.eye(5)).logpdf(SEEN)
    )
)
def nearly_singular_prior() -> pm.Model:
    """A multivariate normal prior with correlations of 0.9999."""
    with pm.Model() as model:
        x = pm.MvNormal("x", np.zeros(5), COVARIANCE)
        pm.Normal("y", x, 0.2, observed=SEEN)
    return model


def _normal_gamma_exact() -> float:
    y = 2.0 + 0.5 * NOISE
    n, k0, a0, b0 = y.size, 0.01, 1.0, 1.0
    kn, an = k0 + n, a0 + n / 2
    bn = b0 + 0.5 * ((y - y.mean()) ** 2).sum() + k0 * n * y.mean() ** 2 / (2 * kn)
    log_z = gammaln(an) - gammaln(a0) + a0 * np.log(b0) - an * np.log(bn)
    return float(log_z + 0.5 * np.log(k0 / kn) - n / 2 * np.log(2 * np.pi))


@case(_normal_gamma_exact, nuts=True, tempered=True)
def normal_gamma() -> pm.Model:
    """Mean and precision of normal data, the prior of one depending on the other."""
    with pm.Model() as model:
        tau = pm.Gamma("tau", 1.0, 1.0)
        mu = pm.Normal("mu", 0.0, tau=0.01 * tau)
        pm.Normal("y", mu, tau=tau, observed=2.0 + 0.5 * NOISE)
    return model


COLOURS = np.array([4, 0, 11, 2])


def _dirichlet_exact() -> float:
    a, n = np.full(4, 0.5), COLOURS.sum()
    log_z = gammaln(a.sum()) - gammaln(a.sum() + n) + (gammaln(a + COLOURS) - gammaln(a)).sum()
    return float(log_z + gammaln(n + 1) - gammaln(COLOURS + 1).sum())


@case(_dirichlet_exact, draws=lambda rng, n: {"p": rng.dirichlet(0.5 + COLOURS, size=n)}, nuts=True)
def dirichlet_multinomial() -> pm.Model:
    """Shares of four colours, one of them never seen."""
    with pm.Model() as model:
        p = pm.Dirichlet("p", np.full(4, 0.5))
        pm.Multinomial("y", COLOURS.sum(), p, observed=COLOURS)
    return model


MANY = RNG.normal(size=40)


@case(
    lambda: float(stats.norm.logpdf(MANY, 0, np.hypot(1, 0.1)).sum()),
    draws=lambda rng, n: {
        "x": rng.normal(MANY / 1.01, 0.1 / np.sqrt(1.01), size=(n, MANY.size)),
    },
    tempered=True,
)
def forty_dimensions() -> pm.Model:
    """Forty means, each with a datum of noise 0.1."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=40)
        pm.Normal("y", x, 0.1, observed=MANY)
    return model


WAITS = np.array([0.2, 1.3, 0.7, 3.1])


@case(
    lambda: float(gammaln(5.0) - 5 * np.log(1.0 + WAITS.sum())),
    draws=lambda rng, n: {"rate": rng.gamma(5.0, 1 / (1 + WAITS.sum()), size=n)},
)
def exponential_waits() -> pm.Model:
    """A rate of waiting times."""
    with pm.Model() as model:
        rate = pm.Exponential("rate", 1.0)
        pm.Exponential("y", rate, observed=WAITS)
    return model


@case(lambda: float(betaln(0.51 + 7, 0.51 + 3) - betaln(0.51, 0.51)), tempered=True)
def bernoulli_row() -> pm.Model:
    """Ten throws, seven heads, under a prior that piles up at both ends."""
    with pm.Model() as model:
        p = pm.Beta("p", 0.51, 0.51)
        pm.Bernoulli("y", p, observed=np.array([1] * 7 + [0] * 3))
    return model


WALK = np.cumsum(np.array([0.3, -0.1, 0.4, 0.2, -0.5, 0.1]))


def _walk_exact() -> float:
    steps = np.arange(1, 7)
    cov = np.minimum.outer(steps, steps) * 0.25 + 0.01 * np.eye(6)
    return float(stats.multivariate_normal(np.zeros(6), cov).logpdf(WALK))


@case(_walk_exact)
def random_walk() -> pm.Model:
    """A walk of six steps seen with noise."""
    with pm.Model() as model:
        x = pm.GaussianRandomWalk("x", 0, 0.5, init_dist=pm.Normal.dist(0, 0.5), steps=5)
        pm.Normal("y", x, 0.1, observed=WALK)
    return model
