"""A hierarchical regression with 50 parameters whose log Z needs an integral over two of them."""

import numpy as np
import pymc as pm
from scipy.linalg import solve_triangular
from scipy.special import logsumexp
from scipy.stats import halfnorm

from pymc_logz.energies import Energy

N_GROUPS, PER_GROUP = 46, 5
SCALES = {"mu": 2.0, "slope": 1.0, "tau": 1.0, "sigma": 1.0}


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Group, covariate and response of 230 observations."""
    rng = np.random.default_rng(50)
    group = np.repeat(np.arange(N_GROUPS), PER_GROUP)
    x = rng.normal(size=group.size)
    level = rng.normal(1.0, 0.8, size=N_GROUPS)
    return group, x, level[group] + 0.5 * x + rng.normal(0, 0.6, size=group.size)


def log_joint(tau: float, sigma: float, group: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    """Log of p(y, tau, sigma), all else integrated out: y is jointly normal."""
    covariance = (
        SCALES["mu"] ** 2
        + SCALES["slope"] ** 2 * np.outer(x, x)
        + tau**2 * (group[:, None] == group)
        + sigma**2 * np.eye(y.size)
    )
    factor = np.linalg.cholesky(covariance)
    whitened = solve_triangular(factor, y, lower=True)
    log_density = -0.5 * (whitened @ whitened + y.size * np.log(2 * np.pi))
    log_density -= np.log(np.diag(factor)).sum()
    prior = halfnorm.logpdf(tau, scale=SCALES["tau"]) + halfnorm.logpdf(
        sigma, scale=SCALES["sigma"]
    )
    return float(log_density + prior)


def exact_log_z(n: int = 33) -> float:
    """Trapezoidal rule on logarithms of tau and sigma, which is exact to rounding for so smooth a
    density that vanishes at the edges."""
    group, x, y = data()
    log_tau = np.linspace(np.log(0.35), np.log(1.8), n)
    log_sigma = np.linspace(np.log(0.4), np.log(0.9), n)
    values = [
        log_joint(np.exp(t), np.exp(s), group, x, y) + t + s for t in log_tau for s in log_sigma
    ]
    cell = (log_tau[1] - log_tau[0]) * (log_sigma[1] - log_sigma[0])
    return float(logsumexp(values) + np.log(cell))


def hierarchical_regression() -> Energy:
    """46 group levels, their mean and spread, a slope, and the noise."""
    group, x, y = data()
    scale = {name: np.float64(value) for name, value in SCALES.items()}
    with pm.Model(coords={"group": np.arange(N_GROUPS)}) as model:
        mu = pm.Normal("mu", 0, scale["mu"])
        slope = pm.Normal("slope", 0, scale["slope"])
        tau = pm.HalfNormal("tau", scale["tau"])
        sigma = pm.HalfNormal("sigma", scale["sigma"])
        level = pm.Normal("level", mu, tau, dims="group")
        pm.Normal("y", level[group] + slope * x, sigma, observed=y)
    return Energy("hierarchical_regression", model, exact_log_z())
