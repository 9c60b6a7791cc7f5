"""Symmetric matrices of second derivatives: whole ones, or bands with a few whole rows below them.

Each kind stores K of them in one array, and makes factors of it. Bands are what walks and series
have, groups too, and what all of them share, such as a level, is a whole row.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from scipy import sparse
from scipy.linalg import lapack
from scipy.sparse.csgraph import reverse_cuthill_mckee

FLAT = 1e-6
"""Least curvature of a direction, in units of the largest: where there is none, a step is long."""


@dataclass(frozen=True)
class Groups:
    """Columns of symmetric matrices that are moved together, so that differences tell each element.

    References
    ----------
    Powell & Toint (1979), On the estimation of sparse Hessian matrices, doi 10.1137/0716078.
    """

    of_column: np.ndarray
    """Shape (n,)."""
    n_alone: int
    """The first groups are of one column, whose row is not read off those of other columns."""

    @classmethod
    def of(cls, places: np.ndarray, n: int) -> Self:
        """The fewest groups: a column that many others share a row with is moved alone."""
        pattern, degree = _pattern(places, n), np.bincount(places[0], minlength=n)
        order, best = np.argsort(-degree, kind="stable"), cls(np.arange(n), 0)
        for n_alone in (0, *2 ** np.arange(int(np.log2(max(n, 1))) + 1)):
            rest = np.sort(order[n_alone:])
            groups = np.empty(n, dtype=int)
            groups[order[:n_alone]] = np.arange(n_alone)
            groups[rest] = n_alone + _apart(pattern[rest][:, rest].tocsr())
            if groups.max(initial=0) < best.of_column.max(initial=0):
                best = cls(groups, int(n_alone))
        return best

    @property
    def n(self) -> int:
        """Number of them."""
        return int(self.of_column.max(initial=-1)) + 1

    def element(
        self, change: np.ndarray, step: np.ndarray, row: np.ndarray, column: np.ndarray
    ) -> np.ndarray:
        """Elements, by changes of gradients (K, groups, n) for steps (K, n)."""
        of_row, of_column = self.of_column[row], self.of_column[column]
        one, other = change[:, of_column, row], change[:, of_row, column]
        one, other = one / step[:, column], other / step[:, row]
        row_is_alone, column_is_alone = of_row < self.n_alone, of_column < self.n_alone
        found = np.where(row_is_alone & ~column_is_alone, other, 0.5 * (one + other))
        return np.where(column_is_alone & ~row_is_alone, one, found)


def _apart(pattern: sparse.csr_array) -> np.ndarray:
    """A group for each column (n,): those of one have no entry in the same row.

    References
    ----------
    Curtis, Powell & Reid (1974), On the estimation of sparse Jacobian matrices, doi
    10.1093/imamat/13.1.117.
    """
    near, groups = (pattern @ pattern).tocsr(), np.full(pattern.shape[0], -1)
    for column in range(len(groups)):
        taken = set(groups[near.indices[near.indptr[column] : near.indptr[column + 1]]])
        groups[column] = next(group for group in range(len(taken) + 1) if group not in taken)
    return groups


@dataclass(frozen=True)
class WholeFactors:
    """Of matrices (K, n, n), for vectors (K, n); of one matrix, for any number of vectors."""

    matrix: np.ndarray

    @cached_property
    def _root(self) -> np.ndarray:
        return np.linalg.cholesky(self.matrix)

    def solved(self, x: np.ndarray) -> np.ndarray:
        """Solutions (K, n); NaN for a matrix that is singular."""
        try:
            if len(self.matrix) == 1:
                return np.asarray(np.linalg.solve(self.matrix[0], x.T).T)
            return np.asarray(np.linalg.solve(self.matrix, x[..., None])[..., 0])
        except np.linalg.LinAlgError:  # scales so far apart that one has a pivot of zero
            whole = (np.linalg.slogdet(self.matrix)[0] > 0)[:, None, None]
            solvable = np.where(whole, self.matrix, np.nan)
            return np.asarray(np.linalg.solve(solvable, x[..., None])[..., 0])

    def drawn(self, noise: np.ndarray) -> np.ndarray:
        """Vectors (K, n) whose precision these are, from standard normal ones."""
        return np.asarray(np.linalg.solve(self._root.transpose(0, 2, 1), noise[..., None])[..., 0])

    def whitened(self, x: np.ndarray) -> np.ndarray:
        """Vectors (K, n) in units of these precisions: what `drawn` makes them of."""
        return np.asarray((x[:, None] @ self._root)[:, 0])

    def slopes(self, gradient: np.ndarray) -> np.ndarray:
        """Gradients (K, n) by whitened vectors."""
        return np.asarray(np.linalg.solve(self._root, gradient[..., None])[..., 0])

    def log_det(self) -> np.ndarray:
        """Log determinants (K,); NaN if one is negative."""
        sign, log_det = np.linalg.slogdet(self.matrix)
        return np.where(sign > 0, log_det, np.nan)


def _have_roots(found: np.ndarray) -> np.ndarray:
    """Which of matrices (K, n, n) have a Cholesky factor, each for itself, shape (K,)."""
    try:
        np.linalg.cholesky(found)
        return np.ones(len(found), dtype=bool)
    except np.linalg.LinAlgError:
        return np.array([not lapack.dpotrf(one, lower=1)[1] for one in found], dtype=bool)


@dataclass(frozen=True)
class Whole:
    """Matrices (K, n, n)."""

    n: int
    places: np.ndarray | None = None
    """Rows and columns of the elements that are not zero, shape (2, k); None may be any."""

    @cached_property
    def groups(self) -> Groups:
        """Columns that are moved together."""
        if self.places is None:
            return Groups(np.arange(self.n), 0)
        return Groups.of(self.places, self.n)

    def of_diagonal(self, values: np.ndarray) -> np.ndarray:
        """One that is diagonal, from values (n,)."""
        return np.diag(values)

    def of_changes(self, change: np.ndarray, step: np.ndarray) -> np.ndarray:
        """From changes of gradients (K, groups, n), each group moved by steps (K, n)."""
        found = self.groups.element(change, step, *np.indices((self.n, self.n)))
        return found if self.places is None else np.where(_is_at(self.places, self.n), found, 0.0)

    def diagonal(self, found: np.ndarray) -> np.ndarray:
        """Shape (K, n)."""
        return np.asarray(np.einsum("kii->ki", found))

    def positive(self, found: np.ndarray) -> np.ndarray:
        """The same with the absolute values of their eigenvalues.

        Those are NaN that rounding makes singular, as entries of scales far apart do.
        """
        unit = 1 / np.sqrt(np.maximum(np.abs(self.diagonal(found)), 1e-300))
        scaled = found * unit[:, :, None] * unit[:, None]
        if np.all(is_one := _have_roots(scaled)):
            return found
        found, (values, vectors) = found.copy(), np.linalg.eigh(scaled[~is_one])
        values = np.maximum(np.abs(values), FLAT * np.abs(values).max(axis=1, keepdims=True))
        vectors = vectors / unit[~is_one, :, None]
        made = (vectors * values[:, None]) @ vectors.transpose(0, 2, 1)
        whole = (np.linalg.slogdet(made)[0] > 0)[:, None, None]
        found[~is_one] = np.where(whole, made, np.nan)
        return found

    def are_positive(self, found: np.ndarray, margin: float = 1e-12) -> np.ndarray:
        """Which of them have a Cholesky factor in floating-point numbers, shape (K,).

        Those have none that lose it where their diagonal is less by a ``margin``, as by rounding.
        """
        is_finite = np.isfinite(found).all(axis=(1, 2))
        return is_finite & _have_roots(found * (1 - margin * np.eye(self.n)))

    def factors(self, found: np.ndarray) -> WholeFactors:
        """Of these matrices."""
        return WholeFactors(found)

    def whole(self, found: np.ndarray) -> np.ndarray:
        """Shape (K, n, n)."""
        return found


class _Triangle(NamedTuple):
    """A Cholesky factor ``[[L, 0], [W, S]]``."""

    bands: np.ndarray  # Of L.
    below: np.ndarray  # W.
    corner: np.ndarray  # S.

    def lower(self, b: np.ndarray) -> np.ndarray:
        """Solutions of it for vectors (n, r)."""
        n = self.bands.shape[1]
        first, _ = lapack.dtbtrs(self.bands, b[:n], uplo="L")
        last = b[n:] - self.below @ first
        last = np.linalg.solve(self.corner, last) if len(self.corner) else last
        return np.concatenate([first, last])

    def upper(self, b: np.ndarray) -> np.ndarray:
        """Solutions of its transpose for vectors (n, r)."""
        n = self.bands.shape[1]
        last = np.linalg.solve(self.corner.T, b[n:]) if len(self.corner) else b[n:]
        first, _ = lapack.dtbtrs(self.bands, b[:n] - self.below.T @ last, uplo="L", trans="T")
        return np.concatenate([first, last])

    def whitened(self, x: np.ndarray) -> np.ndarray:
        """Its transpose times vectors (n, r)."""
        n = self.bands.shape[1]
        first = self.below.T @ x[n:]
        for shift, band in enumerate(self.bands):
            first[: n - shift] += band[: n - shift, None] * x[shift:n]
        return np.concatenate([first, self.corner.T @ x[n:]])

    def log_det(self) -> float:
        """Log determinant of the matrix that it is a factor of."""
        return float(2 * (np.log(self.bands[0]).sum() + np.log(np.diag(self.corner)).sum()))


@dataclass(frozen=True)
class BandFactors:
    """Of matrices that `Bands` stores; NaN comes of one that is not positive."""

    order: np.ndarray
    triangles: list[_Triangle | None]

    def solved(self, x: np.ndarray) -> np.ndarray:
        """Solutions (K, n)."""
        return self._each(x, lambda triangle, b: triangle.upper(triangle.lower(b)))

    def drawn(self, noise: np.ndarray) -> np.ndarray:
        """Vectors (K, n) whose precision these are, from standard normal ones."""
        return self._each(noise, _Triangle.upper)

    def _each(
        self, x: np.ndarray, solve: Callable[[_Triangle, np.ndarray], np.ndarray]
    ) -> np.ndarray:
        found, n_each = np.full(x.shape, np.nan), len(x) // max(len(self.triangles), 1)
        for k, one in enumerate(self.triangles):
            if one is not None:
                rows = slice(k * n_each, (k + 1) * n_each)
                found[rows, self.order] = solve(one, x[rows, self.order].T).T
        return found

    def whitened(self, x: np.ndarray) -> np.ndarray:
        """Vectors (K, n) in units of these precisions: what `drawn` makes them of."""
        return self._each(x, _Triangle.whitened)

    def slopes(self, gradient: np.ndarray) -> np.ndarray:
        """Gradients (K, n) by whitened vectors."""
        return self._each(gradient, _Triangle.lower)

    def log_det(self) -> np.ndarray:
        """Log determinants (K,)."""
        return np.array([np.nan if one is None else one.log_det() for one in self.triangles])


@dataclass(frozen=True)
class Bands:
    """Matrices as arrays (K, w, n): lower bands of most columns, then whole rows of the others."""

    order: np.ndarray
    """Columns in the order in which they are stored, those with whole rows last, shape (n,)."""
    n_bands: int
    n_below: int
    places: np.ndarray
    """Rows and columns of the elements that are not zero, shape (2, k)."""

    @classmethod
    def of(cls, places: np.ndarray, n: int, most: float = 1 / 8) -> Self | None:
        """The fewest bands and whole rows that a pattern goes into; None if they are too many.

        ``most`` is their share of the columns: factors cost a sixtieth of a whole matrix's then.
        """
        if most * n < 1:
            return None
        pattern, degree = _pattern(places, n), np.bincount(places[0], minlength=n)
        best: Self | None = None
        by_degree = np.argsort(degree, kind="stable")
        for n_below in (0, *2 ** np.arange(int(np.log2(most * n)) + 1)):
            kept, below = np.split(by_degree, [n - n_below])
            inner = pattern[np.sort(kept)][:, np.sort(kept)].tocsr()
            order = np.sort(kept)[reverse_cuthill_mckee(inner, symmetric_mode=True)]
            place = np.empty(n, dtype=int)
            place[np.concatenate([order, below])] = np.arange(n)
            there = place[places]
            in_bands = (there < kept.size).all(axis=0)
            n_bands = 1 + int(np.abs(there[0] - there[1])[in_bands].max(initial=0))
            if best is None or n_bands + n_below < best.n_bands + best.n_below:
                best = cls(np.concatenate([order, below]), n_bands, int(n_below), places)
        assert best is not None
        return best if best.n_bands + best.n_below <= most * n else None

    @cached_property
    def groups(self) -> Groups:
        """Columns that are moved together."""
        return Groups.of(self.places, self.order.size)

    @cached_property
    def _places(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Row and column of each stored element, and whether it is one, shapes (w, n)."""
        n = self.order.size
        n_most, column = n - self.n_below, np.arange(n)
        row = np.concatenate(
            [column + np.arange(self.n_bands)[:, None], np.tile(column[n_most:, None], n)]
        )
        is_one = (row < n_most) & (column < n_most)
        is_one[self.n_bands :] = True
        row = np.minimum(row, n - 1)
        row, column = self.order[row], np.broadcast_to(self.order[column], row.shape)
        return row, column, is_one & _is_at(self.places, n)[row, column]

    def of_diagonal(self, values: np.ndarray) -> np.ndarray:
        """One that is diagonal, from values (n,)."""
        row, column, is_one = self._places
        return np.where((row == column) & is_one, values[row], 0.0)

    def of_changes(self, change: np.ndarray, step: np.ndarray) -> np.ndarray:
        """From changes of gradients (K, groups, n), each group moved by steps (K, n)."""
        row, column, is_one = self._places
        return np.where(is_one, self.groups.element(change, step, row, column), 0.0)

    def diagonal(self, found: np.ndarray) -> np.ndarray:
        """Shape (K, n)."""
        row, column, is_one = self._places
        own, diagonal = (row == column) & is_one, np.zeros((len(found), self.order.size))
        diagonal[:, row[own]] = found[:, own]
        return diagonal

    def positive(self, found: np.ndarray) -> np.ndarray:
        """The same with as much added to the diagonal as makes them positive; NaN if none does."""
        found, one = found.copy(), self.of_diagonal(np.ones(self.order.size))
        for k, triangle in enumerate(self.factors(found).triangles):
            if triangle is None:
                unit = one * np.abs(self.diagonal(found[k : k + 1])).mean()
                tried = (found[k] + FLAT * 10.0**power * unit for power in range(1, 9))
                good = (a for a in tried if self._triangle(a) is not None)
                found[k] = next(good, np.full_like(one, np.nan))
        return found

    def are_positive(self, found: np.ndarray) -> np.ndarray:
        """Which of them have a Cholesky factor in floating-point numbers, shape (K,)."""
        return np.isfinite(self.factors(found).log_det())

    def factors(self, found: np.ndarray) -> BandFactors:
        """Of these matrices."""
        return BandFactors(self.order, [self._triangle(one) for one in found])

    def _triangle(self, one: np.ndarray) -> _Triangle | None:
        n_most = self.order.size - self.n_below
        if not np.isfinite(one).all():
            return None
        bands, failed = lapack.dpbtrf(one[: self.n_bands, :n_most], lower=1)
        if failed:
            return None
        below = one[self.n_bands :, :n_most]
        corner = one[self.n_bands :, n_most:]
        if not self.n_below:
            return _Triangle(bands, below, corner)
        turned, _ = lapack.dtbtrs(bands, below.T, uplo="L")
        try:
            return _Triangle(bands, turned.T, np.linalg.cholesky(corner - turned.T @ turned))
        except np.linalg.LinAlgError:
            return None

    def whole(self, found: np.ndarray) -> np.ndarray:
        """Shape (K, n, n)."""
        n = self.order.size
        row, column, is_one = self._places
        whole = np.zeros((len(found), n, n))
        whole[:, row[is_one], column[is_one]] = found[:, is_one]
        whole[:, column[is_one], row[is_one]] = found[:, is_one]
        return whole


type Matrices = Whole | Bands
type Factors = WholeFactors | BandFactors


def matrices_of(is_there: np.ndarray) -> Matrices:
    """Bands, where elements (n, n) that are there go into few enough; else whole ones."""
    places, n = np.array(np.nonzero(is_there)), len(is_there)
    return Bands.of(places, n) or Whole(n, places)


def _pattern(places: np.ndarray, n: int) -> sparse.csr_array:
    return sparse.csr_array((np.ones(places.shape[1], dtype=int), tuple(places)), shape=(n, n))


def _is_at(places: np.ndarray, n: int) -> np.ndarray:
    """Whether elements (n, n) are among these."""
    found = np.zeros((n, n), dtype=bool)
    found[tuple(places)] = True
    return found
