"""Peaks of the density of some entries of a row, the others integrated out at their modes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist

from pymc_logz.models.context import n_affordable
from pymc_logz.models.preparation import Prepared
from pymc_logz.paths.elliptical import Elliptical
from pymc_logz.references.blend import N_ROWS, N_STARTS, Target
from pymc_logz.references.conditional_modes import Conditionals, Modes
from pymc_logz.runners.arrays import joined
from pymc_logz.runners.climb import climbed

MAX_OTHERS = 6
"""Entries that are not normal, at most: products of them grow with the square."""
FIRST_SCALE = (0.05, 1.0)
"""Bounds of the first guess at a standard deviation."""


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
        spread = self.outer.std(axis=0)
        return np.where(spread > 0, spread, 1.0)

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
    scale: np.ndarray  # Standard deviations of the others, each given all the rest, shape (n,).
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


def highest_marginal(target: Target, rng: np.random.Generator, n_prior: int = 128) -> Start | None:
    """The peak of a latent Gaussian model; None where there are no normal entries, or no peak.

    It is climbed to from the first draws of the prior; so many more are there to look from.
    """
    parts = Conditionals.of_normal_entries(target)
    if parts is None or not parts.inner.size or parts.outer.size > MAX_OTHERS:
        return None
    prior = target.prepared.prior(rng, N_STARTS + n_prior)
    scale = np.clip(prior[:, parts.inner].std(axis=0), *FIRST_SCALE)
    first, prior = prior[:N_STARTS], prior[N_STARTS:]
    parts = parts.with_zeros(first[: N_STARTS // 2], scale)
    outer = first[:, parts.outer]
    seen = parts.modes(outer, first[:, parts.inner], scale)
    if (peak := highest_peak(parts, outer, seen)) is None:
        return None
    centre, axes = peak.outer[None], peak.factor.T
    around = np.concatenate([centre, centre + axes, centre - axes])
    parts = parts.with_sides(around, np.tile(peak.inner, (len(around), 1)), peak.scale)
    if parts.skewed:
        seen = parts.modes(outer, seen.inner, peak.scale)
        peak = highest_peak(parts, outer, seen)
    return None if peak is None else Start(parts, prior, outer, seen, [peak])


def with_all_peaks(start: Start, prepared: Prepared, rng: np.random.Generator) -> Start:
    """The same with all peaks that draws of the prior lead to.

    Whole draws climb, and the marginal density is known where more of them are, as many as are
    cheap.
    """
    parts, peak = start.parts, start.peaks[0]
    if not parts.outer.size:
        return start
    scale = parts.rows(np.linalg.norm(peak.factor, axis=1), peak.scale[None])[0]
    unit = np.maximum(start.prior.std(axis=0), scale)
    ends, _ = climbed(parts.block.target_and_gradient, start.prior, unit)
    most = int(np.clip(2**12 // parts.matrices.groups.n, *N_ROWS))
    n = n_affordable(prepared.flat, parts.block.n_rows, most)
    sides = np.ones((1, parts.inner.size, 2))
    top = Modes(peak.inner[None], peak.precision[None], np.array([peak.height]), sides)
    outer, seen = np.vstack([start.outer, peak.outer]), joined([start.seen, top])
    alive = np.isfinite(seen.log_marginal)
    more = prepared.prior(rng, n)[:, parts.outer]
    begin = Known(outer[alive], seen.inner[alive]).nearest(more)
    begin = np.concatenate([begin, ends[:, parts.inner]])
    more = np.concatenate([more, ends[:, parts.outer]])
    seen = joined([seen, parts.modes(more, begin, peak.scale)])
    outer = np.concatenate([outer, more])
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
    scale, height = parts.scale_of(at.precision[0]), float(at.log_marginal[0])
    return Peak(centre, np.diag(spread), at.inner[0], at.precision[0], scale, height)


def peaks_apart(
    parts: Conditionals, outer: np.ndarray, seen: Modes, most: int = 4, much: float = 3.0
) -> list[Peak]:
    """Peaks of the marginal density, each climbed to from settings that the others do not explain.

    Those are so ``much`` more likely, in nats, than by the peaks before. After the first one the
    setting is taken that is furthest from any that is more likely, and what is less likely around
    it. Peaks of less than a thousandth of the mass are left out.
    """
    # Rodriguez & Laio (2014), Clustering by fast search and find of density peaks, doi
    # 10.1126/science.1242072: else many settings on the ridge of a peak hide a lower one
    found, log_explained = list[Peak](), np.full(len(outer), -np.inf)
    for _ in range(most):
        left = seen.log_marginal > log_explained + much
        if not left.any():
            break
        if found:
            (those,), value = np.nonzero(left), seen.log_marginal
            scaled = outer / spread_of(outer)
            away = cdist(scaled[those], scaled)
            higher = np.where(value > value[those, None], away, np.inf).min(axis=1)
            first = int(np.argmax(np.where(np.isfinite(higher), higher, 0.0)))
            left &= away[first] < higher[first]
            log_explained[left] = np.inf
        peak = highest_peak(parts, outer[left], Modes(*(part[left] for part in seen)))
        if peak is None:
            if not found:
                break
            continue
        # a peak of correlated entries is climbed to again by what its axes do not explain
        if not any(np.all(np.abs(peak.outer - one.outer) < np.diag(one.factor)) for one in found):
            found.append(peak)
        log_density = peak.density.log_density_of(outer) + peak.log_mass
        log_explained = np.logaddexp(log_explained, log_density)
    enough = max((one.log_mass for one in found), default=0.0) + np.log(1e-3)
    return [one for one in found if one.log_mass > enough]
