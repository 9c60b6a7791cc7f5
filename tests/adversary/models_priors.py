"""Priors: restricted by transforms, dependent, piling up at bounds, unusual, and not normalised."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import stats
from scipy.special import betaln, gammaln, ive, ndtr

from adversary.cases import case
from adversary.integrals import half_line, interval, line, log_integral

NONE = np.nan
ordered = pm.distributions.transforms.ordered


@case(lambda: float(np.log(0.5)), draws=lambda rng, n: {"p": rng.beta(1.01, 0.01, size=n)})
def beta_at_both_ends() -> pm.Model:
    """Beta(0.01, 0.01): a third of the draws round to a bound."""
    with pm.Model() as model:
        p = pm.Beta("p", 0.01, 0.01)
        pm.Bernoulli("y", p, observed=1)
    return model


@case(lambda: float(np.log(1 / 1.01)))
def beta_at_one() -> pm.Model:
    """Beta(1, 0.01) and a success."""
    with pm.Model() as model:
        p = pm.Beta("p", 1, 0.01)
        pm.Bernoulli("y", p, observed=1)
    return model


@case(lambda: float(betaln(0.02 + 3, 0.05 + 2) - betaln(0.02, 0.05)), tempered=True)
def beta_at_both_ends_with_data() -> pm.Model:
    """A prior at both ends, and data that say neither."""
    with pm.Model() as model:
        p = pm.Beta("p", 0.02, 0.05)
        pm.Bernoulli("y", p, observed=np.array([1, 1, 1, 0, 0]))
    return model


@case(lambda: float(0.01 * (np.log(2.0) - np.log(3.0))))
def gamma_at_zero() -> pm.Model:
    """Gamma(0.01, 2) and a count of 0."""
    with pm.Model() as model:
        rate = pm.Gamma("rate", 0.01, 2.0)
        pm.Poisson("y", rate, observed=0)
    return model


RARE = np.array([9, 1, 0, 0])


@case(
    lambda: float(
        gammaln(0.2)
        - gammaln(10.2)
        + (gammaln(0.05 + RARE) - gammaln(0.05)).sum()
        + gammaln(11)
        - gammaln(RARE + 1).sum()
    )
)
def dirichlet_at_the_corners() -> pm.Model:
    """A Dirichlet of 0.05 that piles up at the corners."""
    with pm.Model() as model:
        p = pm.Dirichlet("p", np.full(4, 0.05))
        pm.Multinomial("y", 10, p, observed=RARE)
    return model


def _ordered_exact() -> float:
    log_f = lambda a, b: np.where(  # noqa: E731
        a < b,
        stats.norm.logpdf(a)
        + stats.norm.logpdf(b)
        + stats.norm.logpdf(0.5, a, 0.4)
        + stats.norm.logpdf(0.6, b, 0.4),
        -np.inf,
    )
    grid = np.linspace(-7, 7, 2801)
    rule = grid, np.full(grid.size, np.log(grid[1] - grid[0]))
    # nodes on the diagonal count half, which a rule on half a plane wants
    diagonal = stats.norm.logpdf(grid) * 2 + stats.norm.logpdf(0.5, grid, 0.4)
    diagonal = diagonal + stats.norm.logpdf(0.6, grid, 0.4) + 2 * rule[1] - np.log(2)
    return float(
        np.log(2) + np.logaddexp(log_integral(log_f, rule, rule), np.logaddexp.reduce(diagonal))
    )


@case(_ordered_exact, tempered=True)
def ordered_pair() -> pm.Model:
    """Two normals kept in order by a transform: the prior is renormalised."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=2, transform=ordered, initval=[-1.0, 1.0])
        pm.Normal("y", x, 0.4, observed=np.array([0.5, 0.6]))
    return model


def _zero_sum_exact() -> float:
    k = 4
    centred = np.eye(k) - 1 / k
    y = np.array([0.5, -0.2, 0.1, 0.3])
    return float(stats.multivariate_normal(np.zeros(k), centred * 4 + 0.09 * np.eye(k)).logpdf(y))


@case(_zero_sum_exact)
def sum_to_zero() -> pm.Model:
    """Four effects that add up to 0."""
    with pm.Model() as model:
        x = pm.ZeroSumNormal("x", 2.0, shape=4)
        pm.Normal("y", x, 0.3, observed=np.array([0.5, -0.2, 0.1, 0.3]))
    return model


def _interval_exact() -> float:
    log_f = lambda x: stats.norm.logpdf(x) + stats.norm.logpdf(0.9, x, 0.3)  # noqa: E731
    return log_integral(log_f, interval(0, 1)) - float(np.log(ndtr(1) - 0.5))


