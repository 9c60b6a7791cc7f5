"""Normal and Student-t distributions on the unconstrained space: fitted, drawn from, evaluated."""

from dataclasses import dataclass

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable
from scipy.linalg import solve_triangular
from scipy.special import gammaln

from pymc_logz.errors import ModelError

STUDENT_DF = 5.0
INFLATION = 1.2


@dataclass(frozen=True)
class StudentReference:
    """Multivariate Student-t on the unconstrained space, normalised (log Z = 0).

    Its tails are heavier than those of a normal posterior, so that weights stay bounded there.
    """

    centre: np.ndarray
    """Shape (d,)."""
    factor: np.ndarray
    """Lower triangular factor of the scale matrix, shape (d, d)."""
    df: float = STUDENT_DF

    def __call__(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draw n rows, shape (n, d)."""
        normal = rng.standard_normal((n, self.centre.size))
        stretch = np.sqrt(self.df / rng.chisquare(self.df, size=(n, 1)))
        return self.centre + stretch * normal @ self.factor.T

    @property
    def log_constant(self) -> float:
        """Log density at the centre."""
        d, df = self.centre.size, self.df
        constant = gammaln(0.5 * (df + d)) - gammaln(0.5 * df) - 0.5 * d * np.log(df * np.pi)
        return float(constant - np.log(np.diag(self.factor)).sum())

    def log_density_of(self, rows: np.ndarray) -> np.ndarray:
        """Log density of rows (n, d), shape (n,)."""
        whitened = solve_triangular(self.factor, (rows - self.centre).T, lower=True)
        power = 0.5 * (self.df + self.centre.size)
        return self.log_constant - power * np.log1p((whitened**2).sum(axis=0) / self.df)

    def log_density(self, point: TensorVariable) -> TensorVariable:
        """Log density of a symbolic row of length d."""
        d, df = self.centre.size, self.df
        constant = self.log_constant
        whitened = pt.dot(np.linalg.inv(self.factor), point - self.centre)
        return np.float64(constant) - 0.5 * (df + d) * pt.log1p((whitened**2).sum() / df)


def _factor(covariance: np.ndarray, what: str) -> np.ndarray:
    try:
        return np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError as error:
        raise ModelError(f"no positive definite covariance comes out of {what}") from error


@dataclass(frozen=True)
class NormalProposal:
    """Multivariate normal on the unconstrained space, normalised."""

    centre: np.ndarray
    """Shape (d,)."""
    factor: np.ndarray
    """Lower triangular factor of the covariance, shape (d, d)."""

    def __call__(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draw n rows, shape (n, d)."""
        return self.centre + rng.standard_normal((n, self.centre.size)) @ self.factor.T

    def log_density_of(self, rows: np.ndarray) -> np.ndarray:
        """Log density of rows (n, d), shape (n,)."""
        whitened = solve_triangular(self.factor, (rows - self.centre).T, lower=True)
        constant = np.log(np.diag(self.factor)).sum() + 0.5 * self.centre.size * np.log(2 * np.pi)
        return -0.5 * (whitened**2).sum(axis=0) - constant

    def mirrored(self, rows: np.ndarray) -> np.ndarray:
        """Rows reflected in the centre, shape (n, d)."""
        return 2 * self.centre - rows


def fitted_normal(rows: np.ndarray) -> NormalProposal:
    """Normal with the mean and the covariance of draws.

    With few draws for the number of dimensions the correlations are shrunk towards zero, by the
    share that is best for normal draws (Ledoit & Wolf 2004, here in units of each scale): noise in
    them would cost more overlap than they bring.

    Parameters
    ----------
    rows
        Draws of the target, shape (n, d), n at least 2.

    Raises
    ------
    ModelError
        If the draws do not vary in some direction.
    """
    centre, scale = rows.mean(axis=0), rows.std(axis=0, ddof=1)
    if not np.all(scale > 0):
        raise ModelError(
            f"{np.count_nonzero(~(scale > 0))} of {scale.size} unconstrained dimensions do not "
            "vary among the draws, so no proposal can be fitted; check that the chains have moved"
        )
    standard = (rows - centre) / scale
    correlation = np.atleast_2d(np.corrcoef(standard.T))
    share = shrinkage(standard, correlation)
    correlation = (1 - share) * correlation + share * np.eye(len(scale))
    try:
        factor = np.linalg.cholesky(correlation)
    except np.linalg.LinAlgError as error:
        raise ModelError(
            "the covariance of the draws is singular: some parameters are exact functions of "
            "others, or the chains have not moved"
        ) from error
    return NormalProposal(centre, scale[:, None] * factor)


def shrinkage(standard: np.ndarray, correlation: np.ndarray) -> float:
    """Share of the identity that brings the correlation matrix closest to the true one.

    Parameters
    ----------
    standard
        Standardised draws, shape (n, d).
    correlation
        Their correlation matrix, shape (d, d).

    References
    ----------
    Schaefer & Strimmer (2005), doi 10.2202/1544-6115.1175, target D.
    """
    n, d = standard.shape
    if d == 1:
        return 0.0
    square = standard**2
    noise = (square.T @ square / n - correlation**2) / n
    off_diagonal = ~np.eye(d, dtype=bool)
    signal = (correlation[off_diagonal] ** 2).sum()
    return float(np.clip(noise[off_diagonal].sum() / signal, 0.0, 1.0)) if signal > 0 else 1.0
