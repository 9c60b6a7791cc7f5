"""Maps that even out funnels: dimensions whose location and spread follow a few others.

In a hierarchical model the spread of many variables follows that of a scale. No ellipsoid has such
a shape, and what one misses is the narrow end, which rows do not find again. Rows whose dimensions
are divided by a spread that is log-linear in its parents have the shape of a cloud.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable
from scipy.linalg import solve_triangular
from scipy.special import ndtri

from pymc_logz.paths.elliptical import shrunk_covariance
from pymc_logz.paths.geometric import Evaluation

CLEAR, FAINT = 0.25, 0.1
"""Correlations with an absolute deviation from which on it counts: four standard errors of 256
rows of the target, and of 2,000 of the prior."""
MAX_PARENTS = 16
"""More would be noise, and dear to evaluate."""
MAX_EXPONENT = 30.0
"""Bound of the log of a spread, that rows far out stay finite."""


class Features(NamedTuple):
    """What locations, spreads and turns follow: products of three out of 1 and the m parents.

    One-hot rows choose the factors, shape (F, m + 1) each.
    """

    one: Any
    other: Any
    third: Any

    @classmethod
    def linear(cls, n_parents: int) -> "Features":
        """The parents themselves."""
        each, first = np.eye(n_parents + 1)[1:], np.eye(1, n_parents + 1)
        return cls(each, *[np.repeat(first, n_parents, axis=0)] * 2)

    @classmethod
    def cubic(cls, n_parents: int) -> "Features":
        """Products of up to three parents, no three of them different."""
        each = np.eye(n_parents + 1)
        chosen = combinations_with_replacement(range(n_parents + 1), 3)
        kept = [three for three in chosen if any(three) and len({*three} - {0}) < 3]
        columns = np.array(kept, dtype=int).reshape(-1, 3).T
        return cls(*(each[column] for column in columns))

    def of(self, parents: Any) -> Any:
        """Features (n, F) of parents (n, m), which may be symbolic."""
        one, other, third = self.factors(parents)
        return one * other * third

    def factors(self, parents: Any) -> list[Any]:
        """The three factors of each."""
        return [chosen[:, 0] + parents @ chosen[:, 1:].T for chosen in self]

    def gradient(self, parents: Any, by_features: Any) -> Any:
        """Gradient by parents (n, m), from that by features (n, F)."""
        one, other, third = self.factors(parents)
        return (
            (by_features * other * third) @ self.one[:, 1:]
            + (by_features * one * third) @ self.other[:, 1:]
            + (by_features * one * other) @ self.third[:, 1:]
        )


@dataclass(frozen=True)
class Funnel:
    """``x = centre + lean f + turn(f) (exp(slope f) y)``, from whitened rows y to rows x.

    Features f are functions of some entries of y, the parents, which are only shifted, or turned
    among themselves. ``turn(f)`` is the identity and a sum of matrices, one for each feature of its
    own, whose determinant does not depend on f. So the map has an inverse in closed form, whose
    volume is ``exp(log_turn + sum(slope f))``. A compiled path has symbolic variables for arrays.
    """

    centre: Any
    """Shape (d,)."""
    parents: Any
    """One-hot rows, shape (m, d)."""
    features: Features
    """F features that locations and spreads follow."""
    lean: Any
    """How locations follow, shape (d, F); zero for parents."""
    slope: Any
    """How logs of spreads follow, shape (d, F); zero for parents."""
    turning: Any = None
    """T `Features` that the turn follows, the first of them 1; None is no turn, and T = 0."""
    turn: Any = None
    """A matrix for each, shape (T, d, d), parents' rows being of the first, and of parents only."""
    log_turn: Any = 0.0
    """Log of the turn's volume."""
    reach: Any = np.inf
    """Bound of what parents count for: a product of them is no guide far out."""

    def __post_init__(self) -> None:
        if self.turning is None:
            d, m = len(self.centre), len(self.parents)
            object.__setattr__(self, "turning", Features(*np.zeros((3, 0, m + 1))))
            object.__setattr__(self, "turn", np.zeros((0, d, d)))

    @classmethod
    def none(cls, n_dims: int) -> "Funnel":
        """The map that leaves rows as they are."""
        nothing = np.zeros((n_dims, 0))
        return cls(np.zeros(n_dims), nothing.T, Features.linear(0), nothing, nothing)

    @classmethod
    def symbolic(cls, n_dims: int) -> "Funnel":
        """Symbolic variables in the place of arrays, for rows of this length d."""
        d, factors = n_dims, [(None, None)] * 3
        maps = [(d,), (None, d), *factors, (d, None), (d, None)]
        parts = [
            pt.tensor("funnel", dtype="float64", shape=shape)
            for shape in [*maps, *factors, (None, d, d), (), ()]
        ]
        centre, parents, one, other, third, lean, slope, *turning, turn, log_turn, reach = parts
        features, own = Features(one, other, third), Features(*turning)
        return cls(centre, parents, features, lean, slope, own, turn, log_turn, reach)

    @property
    def flat(self) -> tuple[Any, ...]:
        """All arrays, as a compiled path takes them."""
        before = self.centre, self.parents, *self.features, self.lean, self.slope
        return *before, *self.turning, self.turn, self.log_turn, self.reach

    def whitened(self, rows: np.ndarray) -> np.ndarray:
        """Rows (n, d) whitened."""
        apart = rows - self.centre
        of_parents = apart @ self.parents.T
        if len(self.turn) and len(self.parents):
            own = np.eye(len(self.parents)) + self.parents @ self.turn[0] @ self.parents.T
            of_parents = np.linalg.solve(own, of_parents.T).T
        bounded = np.clip(of_parents, -self.reach, self.reach)
        follows = self.features.of(bounded)
        apart = apart - follows @ self.lean.T
        return np.asarray(self._turned_back(apart, bounded) / np.exp(self._exponent(follows)))

    def restored(self, whitened: np.ndarray) -> np.ndarray:
        """Rows (n, d) of which these are whitened."""
        bounded = np.clip(whitened @ self.parents.T, -self.reach, self.reach)
        follows = self.features.of(bounded)
        wide = whitened * np.exp(self._exponent(follows))
        if len(self.turn):
            n, d = wide.shape
            parts = (wide @ self.turn.reshape(-1, d).T).reshape(n, len(self.turn), d)
            wide = wide + (self.turning.of(bounded)[:, None] @ parts)[:, 0]
        return np.asarray(self.centre + wide + follows @ self.lean.T)

    def log_spread(self, whitened: np.ndarray) -> np.ndarray:
        """Log of the factor that each entry of whitened rows (n, d) is wider by, shape (n, d)."""
        bounded = np.clip(whitened @ self.parents.T, -self.reach, self.reach)
        return np.asarray(self._exponent(self.features.of(bounded)))

    def log_volume(self, whitened: np.ndarray) -> np.ndarray:
        """Log of the volume that whitened rows (n, d) stand for, shape (n,)."""
        return np.asarray(self.log_spread(whitened).sum(axis=1) + self.log_turn)

    def evaluated(
        self, rows: TensorVariable, of_rows: Callable[[TensorVariable], Evaluation]
    ) -> Evaluation:
        """Evaluation of a path at symbolic whitened rows (n, d), and gradients by these."""
        d = rows.type.shape[1]
        of_parents = rows @ self.parents.T
        bounded = pt.clip(of_parents, -self.reach, self.reach)
        follows, weights = self.features.of(bounded), self.turning.of(bounded)
        exponent = pt.clip(follows @ self.slope.T, -MAX_EXPONENT, MAX_EXPONENT)
        spread = pt.exp(exponent)
        wide = rows * spread
        flat = self.turn.reshape((-1, d))
        parts = (wide @ flat.T).reshape((rows.shape[0], -1, d))
        turned = wide + (parts * weights[:, :, None]).sum(axis=1)
        found = of_rows(self.centre + turned + follows @ self.lean.T)
        inside = pt.eq(bounded, of_parents)

        def by_whitened(gradient: TensorVariable, of_volume: float) -> TensorVariable:
            shared = (weights[:, :, None] * gradient[:, None]).reshape((rows.shape[0], -1))
            own = (gradient + shared @ flat) * spread
            by_follows = gradient @ self.lean + (own * rows + of_volume) @ self.slope
            by_weights = (parts * gradient[:, None]).sum(axis=2)
            by_parents = self.features.gradient(bounded, by_follows)
            by_parents += self.turning.gradient(bounded, by_weights)
            return own + (by_parents * inside) @ self.parents

        return Evaluation(
            found.log_reference + exponent.sum(axis=1) + self.log_turn,
            found.log_ratio,
            by_whitened(found.grad_log_reference, 1.0),
            by_whitened(found.grad_log_ratio, 0.0),
        )

    def _turned_back(self, apart: np.ndarray, bounded: np.ndarray) -> np.ndarray:
        if not len(self.turn):
            return apart
        whole = np.eye(apart.shape[1])
        if len(self.turn) == 1:
            return np.linalg.solve(whole + self.turn[0], apart.T).T
        features = self.turning.of(bounded)  # a matrix for each row
        if apart.size * len(whole) <= 2**20:
            matrices = whole + np.tensordot(features, self.turn, 1)
            return np.linalg.solve(matrices, apart[..., None])[..., 0]
        back = np.empty_like(apart)
        is_lower = not any(np.any(np.triu(one, 1)) for one in self.turn)
        solve = partial(solve_triangular, lower=True) if is_lower else np.linalg.solve
        for i, own in enumerate(features):
            back[i] = solve(whole + np.tensordot(own, self.turn, 1), apart[i])
        return back

    def _exponent(self, follows: np.ndarray) -> Any:
        return np.clip(follows @ self.slope.T, -MAX_EXPONENT, MAX_EXPONENT)


