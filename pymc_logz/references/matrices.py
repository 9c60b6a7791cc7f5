"""Symmetric matrices of second derivatives: whole ones, or bands with a few whole rows below them.

Each kind stores K of them in one array, and makes factors of it. Bands are what walks and series
have, groups too, and what all of them share, such as a level, is a whole row.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from scipy.linalg import lapack
from scipy.sparse.csgraph import reverse_cuthill_mckee

from pymc_logz.references.column_groups import Groups, pattern_of

FLAT = 1e-6
"""Least curvature of a direction, in units of the largest: where there is none, a step is long."""


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
            if len(self.matrix) == 1:  # factored once
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


def _roots(found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cholesky factors of matrices (K, n, n), and which have one, each for itself, shape (K,).

    The factor of one that has none is that of the identity.
    """
    try:
        return np.linalg.cholesky(found), np.ones(len(found), dtype=bool)
    except np.linalg.LinAlgError:
        pairs = [lapack.dpotrf(one, lower=1) for one in found]
        have = np.array([not failed for _, failed in pairs])
        unit = np.eye(found.shape[1])
        return np.array([root if not failed else unit for root, failed in pairs]), have


def _banded_roots(found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same of lower bands (K, b, n), one matrix after the other, shape (b, K * n).

    Matrices that follow each other on the diagonal of a large one have its bands.
    """
    k, joined = len(found), found.transpose(1, 0, 2).reshape(found.shape[1], -1)
    if not found.size:
        return joined, np.ones(k, dtype=bool)
    bands, failed = lapack.dpbtrf(joined, lower=1)
    if not failed:
        return bands, np.ones(k, dtype=bool)
    pairs = [lapack.dpbtrf(one, lower=1) for one in found]
    have = np.array([not failed for _, failed in pairs])
    unit = np.zeros_like(found[0])
    unit[0] = 1.0
    alone = [root if not failed else unit for root, failed in pairs]
    return np.concatenate(alone, axis=1), have


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
        if np.all(is_one := _roots(scaled)[1]):
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
        return is_finite & _roots(found * (1 - margin * np.eye(self.n)))[1]

    def factors(self, found: np.ndarray) -> WholeFactors:
        """Of these matrices."""
        return WholeFactors(found)

    def whole(self, found: np.ndarray) -> np.ndarray:
        """Shape (K, n, n)."""
        return found


@dataclass(frozen=True)
class BandFactors:
    """Cholesky factors ``[[L, 0], [W, S]]`` of matrices that `Bands` stores, all made at once.

    NaN comes of a matrix that is not positive.
    """

    order: np.ndarray
    bands: np.ndarray
    """Of L, one matrix after the other, shape (b, K * n)."""
    below: np.ndarray
    """W, shape (K, m, n)."""
    corner: np.ndarray
    """S, shape (K, m, m)."""
    are_positive: np.ndarray
    """Which matrices are, shape (K,)."""

    def solved(self, x: np.ndarray) -> np.ndarray:
        """Solutions (K, n)."""
        return self._each(x, lambda b: self._upper(self._lower(b)))

    def drawn(self, noise: np.ndarray) -> np.ndarray:
        """Vectors (K, n) whose precision these are, from standard normal ones."""
        return self._each(noise, self._upper)

    def whitened(self, x: np.ndarray) -> np.ndarray:
        """Vectors (K, n) in units of these precisions: what `drawn` makes them of."""
        return self._each(x, self._whitened)

    def slopes(self, gradient: np.ndarray) -> np.ndarray:
        """Gradients (K, n) by whitened vectors."""
        return self._each(gradient, self._lower)

    def log_det(self) -> np.ndarray:
        """Log determinants (K,)."""
        k, _, n = self.below.shape
        roots = np.hstack([self.bands[0].reshape(k, n), np.einsum("kii->ki", self.corner)])
        return np.where(self.are_positive, 2 * np.log(roots).sum(axis=1), np.nan)

    def _each(self, x: np.ndarray, solve: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        k, found = len(self.below), np.empty(x.shape)
        shape = k, len(x) // max(k, 1), self.order.size
        ordered = x[:, self.order].reshape(shape).transpose(0, 2, 1)
        # a vector that is not finite spoils no other one
        good = self.are_positive[:, None, None] & np.isfinite(ordered).all(axis=1, keepdims=True)
        solved = np.where(good, solve(np.where(good, ordered, 0.0)), np.nan)
        found[:, self.order] = solved.transpose(0, 2, 1).reshape(x.shape)
        return found

    def _lower(self, b: np.ndarray) -> np.ndarray:
        """Solutions for vectors (K, n, r)."""
        n = self.below.shape[2]
        first = _banded_solution(self.bands, b[:, :n])
        last = np.linalg.solve(self.corner, b[:, n:] - self.below @ first)
        return np.concatenate([first, last], axis=1)

    def _upper(self, b: np.ndarray) -> np.ndarray:
        """Solutions of the transpose for vectors (K, n, r)."""
        n = self.below.shape[2]
        last = np.linalg.solve(self.corner.transpose(0, 2, 1), b[:, n:])
        rest = b[:, :n] - self.below.transpose(0, 2, 1) @ last
        return np.concatenate([_banded_solution(self.bands, rest, trans="T"), last], axis=1)

    def _whitened(self, x: np.ndarray) -> np.ndarray:
        """The transpose times vectors (K, n, r)."""
        k, _, n = self.below.shape
        first = self.below.transpose(0, 2, 1) @ x[:, n:]
        for shift, band in enumerate(self.bands.reshape(len(self.bands), k, n)):
            first[:, : n - shift] += band[:, : n - shift, None] * x[:, shift:n]
        return np.concatenate([first, self.corner.transpose(0, 2, 1) @ x[:, n:]], axis=1)


def _banded_solution(bands: np.ndarray, b: np.ndarray, trans: str = "N") -> np.ndarray:
    """Of lower bands of K matrices, one after the other, for vectors (K, n, r)."""
    if not b.size:
        return b
    found, _ = lapack.dtbtrs(bands, b.reshape(bands.shape[1], -1), uplo="L", trans=trans)
    return np.asarray(found.reshape(b.shape))


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
        pattern, degree = pattern_of(places, n), np.bincount(places[0], minlength=n)
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
        left = np.flatnonzero(~self.factors(found).are_positive)
        unit = np.abs(self.diagonal(found[left])).mean(axis=1)[:, None, None] * one
        for power in range(1, 9):
            if not left.size:
                break
            tried = found[left] + FLAT * 10.0**power * unit
            good = self.factors(tried).are_positive
            found[left[good]] = tried[good]
            left, unit = left[~good], unit[~good]
        found[left] = np.nan
        return found

    def are_positive(self, found: np.ndarray) -> np.ndarray:
        """Which of them have a Cholesky factor in floating-point numbers, shape (K,)."""
        return np.isfinite(self.factors(found).log_det())

    def factors(self, found: np.ndarray) -> BandFactors:
        """Of these matrices."""
        n, unit = self.order.size - self.n_below, self.of_diagonal(np.ones(self.order.size))
        good = np.isfinite(found).all(axis=(1, 2))
        found = np.where(good[:, None, None], found, unit)
        bands, of_bands = _banded_roots(found[:, : self.n_bands, :n])
        below, corner = np.split(found[:, self.n_bands :], [n], axis=2)
        turned = _banded_solution(bands, below.transpose(0, 2, 1)).transpose(0, 2, 1)
        roots, of_corner = _roots(corner - turned @ turned.transpose(0, 2, 1))
        return BandFactors(self.order, bands, turned, roots, good & of_bands & of_corner)

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


def _is_at(places: np.ndarray, n: int) -> np.ndarray:
    """Whether elements (n, n) are among these."""
    found = np.zeros((n, n), dtype=bool)
    found[tuple(places)] = True
    return found
