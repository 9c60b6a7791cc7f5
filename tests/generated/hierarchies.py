"""Centred hierarchies: normal effects in closed form given the scales, those by quadrature."""

import numpy as np
import pymc as pm

from generated import scales
from generated.cases import Drawn, family, one_of
from generated.quadrature import box_log_integral
from generated.scales import ScalePrior

LOG_2PI = float(np.log(2 * np.pi))


def shifted_log_density(means, variances, prior_sd: float) -> np.ndarray:
    """Log density of independent ``means ~ Normal(mu, variances)`` with ``mu ~ Normal(0, sd)``.

    Parameters
    ----------
    means, variances
        One for each group, an array of any shape each: the first axis is not stacked.
    prior_sd
        Of mu.
    """
    precision, weighted, value = prior_sd**-2.0, 0.0, 0.0
    for mean, variance in zip(means, variances, strict=True):
        precision = precision + 1 / variance
        weighted = weighted + mean / variance
        value = value - 0.5 * (LOG_2PI + np.log(variance) + mean**2 / variance)
    return value - 0.5 * np.log(precision * prior_sd**2) + 0.5 * weighted**2 / precision


def one_way_log_density(groups: list[np.ndarray], prior_sd: float, tau, sigma) -> np.ndarray:
    """Log density of groups of observations given the spread of effects and the noise."""
    within, n_within, n_log = 0.0, 0, 0.0
    for y in groups:
        within += float(((y - y.mean()) ** 2).sum())
        n_within += y.size - 1
        n_log += float(np.log(y.size))
    variances = [tau**2 + sigma**2 / y.size for y in groups]
    between = shifted_log_density([float(y.mean()) for y in groups], variances, prior_sd)
    noise = -0.5 * n_within * (LOG_2PI + 2 * np.log(sigma)) - 0.5 * within / sigma**2
    return between + noise - 0.5 * n_log


def _one_way(rng: np.random.Generator, spread: ScalePrior, noise: ScalePrior, mean_sd) -> Drawn:
    """Groups of observations of a normal mean each."""
    n_groups = int(rng.integers(3, 13))
    tau, sigma = np.exp(rng.normal([-0.5, 0.0], [1.0, 0.5]))
    sizes = rng.integers(1, 9, n_groups)
    sizes[0] = max(sizes[0], 3)  # otherwise nothing tells noise from effects
    effects = rng.normal(rng.normal(), tau, n_groups)
    groups = [rng.normal(effect, sigma, n) for effect, n in zip(effects, sizes, strict=True)]

    def build() -> pm.Model:
        with pm.Model() as model:
            y = pm.Data("data", np.concatenate(groups))
            group = pm.Data("group", np.repeat(np.arange(n_groups), sizes))
            mu = pm.Normal("mu", 0, mean_sd)
            tau, sigma = spread.add("tau"), noise.add("sigma")
            theta = pm.Normal("theta", mu, tau, shape=n_groups)
            pm.Normal("y", theta[group], sigma, observed=y)
        return model

    def log_f(s, t):
        own = spread.log_density(s) + noise.log_density(t)
        return own + one_way_log_density(groups, mean_sd, np.exp(s), np.exp(t))

    log_z, accuracy = box_log_integral(log_f, spread.bounds, noise.bounds)
    about = {"spread": spread.about, "noise": noise.about, "sizes": sizes.tolist()}
    return Drawn(build, n_groups + 3, log_z, accuracy, about)


@family
def two_levels(rng: np.random.Generator) -> Drawn:
    """Groups with proper priors on both scales."""
    return _one_way(rng, scales.proper(rng), scales.proper(rng), 5.0)


@family
def bugs_hierarchy(rng: np.random.Generator) -> Drawn:
    """Groups with vague priors on both scales and on the mean."""
    return _one_way(rng, scales.vague(rng), scales.vague(rng), one_of(rng, 100.0, 1000.0))


@family
def schools(rng: np.random.Generator) -> Drawn:
    """One observation of each effect, with known noise: eight schools and their like."""
    n = int(rng.integers(4, 16))
    noise = np.exp(rng.normal(0, 0.4, n)) * 10
    y = rng.normal(rng.normal(0, 5), np.hypot(noise, np.exp(rng.normal(1.0, 1.0))))
    spread = scales.proper(rng, one_of(rng, 2.5, 5.0, 10.0))

    def build() -> pm.Model:
        with pm.Model() as model:
            sd, data = pm.Data("sd", noise), pm.Data("data", y)
            mu = pm.Normal("mu", 0, 10)
            theta = pm.Normal("theta", mu, spread.add("tau"), shape=n)
            pm.Normal("y", theta, sd, observed=data)
        return model

    def log_f(t):
        variances = [np.exp(2 * t) + one**2 for one in noise]
        return spread.log_density(t) + shifted_log_density(y, variances, 10.0)

    log_z, accuracy = box_log_integral(log_f, spread.bounds)
    return Drawn(build, n + 2, log_z, accuracy, {"spread": spread.about})


