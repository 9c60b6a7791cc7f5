"""Maps that even out funnels: dimensions whose location and spread follow a few others.

In a hierarchical model the spread of many variables follows that of a scale. No ellipsoid has such
a shape, and what one misses is the narrow end, which rows do not find again. Rows whose dimensions
are divided by a spread that is log-linear in its parents have the shape of a cloud.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import ndtri

from pymc_logz.paths.shrinkage import shrunk_covariances

CLEAR, FAINT = 0.25, 0.1
"""Correlations with an absolute deviation from which on it counts: four standard errors of 256
rows of the target, and of 2,000 of the prior."""
MAX_PARENTS = 16
"""More would be noise, and dear to evaluate."""
MAX_EXPONENT = 30.0
"""Bound of the log of a spread, that rows far out stay finite."""
N_ROUNDS = 3
"""Alternations between locations and spreads."""
LEADING = 30
"""Rows at the narrow end that a location is fitted to with the same weight, others with less."""
RIDGE = 1e-9
"""Penalty of coefficients, in units of the number of rows."""


@dataclass(frozen=True)
class Funnel:
    """``y = (x - centre - lean u) exp(-slope u)`` with u the parents' ``x - centre``.

    Parents are themselves only shifted, so that the map has an inverse in closed form, whose volume
    is ``exp(sum(slope u))``.
    """

    centre: np.ndarray
    """Shape (d,)."""
    parents: np.ndarray
    """One-hot rows, shape (m, d)."""
    lean: np.ndarray
    """How locations follow the parents, shape (d, m)."""
    slope: np.ndarray
    """How logs of spreads follow the parents, shape (d, m)."""

    @classmethod
    def none(cls, n_dims: int) -> "Funnel":
        """The map that leaves rows as they are."""
        empty = np.zeros((n_dims, 0))
        return cls(np.zeros(n_dims), empty.T, empty, empty)

    def evened(self, rows: np.ndarray) -> np.ndarray:
        """Rows (n, d) evened out."""
        apart = rows - self.centre
        of_parents = apart @ self.parents.T
        spread = np.exp(self._exponent(of_parents))
        return np.asarray((apart - of_parents @ self.lean.T) / spread)

    def restored(self, evened: np.ndarray) -> np.ndarray:
        """Rows (n, d) of which these are evened out."""
        of_parents = evened @ self.parents.T
        spread = np.exp(self._exponent(of_parents))
        return np.asarray(self.centre + evened * spread + of_parents @ self.lean.T)

    def log_volume(self, evened: np.ndarray) -> np.ndarray:
        """Log of the volume that evened rows (n, d) stand for, shape (n,)."""
        return np.asarray(self._exponent(evened @ self.parents.T).sum(axis=1))

    def _exponent(self, of_parents: np.ndarray) -> Any:
        return np.clip(of_parents @ self.slope.T, -MAX_EXPONENT, MAX_EXPONENT)


def fitted_funnel(rows: np.ndarray, prior: np.ndarray) -> Funnel | None:
    """The funnel of a prior that is still one in the target, or None if there is none.

    A dimension is the child of one before it, as a variable of a model depends on those before it,
    if its absolute deviation from what they tell of it follows that one by ranks in the prior. A
    parent counts if one of its children follows it in the target too: that has a narrow end then,
    which is one of all of them. Those with the most to say are parents first, and no parent is a
    child. How a child follows is read from the prior: rows of the target seldom reach that end.

    Parameters
    ----------
    rows
        Rows of the target, shape (n, d), n at least some hundred.
    prior
        Draws of the prior, shape (m, d).

    References
    ----------
    Papaspiliopoulos, Roberts & Skoeld (2007), A general framework for the parametrization of
    hierarchical models, doi 10.1214/088342307000000014; Betancourt & Girolami (2015), Hamiltonian
    Monte Carlo for hierarchical models, arXiv 1312.0906.
    """
    in_target, in_prior = (np.abs(spreads_that_follow(part)) for part in (rows, prior))
    drivers, children = _family(in_target, in_prior)
    if not drivers:
        return None
    centre = np.median(rows, axis=0)
    scale = np.diff(np.quantile(rows, [0.1587, 0.8413], axis=0), axis=0)[0] / 2
    scale = np.where(scale > 0, scale, 1.0)
    standard = (prior - centre) / scale
    parents = _with_locations(standard, drivers, children)
    lean, slope = np.zeros((2, rows.shape[1], len(parents)))
    for child in children:
        driving = np.isin(parents, drivers) & (in_prior[parents, child] > FAINT)
        before = np.asarray(parents) < child
        shift, *of_parents = _fit_child(
            standard[:, child], standard[:, np.asarray(parents)[before]], driving[before]
        )
        lean[child, before], slope[child, before] = of_parents
        centre[child] += scale[child] * shift
    # back from standard units; a child's spread is in its own units
    lean *= scale[:, None] / scale[parents]
    slope /= scale[parents]
    return Funnel(centre, np.eye(rows.shape[1])[parents], lean, slope)


def spreads_that_follow(rows: np.ndarray) -> np.ndarray:
    """Rank correlation of dimension i with the deviation of dimension j, shape (d, d), for i < j.

    Deviations are those from a linear regression on the dimensions before.
    """
    n, ranks = len(rows), _standard_ranks(rows)
    # normal scores, as no regression holds out against the tails of a hierarchy
    scores = ndtri(0.5 + ranks / (np.sqrt(12) * (1 + 1 / n)))
    covariance = shrunk_covariances((scores.T @ scores / n)[None], n)[0]
    deviation = np.abs(solve_triangular(np.linalg.cholesky(covariance), scores.T, lower=True).T)
    return np.triu(ranks.T @ _standard_ranks(deviation) / n, k=1)


def _standard_ranks(rows: np.ndarray) -> np.ndarray:
    ranks = np.argsort(np.argsort(rows, axis=0), axis=0).astype(float)
    ranks -= ranks.mean(axis=0)
    spread = ranks.std(axis=0)
    return ranks / np.where(spread > 0, spread, 1.0)


def _family(in_target: np.ndarray, in_prior: np.ndarray) -> tuple[list[int], list[int]]:
    """Parents of spreads, and their children: all of the prior's, as the narrow end is of all."""
    clear = np.where((in_prior > FAINT) & (in_target > CLEAR), in_target**2, 0.0)
    drivers: list[int] = []
    children: set[int] = set()
    while len(drivers) < MAX_PARENTS:
        score = clear.copy()
        score[[*children, *drivers]] = 0.0
        score[:, drivers] = 0.0
        best = int(np.argmax(score.sum(axis=1)))
        if score[best].sum() == 0:
            break
        drivers.append(best)
        children |= {int(j) for j in np.flatnonzero(in_prior[best] > FAINT)} - set(drivers)
    return drivers, sorted(children)


