"""Regressions: coefficients in closed form given the noise, and noise with heavy tails."""

import numpy as np
import pymc as pm
from adversary.integrals import log_integral
from scipy.special import erfcx, gammaln, log_ndtr

from generated import scales
from generated.cases import Drawn, family, one_of
from generated.quadrature import box_log_integral, pieces
from generated.scales import ScalePrior

LOG_2PI = float(np.log(2 * np.pi))


def regression_log_density(y, design, prior_sds: np.ndarray, sigma) -> np.ndarray:
    """Log density of ``y ~ Normal(design @ b, sigma)`` with ``b ~ Normal(0, prior_sds)``."""
    u, singular, _ = np.linalg.svd(design * prior_sds, full_matrices=False)
    along = u.T @ y
    rest = float(((y - u @ along) ** 2).sum())
    variance = sigma**2
    value = -0.5 * ((y.size - singular.size) * (LOG_2PI + np.log(variance)) + rest / variance)
    for s, moment in zip(singular, along, strict=True):
        total = variance + s**2
        value = value - 0.5 * (LOG_2PI + np.log(total) + moment**2 / total)
    return value


def _data(rng, p: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """A design with a level, and data of it."""
    x = np.column_stack([np.ones(n), rng.normal(size=(n, p - 1))])
    if rng.random() < 0.3 and p > 2:  # two covariates that are nearly the same
        x[:, 2] = x[:, 1] + rng.normal(0, 0.05, n)
    return x, rng.normal(x @ rng.normal(0, 1.5, p), np.exp(rng.normal(0, 0.7)))


def _regression(x: np.ndarray, y: np.ndarray, prior_sds: np.ndarray, noise: ScalePrior) -> Drawn:
    """A regression whose coefficients have independent normal priors."""

    def build() -> pm.Model:
        with pm.Model() as model:
            design, data, sds = pm.Data("design", x), pm.Data("data", y), pm.Data("sds", prior_sds)
            b = pm.Normal("b", 0, sds, shape=prior_sds.size)
            pm.Normal("y", design @ b, noise.add("sigma"), observed=data)
        return model

    def log_f(t):
        return noise.log_density(t) + regression_log_density(y, x, prior_sds, np.exp(t))

    log_z, accuracy = box_log_integral(log_f, noise.bounds)
    sds = np.unique(prior_sds.round(3)).tolist()
    about = {"n": y.size, "sds": sds, "noise": noise.about}
    return Drawn(build, prior_sds.size + 1, log_z, accuracy, about)


@family
def linear_regression(rng: np.random.Generator) -> Drawn:
    """Priors as one would choose them; as many coefficients as data at times."""
    p = int(rng.integers(2, 13))
    n = p if rng.random() < 0.2 else p + int(rng.integers(2, 40))
    prior_sds, noise = np.exp(rng.normal(0.7, 0.4, p)), scales.proper(rng)
    return _regression(*_data(rng, p, n), prior_sds, noise)


@family
def vague_regression(rng: np.random.Generator) -> Drawn:
    """Coefficients ``Normal(0, 1000)``, and noise with a prior of the BUGS age."""
    p = int(rng.integers(2, 8))
    n = p + int(rng.integers(4, 40))
    prior_sds, noise = np.full(p, one_of(rng, 100.0, 1000.0)), scales.vague(rng)
    return _regression(*_data(rng, p, n), prior_sds, noise)


@family
def wide_regression(rng: np.random.Generator) -> Drawn:
    """More coefficients than data, a few of which matter: noise may go to zero."""
    n = int(rng.integers(4, 101))
    p = min(n + 1 + int(n * rng.exponential(0.7)), 200)
    x, matter = rng.normal(size=(n, p)), int(rng.integers(1, 7))
    noise, sd = scales.proper(rng), float(np.exp(rng.normal(-0.7, 0.5)))
    y = rng.normal(x[:, :matter].sum(axis=1), np.exp(rng.normal(-0.3, 0.7)))
    return _regression(x, y, np.full(p, sd), noise)


@family
def noisy_process(rng: np.random.Generator) -> Drawn:
    """A Gaussian process at the places of the data, its height and the noise unknown."""
    n, centred = int(rng.integers(8, 81)), bool(rng.random() < 0.3)
    x = np.sort(rng.uniform(0, 10, n))
    length = float(np.exp(rng.normal(0.3, 0.6)))
    whole = np.exp(-0.5 * ((x[:, None] - x) / length) ** 2) + 1e-6 * np.eye(n)
    root = np.linalg.cholesky(whole)
    noise, height = scales.proper(rng), scales.proper(rng)
    y = root @ rng.normal(size=n) + np.exp(rng.normal(-1, 0.7)) * rng.normal(size=n)

    def build() -> pm.Model:
        with pm.Model() as model:
            sd = height.add("height")
            z = pm.Normal("z", 0, sd if centred else 1.0, shape=n)
            f = pm.Data("root", root) @ z
            pm.Normal(
                "y", f if centred else sd * f, noise.add("sigma"), observed=pm.Data("data", y)
            )
        return model

    values, axes = np.linalg.eigh(whole)

    def log_f(s, t):
        value = noise.log_density(s) + height.log_density(t)
        for one, moment in zip(values, axes.T @ y, strict=True):
            variance = np.exp(2 * t) * one + np.exp(2 * s)
            value = value - 0.5 * (LOG_2PI + np.log(variance) + moment**2 / variance)
        return value

    log_z, accuracy = box_log_integral(log_f, noise.bounds, height.bounds)
    about = {"n": n, "length": length, "centred": centred, "noise": noise.about}
    return Drawn(build, n + 2, log_z, accuracy, about)


def student_log_density(x, df: float, scale=1.0):
    """Log density of Student's t around zero."""
    constant = gammaln((df + 1) / 2) - gammaln(df / 2) - 0.5 * np.log(np.pi * df)
    return constant - np.log(scale) - 0.5 * (df + 1) * np.log1p((x / scale) ** 2 / df)


@family
def robust_regression(rng: np.random.Generator) -> Drawn:
    """One or two coefficients, noise with heavy tails, outliers."""
    p, n, df = int(rng.integers(1, 3)), int(rng.integers(3, 16)), one_of(rng, 1.0, 2.0, 4.0)
    prior_sd, scale = one_of(rng, 2.0, 5.0), one_of(rng, 0.3, 1.0)
    x = np.column_stack([np.ones(n), rng.normal(size=(n, p - 1))])
    outliers = rng.normal(0, 5, n) * (rng.random(n) < 0.3)
    y = x @ rng.normal(0, 1.5, p) + scale * rng.standard_t(df, n) + outliers
    unknown = p == 1 and rng.random() < 0.5
    noise = scales.half_normal(2.0)

    def build() -> pm.Model:
        with pm.Model() as model:
            design, data = pm.Data("design", x), pm.Data("data", y)
            b = pm.Normal("b", 0, prior_sd, shape=p)
            sigma = noise.add("sigma") if unknown else scale
            pm.StudentT("y", nu=df, mu=design @ b, sigma=sigma, observed=data)
        return model

    def log_f(b, other=None):
        log_sd = other if unknown else np.log(scale)
        value = -0.5 * (b / prior_sd) ** 2 - np.log(prior_sd) - 0.5 * LOG_2PI
        if p == 2:
            value = value - 0.5 * (other / prior_sd) ** 2 - np.log(prior_sd) - 0.5 * LOG_2PI
        if unknown:
            value = value + noise.log_density(other)
        for row, one in zip(x, y, strict=True):
            mean = b + (row[1] * other if p == 2 else 0.0)
            value = value + student_log_density(one - mean, df, np.exp(log_sd))
        return value

    reach = (-9.5 * prior_sd, 9.5 * prior_sd)
    second = [reach] if p == 2 else [noise.bounds] if unknown else []
    log_z, accuracy = box_log_integral(log_f, reach, *second)
    about = {"n": n, "df": df, "scale": None if unknown else scale, "prior_sd": prior_sd}
    return Drawn(build, p + unknown, log_z, accuracy, about)


@family
def rotated_noise(rng: np.random.Generator) -> Drawn:
    """As many coefficients as data, an orthogonal design, and noise with heavy tails."""
    d, df = one_of(rng, 2, 4, 8, 16, 24, 40), one_of(rng, 1.0, 2.0, 3.0)
    prior_sd, scale = one_of(rng, 1.0, 3.0), one_of(rng, 0.3, 1.0)
    design = np.eye(d) if rng.random() < 0.3 else np.linalg.qr(rng.normal(size=(d, d)))[0]
    y = rng.normal(0, prior_sd, d) + scale * rng.standard_t(df, d)

    def build() -> pm.Model:
        with pm.Model() as model:
            rows, data = pm.Data("rows", design), pm.Data("data", y)
            b = pm.Normal("b", 0, prior_sd, shape=d)
            pm.StudentT("y", nu=df, mu=rows @ b, sigma=scale, observed=data)
        return model

    log_z = noisy_log_z(y, prior_sd, df, scale)
    about = {"df": df, "prior_sd": prior_sd, "scale": scale}
    return Drawn(build, d, log_z, 1e-6, about)


def noisy_log_z(y: np.ndarray, prior_sd: float, df: float, scale: float) -> float:
    """Log density of independent sums of a normal and a scaled t."""
    x, log_weights = pieces(-12 * prior_sd, 12 * prior_sd, 6_000)
    log_prior = -0.5 * (x / prior_sd) ** 2 - np.log(prior_sd) - 0.5 * LOG_2PI
    return sum(
        log_integral(lambda u, one=one: student_log_density(one - u, df, scale), (x, own))
        for own in [log_weights + log_prior]
        for one in y
    )


def _log_erfcx(q: np.ndarray) -> np.ndarray:
    """Log of the scaled complementary error function, of any argument."""
    below = np.log(2) + log_ndtr(-np.sqrt(2) * q) + q**2
    return np.where(q > 0, np.log(erfcx(np.maximum(q, 0))), below)


@family
def lasso_of_contrasts(rng: np.random.Generator) -> Drawn:
    """Laplace effects of a factorial design, at times as many as data: the noise may vanish."""
    n, unit = one_of(rng, 4, 8, 16), one_of(rng, 1.0, 1.0, 100.0)
    k = int(min(one_of(rng, 3, 7, n - 1), n - 1))
    design = np.ones((1, 1))
    while len(design) < n:
        design = np.block([[design, design], [design, -design]])
    x = design[:, 1 : k + 1]
    true = np.where(rng.random(k) < 0.3, rng.laplace(0, one_of(rng, 0.3, 3.0), k), 0.0)
    y = unit * (rng.normal(0, 3) + x @ true + rng.normal(0, one_of(rng, 0.1, 1.0), n))
    wide = unit * one_of(rng, 10.0, 1000.0)
    size, noise = scales.proper(rng, unit), scales.proper(rng, unit)

    def build() -> pm.Model:
        with pm.Model() as model:
            level = pm.Normal("level", 0, wide)
            effects = pm.Laplace("effects", 0, size.add("size"), shape=k)
            mu = level + pm.math.dot(pm.Data("x", x), effects)
            pm.Normal("y", mu, noise.add("sigma"), observed=y)
        return model

    fit, mean = x.T @ y / n, float(y.mean())
    left = float(((y - mean - x @ fit) ** 2).sum()) if k < n - 1 else 0.0

    def log_f(log_size, t):
        # columns are orthogonal: means of data are independent, and normal around their effects
        b, s = np.exp(log_size), np.exp(t) / np.sqrt(n)
        value = size.log_density(log_size) + noise.log_density(t)
        value -= 0.5 * (n - 1 - k) * (LOG_2PI + 2 * t) + 0.5 * left * np.exp(-2 * t)
        variance = wide**2 + s**2
        value -= 0.5 * (k + 1) * np.log(n) + 0.5 * (LOG_2PI + np.log(variance) + mean**2 / variance)
        for one in fit:
            both = [_log_erfcx((s / b + sign * one / s) / np.sqrt(2)) for sign in (1, -1)]
            value += np.logaddexp(*both) - np.log(4 * b) - 0.5 * (one / s) ** 2
        return value

    low = np.log(unit) - 14.0
    bounds = (low, low + 26.0), (low, low + 22.0)
    log_z, accuracy = box_log_integral(log_f, *bounds)
    about = {"n": n, "k": k, "unit": unit, "size": size.about, "noise": noise.about}
    return Drawn(build, k + 3, log_z, accuracy, about)
