"""Whether annealed rows kept up with the path: where they ended, held against the density there."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pymc_logz.runners.anneal import Annealed
from pymc_logz.runners.block import Block
from pymc_logz.trees.doubts import Doubt
from pymc_logz.weights import relative

LIMIT = 4.0
"""Errors by which a mean may be off."""
STRETCH = 1.1
"""Factor by which rows are stretched, or its inverse, before they are accused."""


class _Ends(NamedTuple):
    """Rows at the end of the path that have a weight and a gradient."""

    position: np.ndarray  # Shape (n, d).
    score: np.ndarray  # Shape (n, d).
    log_target: np.ndarray  # Shape (n,).
    weight: np.ndarray  # Sum to one, shape (n,).
    whole: np.ndarray  # Rows with their whole numbers, shape (n, D).

    def part(self, chosen: np.ndarray) -> "_Ends":
        """Some of the rows, weighted among themselves."""
        some = _Ends(*(column[chosen] for column in self))
        return some._replace(weight=some.weight / some.weight.sum())

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Weighted mean and standard deviation, shape (d,) each."""
        centre = self.weight @ self.position
        spread = np.sqrt(self.weight @ (self.position - centre) ** 2)
        return centre, np.where(spread > 0, spread, 1.0)

    def mean(self, values: np.ndarray) -> tuple[float, float]:
        """Weighted mean and its error; without an error it says nothing."""
        mean = float(self.weight @ values)
        error = float(np.sqrt((self.weight**2) @ (values - mean) ** 2))
        return mean, error if error > 0 else np.inf


class _Direction(NamedTuple):
    """A line through the mean along which rows are looked at; or all of space."""

    centre: np.ndarray  # Shape (d,).
    along: np.ndarray  # Shape (d, m).
    across: np.ndarray  # Inverse of ``along``, shape (m, d).


def lagging(block: Block, runs: list[Annealed], convicts: float = 3.0) -> list[Doubt]:
    """What the ends of annealed rows say against their weights.

    Weights of rows that cannot follow the path, because steps are too small for its widest
    direction or too large for its narrowest, look alike: nearly all are below Z, which a few
    that are not drawn make up for. But weighted rows of the target f have, with their mean m ::

        E[d + (x - m) . grad log f(x)] = 0

    in all directions together, and along any one of them. Looked at are all together, and the one
    that rows of one half of the run have explored the least, in the other half. Where that is off,
    as it also is at an edge of the support, rows are stretched: for every map T ::

        E[ |T'| f(T(x)) / f(x) ] <= 1

    so that a mean that is larger by so many errors convicts them. Gradients were computed by the
    last move, and nothing else is as a rule. Rows that follow no gradient are stretched both ways.

    Runs went from the reference to the target, as they moved, by ``block``.
    """
    if block.path.is_binary:  # bits cannot be stretched
        return []
    # nor can whole numbers
    columns = np.setdiff1d(np.arange(block.path.n_dims), [one.column for one in block.path.sites])
    ends = _ends(runs, columns)
    if ends is None:
        return []
    for chosen, direction in _looks(ends, block.follows_whole_gradient):
        seen, factors, limit = ends.part(chosen), [STRETCH, 1 / STRETCH], LIMIT
        if block.follows_whole_gradient:
            coordinate = (seen.position - direction.centre) @ direction.across.T
            virial = np.mean(1 + coordinate * (seen.score @ direction.along), axis=1)
            mean, error = seen.mean(virial)
            if not abs(mean) > LIMIT * error:
                continue
            factors, limit = factors[:1] if mean > 0 else factors[1:], convicts
        for factor in factors:
            gain, error = _gain(block, seen, columns, direction, factor)
            if gain > limit * error:
                how = "too narrow" if factor > 1 else "too wide"
                reason = (
                    f"the weighted particles are {how} for the density where they end: stretched "
                    f"by {factor:.2g} they give a Z that is larger by {gain:.1%}, "
                    f"{gain / error:.3g} errors"
                )
                return [Doubt("lagging_rows", reason)]
    return []


def _ends(runs: list[Annealed], columns: np.ndarray) -> _Ends | None:
    """Rows with a weight; None where there are none, some have no gradient, or none can stretch."""
    weight = relative(np.concatenate([run.log_weight for run in runs]))
    kept = weight > 0
    position, score, reference, ratio = (
        np.concatenate([getattr(run, name) for run in runs])[kept]
        for name in ("position", "score", "log_reference", "log_ratio")
    )
    if not kept.any() or not columns.size or not np.all(np.isfinite(score)):
        return None
    weight = weight[kept] / weight[kept].sum()
    return _Ends(position[:, columns], score[:, columns], reference + ratio, weight, position)


def _looks(
    ends: _Ends, has_gradients: bool, per_dimension: int = 4
) -> Iterator[tuple[np.ndarray, _Direction]]:
    """Rows, and directions that do not depend on them, but on enough effective rows of others."""
    n, d = ends.position.shape
    centre, spread = ends.moments()
    yield np.arange(n), _Direction(centre, np.diag(spread), np.diag(1 / spread))
    halves = np.split(np.arange(n), [n // 2])
    for fitted, seen in (halves, halves[::-1]) if has_gradients else ():
        part = ends.part(fitted)
        if 1 / (part.weight**2).sum() > per_dimension * d > per_dimension:
            yield seen, _least_explored(part)


def _least_explored(ends: _Ends) -> _Direction:
    """Direction in which rows are narrowest beside the curvature of the density."""
    centre, spread = ends.moments()
    whitened, score = (ends.position - centre) / spread, ends.score * spread
    values, vectors = np.linalg.eigh(whitened.T @ (ends.weight[:, None] * whitened))
    root = np.sqrt(np.maximum(values, 1e-12))
    score = (score @ vectors) * root
    _, of_score = np.linalg.eigh(score.T @ (ends.weight[:, None] * score))
    along = spread * (vectors @ (root * of_score[:, 0]))
    across = (vectors @ (of_score[:, 0] / root)) / spread
    return _Direction(centre, along[:, None], across[None])


def _gain(
    block: Block, ends: _Ends, columns: np.ndarray, direction: _Direction, factor: float
) -> tuple[float, float]:
    """How much larger Z is by rows that are stretched, relative to Z, and its error."""
    centre, along, across = direction
    rows = ends.whole.copy()
    rows[:, columns] += (factor - 1) * ((ends.position - centre) @ across.T) @ along.T
    log_volume = len(across) * np.log(factor)
    ratio = np.exp(np.minimum(block.log_target(rows) - ends.log_target + log_volume, 700.0))
    mean, error = ends.mean(ratio)
    return mean - 1, error
