"""Linear regression with a normal-gamma prior, and the radiata pine models.

With precision tau ~ Gamma(a, b), coefficients c given tau ~ Normal(m, inv(tau L)) and
observations y given both ~ Normal(X c, 1 / tau), the posterior has the same form with::

    L_n = L + X'X            m_n = inv(L_n) (L m + X'y)
    a_n = a + n / 2          b_n = b + (|y - X m_n|**2 + (m_n - m)'L (m_n - m)) / 2

and the ratio of the normalising constants gives::

    log Z = -n/2 log(2 pi) + (log|L| - log|L_n|) / 2 + a log b - a_n log b_n
            + log Gamma(a_n) - log Gamma(a)

Equivalently y is multivariate Student-t.
"""

import csv
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal

import numpy as np
import pymc as pm
from scipy.special import gammaln

from pymc_logz.energies.base import Draws, Energy, float64


@dataclass(frozen=True)
class NormalGamma:
    """Gamma(shape, rate) for tau, and Normal(mean, inv(tau precision)) for coefficients."""

    mean: np.ndarray
    precision: np.ndarray
    shape: float
    rate: float

    def update(self, design: np.ndarray, y: np.ndarray) -> tuple["NormalGamma", float]:
        """Posterior given a design matrix (n, d) and observations (n,), and their log Z."""
        precision = self.precision + design.T @ design
        mean = np.linalg.solve(precision, self.precision @ self.mean + design.T @ y)
        # The textbook form y'y + m'L m - m_n'L_n m_n cancels large squares; this one does not.
        residual, shift = y - design @ mean, mean - self.mean
        squares = residual @ residual + shift @ self.precision @ shift
        shape, rate = self.shape + len(y) / 2, self.rate + squares / 2
        posterior = NormalGamma(mean, precision, shape, rate)
        log_ratio = posterior.log_constant() - self.log_constant()
        return posterior, float(log_ratio - len(y) / 2 * np.log(2 * np.pi))

    def log_constant(self) -> float:
        """Log of the integral of the unnormalised density, without powers of 2 pi."""
        log_det = np.linalg.slogdet(self.precision)[1]
        return float(gammaln(self.shape) - self.shape * np.log(self.rate) - log_det / 2)

    def sample(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Draws of tau, shape (n,), and of the coefficients, shape (n, d)."""
        tau = rng.gamma(self.shape, 1 / self.rate, n)
        noise = np.linalg.solve(
            np.linalg.cholesky(self.precision).T, rng.standard_normal((len(self.mean), n))
        )
        return tau, self.mean + (noise / np.sqrt(tau)).T


def linear_regression(
    random_seed: int | np.random.Generator = 0, n_obs: int = 10, n_features: int = 3
) -> Energy:
    """Linear regression on simulated data, with few observations so that tau is skewed.

    ``tau ~ Gamma(1, 1)``, ``coefficients | tau ~ Normal(0, precision 0.1 tau)`` and
    ``y ~ Normal(X coefficients, precision tau)``; the first column of X is the intercept. The
    module's docstring has the formula for log Z.

    Parameters
    ----------
    random_seed : int or numpy.random.Generator
        Seed of the simulated data.
    n_obs : int
        Number of observations.
    n_features : int
        Number of coefficients, intercept included.

    Returns
    -------
    Energy
        Free variables ``tau`` > 0 and ``coefficients``, shape (n_features,).

    References
    ----------
    O'Hagan & Forster (2004), Kendall's Advanced Theory of Statistics 2B, chapter 11.

    Examples
    --------
    >>> from pymc_logz import energies
    >>> round(energies.linear_regression().log_z, 4)
    -12.8535
    """
    rng = np.random.default_rng(random_seed)
    design = np.column_stack([np.ones(n_obs), rng.standard_normal((n_obs, n_features - 1))])
    y = design @ np.linspace(1, -1, n_features) + 0.5 * rng.standard_normal(n_obs)
    prior = NormalGamma(np.zeros(n_features), 0.1 * np.eye(n_features), 1.0, 1.0)
    posterior, log_z = prior.update(design, y)
    with pm.Model() as model:
        tau = pm.Gamma("tau", *float64(prior.shape, prior.rate))
        coefficients = pm.Normal("coefficients", 0, tau=0.1 * tau, shape=n_features)
        pm.Normal("y", design @ coefficients, tau=tau, observed=y)

    def sample(rng: np.random.Generator, n: int) -> Draws:
        draws = posterior.sample(rng, n)
        return {"tau": draws[0], "coefficients": draws[1]}

    return Energy("linear_regression", model, log_z, sample, "normal-gamma conjugate model")


def radiata_pine_data(
    version: Literal["friel_wyse", "bugs"] = "friel_wyse",
) -> dict[str, np.ndarray]:
    """Radiata pine specimens: arrays ``strength``, ``density`` and ``adjusted``, shape (42,).

    Parameters
    ----------
    version : {"friel_wyse", "bugs"}
        Which of the two rows in circulation to use for specimen 9.

    Returns
    -------
    dict of numpy.ndarray
        Of each specimen ``strength`` (of maximum compression), ``density``, and ``adjusted``
        density (for resin), each of shape (42,).

    Raises
    ------
    ValueError
        If the version is unknown.

    References
    ----------
    Williams (1959), Regression Analysis; the two versions: Friel & Wyse (2012), doi
    10.1111/j.1467-9574.2011.00515.x, and the examples of BUGS.

    Examples
    --------
    >>> from pymc_logz import energies
    >>> {name: values.shape for name, values in energies.radiata_pine_data().items()}
    {'strength': (42,), 'density': (42,), 'adjusted': (42,)}
    """
    if version not in ("friel_wyse", "bugs"):
        raise ValueError(f"version={version!r} must be 'friel_wyse' or 'bugs'")
    text = files("pymc_logz.energies").joinpath("radiata_pine.csv").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    rows = [row for row in csv.DictReader(lines) if row["version"] in ("both", version)]
    return {k: np.array([float(r[k]) for r in rows]) for k in ("strength", "density", "adjusted")}


def radiata_pine(
    covariate: Literal["density", "adjusted"] = "density",
    version: Literal["friel_wyse", "bugs"] = "friel_wyse",
) -> Energy:
    """Strength of radiata pine explained by density, or by resin-adjusted density.

    The standard test of evidence estimators, because the scales run from 1e-5 (tau) to 3000.
    ``tau ~ Gamma(3, rate 180000)``, ``intercept | tau ~ Normal(3000, precision 0.06 tau)``,
    ``slope | tau ~ Normal(185, precision 6 tau)`` and ``strength ~ Normal(intercept + slope
    (x - mean of x), precision tau)``. The module's docstring has the formula for log Z.

    Parameters
    ----------
    covariate : {"density", "adjusted"}
        Explanatory variable.
    version : {"friel_wyse", "bugs"}
        Which row of specimen 9 to use; the published values belong to "friel_wyse".

    Returns
    -------
    Energy
        Free variables ``tau`` > 0, ``intercept`` and ``slope``.

    Raises
    ------
    ValueError
        If the covariate or the version is unknown.

    References
    ----------
    Friel, Wyse (2012). Estimating the evidence: a review. Statistica Neerlandica 66, 288-308.
    doi:10.1111/j.1467-9574.2011.00515.x

    Examples
    --------
    >>> from pymc_logz import energies
    >>> [round(energies.radiata_pine(x).log_z, 4) for x in ("density", "adjusted")]
    [-310.1283, -301.7046]
    """
    if covariate not in ("density", "adjusted"):
        raise ValueError(f"covariate={covariate!r} must be 'density' or 'adjusted'")
    data = radiata_pine_data(version)
    y, x = data["strength"], data[covariate] - data[covariate].mean()
    prior = NormalGamma(np.array([3000.0, 185.0]), np.diag([0.06, 6.0]), 3.0, 180_000.0)
    posterior, log_z = prior.update(np.column_stack([np.ones_like(x), x]), y)
    with pm.Model() as model:
        tau = pm.Gamma("tau", *float64(prior.shape, prior.rate))
        intercept = pm.Normal("intercept", 3000, tau=0.06 * tau)
        slope = pm.Normal("slope", 185, tau=6 * tau)
        pm.Normal("strength", intercept + slope * x, tau=tau, observed=y)

    def sample(rng: np.random.Generator, n: int) -> Draws:
        draws, coefficients = posterior.sample(rng, n)
        return {"tau": draws, "intercept": coefficients[:, 0], "slope": coefficients[:, 1]}

    name, source = f"radiata_pine_{covariate}", "Williams (1959); Friel and Wyse (2012)"
    return Energy(name, model, log_z, sample, source)
