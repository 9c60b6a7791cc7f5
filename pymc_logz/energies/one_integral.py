"""Models whose log Z needs one numerical integral in one dimension, and that integral."""

from collections.abc import Callable, Sequence

import numpy as np
import pymc as pm
from scipy.special import logsumexp
from scipy.stats import halfnorm, t

from pymc_logz.energies.base import Draws, Energy, float64

LogFunction = Callable[[np.ndarray], np.ndarray]


def log_trapezoid(log_f: LogFunction, lower: float, upper: float, max_doublings: int = 14) -> float:
    """Log of the integral of exp(log_f) over [lower, upper], by the trapezoidal rule.

    For an analytic integrand that has decayed to nothing at both ends it converges exponentially
    fast (Trefethen & Weideman, 2014, doi 10.1137/130932132), so nodes are doubled until the log has
    stood still to ``tol`` twice in a row; an ArithmeticError if that is not soon enough.
    """
    tol = 1e-12
    n_intervals, previous, settled = 256, np.inf, 0
    for _ in range(max_doublings + 1):
        nodes = np.linspace(lower, upper, n_intervals + 1)
        log_values = np.array(log_f(nodes), dtype=float)
        log_values[[0, -1]] -= np.log(2)
        current = float(logsumexp(log_values)) + np.log((upper - lower) / n_intervals)
        settled = settled + 1 if abs(current - previous) <= tol else 0
        if settled == 2:
            return float(current)
        previous, n_intervals = current, 2 * n_intervals
    raise ArithmeticError(
        f"the integral over [{lower}, {upper}] still moves by more than tol={tol} after "
        f"max_doublings={max_doublings}: widen or narrow the range so that it fits the integrand"
    )


def sample_density(
    rng: np.random.Generator, n: int, log_f: LogFunction, lower: float, upper: float
) -> np.ndarray:
    """Draws (n,) of the density proportional to exp(log_f), whose mass is in [lower, upper]."""
    # probabilities between nodes h apart are off by a relative O(h**2), here about 1e-6
    nodes = np.linspace(lower, upper, 40_001)
    log_values = log_f(nodes)
    values = np.exp(log_values - np.max(log_values))
    cumulative = np.concatenate(([0.0], np.cumsum(values[1:] + values[:-1])))
    return np.asarray(np.interp(rng.random(n) * cumulative[-1], cumulative, nodes))


