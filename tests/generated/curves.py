"""Data that see curved functions of the variables: rings, waves, kinks, squares, decays."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import stats

from generated.cases import Drawn, family, one_of
from generated.quadrature import LogDensity, box_log_integral

LOG_2PI = float(np.log(2 * np.pi))


def sum_of(integrals: list[tuple[float, float]]) -> tuple[float, float]:
    """Log Z of independent parts, and its accuracy."""
    found = np.array(integrals)
    return float(found[:, 0].sum()), float(found[:, 1].sum())


def marginal(design: np.ndarray, y: np.ndarray, sd: float, prior_sd: float) -> np.ndarray:
    """Log density of y (n,) with coefficients N(0, prior_sd) of designs (..., n, k)."""
    k = design.shape[-1]
    precision = np.einsum("...ni,...nj->...ij", design, design) / sd**2 + np.eye(k) / prior_sd**2
    linear = np.einsum("...ni,n->...i", design, y) / sd**2
    top = 0.5 * (linear * np.linalg.solve(precision, linear[..., None])[..., 0]).sum(-1)
    log_det = np.linalg.slogdet(precision)[1] + 2 * k * np.log(prior_sd)
    return stats.norm.logpdf(y, 0, sd).sum() + top - 0.5 * log_det


@family
def rings(rng: np.random.Generator) -> Drawn:
    """Pairs of which data see the radius alone: a ring for each pair."""
    pairs, sd, prior_sd = one_of(rng, 1, 2, 4), one_of(rng, 0.1, 0.5), one_of(rng, 1.0, 3.0)
    y = (rng.normal(0, prior_sd, (pairs, 2)) ** 2).sum(1) + rng.normal(0, sd, pairs)

    def build() -> pm.Model:
        with pm.Model() as model:
            data = pm.Data("data", y)
            x = pm.Normal("x", 0, prior_sd, shape=(pairs, 2))
            pm.Normal("y", (x**2).sum(1), sd, observed=data)
        return model

    def one(value: float) -> LogDensity:
        # the square of the radius has an exponential law
        def log_f(q):
            return stats.expon.logpdf(q, 0, 2 * prior_sd**2) + stats.norm.logpdf(value, q, sd)

        return log_f

    log_z, accuracy = sum_of([box_log_integral(one(v), (0.0, max(v, 0) + 12 * sd)) for v in y])
    return Drawn(build, 2 * pairs, log_z, accuracy, {"sd": sd, "prior_sd": prior_sd})


@family
def waves(rng: np.random.Generator) -> Drawn:
    """Entries of which data see the sine: several peaks for each."""
    d, fast, sd = one_of(rng, 1, 2, 3), one_of(rng, 2.0, 4.0), one_of(rng, 0.1, 0.3)
    y = np.sin(fast * rng.normal(0, 1.5, d)) + rng.normal(0, sd, d)

    def build() -> pm.Model:
        with pm.Model() as model:
            data = pm.Data("data", y)
            x = pm.Normal("x", 0, 1.5, shape=d)
            pm.Normal("y", pt.sin(fast * x), sd, observed=data)
        return model

    def one(value: float) -> LogDensity:
        def log_f(x):
            return stats.norm.logpdf(x, 0, 1.5) + stats.norm.logpdf(value, np.sin(fast * x), sd)

        return log_f

    log_z, accuracy = sum_of([box_log_integral(one(value), (-14.0, 14.0)) for value in y])
    return Drawn(build, d, log_z, accuracy, {"fast": fast, "sd": sd})


@family
def larger_of_two(rng: np.random.Generator) -> Drawn:
    """Pairs of which data see the larger one: two arms that meet at a right angle."""
    pairs, sd = one_of(rng, 1, 2, 4), one_of(rng, 0.1, 0.5)
    y = rng.normal(size=(pairs, 2)).max(1) + rng.normal(0, sd, pairs)

    def build() -> pm.Model:
        with pm.Model() as model:
            data = pm.Data("data", y)
            x = pm.Normal("x", 0, 1, shape=(pairs, 2))
            pm.Normal("y", pt.max(x, axis=1), sd, observed=data)
        return model

    def one(value: float) -> LogDensity:
        def log_f(m):
            largest = np.log(2) + stats.norm.logpdf(m) + stats.norm.logcdf(m)
            return largest + stats.norm.logpdf(value, m, sd)

        return log_f

    log_z, accuracy = sum_of([box_log_integral(one(value), (-9.0, 9.0)) for value in y])
    return Drawn(build, 2 * pairs, log_z, accuracy, {"sd": sd})


@family
def chain_of_squares(rng: np.random.Generator) -> Drawn:
    """Each entry follows the square of the one before, and data see the last: after Rosenbrock."""
    sd, noise = one_of(rng, 0.05, 0.2), one_of(rng, 0.2, 1.0)
    first = rng.normal()
    second = first**2 + rng.normal(0, sd)
    y = (second - 1) ** 2 + rng.normal(0, sd) + rng.normal(0, noise)

    def build() -> pm.Model:
        with pm.Model() as model:
            data = pm.Data("data", y)
            a = pm.Normal("a", 0, 1)
            b = pm.Normal("b", a**2, sd)
            c = pm.Normal("c", (b - 1) ** 2, sd)
            pm.Normal("y", c, noise, observed=data)
        return model

    def log_f(a, z):
        b = a**2 + sd * z
        of_data = stats.norm.logpdf(y, (b - 1) ** 2, np.hypot(sd, noise))
        return stats.norm.logpdf(a) + stats.norm.logpdf(z) + of_data

    log_z, accuracy = box_log_integral(log_f, (-9.0, 9.0), (-9.0, 9.0))
    return Drawn(build, 3, log_z, accuracy, {"sd": sd, "noise": noise})


@family
def growth(rng: np.random.Generator) -> Drawn:
    """Saturating growth seen early or late: size and rate are one ridge where it is early."""
    n, sd, until = int(rng.integers(4, 20)), one_of(rng, 0.2, 1.0), one_of(rng, 0.3, 1.0, 4.0)
    times = np.linspace(until / n, until, n)
    y = 5 * (1 - np.exp(-times)) + rng.normal(0, sd, n)

    def build() -> pm.Model:
        with pm.Model() as model:
            t, data = pm.Data("t", times), pm.Data("data", y)
            size, rate = pm.Normal("size", 0, 10), pm.LogNormal("rate", 0, 1)
            pm.Normal("y", size * (1 - pt.exp(-rate * t)), sd, observed=data)
        return model

    def log_f(log_rate):
        design = 1 - np.exp(-np.exp(log_rate)[..., None] * times)
        return stats.norm.logpdf(log_rate) + marginal(design[..., None], y, sd, 10.0)

    log_z, accuracy = box_log_integral(log_f, (-9.0, 9.0))
    return Drawn(build, 2, log_z, accuracy, {"n": n, "sd": sd, "until": until})


@family
def two_decays(rng: np.random.Generator) -> Drawn:
    """A sum of two exponentials whose rates may be exchanged."""
    n, sd = int(rng.integers(8, 30)), one_of(rng, 0.1, 0.5)
    times = np.linspace(0.1, 5, n)
    rates = np.exp(rng.normal(size=2))
    y = np.exp(-np.outer(times, rates)) @ rng.normal(0, 3, 2) + rng.normal(0, sd, n)

    def build() -> pm.Model:
        with pm.Model() as model:
            t, data = pm.Data("t", times), pm.Data("data", y)
            size = pm.Normal("size", 0, 3, shape=2)
            rate = pm.LogNormal("rate", 0, 1, shape=2)
            pm.Normal("y", (size * pt.exp(-t[:, None] * rate)).sum(1), sd, observed=data)
        return model

    def log_f(*log_rates):
        log_rate = np.stack(np.broadcast_arrays(*log_rates), -1)
        design = np.exp(-times[:, None] * np.exp(log_rate)[..., None, :])
        return stats.norm.logpdf(log_rate).sum(-1) + marginal(design, y, sd, 3.0)

    log_z, accuracy = box_log_integral(log_f, (-8.0, 8.0), (-8.0, 8.0), nodes=240)
    return Drawn(build, 4, log_z, accuracy, {"n": n, "sd": sd})


@family
def ratio(rng: np.random.Generator) -> Drawn:
    """Data see one normal over another: a wedge in each sign, with tails as long as one over it."""
    sd, n = one_of(rng, 0.05, 0.3), int(rng.integers(1, 6))
    y = rng.normal(0, 2) + rng.normal(0, sd, n)

    def build() -> pm.Model:
        with pm.Model() as model:
            data = pm.Data("data", y)
            a, b = pm.Normal("a", 0, 1), pm.Normal("b", 0, 1)
            pm.Normal("y", a / b, sd, observed=data)
        return model

    seen = float(stats.norm.logpdf(y, y.mean(), sd).sum() + 0.5 * np.log(2 * np.pi * sd**2 / n))

    # the ratio of two normals is a Cauchy variable
    def log_f(angle):
        mean = stats.norm.logpdf(y.mean(), np.tan(angle), sd / np.sqrt(n))
        return mean - np.log(np.pi)

    near = np.arctan(y.mean() + np.array([-12, 12]) * sd)
    log_z, accuracy = box_log_integral(log_f, (float(near[0]), float(near[1])))
    return Drawn(build, 2, log_z + seen, accuracy, {"sd": sd, "n": n})