def fitted_funnel(rows: np.ndarray, prior: np.ndarray) -> Funnel | None:
    """The funnel of a prior that is still one in the target, or None if there is none.

    A dimension is the child of one before it, as a variable of a model depends on those before it,
    if its absolute deviation from what they tell of it follows that one by ranks in the prior. A
    parent counts if one of its children follows it in the target too: that has a narrow end then,
    which is one of all of them. Those with the most to say are parents first, and no parent is a
    child. How a child follows is read from the prior: rows of the target seldom reach that end.
    Rows of the target are some hundred at least.
    """
    # Papaspiliopoulos, Roberts & Skoeld (2007), A general framework for the parametrization of
    # hierarchical models, doi 10.1214/088342307000000014; Betancourt & Girolami (2015), Hamiltonian
    # Monte Carlo for hierarchical models, arXiv 1312.0906
    in_target, in_prior = (np.abs(spreads_that_follow(part)) for part in (rows, prior))
    return _fitted(rows, in_target, prior, in_prior)


def funnels_of_target(rows: np.ndarray) -> Iterator[Funnel]:
    """Funnels that rows of the target may be in: parents are before their children, or all after.

    A likelihood makes them, as that of uniform data whose ends are free; no prior tells them.
    """
    for order in (slice(None), slice(None, None, -1)):
        ordered = rows[:, order]
        follows = np.abs(spreads_that_follow(ordered))
        if found := _fitted(ordered, follows, ordered, np.where(follows > CLEAR, follows, 0.0)):
            centre, lean, slope = (part[order] for part in (found.centre, found.lean, found.slope))
            parents = found.parents[:, order]
            yield replace(found, centre=centre, parents=parents, lean=lean, slope=slope)


