"""Modes, and curvatures there, of some entries of a row given the others: Newton's method."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import linalg

from pymc_logz.models.flat import FlatModel
from pymc_logz.models.normal_parts import normal_columns
from pymc_logz.runners.block import Block

MAX_STEPS = 12
LENGTHS = np.array([1.0, 0.4, 0.1, 0.02])
"""Parts of a step of Newton's method that are tried together."""
DIFFERENCE = 1e-5
"""Step of the differences of gradients, in units of a conditional standard deviation."""
FLAT = 1e-6
"""Least curvature of a direction, in units of the largest: where there is none, a step is long."""
SETTLED = 0.02
"""Nats that a further step promises, below which a mode is found."""
CLOSE = 0.2
"""The same, below which the curvature at the last point is that at the mode."""
QUADRATIC = 1e-3
"""Relative error of a step's promise, below which the curvature is taken to be the same all along
it."""
CLIMB_STEPS, LONGEST = 24, 1.0
"""Steps of rows that climb, and their length in outer entries, in standard deviations."""
ROWS_PER_LOOK = 4096
"""Rows whose gradients are held at once."""


class Modes(NamedTuple):
    """K conditional modes."""

    inner: np.ndarray
    """Shape (K, n)."""
    precision: np.ndarray
    """Minus the second derivatives there, shape (K, n, n)."""
    log_marginal: np.ndarray
    """Log density of the given entries by Laplace's method, shape (K,); -inf without a mode."""