def hierarchical_normal(
    random_seed: int | np.random.Generator = 0,
    n_groups: int = 20,
    mu_scale: float = 10.0,
    tau_scale: float = 5.0,
) -> Energy:
    """Effects of several groups with an unknown spread, all normal and centred: a funnel.

    ``mu ~ Normal(0, mu_scale)``, ``tau ~ HalfNormal(tau_scale)``, ``theta_j ~ Normal(mu, tau)``
    and ``y_j ~ Normal(theta_j, sigma_j)`` with known sigma_j. Integrating theta leaves
    ``y_j ~ Normal(mu, v_j)`` with variance ``v_j = sigma_j**2 + tau**2``. Completing the square in
    mu, with ``P = sum(1 / v) + mu_scale**-2`` and ``m = sum(y / v) / P``, leaves::

        log p(y | tau) = -sum(log(2 pi v) + y**2 / v) / 2 + P m**2 / 2 - log(P mu_scale**2) / 2

    and tau is integrated over ``log tau`` in [-40, 6] + log tau_scale by the trapezoidal rule,
    doubled until it stands still to 1e-12 nats; what lies outside is less than 1e-15 of Z.

    Parameters
    ----------
    random_seed : int or numpy.random.Generator
        Seed of the simulated data.
    n_groups : int
        Number of groups.
    mu_scale, tau_scale : float
        Prior standard deviation of mu, and scale of the prior of tau.

    Returns
    -------
    Energy
        Free variables ``mu``, ``tau`` > 0 and ``theta``, shape (n_groups,).

    References
    ----------
    Gelman et al. (2013), Bayesian Data Analysis, section 5.4.

    Examples
    --------
    >>> from pymc_logz import energies
    >>> round(energies.hierarchical_normal().log_z, 4)
    -38.6046
    """
    rng = np.random.default_rng(random_seed)
    sigma = rng.uniform(0.5, 2.0, n_groups)
    y = rng.normal(rng.normal(2.0, 1.0, n_groups), sigma)

    def given(tau: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Variance of each y given tau and mu, then precision and mean of mu given tau and y."""
        variance = sigma**2 + tau[:, None] ** 2
        precision = (1 / variance).sum(axis=1) + mu_scale**-2
        return variance, precision, (y / variance).sum(axis=1) / precision

    def log_joint(log_tau: np.ndarray) -> np.ndarray:
        """Log of p(y, log tau), mu and theta integrated out."""
        log_prior = halfnorm.logpdf(np.exp(log_tau), scale=tau_scale) + log_tau
        variance, precision, mean = given(np.exp(log_tau))
        squares = (np.log(2 * np.pi * variance) + y**2 / variance).sum(axis=1)
        log_y = (precision * mean**2 - squares - np.log(precision * mu_scale**2)) / 2
        return np.asarray(log_prior + log_y)

    def sample(rng: np.random.Generator, n: int) -> Draws:
        tau = np.exp(sample_density(rng, n, log_joint, *bounds))
        _, precision, mean = given(tau)
        mu = rng.normal(mean, precision**-0.5)
        precision_theta = sigma**-2 + tau[:, None] ** -2
        mean_theta = (y / sigma**2 + (mu / tau**2)[:, None]) / precision_theta
        return {"mu": mu, "tau": tau, "theta": rng.normal(mean_theta, precision_theta**-0.5)}

    with pm.Model() as model:
        mu = pm.Normal("mu", *float64(0, mu_scale))
        tau = pm.HalfNormal("tau", *float64(tau_scale))
        theta = pm.Normal("theta", mu, tau, shape=n_groups)
        pm.Normal("y", theta, sigma, observed=y)
    bounds = (np.log(tau_scale) - 40, np.log(tau_scale) + 6)
    log_z = log_trapezoid(log_joint, *bounds)
    return Energy("hierarchical_normal", model, log_z, sample, "textbook one-way normal model")


def student_location(
    observed: Sequence[float] = (6.0,), prior_nu: float = 1.0, noise_nu: float = 2.0
) -> Energy:
    """Location with a heavy-tailed prior and heavy-tailed noise that disagree.

    ``location ~ StudentT(prior_nu, 0, 1)`` and ``y ~ StudentT(noise_nu, location, 1)``. Neither
    gives way, so the posterior has one peak near 0 and one near the data, and its tails fall like
    ``|location|**-(prior_nu + 1 + n (noise_nu + 1))``, a power of 5 by default: a normal reference
    fitted to draws has infinite weight variance.

    Z is integrated over ``s`` with ``location = sinh(s)``, which turns the power into an
    exponential, by the trapezoidal rule on [-40, 40], doubled until it stands still to 1e-12 nats.

    Parameters
    ----------
    observed : sequence of float
        Observations.
    prior_nu, noise_nu : float
        Degrees of freedom of the prior and of the noise.

    Returns
    -------
    Energy
        Free variable ``location``.

    References
    ----------
    O'Hagan (1979), On outlier rejection phenomena in Bayes inference.

    Examples
    --------
    >>> from pymc_logz import energies
    >>> round(energies.student_location().log_z, 4)
    -4.3248
    """
    y = np.asarray(observed, dtype=float)

    def log_joint(s: np.ndarray) -> np.ndarray:
        """Log of p(y, s)."""
        location = np.sinh(s)
        log_y = t.logpdf(y, noise_nu, loc=location[:, None]).sum(axis=1)
        return np.asarray(log_y + t.logpdf(location, prior_nu) + np.log(np.cosh(s)))

    def sample(rng: np.random.Generator, n: int) -> Draws:
        return {"location": np.sinh(sample_density(rng, n, log_joint, -40, 40))}

    with pm.Model() as model:
        location = pm.StudentT("location", np.float64(prior_nu), mu=0, sigma=1)
        pm.StudentT("y", np.float64(noise_nu), mu=location, sigma=1, observed=y)
    log_z = log_trapezoid(log_joint, -40, 40)
    return Energy("student_location", model, log_z, sample, "O'Hagan (1979), outlier rejection")
