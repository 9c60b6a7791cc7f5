"""Latent series: each step given the one before, exact by transfer matrices or Kalman's filter."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from adversary.integrals import Rule
from scipy import stats

from generated import scales
from generated.cases import Drawn, family, one_of
from generated.quadrature import box_log_integral, pieces
from generated.regressions import student_log_density

LOG_2PI = float(np.log(2 * np.pi))


def series_log_integral(rule: Rule, log_start, log_step, log_factors) -> float:
    """Log of the integral over a series, given densities on the nodes of a rule.

    Parameters
    ----------
    rule
        Nodes (n,) and log weights (n,) of each entry.
    log_start
        Of the first entry, shape (n,).
    log_step
        Of an entry given the one before, shape (n, n): rows are those before.
    log_factors
        Of each entry alone, shape (T, n).
    """
    log_weights = rule[1]
    step = np.exp(log_step + log_weights)
    total, value = 0.0, log_start + log_factors[0]
    for log_factor in log_factors[1:]:
        top = value.max()
        with np.errstate(divide="ignore"):
            value = np.log(np.exp(value - top + log_weights) @ (step / np.exp(log_weights)))
        total += top
        value = value + log_factor
    top = value.max()
    return float(total + top + np.log(np.exp(value - top + log_weights).sum()))


def by_two_rules(log_z, low: float, high: float, n: int) -> tuple[float, float]:
    """A function of a rule at about n nodes, and how far three quarters of them are from it."""
    coarse, fine = (log_z(pieces(low, high, m)) for m in (3 * n // 4, n))
    return fine, abs(fine - coarse)


@family
def double_wells(rng: np.random.Generator) -> Drawn:
    """A chain of double wells that pull at each other: all on one side, all on the other, kinks."""
    n, pull = one_of(rng, 2, 4, 8, 16, 32), float(rng.uniform(0.3, 1.5))
    height, field = float(rng.uniform(0.3, 1.5)), float(rng.uniform(0, 0.4)) / n

    def build() -> pm.Model:
        with pm.Model() as model:
            x = pm.Normal("x", 0, 2, shape=n)
            wells = -height * ((x**2 - 1) ** 2).sum() - pull * ((x[1:] - x[:-1]) ** 2).sum()
            pm.Potential("wells", wells + field * x.sum() + pm.Data("constant", 0.0))
        return model

    def log_z(rule: Rule) -> float:
        x = rule[0]
        own = stats.norm.logpdf(x, 0, 2) - height * (x**2 - 1) ** 2 + field * x
        between = -pull * (x[:, None] - x) ** 2
        return series_log_integral(rule, np.zeros(x.size), between, np.tile(own, (n, 1)))

    about = {"pull": pull, "height": height, "field": field}
    return Drawn(build, n, *by_two_rules(log_z, -6.0, 6.0, 400), about)


@family
def jumping_level(rng: np.random.Generator) -> Drawn:
    """A level that moves by steps with heavy tails, seen with noise."""
    n, df = one_of(rng, 5, 10, 20, 40), one_of(rng, 1.0, 2.0, 4.0)
    scale, sd = one_of(rng, 0.1, 0.3, 1.0), one_of(rng, 0.3, 1.0)
    jumps = scale * rng.standard_t(df, n).clip(-8 / scale, 8 / scale)
    y = np.cumsum(jumps) * 0.5 + rng.normal(0, sd, n)
    y = y - y.mean()

    def build() -> pm.Model:
        with pm.Model() as model:
            data = pm.Data("data", y)
            steps = pm.StudentT.dist(nu=df, mu=0, sigma=scale)
            start = pm.Normal.dist(0, 5)
            x = pm.RandomWalk("x", innovation_dist=steps, init_dist=start, steps=n - 1)
            pm.Normal("y", x, sd, observed=data)
        return model

    def log_z(rule: Rule) -> float:
        x = rule[0]
        between = student_log_density(x[:, None] - x, df, scale)
        seen = stats.norm.logpdf(y[:, None], x, sd)
        return series_log_integral(rule, stats.norm.logpdf(x, 0, 5), between, seen)

    reach = float(np.abs(y).max() + 10 * sd)
    nodes = int(min(60 * reach / min(scale, sd), 2400))
    about = {"df": df, "scale": scale, "sd": sd}
    return Drawn(build, n, *by_two_rules(log_z, -reach, reach, nodes), about)


@family
def volatility(rng: np.random.Generator) -> Drawn:
    """Returns whose log variance follows a stationary autoregression of known coefficients."""
    n, rho, tau = one_of(rng, 10, 30, 60), one_of(rng, 0.5, 0.9, 0.97), one_of(rng, 0.2, 0.5)
    h = [rng.normal(0, tau / np.sqrt(1 - rho**2))]
    for _ in range(n - 1):
        h.append(rho * h[-1] + rng.normal(0, tau))
    y = rng.normal(0, np.exp(np.array(h) / 2))
    spread = tau / np.sqrt(1 - rho**2)

    def build() -> pm.Model:
        with pm.Model() as model:
            data = pm.Data("data", y)
            start = pm.Normal.dist(0, spread)
            h = pm.AR("h", [rho], sigma=tau, init_dist=start, steps=n - 1)
            pm.Normal("y", 0, pt.exp(h / 2), observed=data)
        return model

    def log_z(rule: Rule) -> float:
        x = rule[0]
        between = stats.norm.logpdf(x, rho * x[:, None], tau)
        seen = stats.norm.logpdf(y[:, None], 0, np.exp(x / 2))
        return series_log_integral(rule, stats.norm.logpdf(x, 0, spread), between, seen)

    about = {"rho": rho, "tau": tau}
    return Drawn(build, n, *by_two_rules(log_z, -9 * spread, 9 * spread, 800), about)


@family
def local_level(rng: np.random.Generator) -> Drawn:
    """A random walk seen with noise, both spreads unknown, centred or by its steps."""
    n, centred = one_of(rng, 5, 10, 20, 40), bool(rng.random() < 0.5)
    walk, noise = scales.proper(rng), scales.proper(rng)
    y = np.cumsum(rng.normal(0, np.exp(rng.normal(-1, 0.7)), n)) + rng.normal(0, 0.7, n)

    def build() -> pm.Model:
        with pm.Model() as model:
            data = pm.Data("data", y)
            tau, sigma = walk.add("tau"), noise.add("sigma")
            if centred:
                start = pm.Normal.dist(0, 3)
                x = pm.GaussianRandomWalk("x", 0, tau, init_dist=start, steps=n - 1)
            else:
                z = pm.Normal("z", 0, 1, shape=n)
                x = pt.concatenate([3 * z[:1], 3 * z[:1] + tau * pt.cumsum(z[1:])])
            pm.Normal("y", x, sigma, observed=data)
        return model

    def log_f(s, t):
        return walk.log_density(s) + noise.log_density(t) + filtered(y, 3.0, s, t)

    log_z, accuracy = box_log_integral(log_f, walk.bounds, noise.bounds)
    about = {"centred": centred, "walk": walk.about, "noise": noise.about}
    return Drawn(build, n + 2, log_z, accuracy, about)


def filtered(y: np.ndarray, start_sd: float, log_walk, log_noise) -> np.ndarray:
    """Kalman's log density of a walk seen with noise, given the logs of both spreads."""
    log_walk, log_noise = np.broadcast_arrays(log_walk, log_noise)
    step, noise = np.exp(2 * log_walk), np.exp(2 * log_noise)
    mean, variance, total = np.zeros(step.shape), np.full(step.shape, start_sd**2), 0.0
    for value in y:
        ahead = variance + noise
        total = total - 0.5 * (LOG_2PI + np.log(ahead) + (value - mean) ** 2 / ahead)
        mean = mean + variance / ahead * (value - mean)
        variance = variance * noise / ahead + step
    return total