@case(_interval_exact)
def normal_in_an_interval() -> pm.Model:
    """A normal that a transform keeps in (0, 1): the prior is renormalised."""
    with pm.Model() as model:
        inside = pm.distributions.transforms.Interval(0, 1)
        x = pm.Normal("x", 0, 1, transform=inside, initval=0.5)
        pm.Normal("y", x, 0.3, observed=0.9)
    return model


def _angle_exact() -> float:
    # exp(k cos(x - a)) times exp(l cos x) is one of the length of the sum
    length = np.hypot(4 * np.cos(2.8) + 2, 4 * np.sin(2.8))
    log_i0 = lambda k: np.log(ive(0, k)) + k  # noqa: E731
    return float(log_i0(length) - log_i0(4.0) - log_i0(2.0) - np.log(2 * np.pi))


@case(_angle_exact, tempered=True)
def angle() -> pm.Model:
    """An angle on a circle whose posterior lies across the cut."""
    with pm.Model() as model:
        x = pm.VonMises("x", 0, 2.0)
        pm.VonMises("y", x, 4.0, observed=2.8)
    return model


def _lkj_exact() -> float:
    y = np.array([[1.0, 1.2], [-0.5, -0.4], [0.3, 0.1]])

    def log_f(r: np.ndarray) -> np.ndarray:
        square = (y**2).sum() - 2 * r * (y[:, 0] * y[:, 1]).sum()
        square = square / (1 - r**2)
        # eta = 2 of two dimensions: a density of 3/4 (1 - r^2)
        return (
            np.log(0.75 * (1 - r**2))
            - 0.5 * square
            - 1.5 * np.log(1 - r**2)
            - 3 * np.log(2 * np.pi)
        )

    return log_integral(log_f, interval(-1, 0, 0.9, 1))


@case(_lkj_exact, tempered=True)
def correlation() -> pm.Model:
    """The correlation of three pairs."""
    y = np.array([[1.0, 1.2], [-0.5, -0.4], [0.3, 0.1]])
    with pm.Model() as model:
        r = pm.Uniform("r", -1, 1)
        pm.Potential("lkj", pt.log(1.5 * (1 - r**2)))
        cov = pt.stack([pt.stack([1.0, r]), pt.stack([r, 1.0])])
        pm.MvNormal("y", np.zeros(2), cov, observed=y)
    return model


@case(_lkj_exact)
def correlation_matrix() -> pm.Model:
    """The same, the prior being PyMC's LKJ."""
    y = np.array([[1.0, 1.2], [-0.5, -0.4], [0.3, 0.1]])
    with pm.Model() as model:
        corr = pm.LKJCorr("corr", n=2, eta=2.0)
        pm.MvNormal("y", np.zeros(2), corr, observed=y)
    return model


PRIORS = {
    "kumaraswamy": (lambda n: pm.Kumaraswamy(n, 0.5, 3), None, (0.0, 1e-6, 1e-3, 0.5, 1.0)),
    "wald": (lambda n: pm.Wald(n, 1, 0.3), stats.invgauss(1 / 0.3, scale=0.3), None),
    "weibull": (lambda n: pm.Weibull(n, 0.7, 1), stats.weibull_min(0.7), None),
    "rice": (lambda n: pm.Rice(n, nu=1, sigma=0.7), stats.rice(1 / 0.7, scale=0.7), None),
    "gamma": (lambda n: pm.Gamma(n, 0.3, 2), stats.gamma(0.3, scale=0.5), None),
    "log_normal": (lambda n: pm.LogNormal(n, 1, 2), stats.lognorm(2, scale=np.e), None),
}


def _unusual_exact() -> float:
    total = 0.0
    for _, law, ends in PRIORS.values():
        rule = half_line() if ends is None else interval(*ends)
        log_p = (
            law.logpdf
            if law is not None
            else lambda x: np.log(1.5) - 0.5 * np.log(x) + 2 * np.log1p(-np.sqrt(x))
        )
        total += log_integral(lambda x, p=log_p: p(x) + stats.norm.logpdf(0.6, x, 0.5), rule)
    return total


@case(_unusual_exact)
def six_unusual_priors() -> pm.Model:
    """Six priors above 0, each with a datum."""
    with pm.Model() as model:
        for name, (make, _, _) in PRIORS.items():
            pm.Normal(f"y_{name}", make(name), 0.5, observed=0.6)
    return model


LINE_PRIORS = {
    "skewed": (lambda n: pm.SkewNormal(n, mu=0, sigma=2, alpha=8), stats.skewnorm(8, 0, 2)),
    "logistic": (lambda n: pm.Logistic(n, 1, 2), stats.logistic(1, 2)),
    "moyal": (lambda n: pm.Moyal(n, 0, 1), stats.moyal(0, 1)),
    "exgauss": (
        lambda n: pm.ExGaussian(n, mu=0, sigma=0.3, nu=2),
        stats.exponnorm(2 / 0.3, 0, 0.3),
    ),
    "gumbel": (lambda n: pm.Gumbel(n, 0, 1), stats.gumbel_r(0, 1)),
}


