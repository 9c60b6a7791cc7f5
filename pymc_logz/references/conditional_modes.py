"""Modes, and curvatures there, of some entries of a row given the others: Newton's method.

And the peak of the density of the others, these integrated out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from scipy.spatial import KDTree

from pymc_logz.models.context import n_affordable
from pymc_logz.models.flat import FlatModel
from pymc_logz.models.known_priors import normal_columns
from pymc_logz.models.preparation import Prepared
from pymc_logz.paths.elliptical import Elliptical
from pymc_logz.references.blend import N_ROWS, N_STARTS
from pymc_logz.references.matrices import Matrices, Whole, matrices_of
from pymc_logz.runners.block import Block
from pymc_logz.runners.climb import climbed
from pymc_logz.weights import NEGLIGIBLE, TOLERANCE

MAX_OTHERS = 6
"""Entries that are not normal, at most: products of them grow with the square."""
FIRST_SCALE = (0.05, 1.0)
"""Bounds of the first guess at a standard deviation."""


class Modes(NamedTuple):
    """K conditional modes."""

    inner: np.ndarray
    """Shape (K, n)."""
    precision: np.ndarray
    """Minus the second derivatives there, as the `matrices` of the conditionals are stored."""
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
    matrices: Matrices
    """How second derivatives by inner entries are stored."""

    @classmethod
    def of_normal_entries(cls, flat: FlatModel, block: Block) -> Self | None:
        """Those that are normal in the prior, given the others; None if nothing can be climbed."""
        if flat.sites or not block.follows_whole_gradient:
            return None
        inner = normal_columns(flat)
        outer = np.setdiff1d(np.arange(len(flat.owners)), inner)
        return cls(block, inner, outer, Whole(inner.size))

    def with_zeros(self, rows: np.ndarray, scale: np.ndarray) -> Self:
        """The same; second derivatives that are zero at all of these rows (K, d) are not stored."""
        curvature = self.matrices.whole(self.curvature(rows, scale))
        return replace(self, matrices=matrices_of(np.any(curvature, axis=0)))

    def rows(self, outer: np.ndarray, inner: np.ndarray) -> np.ndarray:
        """Whole rows of both parts, shape (K, d)."""
        rows = np.empty((len(inner), len(self.inner) + len(self.outer)))
        rows[:, self.outer], rows[:, self.inner] = outer, inner
        return rows

    def scale_of(self, precision: np.ndarray) -> np.ndarray:
        """Standard deviations (n,) of entries, each given all the rest, by one of `matrices`."""
        return np.asarray(1 / np.sqrt(self.matrices.diagonal(precision[None])[0]))

    def at(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log target of rows (K, d), shape (K,), and its gradients (K, d)."""
        if not len(rows):
            return np.empty(0), np.empty_like(rows)
        return self.block.target_and_gradient(rows)

    def modes(self, outer: np.ndarray, start: np.ndarray, scale: np.ndarray) -> Modes:
        """Climb to the mode of the inner entries for each of K settings of the outer ones.

        Settings are (K, m), starts (K, n), and rough standard deviations of the inner entries (n,).
        A mode is found where a further step promises less than the tolerance, and the curvature is
        known there: the last step was short, or gave what it promised.
        """
        close, same = 0.2, 1e-3  # nats that are promised, and relative error of a promise
        (k, n), matrices = start.shape, self.matrices
        inner, precision = start.copy(), np.tile(matrices.of_diagonal(np.ones(n)), (k, 1, 1))
        value, slope = self._inner_at(outer, inner)
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
            if not moving.size:
                break
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
        log_det = matrices.factors(precision).log_det()
        log_marginal = value - 0.5 * log_det + 0.5 * n * np.log(2 * np.pi)
        log_marginal = np.where(found & np.isfinite(log_marginal), log_marginal, -np.inf)
        return Modes(inner, precision, log_marginal)

    def curvature(self, rows: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Minus the second derivatives by the inner entries, as `matrices` stores them.

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

    def _along(
        self, outer: np.ndarray, inner: np.ndarray, step: np.ndarray, *parts: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The best of several parts of a step: its length, and value and gradient there."""
        (k, n), lengths = inner.shape, np.array(parts)
        tried = inner[:, None] + lengths[:, None] * step[:, None]
        value, slope = self._inner_at(np.repeat(outer, lengths.size, axis=0), tried.reshape(-1, n))
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
            there = self._inner_at(repeated, moved.reshape(-1, n))[1]
            change = there.reshape(-1, len(together), n) - slope[part, None]
            found.append(self.matrices.of_changes(-change, step))
        whole = np.concatenate(found)
        good = np.isfinite(whole).all(axis=(1, 2)) & self.matrices.diagonal(whole).all(axis=1)
        whole[~good] = np.nan
        return whole


def spread_of(rows: np.ndarray) -> np.ndarray:
    """Standard deviations of rows (n, d), none of them zero."""
    return np.maximum(rows.std(axis=0), 1e-300)


@dataclass(frozen=True)
class Known:
    """Conditional modes of the normal entries, or what is nearly one, at some settings."""

    outer: np.ndarray
    """Settings of the others, shape (k, m)."""
    inner: np.ndarray
    """Shape (k, n)."""

    def nearest(self, outer: np.ndarray) -> np.ndarray:
        """The one at the nearest setting, for each of some settings; shape (K, n)."""
        if not outer.shape[1]:
            return np.tile(self.inner[0], (len(outer), 1))
        return self.inner[self._tree.query(outer / self._unit)[1]]

    @cached_property
    def _unit(self) -> np.ndarray:
        return spread_of(self.outer)

    @cached_property
    def _tree(self) -> KDTree:
        return KDTree(self.outer / self._unit)


class Peak(NamedTuple):
    """Where the marginal density of the outer entries is highest."""

    outer: np.ndarray  # Shape (m,).
    factor: np.ndarray
    """Its columns are axes, one standard deviation long; lower triangular, shape (m, m)."""
    inner: np.ndarray  # The mode of the others given those, shape (n,).
    precision: np.ndarray  # Minus the second derivatives there, one of `matrices`.
    height: float  # The log density there.

    @property
    def log_mass(self) -> float:
        """Log of the integral around it, by Laplace's method."""
        return self.height + np.linalg.slogdet(np.sqrt(2 * np.pi) * self.factor)[1]

    @property
    def density(self) -> Elliptical:
        """Of the outer entries, wide and with heavy tails."""
        return Elliptical(self.outer, 2.0 * self.factor, 5.0)


class Start(NamedTuple):
    """Where the marginal density of the outer entries is high, and how it was found."""

    parts: Conditionals
    prior: np.ndarray  # Draws of the prior, shape (n, d).
    outer: np.ndarray  # Settings that were looked at, shape (k, m).
    seen: Modes  # Conditional modes there.
    peaks: Sequence[Peak]  # The one with the most mass first.
    ends: np.ndarray  # Where the draws climbed to, if they did, shape (n, d).

    @property
    def peak(self) -> Peak:
        """The one with the most mass."""
        return self.peaks[0]


def highest_marginal(
    prepared: Prepared, block: Block, rng: np.random.Generator, n_prior: int = 128
) -> Start | None:
    """The peak of a latent Gaussian model; None where there are no normal entries, or no peak.

    It is climbed to from the first draws of the prior; so many more are there to look from.
    """
    parts = Conditionals.of_normal_entries(prepared.flat, block)
    if parts is None or not parts.inner.size or parts.outer.size > MAX_OTHERS:
        return None
    prior = prepared.prior(rng, N_STARTS + n_prior)
    scale = np.clip(prior[:, parts.inner].std(axis=0), *FIRST_SCALE)
    first, prior = prior[:N_STARTS], prior[N_STARTS:]
    parts = parts.with_zeros(first[: N_STARTS // 2], scale)
    outer = first[:, parts.outer]
    seen = parts.modes(outer, first[:, parts.inner], scale)
    peak = highest_peak(parts, outer, seen)
    return None if peak is None else Start(parts, prior, outer, seen, [peak], prior)


def looked_wider(start: Start, prepared: Prepared, rng: np.random.Generator) -> Start:
    """The same with all peaks that draws of the prior lead to.

    Whole draws climb, and the marginal density is known where more of them are, as many as are
    cheap.
    """
    parts, peak = start.parts, start.peak
    scale = np.empty(prepared.n_dims)
    scale[parts.outer] = np.linalg.norm(peak.factor, axis=1)
    scale[parts.inner] = parts.scale_of(peak.precision)
    ends, _ = climbed(parts.block.target_and_gradient, start.prior, scale)
    start = start._replace(ends=ends)
    if not parts.outer.size:
        return start
    most = int(np.clip(2**12 // parts.matrices.groups.n, *N_ROWS))
    n = n_affordable(prepared.flat, parts.block.n_rows, most)
    alive = np.isfinite(start.seen.log_marginal)
    known = Known(
        np.vstack([start.outer[alive], peak.outer]),
        np.vstack([start.seen.inner[alive], peak.inner]),
    )
    more = prepared.prior(rng, n)[:, parts.outer]
    begin = np.concatenate([known.nearest(more), ends[:, parts.inner]])
    more = np.concatenate([more, ends[:, parts.outer]])
    seen = parts.modes(more, begin, scale[parts.inner])
    top = Modes(peak.inner[None], peak.precision[None], np.array([peak.height]))
    outer = np.concatenate([start.outer, peak.outer[None], more])
    seen = Modes(*map(np.concatenate, zip(start.seen, top, seen, strict=True)))
    peaks = sorted(peaks_apart(parts, outer, seen), key=lambda one: -one.log_mass)
    return start._replace(outer=outer, seen=seen, peaks=peaks or [peak])


def highest_peak(
    parts: Conditionals, outer: np.ndarray, seen: Modes, factor: float = 3.0, close: float = 0.2
) -> Peak | None:
    """Climb to the peak of the marginal density from the best of some settings, by differences.

    They may be thousands of standard deviations away, as draws of vague priors are: where the
    density is no hill along an axis, steps grow, by this ``factor`` at a time.
    """
    best = int(np.argmax(seen.log_marginal))
    if not np.isfinite(seen.log_marginal[best]):
        return None
    m, top, growth = len(parts.outer), -np.inf, factor
    centre, inner, precision = outer[best], seen.inner[best], seen.precision[best]
    spread, axes = np.clip(outer.std(axis=0), *FIRST_SCALE), np.eye(m)
    before = centre, inner, precision
    for _ in range(40 if m else 0):
        points = centre + np.concatenate([np.zeros((1, m)), spread * axes, -spread * axes])
        found = parts.modes(points, np.tile(inner, (len(points), 1)), parts.scale_of(precision))
        value = found.log_marginal
        if is_higher := value[0] > top - close:
            top, inner, precision = max(top, value[0]), found.inner[0], found.precision[0]
            before = centre, inner, precision
        if not is_higher or not np.all(np.isfinite(value)):
            centre, inner, precision = before
            spread, growth = spread / factor, 1.0
            continue
        up, down = value[1 : m + 1], value[m + 1 :]
        slope, curvature = (up - down) / 2, 2 * value[0] - up - down
        convex = curvature <= 0
        step = np.where(convex, np.sign(slope) * np.inf, slope / np.where(convex, 1.0, curvature))
        width = np.where(convex, np.inf, spread / np.sqrt(np.where(convex, 1.0, curvature)))
        wide = np.clip(width, spread / factor, growth * spread)
        step = np.clip(step, -2.0, 2.0) * spread
        is_known = (spread < factor * wide) & (width < factor * spread)
        small = np.all((np.abs(step) < 0.3 * wide) & is_known)
        centre, spread, growth = centre + step, width if small else wide, factor
        if small:
            break
    else:
        if m:
            return None
    at = parts.modes(centre[None], inner[None], parts.scale_of(precision))
    if not np.isfinite(at.log_marginal[0]):
        return None
    return Peak(centre, np.diag(spread), at.inner[0], at.precision[0], float(at.log_marginal[0]))


def peaks_apart(
    parts: Conditionals, outer: np.ndarray, seen: Modes, most: int = 4, much: float = 3.0
) -> list[Peak]:
    """Peaks of the marginal density, each climbed to from settings that the others do not explain.

    Those are so ``much`` more likely, in nats, than by the peaks before. Peaks of less than a
    thousandth of the mass are left out.
    """
    found, log_explained = list[Peak](), np.full(len(outer), -np.inf)
    for _ in range(most):
        left = seen.log_marginal > log_explained + much
        if not left.any():
            break
        peak = highest_peak(parts, outer[left], Modes(*(part[left] for part in seen)))
        if peak is None:
            break
        # a peak of correlated entries is climbed to again by what its axes do not explain
        if not any(np.all(np.abs(peak.outer - one.outer) < np.diag(one.factor)) for one in found):
            found.append(peak)
        log_density = peak.density.log_density_of(outer) + peak.log_mass
        log_explained = np.logaddexp(log_explained, log_density)
    enough = max((one.log_mass for one in found), default=0.0) + np.log(1e-3)
    return [one for one in found if one.log_mass > enough]