@family
def three_levels(rng: np.random.Generator) -> Drawn:
    """Classes in schools, centred: three scales."""
    n_schools, n_classes, n = (int(k) for k in rng.integers([3, 2, 2], [7, 5, 6]))
    draw = scales.vague if rng.random() < 0.25 else scales.proper
    priors = [draw(rng) for _ in range(3)]
    true = np.exp(rng.normal([-0.5, -0.5, 0.0], [0.8, 0.8, 0.4]))
    school = rng.normal(rng.normal(), true[0], (n_schools, 1, 1))
    class_means = rng.normal(school, true[1], (n_schools, n_classes, 1))
    y = rng.normal(class_means, true[2], (n_schools, n_classes, n))

    def build() -> pm.Model:
        with pm.Model() as model:
            data = pm.Data("data", y)
            mu = pm.Normal("mu", 0, 5)
            a, b, c = (one.add(f"sd_{i}") for i, one in enumerate(priors))
            school = pm.Normal("school", mu, a, shape=n_schools)
            room = pm.Normal("room", school[:, None], b, shape=(n_schools, n_classes))
            pm.Normal("y", room[:, :, None], c, observed=data)
        return model

    def log_f(r, s, t):
        own = sum(prior.log_density(u) for prior, u in zip(priors, (r, s, t), strict=True))
        return own + nested_log_density(y, 5.0, np.exp(2 * r), np.exp(2 * s), np.exp(2 * t))

    log_z, accuracy = box_log_integral(log_f, *(one.bounds for one in priors))
    about = {"shape": list(y.shape), "scales": [one.about for one in priors]}
    return Drawn(build, 4 + n_schools * (1 + n_classes), log_z, accuracy, about)


def nested_log_density(y: np.ndarray, mean_sd: float, schools, classes, noise) -> np.ndarray:
    """Log density of a balanced nested design (A, B, n) given the three variances."""
    n_schools, n_classes, n = y.shape
    rooms, means, mean = y.mean(2), y.mean((1, 2)), y.mean()
    third = noise + n * classes
    second = third + n * n_classes * schools
    first = second + y.size * mean_sd**2
    parts = [
        (1, y.size * mean**2, first),
        (n_schools - 1, n * n_classes * ((means - mean) ** 2).sum(), second),
        (n_schools * (n_classes - 1), n * ((rooms - means[:, None]) ** 2).sum(), third),
        (y.size - rooms.size, ((y - rooms[:, :, None]) ** 2).sum(), noise),
    ]
    return sum(-0.5 * (k * (LOG_2PI + np.log(v)) + squares / v) for k, squares, v in parts)


@family
def funnel(rng: np.random.Generator) -> Drawn:
    """Neal's funnel, with noisy observations of its entries or of some of them."""
    n = int(rng.integers(1, 13))
    spread, sd = one_of(rng, 1.5, 2.0, 3.0), one_of(rng, 0.3, 1.0, 3.0)
    y = rng.normal(0, np.hypot(sd, np.exp(rng.normal(0, 1))), n)

    def build() -> pm.Model:
        with pm.Model() as model:
            data = pm.Data("data", y)
            v = pm.Normal("v", 0, spread)
            x = pm.Normal("x", 0, pm.math.exp(v / 2), shape=n)
            pm.Normal("y", x, sd, observed=data)
        return model

    def log_f(v):
        variance = np.exp(v) + sd**2
        value = -0.5 * (n * (LOG_2PI + np.log(variance)) + (y**2).sum() / variance)
        return value - 0.5 * (v / spread) ** 2 - np.log(spread) - 0.5 * LOG_2PI

    log_z, accuracy = box_log_integral(log_f, (-14 * spread, 14 * spread))
    return Drawn(build, n + 1, log_z, accuracy, {"spread": spread, "sd": sd})


@family
def errors_in_variables(rng: np.random.Generator) -> Drawn:
    """A line through points whose covariate is measured with error."""
    n, sd_w = int(rng.integers(5, 31)), one_of(rng, 0.3, 0.7, 1.5)
    spread, noise = scales.proper(rng), scales.proper(rng)
    x = rng.normal(0, np.exp(rng.normal(0, 0.4)), n)
    w = rng.normal(x, sd_w)
    y = rng.normal(rng.normal() + rng.normal() * x, np.exp(rng.normal(-0.5, 0.5)))

    def build() -> pm.Model:
        with pm.Model() as model:
            seen, data = pm.Data("seen", w), pm.Data("data", y)
            a, b = pm.Normal("a", 0, 3), pm.Normal("b", 0, 2)
            tau, sigma = spread.add("tau"), noise.add("sigma")
            true = pm.Normal("true", 0, tau, shape=n)
            pm.Normal("w", true, sd_w, observed=seen)
            pm.Normal("y", a + b * true, sigma, observed=data)
        return model

    def log_f(b, s, t):
        own = spread.log_density(s) + noise.log_density(t)
        slope = -0.5 * (b / 2) ** 2 - np.log(2) - 0.5 * LOG_2PI
        return own + slope + measured_log_density(w, y, sd_w, 3.0, b, np.exp(2 * s), np.exp(2 * t))

    log_z, accuracy = box_log_integral(log_f, (-24.0, 24.0), spread.bounds, noise.bounds)
    about = {"n": n, "sd_w": sd_w, "spread": spread.about, "noise": noise.about}
    return Drawn(build, n + 4, log_z, accuracy, about)


def measured_log_density(w, y, sd_w: float, intercept_sd: float, slope, spread, noise):
    """Log density of both measurements given the slope and the variances of x and of y."""
    n = w.size
    total = spread + sd_w**2
    share = slope * spread / total
    variance = slope**2 * spread * sd_w**2 / total + noise
    # the residuals y - share * w have a common normal mean: the intercept
    squares = (y**2).sum() - 2 * share * (w * y).sum() + share**2 * (w**2).sum()
    total_residual = y.sum() - share * w.sum()
    precision = n / variance + intercept_sd**-2.0
    value = -0.5 * (n * (LOG_2PI + np.log(total)) + (w**2).sum() / total)
    value = value - 0.5 * (n * (LOG_2PI + np.log(variance)) + squares / variance)
    value = value - 0.5 * np.log(precision * intercept_sd**2)
    return value + 0.5 * (total_residual / variance) ** 2 / precision
