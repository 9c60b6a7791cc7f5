"""Potentials under priors of PyMC whose integral is a closed form."""

import numpy as np
import pymc as pm
from scipy.special import gammaln, log_ndtr

from generated.cases import Drawn, family, one_of

LOG_2PI = float(np.log(2 * np.pi))


@family
def quadratic_potential(rng: np.random.Generator) -> Drawn:
    """``exp(a + b'x - |Mx|^2 / 2)`` under a normal prior, up to 40 dimensions."""
    d = one_of(rng, 1, 2, 5, 10, 20, 40)
    rank = int(rng.integers(1, d + 1))
    factor = rng.normal(size=(rank, d)) * np.exp(rng.normal(0, 1, (rank, 1)))
    slope, sds = rng.normal(0, 1, d), np.exp(rng.normal(0, 0.7, d))
    offset = float(rng.normal(0, 5))

    def build() -> pm.Model:
        with pm.Model() as model:
            m, b, sd = pm.Data("m", factor), pm.Data("b", slope), pm.Data("sd", sds)
            x = pm.Normal("x", 0, sd, shape=d)
            pm.Potential("p", pm.Data("a", offset) + b @ x - 0.5 * ((m @ x) ** 2).sum())
        return model

    # x = sd * z, so that the precision of z is one plus what the potential adds
    precision = np.eye(d) + (factor * sds).T @ (factor * sds)
    moment = slope * sds
    log_z = offset + 0.5 * (moment @ np.linalg.solve(precision, moment))
    log_z -= 0.5 * np.linalg.slogdet(precision)[1]
    return Drawn(build, d, float(log_z), about={"rank": rank})


@family
def gamma_potential(rng: np.random.Generator) -> Drawn:
    """Powers and exponentials of positive numbers with gamma priors."""
    d = int(rng.integers(1, 11))
    a, b = np.exp(rng.normal(0.5, 0.6, d)), np.exp(rng.normal(0, 0.5, d))
    power, rate = rng.uniform(-0.5, 20, d) * np.minimum(a, 1), rng.uniform(-0.5, 30, d) * b

    def build() -> pm.Model:
        with pm.Model() as model:
            shape, scale = pm.Data("shape", a), pm.Data("scale", b)
            p, r = pm.Data("power", power), pm.Data("rate", rate)
            x = pm.Gamma("x", shape, scale, shape=d)
            pm.Potential("p", (p * pm.math.log(x) - r * x).sum())
        return model

    log_z = a * np.log(b) - gammaln(a) + gammaln(a + power) - (a + power) * np.log(b + rate)
    return Drawn(build, d, float(log_z.sum()))


@family
def half_spaces(rng: np.random.Generator) -> Drawn:
    """Probit factors of orthogonal directions under a normal prior."""
    d = int(rng.integers(1, 13))
    rotation = np.linalg.qr(rng.normal(size=(d, d)))[0]
    sharp, at = np.exp(rng.normal(0.5, 1.0, d)), rng.normal(0, 1, d)

    def build() -> pm.Model:
        with pm.Model() as model:
            rows, b = pm.Data("rows", rotation * sharp[:, None]), pm.Data("b", at)
            x = pm.Normal("x", 0, 1, shape=d)
            pm.Potential("p", pm.logcdf(pm.Normal.dist(0, 1), rows @ x + b).sum())
        return model

    log_z = log_ndtr(at / np.sqrt(1 + sharp**2)).sum()
    return Drawn(build, d, float(log_z))
