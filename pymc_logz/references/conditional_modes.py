"""Modes, and curvatures there, of some entries of a row given the others: Newton's method."""

from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple, Self

import numpy as np

from pymc_logz.models.known_priors import normal_columns
from pymc_logz.references.blend import N_ROWS, Target
from pymc_logz.references.matrices import Matrices, Whole, matrices_of
from pymc_logz.weights import NEGLIGIBLE, TOLERANCE


class Modes(NamedTuple):
    """K conditional modes."""

    inner: np.ndarray
    """Shape (K, n)."""
    precision: np.ndarray
    """Minus the second derivatives there, as the `matrices` of the conditionals are stored."""
    log_marginal: np.ndarray
    """Log density of the given entries by Laplace's method, shape (K,); -inf without a mode."""
    sides: np.ndarray
    """Widths below and above the mode, by whitened entry, in units of the curvature's, (K, n, 2).

    They are one where conditionals are not `skewed`. The log density of the given entries is that
    of normals of two halves, which join at the mode (simplified Laplace approximations allow for
    skewness too: Rue, Martino & Chopin, 2009, section 3.2.3).
    """


@dataclass(frozen=True)
class InnerAndOuter:
    """Rows in two parts: ``inner`` entries, which are looked at given the ``outer`` ones."""

    block: Any
    """On the path from the prior, whose gradients are counted; None in a part of a blend."""
    inner: np.ndarray
    """Columns, shape (n,)."""
    outer: np.ndarray
    """The others, shape (m,)."""

    def modes(self, outer: np.ndarray, start: np.ndarray, scale: np.ndarray) -> Any:
        """Where inner entries are likely at settings (K, m), ``inner`` (K, n) and ``log_marginal``.

        The latter is the log density of the settings, shape (K,). Inner entries are looked for from
        starts (K, n), with rough standard deviations (n,).
        """
        raise NotImplementedError

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

    def inner_at(self, outer: np.ndarray, inner: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log target, and gradients by the inner entries, shape (K, n)."""
        value, slope = self.at(self.rows(outer, inner))
        return value, slope[:, self.inner]


@dataclass(frozen=True)
class Conditionals(InnerAndOuter):
    """The density of ``inner`` entries of a row given the ``outer`` ones, without its constant."""

    matrices: Matrices
    """How second derivatives by inner entries are stored."""
    skewed: bool = False
    """Whether the two sides of a mode are told apart."""

    @classmethod
    def of_normal_entries(cls, target: Target) -> Self | None:
        """Those that are normal in the prior, given the others; None if nothing can be climbed."""
        flat, block = target.prepared.flat, target.block
        if flat.sites or not block.follows_whole_gradient:
            return None
        inner = normal_columns(flat)
        outer = np.setdiff1d(np.arange(len(flat.owners)), inner)
        return cls(block, inner, outer, Whole(inner.size))

    def with_zeros(self, rows: np.ndarray, scale: np.ndarray) -> Self:
        """The same; second derivatives that are zero at all of these rows (K, d) are not stored."""
        curvature = self.matrices.whole(self.curvature(rows, scale))
        return replace(self, matrices=matrices_of(np.any(curvature, axis=0)))

    def with_sides(
        self, outer: np.ndarray, inner: np.ndarray, scale: np.ndarray, least: float = 1.0
    ) -> Self:
        """The same; skewed where squares of log widths of sides add up to ``least``.

        At `modes` given settings (K, m), on average. Weights of normals vary by about as much.
        """
        skewed = replace(self, skewed=True)
        sides = skewed.modes(outer, inner, scale).sides
        return skewed if np.sum(np.log(sides) ** 2) > least * len(outer) else self

    def scale_of(self, precision: np.ndarray) -> np.ndarray:
        """Standard deviations (n,) of entries, each given all the rest, by one of `matrices`."""
        return np.asarray(1 / np.sqrt(self.matrices.diagonal(precision[None])[0]))

    def modes(self, outer: np.ndarray, start: np.ndarray, scale: np.ndarray) -> Modes:
        """Climb to the mode of the inner entries for each of K settings of the outer ones.

        Settings are (K, m), starts (K, n), and rough standard deviations of the inner entries (n,).
        A mode is found where a further step promises less than the tolerance, and the curvature is
        known there: the last step was short, or gave what it promised.
        """
        close, same = 0.2, 1e-3  # nats that are promised, and relative error of a promise
        (k, n), matrices = start.shape, self.matrices
        inner, precision = start.copy(), np.tile(matrices.of_diagonal(np.ones(n)), (k, 1, 1))
        value, slope = self.inner_at(outer, inner)
        scales, found = np.tile(scale, (k, 1)), np.zeros(k, dtype=bool)
        moving = np.flatnonzero(np.isfinite(value))
        for _ in range(12):
            if not moving.size:
                break
            curved = self._curvature(outer[moving], inner[moving], slope[moving], scales[moving])
            whole = np.isfinite(curved).all(axis=(1, 2))
            curved[whole] = matrices.positive(curved[whole])
            alive = np.isfinite(curved).all(axis=(1, 2))
            moving, curved = moving[alive], curved[alive]
            precision[moving] = curved
            scales[moving] = 1 / np.sqrt(matrices.diagonal(curved))
            factors = matrices.factors(curved)
            step = factors.solved(slope[moving])
            promise = np.sum(step * slope[moving], axis=1)
            t, new_value, new_slope = self._along(outer[moving], inner[moving], step, 1.0)
            gain = new_value - value[moving]
            with np.errstate(divide="ignore", invalid="ignore"):
                bent = ~(np.abs(gain / (0.5 * promise) - 1) < same) & (promise > NEGLIGIBLE)
            if np.any(bent):
                there = outer[moving[bent]], inner[moving[bent]], step[bent]
                t[bent], new_value[bent], new_slope[bent] = self._along(*there, 1.0, 0.4, 0.1, 0.02)
                gain = new_value - value[moving]
            better = gain > 0
            risen = moving[better]
            inner[risen] += t[better, None] * step[better]
            value[risen], slope[risen] = new_value[better], new_slope[better]
            left = 0.5 * np.sum(factors.solved(slope[moving]) * slope[moving], axis=1)
            with np.errstate(divide="ignore", invalid="ignore"):
                kept = np.abs(gain / (t * (1 - t / 2) * promise) - 1) < same
            done = (left < TOLERANCE) & (kept | (promise < close))
            found[moving[done]] = True
            moving = moving[~done & (better | (promise < close))]
        if self.skewed and found.any():
            # that of the step before the last is another one where it changes fast
            curved = self._curvature(outer[found], inner[found], slope[found], scales[found])
            good = matrices.are_positive(curved)
            precision[np.flatnonzero(found)[good]] = curved[good]
        log_det = matrices.factors(precision).log_det()
        log_marginal = value - 0.5 * log_det + 0.5 * n * np.log(2 * np.pi)
        found &= np.isfinite(log_marginal) & matrices.are_positive(precision)
        sides = np.ones((k, n, 2))
        if self.skewed and found.any():
            sides[found] = self._sides(outer[found], inner[found], precision[found])
            log_marginal += np.log(sides.mean(axis=2)).sum(axis=1)
        return Modes(inner, precision, np.where(found, log_marginal, -np.inf), sides)

    def _sides(self, outer: np.ndarray, inner: np.ndarray, precision: np.ndarray) -> np.ndarray:
        """Widths of both sides of modes, shape (K, n, 2), by slopes two standard deviations away.

        Of a normal these are minus two. Columns that do not touch are moved together.
        """
        away, widest = 2.0, 10.0
        groups, factors = self.matrices.groups, self.matrices.factors(precision)
        sides = np.ones((*inner.shape, 2))
        ways = list(product(range(groups.n), enumerate((-1.0, 1.0))))
        size = max(1, N_ROWS[1] // len(inner))
        for some in (ways[first : first + size] for first in range(0, len(ways), size)):
            noise = [
                np.where(groups.of_column == group, sign * away, 0.0) for group, (_, sign) in some
            ]
            moved = [inner + factors.drawn(np.broadcast_to(one, inner.shape)) for one in noise]
            _, slope = self.inner_at(np.tile(outer, (len(some), 1)), np.concatenate(moved))
            for (group, (side, sign)), one in zip(some, np.split(slope, len(some)), strict=True):
                columns = groups.of_column == group
                fall = -sign * factors.slopes(one)[:, columns] / away
                fall = np.where(np.isnan(fall), 1.0, np.clip(fall, widest**-2, widest**2))
                sides[:, columns, side] = 1 / np.sqrt(fall)
        return sides

    def curvature(self, rows: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Minus the second derivatives by the inner entries, as `matrices` stores them.

        Of rows (K, d), by differences in units of rough standard deviations of the inner entries,
        shape (n,) or (K, n).
        """
        outer, inner = rows[:, self.outer], rows[:, self.inner]
        _, slope = self.inner_at(outer, inner)
        return self._curvature(outer, inner, slope, np.broadcast_to(scale, inner.shape))

    def _along(
        self, outer: np.ndarray, inner: np.ndarray, step: np.ndarray, *parts: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The best of several parts of a step: its length, and value and gradient there."""
        (k, n), lengths = inner.shape, np.array(parts)
        tried = inner[:, None] + lengths[:, None] * step[:, None]
        value, slope = self.inner_at(np.repeat(outer, lengths.size, axis=0), tried.reshape(-1, n))
        slope = slope.reshape(k, lengths.size, n)
        value = value.reshape(k, lengths.size)
        value = np.where(np.isfinite(slope).all(axis=2), value, -np.inf)
        best = np.argmax(value, axis=1)
        each = np.arange(k)
        return lengths[best], value[each, best], slope[each, best]

    def _curvature(
        self, outer: np.ndarray, inner: np.ndarray, slope: np.ndarray, scale: np.ndarray
    ) -> np.ndarray:
        """Minus the second derivatives, as `matrices` stores them, from differences.

        NaN where they are not finite, or a direction has none: a target of straight pieces has no
        curvature to speak of.
        """
        n, found, groups = inner.shape[1], list[np.ndarray](), self.matrices.groups
        together = np.eye(groups.n)[groups.of_column].T
        size = max(1, N_ROWS[1] // len(together))
        for first in range(0, len(inner), size):
            part = slice(first, first + size)
            step = 1e-5 * scale[part]
            moved = inner[part, None] + step[:, None] * together
            repeated = np.repeat(outer[part], len(together), axis=0)
            there = self.inner_at(repeated, moved.reshape(-1, n))[1]
            change = there.reshape(-1, len(together), n) - slope[part, None]
            found.append(self.matrices.of_changes(-change, step))
        whole = np.concatenate(found)
        good = np.isfinite(whole).all(axis=(1, 2)) & self.matrices.diagonal(whole).all(axis=1)
        whole[~good] = np.nan
        return whole