def _fitted(
    rows: np.ndarray, in_target: np.ndarray, prior: np.ndarray, in_prior: np.ndarray
) -> Funnel | None:
    """A funnel by how spreads follow in the target, and in the rows that it is read from."""
    in_target = np.where(_in_spikes(rows)[:, None], 0.0, in_target)
    drivers, children = _family(in_target, in_prior)
    if not drivers:
        return None
    centre = np.median(rows, axis=0)
    scale = np.diff(np.quantile(rows, [0.1587, 0.8413], axis=0), axis=0)[0] / 2
    scale = np.where(scale > 0, scale, 1.0)
    standard = (prior - centre) / scale
    # squares of squares of what is farther out are infinite
    standard = standard[np.all(np.abs(standard) < 1e70, axis=1)]
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
    linear = Features.linear(len(parents))
    return Funnel(centre, np.eye(rows.shape[1])[parents], linear, lean, slope)


def _in_spikes(rows: np.ndarray) -> np.ndarray:
    """Columns (d,) of whose middle 68% a quarter is within a fiftieth of it: they drive no spread.

    It is within a tenth at least for a normal, exponential, or Cauchy variable. Spikes and slabs
    have spreads of their own, and nothing is between them.
    """
    n = len(rows)
    middle = np.sort(rows, axis=0)[round(0.1587 * n) : round(0.8413 * n)]
    quarter = len(middle) // 4
    shortest = (middle[quarter:] - middle[:-quarter]).min(axis=0)
    return np.asarray(shortest < (middle[-1] - middle[0]) / 50)


