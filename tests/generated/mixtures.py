"""Several modes: normal mixtures as potentials, symmetric ones, spikes beside slabs."""

from itertools import product

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from adversary.integrals import line, log_integral, normal_log_z
from scipy.special import log_softmax, logsumexp, softmax

from generated.cases import Drawn, family, one_of

LOG_2PI = float(np.log(2 * np.pi))
BASIN, COUNTS = 0.01, 0.02
"""The region of each mode with at least `COUNTS` of Z has at least `BASIN` of the prior."""
TRIES = 400


def normal_log_densities(x: np.ndarray, means: np.ndarray, sds: np.ndarray) -> np.ndarray:
    """Of rows (n, d) under independent normals with means and sds (K, d), shape (n, K)."""
    z = (x[:, None] - means) / sds
    return -0.5 * (z**2).sum(-1) - np.log(sds).sum(-1) - 0.5 * means.shape[1] * LOG_2PI


def least_basin(means, sds, shares, rng: np.random.Generator, n: int = 10_000) -> float:
    """Smallest share of the prior N(0, I) where a component that counts is the largest."""
    x = rng.normal(size=(n, means.shape[1]))
    nearest = (np.log(shares) + normal_log_densities(x, means, sds)).argmax(1)
    found = np.bincount(nearest, minlength=shares.size) / n
    return float(found[shares >= COUNTS].min())


def mixture_model(means, sds, shares, log_z: float) -> pm.Model:
    """Prior ``N(0, I)``, and a posterior that is the mixture; Z is chosen."""
    with pm.Model() as model:
        mean, sd = pm.Data("mean", means), pm.Data("sd", sds)
        log_share = pm.Data("log_share", np.log(shares))
        x = pm.Normal("x", 0, 1, shape=means.shape[1])
        z = (x - mean) / sd
        parts = log_share - 0.5 * (z**2).sum(1) - pt.log(sd).sum(1)
        pm.Potential("target", pt.logsumexp(parts) + 0.5 * (x**2).sum() + pm.Data("log_z", log_z))
    return model


def _mixture(rng: np.random.Generator, draw) -> Drawn:
    """The first of many drawn mixtures whose modes all have a share of the prior."""
    for k in range(TRIES):
        # tamer from try to try: with unequal widths in 16 dimensions narrow modes are needles
        means, sds, shares = draw(rng, 1 - k / TRIES)
        basin = least_basin(means, sds, shares, rng)
        if basin >= BASIN:
            break
    else:
        raise ArithmeticError(f"no mixture with basins of {BASIN} in {TRIES} tries")
    log_z = round(float(rng.uniform(-20, 20)), 3)
    about = {"modes": shares.size, "least_basin": basin, "shares": shares.round(4).tolist()}
    d = means.shape[1]
    return Drawn(lambda: mixture_model(means, sds, shares, log_z), d, log_z, 1e-9, about)


@family
def normal_mixture(rng: np.random.Generator) -> Drawn:
    """Two to five normal modes of unequal widths and masses in 1 to 16 dimensions."""
    d, n_modes = one_of(rng, 1, 2, 3, 4, 6, 8, 12, 16), int(rng.integers(2, 6))

    def draw(rng, wild: float):
        means = rng.normal(0, 1.2, (n_modes, d))
        widths = 0.35 * np.exp(rng.normal(0, 0.5 * wild, (n_modes, 1)))
        sds = widths * np.exp(rng.normal(0, 0.2 * wild, (n_modes, d)))
        return means, sds, softmax(rng.normal(0, 1.2, n_modes))

    return _mixture(rng, draw)


@family
def two_far_modes(rng: np.random.Generator) -> Drawn:
    """Two modes opposite each other, the smaller with 3 to 50% of Z."""
    d, share = one_of(rng, 1, 2, 4, 8, 16), float(np.exp(rng.uniform(np.log(0.03), np.log(0.5))))

    def draw(rng, wild: float):
        direction = rng.normal(size=d)
        direction /= np.linalg.norm(direction)
        half = rng.uniform(1, 3.5)
        means = np.stack([half * direction, -half * direction])
        sds = np.full((2, d), 0.45) * np.exp(rng.normal(0, 0.6 * wild, (2, 1)))
        return means, sds, np.array([share, 1 - share])

    return _mixture(rng, draw)


@family
def spike_and_slab(rng: np.random.Generator) -> Drawn:
    """A narrow spike on a slab that is nearly the prior."""
    d = one_of(rng, 1, 2, 3, 4, 5)

    def draw(rng, wild: float):
        means = np.stack([rng.normal(0, 0.7, d), np.zeros(d)])
        # as narrow as a basin allows
        narrow = np.exp(rng.uniform(np.log(0.01), np.log(0.6)))
        sds = np.stack([np.full(d, narrow), np.full(d, rng.uniform(0.7, 1.0))])
        share = rng.uniform(0.1, 0.9)
        return means, sds, np.array([share, 1 - share])

    return _mixture(rng, draw)


