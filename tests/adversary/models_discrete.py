"""Whole numbers: far in the tail, tied to each other, frozen, forbidden, mixed with normals."""

from itertools import product

import numpy as np
import pymc as pm
from scipy import stats
from scipy.special import logsumexp

from adversary.cases import case


def _far_exact() -> float:
    n = np.arange(1, 20_000)
    return float(logsumexp(stats.geom.logpmf(n, 0.01) + stats.poisson.logpmf(1500, n)))


@case(_far_exact, tempered=True)
def count_far_in_the_tail() -> pm.Model:
    """A count without an end, whose data are 15 times the mean of its prior."""
    with pm.Model() as model:
        n = pm.Geometric("n", 0.01)
        pm.Poisson("y", n, observed=1500)
    return model


def _heavy_exact() -> float:
    n = np.arange(200_000)
    with np.errstate(divide="ignore"):
        log_prior = np.log(0.9 ** (n**0.3) - 0.9 ** ((n + 1.0) ** 0.3))
    return float(logsumexp(log_prior + stats.norm.logpdf(400.0, n, 5.0)))


@case(_heavy_exact, tempered=True)
def count_with_a_heavy_tail() -> pm.Model:
    """A prior whose tail falls more slowly than any exponential."""
    with pm.Model() as model:
        n = pm.DiscreteWeibull("n", q=0.9, beta=0.3)
        pm.Normal("y", n, 5.0, observed=400.0)
    return model


def _nested_exact() -> float:
    terms = [
        stats.poisson.logpmf(a, 4)
        + stats.binom.logpmf(b, a, 0.5)
        - np.log(a + b + 1)
        + stats.norm.logpdf(3.0, a - 2.0 * b + np.arange(a + b + 1), 0.3)
        for a in range(60)
        for b in range(a + 1)
    ]
    return float(logsumexp(np.concatenate(terms)))


@case(_nested_exact, tempered=True)
def supports_that_depend_on_another() -> pm.Model:
    """Each number ends where the ones before say."""
    with pm.Model() as model:
        a = pm.Poisson("a", 4.0)
        b = pm.Binomial("b", a, 0.5)
        c = pm.DiscreteUniform("c", 0, a + b)
        pm.Normal("y", a - 2.0 * b + c, 0.3, observed=3.0)
    return model


def _all_bits(n: int) -> np.ndarray:
    return np.array(list(product([0, 1], repeat=n)))


def _cold_exact() -> float:
    heads = np.arange(11)
    m = 2 * heads - 10
    return float(logsumexp(stats.binom.logpmf(heads, 10, 0.5) + 0.3 * m**2 + 0.4 * m))


@case(_cold_exact, tempered=True)
def spins_that_only_turn_together() -> pm.Model:
    """Each spin is coupled to each other one, far below the temperature at which they align."""
    with pm.Model() as model:
        spin = 2 * pm.Bernoulli("spin", 0.5, shape=10) - 1
        pm.Potential("field", 0.3 * spin.sum() ** 2 + 0.4 * spin.sum())
    return model


def _potts_exact() -> float:
    states = np.array(list(product(range(4), repeat=6)))
    same = (states[:, :, None] == states[:, None, :]).sum(axis=(1, 2))
    return float(logsumexp(same - 6.0) - 6 * np.log(4))


@case(_potts_exact, tempered=True)
def potts() -> pm.Model:
    """Six colours out of four that want to be alike."""
    with pm.Model() as model:
        colour = pm.Categorical("colour", np.ones(4) / 4, shape=6)
        same = pm.math.switch(pm.math.eq(colour[:, None], colour[None, :]), 1.0, 0.0)
        pm.Potential("alike", same.sum() - 6.0)
    return model


def _parity_exact() -> float:
    bits = _all_bits(4)
    bits = bits[bits.sum(axis=1) % 2 == 0]
    prior = stats.bernoulli.logpmf(bits, 0.3).sum(axis=1)
    return float(logsumexp(prior + stats.norm.logpdf(1.7, bits.sum(axis=1), np.sqrt(1.09))))


@case(_parity_exact, tempered=True)
def bits_of_even_parity() -> pm.Model:
    """No bit can change by itself: what lies between is impossible."""
    with pm.Model() as model:
        bits, x = pm.Bernoulli("bits", 0.3, shape=4), pm.Normal("x")
        pm.Potential("even", pm.math.switch(pm.math.eq(bits.sum() % 2, 0), 0.0, -np.inf))
        pm.Normal("y", x + bits.sum(), 0.3, observed=1.7)
    return model


THREE = np.array([-5.0, -5.2, -4.9, 0.1, 0.0, -0.1, 5.0, 5.1])


def _labels_exact() -> float:
    labels = np.array(list(product(range(3), repeat=THREE.size)))
    log_z = np.zeros(len(labels))
    for k in range(3):
        here = labels == k
        n, s = here.sum(axis=1), here @ THREE
        # a mean with variance 25, data of variance 0.25
        log_z += -0.5 * np.log1p(100.0 * n) + 0.5 * (s / 0.25) ** 2 / (1 / 25.0 + n / 0.25)
    fixed = stats.norm.logpdf(THREE, 0, 0.5).sum() - THREE.size * np.log(3)
    return float(logsumexp(log_z) + fixed)


@case(_labels_exact, tempered=True)
def labels_that_switch() -> pm.Model:
    """Three groups far apart, whose names may be exchanged."""
    with pm.Model() as model:
        label = pm.Categorical("label", np.ones(3) / 3, shape=THREE.size)
        mean = pm.Normal("mean", 0, 5, shape=3)
        pm.Normal("y", mean[label], 0.5, observed=THREE)
    return model


