"""Columns of symmetric matrices that are moved together, so that differences tell each element."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy import sparse


@dataclass(frozen=True)
class Groups:
    """Which column is in which group, and how elements are read off changes of gradients.

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
        pattern, degree = pattern_of(places, n), np.bincount(places[0], minlength=n)
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


def pattern_of(places: np.ndarray, n: int) -> sparse.csr_array:
    """One where an element is, from rows and columns (2, k) of matrices (n, n)."""
    return sparse.csr_array((np.ones(places.shape[1], dtype=int), tuple(places)), shape=(n, n))
