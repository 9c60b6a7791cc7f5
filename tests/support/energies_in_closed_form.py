"""Every energy beside its density, written with SciPy: what exact values are checked against."""

from collections.abc import Callable

import numpy as np
from scipy import stats

from pymc_logz import energies

FILTERS = energies.random_filters(3, 3)
EXPONENTS = np.array([3.0, 4.0, 5.0])

ENERGIES = {
    "beta_bernoulli": energies.beta_bernoulli(12, 3, 2.0, 1.5, initval=0.3),
    "poisson_gamma": energies.poisson_gamma(),
    "skewed_bimodal": energies.skewed_bimodal(),
    "linear_regression": energies.linear_regression(),
    "radiata_pine": energies.radiata_pine(),
    "hierarchical_normal": energies.hierarchical_normal(),
    "student_location": energies.student_location(),
    "two_gaussians": energies.two_gaussians(2),
    "ridge": energies.ridge(),
    "gaussian_shells": energies.gaussian_shells(2),
    "laplace_experts": energies.laplace_experts(FILTERS),
    "student_t_experts": energies.student_t_experts(FILTERS, EXPONENTS),
}
ONE_DIMENSIONAL = {
    "beta_bernoulli": (0.0, 1.0, ()),
    "poisson_gamma": (0.0, 60.0, (0.1, 1.0, 4.0)),
    "skewed_bimodal": (0.0, 60.0, (1.5, 4.0, 9.0, 15.0)),
    "student_location": (-1e5, 1e5, (-1e3, -30.0, 0.0, 3.0, 6.0, 40.0, 1e3)),
}


def regression_data(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float]:
    """Design, observations, prior mean, prior precisions and prior shape of a regression."""
    if name == "radiata_pine":
        data = energies.radiata_pine_data()
        x = data["density"] - data["density"].mean()
        design = np.column_stack([np.ones(42), x])
        return design, data["strength"], np.array([3000.0, 185.0]), np.array([0.06, 6.0]), 3.0
    rng = np.random.default_rng(0)
    design = np.column_stack([np.ones(10), rng.standard_normal((10, 2))])
    y = design @ np.array([1.0, 0.0, -1.0]) + 0.5 * rng.standard_normal(10)
    return design, y, np.zeros(3), np.full(3, 0.1), 1.0


def group_data() -> tuple[np.ndarray, np.ndarray]:
    """Observations of the hierarchical model, and their known standard deviations."""
    rng = np.random.default_rng(0)
    sigma = rng.uniform(0.5, 2.0, 20)
    return rng.normal(rng.normal(2.0, 1.0, 20), sigma), sigma


def log_regression(name: str, tau: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    design, y, mean, precision, shape = regression_data(name)
    rate = 180_000 if name == "radiata_pine" else 1.0
    sd = tau[:, None] ** -0.5
    log_prior = stats.gamma.logpdf(tau, shape, scale=1 / rate)
    log_prior += stats.norm.logpdf(coefficients, mean, precision**-0.5 * sd).sum(axis=1)
    return np.asarray(log_prior + stats.norm.logpdf(y, coefficients @ design.T, sd).sum(axis=1))


def log_groups(mu: np.ndarray, tau: np.ndarray, theta: np.ndarray) -> np.ndarray:
    y, sigma = group_data()
    log_prior = stats.norm.logpdf(mu, 0, 10) + stats.halfnorm.logpdf(tau, scale=5)
    log_prior += stats.norm.logpdf(theta, mu[:, None], tau[:, None]).sum(axis=1)
    return np.asarray(log_prior + stats.norm.logpdf(y, theta, sigma).sum(axis=1))


def log_rate(rate: np.ndarray, counts: list[int]) -> np.ndarray:
    return np.asarray(stats.poisson.logpmf(np.array(counts), rate[:, None]).sum(axis=1))


def log_gaussians(x: np.ndarray) -> np.ndarray:
    d = x.shape[1]
    parts = [
        np.log(w) + stats.multivariate_normal.logpdf(x, np.full(d, m), 0.01 * np.eye(d))
        for w, m in ((0.1, 0.5), (0.9, -0.5))
    ]
    return np.asarray(np.logaddexp(*parts) - d * np.log(4))


def log_shells(x: np.ndarray) -> np.ndarray:
    parts = []
    for weight, centre in ((0.5, -3.5), (1.5, 3.5)):
        shifted = x - centre * np.eye(x.shape[1])[0]
        distance = np.linalg.norm(shifted, axis=1)
        parts.append(np.log(weight) + stats.norm.logpdf(distance, 2, 0.1))
    return np.asarray(np.logaddexp(*parts) - x.shape[1] * np.log(12))


CLOSED_FORMS: dict[str, Callable[..., np.ndarray]] = {
    "beta_bernoulli": lambda p: (
        stats.beta.logpdf(p, 2, 1.5) + stats.binom.logpmf(3, 12, p) - np.log(220)
    ),
    "poisson_gamma": lambda rate: (
        stats.gamma.logpdf(rate, 0.5, scale=5) + log_rate(rate, [0, 1, 0, 2, 0])
    ),
    "skewed_bimodal": lambda rate: (
        np.log(stats.gamma.pdf(rate, 2, scale=0.5) + stats.gamma.pdf(rate, 40, scale=0.25))
        - np.log(2)
        + log_rate(rate, [3])
    ),
    "linear_regression": lambda tau, coefficients: log_regression(
        "linear_regression", tau, coefficients
    ),
    "radiata_pine": lambda tau, intercept, slope: log_regression(
        "radiata_pine", tau, np.column_stack([intercept, slope])
    ),
    "hierarchical_normal": log_groups,
    "student_location": lambda location: (
        stats.cauchy.logpdf(location) + stats.t.logpdf(6, 2, loc=location)
    ),
    "two_gaussians": log_gaussians,
    "ridge": lambda p1, p2: stats.binom.logpmf(50, 100, p1 * p2),
    "gaussian_shells": log_shells,
    "laplace_experts": lambda x: -np.abs(x @ FILTERS.T).sum(axis=1),
    "student_t_experts": lambda x: -np.log1p((x @ FILTERS.T) ** 2) @ EXPONENTS,
}