@family
def sign_modes(rng: np.random.Generator) -> Drawn:
    """Each entry is near plus or minus its own number: 2^d modes with unequal masses or equal."""
    d = int(rng.integers(1, 9))
    centre, sd = rng.uniform(0.5, 1.5, d), rng.uniform(0.1, 0.4, d)
    odds = rng.normal(0, one_of(rng, 0.0, 1.0), d)
    log_z = round(float(rng.uniform(-20, 20)), 3)

    def build() -> pm.Model:
        with pm.Model() as model:
            mean, width = pm.Data("mean", centre), pm.Data("width", sd)
            up, down = (pm.Data(n, log_softmax([odds, 0 * odds], 0)[i]) for i, n in enumerate("ud"))
            x = pm.Normal("x", 0, 1, shape=d)
            both = pt.logaddexp(
                up - 0.5 * ((x - mean) / width) ** 2, down - 0.5 * ((x + mean) / width) ** 2
            )
            target = (both - pt.log(width) + 0.5 * x**2).sum()
            pm.Potential("target", target + pm.Data("log_z", log_z))
        return model

    return Drawn(build, d, log_z, about={"equal": not odds.any()})


@family
def squares(rng: np.random.Generator) -> Drawn:
    """Observations of squares: signs are free."""
    d, sd, prior_sd = int(rng.integers(1, 9)), one_of(rng, 0.2, 0.5, 1.0), one_of(rng, 1.0, 2.0)
    y = rng.normal(rng.normal(0, prior_sd, d) ** 2, sd)

    def build() -> pm.Model:
        with pm.Model() as model:
            data = pm.Data("data", y)
            x = pm.Normal("x", 0, prior_sd, shape=d)
            pm.Normal("y", x**2, sd, observed=data)
        return model

    def log_f(x, one):
        noise = -0.5 * ((one - x**2) / sd) ** 2 - np.log(sd) - 0.5 * LOG_2PI
        return noise - 0.5 * (x / prior_sd) ** 2 - np.log(prior_sd) - 0.5 * LOG_2PI

    rule = line(n=20_001, reach=6.0)
    log_z = sum(log_integral(lambda x, one=one: log_f(x, one), rule) for one in y)
    return Drawn(build, d, log_z, 1e-7, {"sd": sd, "prior_sd": prior_sd})


@family
def exchangeable_means(rng: np.random.Generator) -> Drawn:
    """A mixture of two or three normals with equal weights: labels are free."""
    n_parts, sd, prior_sd = int(rng.integers(2, 4)), one_of(rng, 0.3, 0.6, 1.0), 2.0
    n = int(rng.integers(3, 10))
    y = rng.normal(rng.choice(rng.normal(0, prior_sd, n_parts), n), sd)

    def build() -> pm.Model:
        with pm.Model() as model:
            data = pm.Data("data", y)
            mu = pm.Normal("mu", 0, prior_sd, shape=n_parts)
            pm.NormalMixture("y", np.full(n_parts, 1 / n_parts), mu, sd, observed=data)
        return model

    log_z = allocated_log_z(y, n_parts, prior_sd, sd)
    return Drawn(build, n_parts, log_z, about={"n": n, "sd": sd})


def allocated_log_z(y: np.ndarray, n_parts: int, prior_sd: float, sd: float) -> float:
    """Sum over all ways to allot observations to components with means ``Normal(0, prior_sd)``."""
    to = np.array(list(product(range(n_parts), repeat=y.size)))
    value = np.full(len(to), -y.size * (0.5 * LOG_2PI + np.log(sd) + np.log(n_parts)))
    value -= 0.5 * (y**2).sum() / sd**2
    for part in range(n_parts):
        own = to == part
        precision = 1 + own.sum(1) * (prior_sd / sd) ** 2
        value += 0.5 * ((own * y).sum(1) * prior_sd / sd**2) ** 2 / precision
        value -= 0.5 * np.log(precision)
    return float(logsumexp(value))


@family
def spike_and_slab_regression(rng: np.random.Generator) -> Drawn:
    """Coefficients that are nearly zero or not, in a regression with known noise."""
    d, n = int(rng.integers(1, 7)), int(rng.integers(4, 25))
    spike = one_of(rng, 1e-4, 0.002, 0.02, 0.1)
    slab, share = one_of(rng, 1.0, 3.0), rng.uniform(0.2, 0.8)
    sd = one_of(rng, 0.5, 1.0)
    x = rng.normal(size=(n, d))
    b = rng.normal(0, slab, d) * (rng.random(d) < 1 - share)
    y = rng.normal(x @ b, sd)

    def build() -> pm.Model:
        with pm.Model() as model:
            design, data = pm.Data("design", x), pm.Data("data", y)
            b = pm.NormalMixture("b", [share, 1 - share], 0, [spike, slab], shape=d)
            pm.Normal("y", design @ b, sd, observed=data)
        return model

    terms = []
    for own in product([0, 1], repeat=d):
        in_slab = np.array(own)
        sds = np.where(in_slab, slab, spike)
        log_prior = np.log(np.where(in_slab, 1 - share, share)).sum()
        terms.append(log_prior + normal_log_z(y, x, sds, sd))
    about = {"spike": spike, "slab": slab, "share": share}
    return Drawn(build, d, float(logsumexp(terms)), about=about)
