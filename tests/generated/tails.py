"""Targets with heavier tails than their prior, and effects with heavy tails."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from adversary.integrals import half_line, line, log_integral
from scipy.special import betaln, expit, gammaln

from generated.cases import Drawn, family, one_of
from generated.regressions import student_log_density

LOG_2PI = float(np.log(2 * np.pi))


def _log_normaliser(exponent: np.ndarray) -> np.ndarray:
    """Log of the integral of ``(1 + z**2)**-exponent``."""
    return betaln(0.5, exponent - 0.5)


def experts_model(rows, exponents, centre, prior_sd: float, constant: float) -> pm.Model:
    """Normal prior; the posterior is a product of ``(1 + (rows @ x - centre)^2)^-exponents``.

    Parameters
    ----------
    constant
        What is added to the log of the product.
    """
    d = rows.shape[1]
    with pm.Model() as model:
        directions, power = pm.Data("directions", rows), pm.Data("power", exponents)
        at = pm.Data("at", centre)
        x = pm.Normal("x", 0, prior_sd, shape=d)
        experts = -(power * pt.log1p((directions @ x - at) ** 2)).sum()
        log_prior = -0.5 * (x**2).sum() / prior_sd**2 - d * (np.log(prior_sd) + 0.5 * LOG_2PI)
        pm.Potential("target", experts - log_prior + pm.Data("constant", constant))
    return model


def _experts(rng, rows: np.ndarray, exponents: np.ndarray, about: dict) -> Drawn:
    """A product of as many experts as dimensions, with a Z that is chosen or that of the paper."""
    d = rows.shape[0]
    centre = rows @ rng.normal(0, 1, d)
    own = float(_log_normaliser(exponents).sum() - np.linalg.slogdet(rows)[1])
    log_z = own if rng.random() < 0.5 else round(float(rng.uniform(-20, 20)), 3)
    sizes = 1 / np.linalg.norm(rows, axis=1)
    prior_sd = round(float(np.exp(rng.uniform(np.log(2), np.log(8))) * np.median(sizes)), 3)

    def build() -> pm.Model:
        return experts_model(rows, exponents, centre, prior_sd, log_z - own)

    return Drawn(build, d, log_z, 1e-7, {"prior_sd": prior_sd, **about})


@family
def rotated_student(rng: np.random.Generator) -> Drawn:
    """Independent Student-t laws of 1 to 10 degrees of freedom, rotated, in 2 to 40 dimensions."""
    d, df = one_of(rng, 2, 4, 8, 16, 25, 40), one_of(rng, 1.0, 2.0, 3.0, 5.0, 10.0)
    rotation = np.eye(d) if rng.random() < 0.2 else np.linalg.qr(rng.normal(size=(d, d)))[0]
    scales = np.exp(rng.normal(0, 0.3, d))
    rows = rotation / (scales * np.sqrt(df))[:, None]
    return _experts(rng, rows, np.full(d, (df + 1) / 2), {"df": df})


@family
def experts(rng: np.random.Generator) -> Drawn:
    """A square product of Student-t experts in skew directions, of widths up to 50 to 1."""
    d = one_of(rng, 2, 4, 9, 16, 25, 36)
    left, right = (np.linalg.qr(rng.normal(size=(d, d)))[0] for _ in range(2))
    most = one_of(rng, 0.8, 2.0)
    rows = left @ np.diag(np.exp(rng.uniform(-most, most, d))) @ right
    exponents = rng.uniform(one_of(rng, 1.0, 1.5), 3.0, d)
    return _experts(rng, rows, exponents, {"least_exponent": float(exponents.min())})


@family
def heavy_effects(rng: np.random.Generator) -> Drawn:
    """Normal observations of effects with a Cauchy or t prior."""
    d, df = int(rng.integers(1, 13)), one_of(rng, 1.0, 2.0, 3.0)
    sd, scale = one_of(rng, 0.3, 1.0, 3.0), one_of(rng, 0.5, 2.0)
    y = rng.normal(scale * np.clip(rng.standard_t(df, d), -30, 30), sd)

    def build() -> pm.Model:
        with pm.Model() as model:
            data = pm.Data("data", y)
            x = pm.StudentT("x", nu=df, mu=0, sigma=scale, shape=d)
            pm.Normal("y", x, sd, observed=data)
        return model

    def log_f(x, one):
        noise = -0.5 * ((one - x) / sd) ** 2 - np.log(sd) - 0.5 * LOG_2PI
        return noise + student_log_density(x, df, scale)

    log_z = sum(
        log_integral(lambda x, one=one: log_f(x, one), line(one, sd, n=40_001, reach=8.0))
        for one in y
    )
    return Drawn(build, d, log_z, 1e-6, {"df": df, "sd": sd, "scale": scale})


@family
def far_data(rng: np.random.Generator) -> Drawn:
    """Data far from the middle of a prior with heavy tails: explained, or outliers of wide noise.

    The noise has heavy tails too, and its spread may be unknown.
    """
    df, scale, of_noise = one_of(rng, 1.5, 2.0, 3.0), one_of(rng, 2.0, 10.0), one_of(rng, 2.0, 4.0)
    spread, sd = 2.5 if rng.random() < 0.6 else None, float(np.exp(rng.uniform(-1, 1.5)))
    far = scale * float(np.exp(rng.uniform(np.log(20), np.log(500))))
    y = far + sd * rng.standard_t(4, int(rng.integers(1 if spread is None else 2, 9)))

    def build() -> pm.Model:
        with pm.Model() as model:
            data = pm.Data("data", y)
            x = pm.StudentT("x", nu=df, mu=0, sigma=scale)
            noise = sd if spread is None else pm.HalfStudentT("noise", nu=3, sigma=spread)
            pm.StudentT("y", nu=of_noise, mu=x, sigma=noise, observed=data)
        return model

    def log_f(x, noise=sd):
        each = [student_log_density(one - x, of_noise, noise) for one in y]
        return sum(each, student_log_density(x, df, scale))

    def log_joint(x, noise):
        return log_f(x, noise) + student_log_density(noise, 3.0, spread) + np.log(2)

    # even about the data near them, and about zero elsewhere
    (rest, of_rest), (near, of_near) = line(0.0, scale, 8_001, 12.0), line(y[0], sd, 8_001, 8.0)
    is_near, is_far = np.abs(near - far) < far / 2, np.abs(rest - far) >= far / 2
    rules = [(near[is_near], of_near[is_near]), (rest[is_far], of_rest[is_far])]
    over = [] if spread is None else [half_line(n=1_201, low=-12.0, high=16.0)]
    function = log_f if spread is None else log_joint
    log_z = np.logaddexp(*(log_integral(function, rule, *over) for rule in rules))
    return Drawn(build, 1 + len(over), float(log_z), 1e-3, {"far": far, "df": df, "spread": spread})


@family
def concentrations(rng: np.random.Generator) -> Drawn:
    """Beta-binomial groups whose concentration has a heavy tail, where its density is rounding."""
    n_groups, power = int(rng.integers(3, 25)), one_of(rng, 1.0, 1.5, 2.0)
    n = rng.integers(2, 20, n_groups)
    y = rng.binomial(n, rng.beta(1, 3, n_groups))

    def build() -> pm.Model:
        with pm.Model() as model:
            share, concentration = pm.Beta("share", 1, 1), pm.Pareto("concentration", power, 1.0)
            alpha, beta = share * concentration, (1 - share) * concentration
            pm.BetaBinomial("y", n=n, alpha=alpha, beta=beta, observed=pm.Data("data", y))
        return model

    def log_f(logit, more):
        """Of the log odds of the share and what the concentration has more than one."""
        share, kappa = expit(logit), 1 + more
        log_prior = np.log(share * (1 - share)) + np.log(power) - (power + 1) * np.log(kappa)
        # the sum of logs is what the log gammas leave, without their cancelling
        found = log_prior
        for size, count in zip(n, y, strict=True):
            found = found + gammaln(size + 1) - gammaln(count + 1) - gammaln(size - count + 1)
            found = found + sum(np.log(share * kappa + i) for i in range(count))
            found = found + sum(np.log((1 - share) * kappa + i) for i in range(size - count))
            found = found - sum(np.log(kappa + i) for i in range(size))
        return found

    even = line(0.0, 1.0, n=1_001, reach=3.6)
    log_z = log_integral(log_f, even, half_line(n=2_001, low=-25.0, high=40.0))
    return Drawn(build, 2, log_z, 1e-4, {"groups": n_groups, "power": power})
