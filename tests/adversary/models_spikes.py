"""Spikes on plateaus, plateaus alone, stairs: where gradients say nothing."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import stats
from scipy.special import logsumexp, ndtr

from adversary.cases import case
from adversary.integrals import interval, log_integral


def _spike(d: int, width: float, share: float) -> pm.Model:
    """A spike of `share` at 0.5, the rest flat, under a uniform prior on (-1, 1) to the d."""
    with pm.Model() as model:
        x = pm.Uniform("x", -1, 1, shape=d)
        spike = pm.logp(pm.Normal.dist(0.5, width), x).sum() + d * np.log(2.0)
        pm.Potential("spike", pt.logaddexp(np.log(share) + spike, np.log1p(-share)))
    return model


def _spike_exact(d: int, width: float, share: float) -> float:
    inside = float(ndtr(0.5 / width) - ndtr(-1.5 / width)) ** d
    return float(np.log(share * inside + 1 - share))


NEEDLE = "its basin holds too small a share of the prior: most runs have no row that starts in it"


@case(lambda: _spike_exact(1, 1e-3, 0.5), tempered=True)
def spike_of_one_dimension() -> pm.Model:
    """Half the mass within a thousandth, the rest flat."""
    return _spike(1, 1e-3, 0.5)


@case(lambda: _spike_exact(2, 0.02, 0.5), tempered=True)
def spike_of_two_dimensions() -> pm.Model:
    """Half the mass within a spike of width 0.02 in two dimensions."""
    return _spike(2, 0.02, 0.5)


@case(lambda: _spike_exact(3, 0.05, 0.5))
def spike_of_three_dimensions() -> pm.Model:
    """Half the mass within a spike of width 0.05 in three dimensions."""
    return _spike(3, 0.05, 0.5)


@case(lambda: _spike_exact(3, 0.02, 0.9), needle=NEEDLE)
def needle_of_three_dimensions() -> pm.Model:
    """Nine tenths within 0.02 in three dimensions, the rest flat."""
    return _spike(3, 0.02, 0.9)


@case(lambda: _spike_exact(5, 0.02, 0.9), needle=NEEDLE)
def needle_of_five_dimensions() -> pm.Model:
    """Nine tenths within 0.02 in five dimensions, the rest flat."""
    return _spike(5, 0.02, 0.9)


@case(lambda: _spike_exact(1, 1e-6, 0.5), needle=NEEDLE)
def needle_of_one_dimension() -> pm.Model:
    """Half the mass within a millionth."""
    return _spike(1, 1e-6, 0.5)


@case(lambda: float(np.log(2 * ndtr(0.01) - 1)), tempered=True)
def box_of_one_dimension() -> pm.Model:
    """One within 0.01 of the middle, nothing else."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Potential("box", pt.switch(pt.abs(x) < 0.01, 0.0, -np.inf))
    return model


@case(lambda: float(4 * np.log(2 * ndtr(0.3) - 1)))
def box_of_four_dimensions() -> pm.Model:
    """One within a box that holds 0.3% of the prior, nothing else."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=4)
        pm.Potential("box", pt.switch(pt.all(pt.abs(x) < 0.3), 0.0, -np.inf))
    return model


@case(lambda: 0.0)
def flat_likelihood() -> pm.Model:
    """A likelihood that does not depend on the parameters, but through zero times them."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=3)
        pm.Potential("flat", 0.0 * x.sum())
    return model


def _stairs_exact() -> float:
    steps = np.arange(-40, 40)
    mass = np.log(np.maximum(ndtr((steps + 1) / 3) - ndtr(steps / 3), 1e-300))
    return float(logsumexp(mass - (steps - 3.0) ** 2))


@case(_stairs_exact, nuts=True, tempered=True)
def stairs() -> pm.Model:
    """A potential of whole numbers: the gradient is that of the prior."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 3)
        pm.Potential("stairs", -((pt.floor(x) - 3.0) ** 2))
    return model


BEFORE, AFTER = np.array([0.1, -0.3, 0.2, 0.0]), np.array([5.1, 4.8, 5.3])


def _change_exact() -> float:
    y = np.r_[BEFORE, AFTER]
    terms = []
    for k in range(8):  # tau in (k, k + 1): data at times below it are of the first level
        cov = np.eye(7) * 0.25
        first = np.arange(7) < k
        cov += 9 * (np.outer(first, first) + np.outer(~first, ~first))
        terms.append(stats.multivariate_normal(np.zeros(7), cov).logpdf(y) - np.log(8))
    return float(logsumexp(terms))


@case(_change_exact, nuts=True, tempered=True)
def change_point() -> pm.Model:
    """When a level changed: the likelihood jumps."""
    with pm.Model() as model:
        tau = pm.Uniform("tau", 0, 8)
        level = pm.Normal("level", 0, 3, shape=2)
        mean = pt.switch(np.arange(7) + 1.0 <= tau, level[0], level[1])
        pm.Normal("y", mean, 0.5, observed=np.r_[BEFORE, AFTER])
    return model


def _cliff_exact() -> float:
    log_f = lambda x: stats.norm.logpdf(x) - 1e4 * np.maximum(x - 1, 0)  # noqa: E731
    return log_integral(log_f, interval(-20, 0, 1, 1.01, 2))


@case(_cliff_exact)
def cliff() -> pm.Model:
    """A slope of 1e4 nats above 1."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Potential("cliff", -1e4 * pt.maximum(x - 1, 0))
    return model


def _separated_exact() -> float:
    log_f = lambda b: stats.norm.logpdf(b, 0, 1e3) - 6 * np.log1p(np.exp(-b))  # noqa: E731
    return log_integral(log_f, interval(-2e4, -100, 0, 100, 1e3, 2e4))


@case(_separated_exact, nuts=True, tempered=True)
def separated_logistic() -> pm.Model:
    """Six successes explained by any large coefficient: half a prior of sd 1000."""
    with pm.Model() as model:
        b = pm.Normal("b", 0, 1e3)
        pm.Bernoulli("y", logit_p=b * np.ones(6), observed=np.ones(6, dtype=int))
    return model


def _wiggle_exact() -> float:
    log_f = lambda x: stats.norm.logpdf(x) + np.cos(1e4 * x)  # noqa: E731
    return log_integral(log_f, interval(*np.linspace(-9, 9, 2001), n=60))


@case(_wiggle_exact)
def wiggles_of_1e_4() -> pm.Model:
    """A likelihood that swings by two nats every 6e-4."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Potential("wiggle", pm.math.cos(1e4 * x))
    return model
