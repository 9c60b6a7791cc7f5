"""Normal and Student-t distributions on the unconstrained space: drawn from and evaluated."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable
from scipy.linalg import solve_triangular
from scipy.special import gammaln

STUDENT_DF = 5.0
"""Degrees of freedom of what is fitted to draws: the least with a finite fourth moment."""
INFLATION = 1.2
"""Factor in a fitted covariance, since a proposal that is too narrow costs more than a wide one."""


def log_density_by(terms: Sequence[Any], point: TensorVariable) -> TensorVariable:
    """Log density of a symbolic row of length d, by arrays as of `Elliptical.terms`, or symbols."""
    centre, whitening, log_constant, *df = terms
    square = (pt.dot(whitening, point - centre) ** 2).sum()
    if not df:
        return log_constant - 0.5 * square
    power = 0.5 * (df[0] + point.shape[0])
    return log_constant - power * pt.log1p(square / df[0])


@dataclass(frozen=True)
class Elliptical:
    """Multivariate Student-t, or normal with infinite degrees of freedom; normalised (log Z = 0).

    With finite degrees of freedom its tails are heavier than those of a normal posterior, so that
    weights stay bounded there. A point x has the squared distance ``s = |factor^-1 (x -
    centre)|^2``, and a log density that falls by ``s / 2``, or by ``(df + d) / 2 log(1 + s / df)``.
    """

    centre: np.ndarray
    """Shape (d,)."""
    factor: np.ndarray
    """Lower triangular factor of the scale matrix, of a normal the covariance; shape (d, d)."""
    df: float = np.inf
    """Degrees of freedom."""

    def __call__(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draw n rows, shape (n, d)."""
        normal = rng.standard_normal((n, self.centre.size))
        return self.placed(normal, self.draw_stretch(rng, n))

    def draw_stretch(self, rng: np.random.Generator, n: int) -> np.ndarray | float:
        """By how much n normal draws are stretched to be Student-t ones, shape (n, 1); or 1."""
        if np.isinf(self.df):
            return 1.0
        return np.sqrt(self.df / rng.chisquare(self.df, size=(n, 1)))

    def placed(self, normal: np.ndarray, stretch: np.ndarray | float) -> np.ndarray:
        """Rows (n, d) made of standard normals (n, d) and stretches (n, 1)."""
        return self.centre + stretch * normal @ self.factor.T

    @property
    def log_constant(self) -> float:
        """Log density at the centre."""
        d, df = self.centre.size, self.df
        if np.isinf(df):
            return float(-(np.log(np.diag(self.factor)).sum() + 0.5 * d * np.log(2 * np.pi)))
        constant = gammaln(0.5 * (df + d)) - gammaln(0.5 * df) - 0.5 * d * np.log(df * np.pi)
        return float(constant - np.log(np.diag(self.factor)).sum())

    def log_density_of(self, rows: np.ndarray) -> np.ndarray:
        """Log density of rows (n, d), shape (n,)."""
        return self.log_density_at(self.square_distance(rows))

    def square_distance(self, rows: np.ndarray) -> np.ndarray:
        """Square of the Mahalanobis distance of rows (n, d) from the centre, shape (n,)."""
        whitened = solve_triangular(
            self.factor, (rows - self.centre).T, lower=True, check_finite=False
        )
        return np.asarray((whitened**2).sum(axis=0))

    def log_density_at(self, square: np.ndarray) -> np.ndarray:
        """Log density at these squares of the Mahalanobis distance, of the same shape."""
        if np.isinf(self.df):
            return self.log_constant - 0.5 * square
        return self.log_constant - 0.5 * (self.df + self.centre.size) * np.log1p(square / self.df)

    def terms(self) -> tuple[np.ndarray, ...]:
        """Arrays that a compiled path takes: centre, inverse factor, constant; df if finite."""
        own = self.centre, np.linalg.inv(self.factor), np.asarray(self.log_constant)
        return own if np.isinf(self.df) else (*own, np.asarray(self.df))

    def mirrored(self, rows: np.ndarray) -> np.ndarray:
        """Rows reflected in the centre, which have the same density; shape (n, d)."""
        return 2 * self.centre - rows

    def wider(self, factor: float) -> "Elliptical":
        """The same with its scale matrix, of a normal the covariance, times a factor."""
        return replace(self, factor=self.factor * np.sqrt(factor))

    def with_heavy_tails(self) -> "Elliptical":
        """Wider, and Student-t: what bounds the weights of a target of about this shape."""
        return replace(self.wider(INFLATION), df=STUDENT_DF)