@dataclass(frozen=True)
class Conditionals:
    """The density of ``inner`` entries of a row given the ``outer`` ones, without its constant."""

    block: Block
    """On the path from the prior, whose gradients are taken and counted."""
    inner: np.ndarray
    """Columns, shape (n,)."""
    outer: np.ndarray
    """The others, shape (m,)."""
    pattern: sparse.csr_array | None = None
    """Which second derivatives by inner entries are not zero, shape (n, n); None may be any."""

    def with_pattern(self, precision: np.ndarray) -> Self:
        """The same, which takes entries of these matrices (K, n, n) that all are zero as such."""
        return replace(self, pattern=sparse.csr_array(np.any(precision, axis=0).astype(int)))

    @classmethod
    def of_normal_entries(cls, flat: FlatModel, block: Block) -> Self | None:
        """Those that are normal in the prior, given the others; None if nothing can be climbed."""
        if flat.sites or not block.follows_whole_gradient:
            return None
        inner = normal_columns(flat)
        return cls(block, inner, np.setdiff1d(np.arange(len(flat.owners)), inner))

    def rows(self, outer: np.ndarray, inner: np.ndarray) -> np.ndarray:
        """Whole rows of both parts, shape (K, d)."""
        rows = np.empty((len(inner), len(self.inner) + len(self.outer)))
        rows[:, self.outer], rows[:, self.inner] = outer, inner
        return rows

    def at(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log target of rows (K, d), shape (K,), and its gradients (K, d)."""
        if not len(rows):
            return np.empty(0), np.empty_like(rows)
        return self.block.target_and_gradient(rows)

    def modes(self, outer: np.ndarray, start: np.ndarray, scale: np.ndarray) -> Modes:
        """Climb to the mode of the inner entries for each of K settings of the outer ones.

        Settings are (K, m), starts (K, n), and rough standard deviations of the inner entries (n,).
        """
        k, n = start.shape
        inner, precision = start.copy(), np.tile(np.eye(n), (k, 1, 1))
        value, slope = self._inner_at(outer, inner)
        scales, found = np.tile(scale, (k, 1)), np.zeros(k, dtype=bool)
        moving = np.flatnonzero(np.isfinite(value))
        for _ in range(MAX_STEPS):
            if not moving.size:
                break
            curved = self._curvature(outer[moving], inner[moving], slope[moving], scales[moving])
            whole = np.isfinite(curved).all(axis=(1, 2))
            curved[whole] = _made_positive(curved[whole])
            alive = np.isfinite(curved).all(axis=(1, 2))
            moving, curved = moving[alive], curved[alive]
            if not moving.size:
                break
            precision[moving] = curved
            scales[moving] = 1 / np.sqrt(np.einsum("kii->ki", curved))
            step = self._solved(curved, slope[moving])
            promise = np.sum(step * slope[moving], axis=1)
            t, new_value, new_slope = self._along(outer[moving], inner[moving], step)
            gain = new_value - value[moving]
            better = gain > 0
            risen = moving[better]
            inner[risen] += t[better, None] * step[better]
            value[risen], slope[risen] = new_value[better], new_slope[better]
            left = self._solved(curved, slope[moving])
            left = 0.5 * np.sum(left * slope[moving], axis=1)
            with np.errstate(divide="ignore", invalid="ignore"):
                kept = np.abs(gain / (t * (1 - t / 2) * promise) - 1) < QUADRATIC
            done = (left < SETTLED) & (kept | (promise < CLOSE))
            found[moving[done]] = True
            moving = moving[~done & (better | (promise < CLOSE))]
        log_marginal = value - 0.5 * self._log_det(precision) + 0.5 * n * np.log(2 * np.pi)
        log_marginal = np.where(found & np.isfinite(log_marginal), log_marginal, -np.inf)
        return Modes(inner, precision, log_marginal)

    def climbed(
        self, start: np.ndarray, outer_scale: np.ndarray, precision: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Whole rows after steps uphill, and their log target.

        Steps from ``start`` (K, d) are guided by standard deviations of the outer entries (m,) and
        the curvature of the inner ones (n, n).
        """
        rows, length = start.copy(), np.ones(len(start))
        value, slope = self.at(rows)
        factor = cho_factor(precision)
        for _ in range(CLIMB_STEPS):
            step = np.zeros_like(rows)
            step[:, self.outer] = slope[:, self.outer] * outer_scale**2
            step[:, self.inner] = cho_solve(factor, slope[:, self.inner].T).T
            # none is so long that it jumps over whatever is there
            far = np.max(np.abs(step[:, self.outer]) / outer_scale, axis=1, initial=0.0)
            tried = rows + (length / np.maximum(far / LONGEST, 1.0))[:, None] * step
            new_value, new_slope = self.at(tried)
            better = (new_value > value) & np.isfinite(new_slope).all(axis=1)
            rows[better], value[better] = tried[better], new_value[better]
            slope[better] = new_slope[better]
            length = np.where(better, np.minimum(2 * length, 1.0), length / 4)
        return rows, value

    def curvature(self, rows: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Minus the second derivatives by the inner entries, shape (K, n, n).

        Of rows (K, d), by differences in units of rough standard deviations of the inner entries
        (n,).
        """
        outer, inner = rows[:, self.outer], rows[:, self.inner]
        _, slope = self._inner_at(outer, inner)
        return self._curvature(outer, inner, slope, np.tile(scale, (len(rows), 1)))

    def _inner_at(self, outer: np.ndarray, inner: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log target, and gradients by the inner entries, shape (K, n)."""
        value, slope = self.at(self.rows(outer, inner))
        return value, slope[:, self.inner]

    @cached_property
    def _groups(self) -> np.ndarray:
        """A group for each inner entry, shape (n,): those of one are moved together."""
        return np.arange(len(self.inner)) if self.pattern is None else _groups_apart(self.pattern)

    @property
    def _is_sparse(self) -> bool:
        return self.pattern is not None and self.pattern.nnz <= len(self.inner) ** 1.5

    def _solved(self, precision: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """Solutions (K, n) for matrices (K, n, n) of this pattern; NaN for one that is singular."""
        if not self._is_sparse:
            try:
                return np.linalg.solve(precision, slope[..., None])[..., 0]
            except np.linalg.LinAlgError:  # scales so far apart that one has a pivot of zero
                whole = (np.linalg.slogdet(precision)[0] > 0)[:, None, None]
                solvable = np.where(whole, precision, np.nan)
                return np.linalg.solve(solvable, slope[..., None])[..., 0]
        pairs = zip(precision, slope, strict=True)
        return np.array([linalg.spsolve(sparse.csc_array(a), b) for a, b in pairs])

    def _log_det(self, precision: np.ndarray) -> np.ndarray:
        """Log determinants (K,) of matrices (K, n, n) of this pattern; NaN if one is negative."""
        if not self._is_sparse:
            sign, log_det = np.linalg.slogdet(precision)
            return np.where(sign > 0, log_det, np.nan)
        factored = (linalg.splu(sparse.csc_array(one)) for one in precision)
        return np.array([np.log(np.abs(one.U.diagonal())).sum() for one in factored])

    def _along(
        self, outer: np.ndarray, inner: np.ndarray, step: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The best of several lengths of a step: its length, and value and gradient there."""
        k, n = inner.shape
        tried = inner[:, None] + LENGTHS[:, None] * step[:, None]
        value, slope = self._inner_at(np.repeat(outer, LENGTHS.size, axis=0), tried.reshape(-1, n))
        slope = slope.reshape(k, LENGTHS.size, n)
        value = value.reshape(k, LENGTHS.size)
        value = np.where(np.isfinite(slope).all(axis=2), value, -np.inf)
        best = np.argmax(value, axis=1)
        each = np.arange(k)
        return LENGTHS[best], value[each, best], slope[each, best]

    def _curvature(
        self, outer: np.ndarray, inner: np.ndarray, slope: np.ndarray, scale: np.ndarray
    ) -> np.ndarray:
        """Minus the second derivatives, shape (K, n, n), from differences.

        NaN where they are not finite, or a direction has none: a target of straight pieces has no
        curvature to speak of.
        """
        k, n = inner.shape
        found = np.empty((k, n, n))
        groups = self._groups
        together = np.eye(groups.max(initial=-1) + 1)[groups].T
        size = max(1, ROWS_PER_LOOK // len(together))
        for first in range(0, k, size):
            part = slice(first, first + size)
            step = DIFFERENCE * scale[part]
            moved = inner[part, None] + step[:, None] * together
            repeated = np.repeat(outer[part], len(together), axis=0)
            there = self._inner_at(repeated, moved.reshape(-1, n))[1]
            change = there.reshape(-1, len(together), n) - slope[part, None]
            found[part] = -change[:, groups] / step[:, :, None]
        if self.pattern is not None:
            found[:, self.pattern.toarray() == 0] = 0.0
        found = 0.5 * (found + found.transpose(0, 2, 1))
        whole = np.isfinite(found).all(axis=(1, 2)) & np.einsum("kii->ki", found).all(axis=1)
        found[~whole] = np.nan
        return found


def _groups_apart(pattern: sparse.csr_array) -> np.ndarray:
    """A group for each column (n,): those of one have no entry in the same row.

    References
    ----------
    Curtis, Powell & Reid (1974), On the estimation of sparse Jacobian matrices, doi
    10.1093/imamat/13.1.117.
    """
    near = (pattern @ pattern).tocsr()
    groups = np.full(pattern.shape[0], -1)
    for column in range(len(groups)):
        taken = set(groups[near.indices[near.indptr[column] : near.indptr[column + 1]]])
        groups[column] = next(group for group in range(len(taken) + 1) if group not in taken)
    return groups


def _made_positive(found: np.ndarray) -> np.ndarray:
    """Symmetric matrices (K, n, n) with the absolute values of their eigenvalues.

    Those are NaN that rounding makes singular, as entries of scales far apart do.
    """
    unit = 1 / np.sqrt(np.maximum(np.abs(np.einsum("kii->ki", found)), 1e-300))
    scaled = found * unit[:, :, None] * unit[:, None]
    try:
        np.linalg.cholesky(scaled)
        return found
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(scaled)
    values = np.maximum(np.abs(values), FLAT * np.abs(values).max(axis=1, keepdims=True))
    vectors = vectors / unit[:, :, None]
    found = (vectors * values[:, None]) @ vectors.transpose(0, 2, 1)
    return np.where((np.linalg.slogdet(found)[0] > 0)[:, None, None], found, np.nan)
