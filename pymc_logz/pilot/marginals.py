"""Monotone maps from standard normal scores to single entries of a row, fitted to draws."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from scipy.special import ndtri

if TYPE_CHECKING:
    from scipy.interpolate import PchipInterpolator

SHARES = np.array(
    [0.002, 0.01, 0.03, 0.08, 0.15, 0.25, 0.35, 0.5, 0.65, 0.75, 0.85, 0.92, 0.97, 0.99, 0.998]
)
"""Of draws below the knots: the outermost ones have four of 2,000 beyond them."""
LEAST_SLOPE = 0.8
"""Of a tail, in units of the slope between the last two knots."""
DRAWS = 1000
"""Fewest for which these quantiles are more than noise."""


@dataclass(frozen=True)
class _Curve:
    """Piecewise cubic between quantiles of draws, straight beyond them; it rises everywhere."""

    inner: "PchipInterpolator"
    scores: np.ndarray
    """Of the knots, shape (k,)."""
    slopes: tuple[float, float]
    """Of the two tails."""

    @classmethod
    def through(cls, quantiles: np.ndarray) -> "_Curve":
        from scipy.interpolate import PchipInterpolator  # takes long to import

        scores = ndtri(SHARES)
        inner = PchipInterpolator(scores, quantiles)
        secant = np.diff(quantiles)[[0, -1]] / np.diff(scores)[[0, -1]]
        slopes = np.maximum(inner.derivative()(scores[[0, -1]]), LEAST_SLOPE * secant)
        return cls(inner, scores, (float(slopes[0]), float(slopes[1])))

    def __call__(self, score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The entry, and the slope, at scores (n,)."""
        within = np.clip(score, self.scores[0], self.scores[-1])
        beyond = score - within
        slope = np.where(beyond < 0, self.slopes[0], self.slopes[1])
        value = self.inner(within) + slope * beyond
        return value, np.where(beyond == 0, self.inner.derivative()(within), slope)

    def inverse(self, value: np.ndarray) -> np.ndarray:
        """Scores of entries (n,), those between knots to a thousandth: good enough to fit to."""
        fine = np.linspace(self.scores[0], self.scores[-1], 4001)
        at = self.inner(fine)
        below, above = np.minimum(value - at[0], 0.0), np.maximum(value - at[-1], 0.0)
        outside = below / self.slopes[0] + above / self.slopes[1]
        return np.asarray(np.interp(value, at, fine) + outside)


@dataclass(frozen=True)
class Marginals:
    """What takes rows of scores, nearly standard normal each by itself, to rows of entries."""

    curves: tuple[_Curve, ...]

    @classmethod
    def of_draws(cls, rows: np.ndarray) -> Self | None:
        """Maps whose quantiles are those of draws (n, m); None where there are too few of them."""
        quantiles = np.quantile(rows, SHARES, axis=0)
        if len(rows) < DRAWS or np.any(np.diff(quantiles, axis=0) <= 0):
            return None
        return cls(tuple(_Curve.through(column) for column in quantiles.T))

    def entries(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Entries of rows of scores (n, m), and the log of the volume each stands for, (n,)."""
        entries, log_volume = np.empty_like(scores), np.zeros(len(scores))
        for j, curve in enumerate(self.curves):
            entries[:, j], slope = curve(scores[:, j])
            log_volume += np.log(slope)
        return entries, log_volume

    def scores(self, entries: np.ndarray) -> np.ndarray:
        """Scores of rows of entries (n, m)."""
        columns = [curve.inverse(entries[:, j]) for j, curve in enumerate(self.curves)]
        return np.stack(columns, axis=1)