@case(
    lambda: sum(
        log_integral(lambda x, p=law: p.logpdf(x) + stats.norm.logpdf(2.0, x, 1.0), line(0, 0.1))
        for _, law in LINE_PRIORS.values()
    )
)
def five_priors_of_the_line() -> pm.Model:
    """Five skewed or heavy priors of the whole line, each with a datum."""
    with pm.Model() as model:
        for name, (make, _) in LINE_PRIORS.items():
            pm.Normal(f"y_{name}", make(name), 1.0, observed=2.0)
    return model


def _prior_mixture_exact() -> float:
    slab, spike = stats.norm(0, np.hypot(5, 0.5)), stats.norm(0, np.hypot(0.01, 0.5))
    return sum(np.log(0.5 * slab.pdf(y) + 0.5 * spike.pdf(y)) for y in (0.1, 3.0, -0.2))


@case(lambda: float(_prior_mixture_exact()), tempered=True)
def spike_and_slab() -> pm.Model:
    """Three effects under a prior of a spike and a slab."""
    with pm.Model() as model:
        parts = [pm.Normal.dist(0, 5), pm.Normal.dist(0, 0.01)]
        x = pm.Mixture("x", [0.5, 0.5], parts, shape=3)
        pm.Normal("y", x, 0.5, observed=np.array([0.1, 3.0, -0.2]))
    return model


@case(lambda: NONE)
def flat_prior() -> pm.Model:
    """An improper prior."""
    with pm.Model() as model:
        x = pm.Flat("x")
        pm.Normal("y", x, 1, observed=0.3)
    return model


@case(lambda: NONE)
def car_of_a_chain() -> pm.Model:
    """PyMC's CAR, whose density lacks its constant."""
    chain = np.eye(10, k=1) + np.eye(10, k=-1)
    with pm.Model() as model:
        x = pm.CAR("x", np.zeros(10), chain, alpha=0.9, tau=1.0)
        pm.Normal("y", x, 0.5, observed=np.linspace(-1, 1, 10))
    return model


@case(lambda: NONE)
def icar() -> pm.Model:
    """PyMC's ICAR, which is improper."""
    chain = np.eye(5, k=1) + np.eye(5, k=-1)
    with pm.Model() as model:
        x = pm.ICAR("x", chain)
        pm.Normal("y", x, 0.5, observed=np.linspace(-1, 1, 5))
    return model


def _off(name: str, nats: float) -> pt.TensorVariable:
    def logp(value, mu):
        return pm.logp(pm.Normal.dist(mu, 1), value) + nats

    def draw(mu, rng=None, size=None):
        return rng.normal(mu, 1, size=size)

    return pm.CustomDist(name, 0.0, logp=logp, random=draw)


@case(lambda: NONE)
def prior_off_by_half_a_nat() -> pm.Model:
    """A prior whose density lacks a constant."""
    with pm.Model() as model:
        pm.Normal("y", _off("x", 0.5), 1, observed=0.3)
    return model


@case(lambda: NONE)
def eight_priors_off_by_a_little() -> pm.Model:
    """Eight priors that lack a constant of 0.09 each."""
    with pm.Model() as model:
        x = pt.stack([_off(f"x{i}", 0.09) for i in range(8)])
        pm.Normal("y", x, 1, observed=np.full(8, 0.3))
    return model


@case(lambda: 8 * float(stats.norm.logpdf(0.3, 0, np.sqrt(2))))
def eight_custom_priors() -> pm.Model:
    """Eight priors of one's own that are normalised."""
    with pm.Model() as model:
        x = pt.stack([_off(f"x{i}", 0.0) for i in range(8)])
        pm.Normal("y", x, 1, observed=np.full(8, 0.3))
    return model


def _hierarchy_exact() -> float:
    k, n = np.array([3, 9, 5]), 10

    def log_f(a: np.ndarray) -> np.ndarray:
        terms = betaln(a + k[:, None], a + n - k[:, None]) - betaln(a, a)
        return stats.gamma.logpdf(a, 2) + terms.sum(axis=0)

    choose = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return log_integral(log_f, half_line(20_001, -25, 6)) + float(choose.sum())


@case(_hierarchy_exact, tempered=True)
def betas_of_a_variable_shape() -> pm.Model:
    """Shares whose prior's shape is a variable, and may be small."""
    with pm.Model() as model:
        a = pm.Gamma("a", 2, 1)
        p = pm.Beta("p", a, a, shape=3)
        pm.Binomial("y", 10, p, observed=np.array([3, 9, 5]))
    return model