def _two_far_exact() -> float:
    n = np.arange(400)
    modes = np.logaddexp(-0.5 * ((n - 60) / 0.3) ** 2, -0.5 * ((n - 150) / 0.3) ** 2)
    return float(logsumexp(stats.poisson.logpmf(n, 100.0) + modes))


@case(_two_far_exact, tempered=True)
def count_with_two_far_modes() -> pm.Model:
    """One of two values, ninety apart, of which the prior favours neither much."""
    with pm.Model() as model:
        n = pm.Poisson("n", 100.0)
        one, other = (-0.5 * ((n - at) / 0.3) ** 2 for at in (60.0, 150.0))
        pm.Potential("modes", pm.math.logaddexp(one, other))
    return model


X = np.random.default_rng(0).normal(size=(20, 5))
X[:, 1] = X[:, 0] + 0.05 * X[:, 1]
Y = 2.0 * X[:, 0] + np.random.default_rng(1).normal(size=20)


def _spike_exact() -> float:
    terms = [
        stats.bernoulli.logpmf(chosen, 0.2).sum()
        + stats.multivariate_normal.logpdf(Y, np.zeros(20), np.eye(20) + 4 * (X * chosen) @ X.T)
        for chosen in _all_bits(5)
    ]
    return float(logsumexp(terms))


@case(_spike_exact, tempered=True)
def columns_that_count() -> pm.Model:
    """Which of five columns count, of which two are nearly the same."""
    with pm.Model() as model:
        chosen = pm.Bernoulli("chosen", 0.2, shape=5)
        slope = pm.Normal("slope", 0, 2, shape=5)
        pm.Normal("y", (X * (chosen * slope)).sum(axis=1), 1.0, observed=Y)
    return model


def _scales_exact() -> float:
    terms = [
        np.log(share) + stats.norm.logpdf(800.0, 0, np.sqrt(1 + scale**2))
        for share, scale in ((0.9, 1e-3), (0.09, 1.0), (0.01, 1e3))
    ]
    return float(logsumexp(terms))


@case(_scales_exact, tempered=True)
def switch_between_scales() -> pm.Model:
    """A rare label that makes a variable count a million times as much."""
    with pm.Model() as model:
        label = pm.Categorical("label", [0.9, 0.09, 0.01])
        x = pm.Normal("x")
        pm.Normal("y", x * pm.math.stack([1e-3, 1.0, 1e3])[label], 1.0, observed=800.0)
    return model


SEEN = (0.2, 1.1, 1.9, 3.2, 2.8)


def _ordered_exact() -> float:
    cut, middle = np.array([-1.0, 0.5, 2.0]), np.linspace(-20, 20, 20_001)
    below = 1 / (1 + np.exp(middle[:, None] - cut))
    ends = np.zeros((len(middle), 1)), np.ones((len(middle), 1))
    share = np.diff(np.concatenate([ends[0], below, ends[1]], axis=1), axis=1)
    value = stats.norm.pdf(np.array(SEEN)[:, None], np.arange(4), 0.6)
    log_density = stats.norm.logpdf(middle, 0, 2) + np.log(share @ value.T).sum(axis=1)
    return float(logsumexp(log_density) + np.log(middle[1] - middle[0]))


@case(_ordered_exact, tempered=True)
def ordered_labels() -> pm.Model:
    """Labels in an order, whose probabilities have a variable in common."""
    with pm.Model() as model:
        middle = pm.Normal("middle", 0.0, 2.0)
        cut = np.array([-1.0, 0.5, 2.0])
        label = pm.OrderedLogistic("label", middle, cut, shape=len(SEEN), compute_p=False)
        pm.Normal("y", label, 0.6, observed=SEEN)
    return model


MOVES = np.array([[0.8, 0.1, 0.1, 0.0], [0.05, 0.05, 0.1, 0.8], [0.25, 0.25, 0.25, 0.25]])
MEANS = np.array([[0.0, 1, 2, 3], [5, 6, 7, 8], [-5, -3, 10, 12]])


def _chain_exact() -> float:
    with np.errstate(divide="ignore"):
        log_prior = np.log(np.array([0.6, 0.3, 0.1])[:, None] * MOVES)
    likelihood = stats.norm.logpdf(np.array([7.5, 7.9])[:, None, None], MEANS, 0.7).sum(axis=0)
    return float(logsumexp(log_prior + likelihood))


@case(_chain_exact, tempered=True)
def category_that_rules_another_out() -> pm.Model:
    """A category whose probabilities, one of them zero, another category chooses."""
    with pm.Model() as model:
        first = pm.Categorical("first", [0.6, 0.3, 0.1])
        second = pm.Categorical("second", pm.math.stack(list(MOVES))[first])
        pm.Normal("y", pm.math.stack(list(MEANS))[first, second], 0.7, observed=[7.5, 7.9])
    return model


def _inflated_exact() -> float:
    n = np.arange(80)
    log_prior = np.log(0.3) + stats.poisson.logpmf(n, 8.0)
    log_prior[0] = np.logaddexp(log_prior[0], np.log(0.7))
    return float(logsumexp(log_prior + stats.norm.logpdf(6.0, 0, np.sqrt(1.0 + n**2))))


@case(_inflated_exact, tempered=True)
def count_that_is_mostly_zero() -> pm.Model:
    """A count with an atom at zero, which takes its factor out of the model."""
    with pm.Model() as model:
        n, x = pm.ZeroInflatedPoisson("n", 0.3, 8.0), pm.Normal("x")
        pm.Normal("y", x * n, 1.0, observed=6.0)
    return model