def spreads_that_follow(rows: np.ndarray) -> np.ndarray:
    """Rank correlation (d, d), i < j, of column i and j's deviation from regressions."""
    n, ranks = len(rows), _standard_ranks(rows)
    # normal scores, as no regression holds out against the tails of a hierarchy
    scores = ndtri(0.5 + ranks / (np.sqrt(12) * (1 + 1 / n)))
    covariance = shrunk_covariance(scores.T @ scores / n, n)
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
    """Location and log spread of a child as linear functions of its parents, fitted in turn."""
    # the narrow end leaves no room for noise of a location: none follows a parent that it need not
    # follow, and the four rows that lead at the narrow end have the same weight, others less
    n, m = of_parents.shape
    slope, known = np.zeros(m), np.column_stack([np.ones(n), of_parents])
    for _ in range(3):
        weight = np.exp(np.clip(-2 * of_parents @ slope, -MAX_EXPONENT, MAX_EXPONENT))
        weight = np.minimum(weight, np.sort(weight)[-min(n, 4)])
        location = _location(known, child, weight / weight.mean())
        deviation = np.abs(child - known @ location)
        deviation = np.maximum(deviation, np.finfo(float).tiny)
        spread = _least_squares(known[:, [True, *driving]], np.log(deviation), np.ones(n))
        slope = np.zeros(m)
        slope[driving] = spread[1:]
    return float(location[0]), location[1:], slope


def _location(known: np.ndarray, child: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Coefficients by weighted least squares, those after the first zero within five errors."""
    location = _least_squares(known, child, weight)
    if known.shape[1] == 1:
        return location
    inverse = np.linalg.pinv(known.T @ (weight[:, None] * known))
    # errors that hold whatever the weights are
    each = (known * (weight * (child - known @ location))[:, None]) @ inverse
    clear = np.abs(location) > 5.0 * np.sqrt((each**2).sum(axis=0))
    clear[0] = True
    location[:] = 0.0
    location[clear] = _least_squares(known[:, clear], child, weight)
    return location


def _least_squares(known: np.ndarray, wanted: np.ndarray, weight: np.ndarray) -> np.ndarray:
    penalty = 1e-9 * len(known) * np.eye(known.shape[1])
    penalty[0, 0] = 0.0
    normal = known.T @ (weight[:, None] * known) + penalty
    return np.asarray(np.linalg.solve(normal, known.T @ (weight * wanted)))