def _with_locations(standard: np.ndarray, drivers: list[int], children: list[int]) -> list[int]:
    """The parents of spreads, and such of locations: what children are correlated with by ranks."""
    ranks = _standard_ranks(standard)
    correlation = np.triu(ranks.T @ ranks / len(ranks), k=1)[:, children] ** 2
    strength = np.where(correlation > CLEAR**2, correlation, 0.0).sum(axis=1)
    strength[[*drivers, *children]] = 0.0
    more = [int(i) for i in np.argsort(-strength) if strength[i] > 0]
    return [*drivers, *more][:MAX_PARENTS]


def _fit_child(
    child: np.ndarray, of_parents: np.ndarray, driving: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """Location and log spread of a child as linear functions of its parents."""
    n, m = of_parents.shape
    slope, known = np.zeros(m), np.column_stack([np.ones(n), of_parents])
    for _ in range(N_ROUNDS):
        weight = np.exp(np.clip(-2 * of_parents @ slope, -MAX_EXPONENT, MAX_EXPONENT))
        weight = np.minimum(weight, np.sort(weight)[-min(n, LEADING)])
        location = _least_squares(known, child, weight / weight.mean())
        deviation = np.abs(child - known @ location)
        deviation = np.maximum(deviation, np.finfo(float).tiny)
        spread = _least_squares(known[:, [True, *driving]], np.log(deviation), np.ones(n))
        slope = np.zeros(m)
        slope[driving] = spread[1:]
    return float(location[0]), location[1:], slope


def _least_squares(known: np.ndarray, wanted: np.ndarray, weight: np.ndarray) -> np.ndarray:
    penalty = RIDGE * len(known) * np.eye(known.shape[1])
    penalty[0, 0] = 0.0
    normal = known.T @ (weight[:, None] * known) + penalty
    return np.asarray(np.linalg.solve(normal, known.T @ (weight * wanted)))
