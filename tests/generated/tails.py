"""Targets with heavier tails than their prior, and effects with heavy tails."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from adversary.integrals import line, log_integral
from scipy.special import betaln

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
    """A square product of Student-t experts whose directions are not orthogonal."""
    d = one_of(rng, 2, 4, 9, 16, 25, 36)
    left, right = (np.linalg.qr(rng.normal(size=(d, d)))[0] for _ in range(2))
    rows = left @ np.diag(np.exp(rng.uniform(-0.8, 0.8, d))) @ right
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
