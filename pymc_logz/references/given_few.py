"""Rows that need no path: a few entries first, then others that are independent given those.

Effects, latent values and the like each depend on a few common entries, and on none of each other.
So the gradient at rows in which all of them move tells the slope of each one's own density, and
slopes at some places that density, whatever its shape: skewed, with heavy tails, or as narrow as
noise that vanishes makes it.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtr

from pymc_logz.references.blend import N_ROWS, N_STARTS, Drawn, Target
from pymc_logz.references.conditional import MAX_OUTER, FewFirst, n_places
from pymc_logz.references.conditional_modes import InnerAndOuter
from pymc_logz.references.marginal_peaks import Known, spread_of
from pymc_logz.references.modes import MAX_DIMS, has_dense_curvature
from pymc_logz.runners.arrays import joined
from pymc_logz.runners.block import Block
from pymc_logz.weights import NEGLIGIBLE

FIRST = (-10.0, -3.0, -1.0, 0.0, 1.0, 3.0, 10.0)
"""Where slopes are looked at first, in standard deviations; and at quantiles of what is known."""
N_QUANTILES = (41, 81, 161, 321)
"""Places all over what is known, at first and at most. A peak between two of them is not seen, so
there are twice as many until that adds nothing. Where entries turn out to have one peak each the
ends are enough."""
N_ROUNDS = 8
"""How often a few more are looked at after these, where most may be missing; heights of peaks
first."""
LARGE = 1e100
"""Of which products are numbers still."""


class Lines(NamedTuple):
    """Densities of single entries, whose logs are straight between knots and beyond the last."""

    knots: np.ndarray
    """Shape (K, n, G), in order."""
    height: np.ndarray
    """Log densities there, shape (K, n, G)."""
    below: np.ndarray
    """Slopes below the first knot, positive, shape (K, n)."""
    above: np.ndarray
    """Slopes above the last knot, negative, shape (K, n)."""

    @classmethod
    def of_places(cls, places: "Places", least: np.ndarray) -> "Lines":
        """Normalised, from slopes and heights at places; tails fall as fast as ``least`` (n,)."""
        slope = places.slope
        below, above = np.maximum(slope[:, :, 0], least), np.minimum(slope[:, :, -1], -least)
        lines = cls(places.knots, places.heights(), below, above)
        total = logsumexp(lines.log_masses(), axis=2, keepdims=True)
        return lines._replace(height=lines.height - total)

    def log_masses(self) -> np.ndarray:
        """Log mass below the first knot, between each two, and above the last, (K, n, G + 1)."""
        fall = np.maximum(np.abs(np.diff(self.height)), 1e-12)
        highest = np.maximum(self.height[:, :, 1:], self.height[:, :, :-1])
        with np.errstate(divide="ignore"):
            between = highest + np.log(np.diff(self.knots)) + np.log(-np.expm1(-fall) / fall)
        low = self.height[:, :, :1] - np.log(self.below)[:, :, None]
        high = self.height[:, :, -1:] - np.log(-self.above)[:, :, None]
        return np.concatenate([low, between, high], axis=2)

    def have_one_peak(self) -> bool:
        """Whether all of them rise to one place, and fall from there."""
        change = np.diff(self.height)
        return not np.any(np.maximum.accumulate(change < 0, axis=2) & (change > 0))

    def mass_above(self, other: "Lines", rng: np.random.Generator, n: int = 16) -> np.ndarray:
        """How many entries of K are, as n draws say, where others are e times lower, (K,)."""
        drawn = [self.drawn(rng) for _ in range(n)]
        above = [self.log_densities_of(x) - other.log_densities_of(x) > 1 for x in drawn]
        return np.asarray(np.sum(np.mean(above, axis=0), axis=1))

    def drawn(self, rng: np.random.Generator) -> np.ndarray:
        """A draw of each, shape (K, n)."""
        mass = np.exp(self.log_masses()).cumsum(axis=2)
        u = rng.random(mass.shape[:2]) * mass[:, :, -1]
        piece = (mass[:, :, :-1] < u[:, :, None]).sum(axis=2)
        start, _, slope, width = self._pieces(piece)
        # of an exponential density, from the end where it is highest
        v, steep = rng.random(piece.shape), np.abs(slope)
        with np.errstate(divide="ignore", invalid="ignore"):
            away = -np.log1p(v * np.expm1(-steep * width)) / steep
        away = np.where(steep * width > 1e-12, away, v * width)
        from_end = (slope > 0) & (piece > 0)
        return np.where(
            from_end, start + width - away, np.where(piece > 0, start + away, start - away)
        )

    def log_density_of(self, inner: np.ndarray) -> np.ndarray:
        """Sum of log densities of entries (K, n), shape (K,)."""
        return np.asarray(np.sum(self.log_densities_of(inner), axis=1))

    def log_densities_of(self, inner: np.ndarray) -> np.ndarray:
        """Log densities of entries (K, n), each by itself."""
        start, height, slope, _ = self._pieces((self.knots < inner[:, :, None]).sum(axis=2))
        return np.asarray(height + slope * (inner - start))

    def _pieces(self, piece: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """A knot of each piece, the height there, its slope and its width."""
        last = self.knots.shape[2] - 1
        ends = np.maximum(piece - 1, 0)[:, :, None], np.minimum(piece, last)[:, :, None]
        x, next_x = (np.take_along_axis(self.knots, k, axis=2)[:, :, 0] for k in ends)
        h, next_h = (np.take_along_axis(self.height, k, axis=2)[:, :, 0] for k in ends)
        is_tail = (piece == 0) | (piece > last)
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = (next_h - h) / (next_x - x)
        tail = np.where(piece == 0, self.below, self.above)
        return x, h, np.where(is_tail, tail, slope), np.where(is_tail, np.inf, next_x - x)


class Places(NamedTuple):
    """What is known of densities of single entries, at some places."""

    knots: np.ndarray
    """Shape (K, n, G), in order."""
    slope: np.ndarray
    """Slopes of log densities there, shape (K, n, G)."""
    known: np.ndarray
    """Log densities but for a constant (K, n, G), NaN where only the slope is known."""

    def heights(self) -> np.ndarray:
        """Log densities (K, n, G), by slopes that change evenly between what is known.

        Sums of slopes are not right over a valley: what they are off by is shared out, where
        slopes change most.
        """
        knots, slope, n = self.knots, self.slope, self.knots.shape[2]
        height, change = np.zeros(knots.shape), np.zeros(knots.shape)
        there = np.isfinite(self.known)
        rise = 0.5 * np.diff(knots) * (slope[:, :, 1:] + slope[:, :, :-1])
        # summed away from what is known, lest heights there cancel in those of far places
        is_after = np.arange(n - 1) >= np.argmax(there, axis=2)[:, :, None]
        np.where(is_after, rise, 0.0).cumsum(axis=2, out=height[:, :, 1:])
        height[:, :, :-1] -= np.where(is_after, 0.0, rise)[:, :, ::-1].cumsum(axis=2)[:, :, ::-1]
        self.gaps().cumsum(axis=2, out=change[:, :, 1:])
        off = self.known - height
        before = np.maximum.accumulate(np.where(there, np.arange(n), -1), axis=2)
        after = np.where(there, np.arange(n), n)[:, :, ::-1]
        after = np.minimum.accumulate(after, axis=2)[:, :, ::-1]
        first = n * np.arange(knots.shape[0] * knots.shape[1]).reshape(*knots.shape[:2], 1)
        before, after = (
            first + np.where(before < 0, after, before),
            first + np.where(after == n, before, after),
        )
        x, y = change.take(before), change.take(after)
        share = np.divide(change - x, y - x, out=np.zeros(knots.shape), where=y > x)
        return np.asarray(height + (1 - share) * off.take(before) + share * off.take(after))

    def peaks(self) -> np.ndarray:
        """Which of them (K, n, G) are next to a peak, and the higher one of both sides."""
        before, after = self.slope[:, :, :-1], self.slope[:, :, 1:]
        turns, rises = (before > 0) & (after <= 0), before + after > 0
        found = np.zeros(self.slope.shape, dtype=bool)
        found[:, :, :-1] |= turns & ~rises
        found[:, :, 1:] |= turns & rises
        return found

    def gaps(self, large: float = 600.0) -> np.ndarray:
        """How far at most the line between two knots is below the density, (K, n, G - 1).

        Where the slope changes evenly that is an eighth of its change, times the width; logs are
        no larger than what has finite sums.
        """
        return np.minimum(np.abs(np.diff(self.slope)) * np.diff(self.knots) / 8, large)

    def midpoints_of_largest_gaps(self, n_more: int) -> np.ndarray:
        """Middles (K, n, n_more) of the knots between which most mass may be above the line."""
        height, gap = self.heights(), self.gaps()
        with np.errstate(divide="ignore"):
            log_missing = np.maximum(height[:, :, 1:], height[:, :, :-1]) + gap
            log_missing += np.log(np.diff(self.knots) * gap)
        k = np.argpartition(-log_missing, n_more, axis=2)[:, :, :n_more]
        both = [np.take_along_axis(self.knots, one, axis=2) for one in (k, k + 1)]
        return np.asarray(0.5 * sum(both))

    def with_slopes(self, knots: np.ndarray, slope: np.ndarray) -> "Places":
        """The same, and slopes at more places of each entry, both (K, n, n_more)."""
        values = (knots, slope, np.full(knots.shape, np.nan))
        both = [np.concatenate(pair, axis=2) for pair in zip(self, values, strict=True)]
        order = np.argsort(both[0], axis=2)
        return Places(*(np.take_along_axis(one, order, axis=2) for one in both))


class GivenSettings(NamedTuple):
    """Entries given K settings of the others."""

    inner: np.ndarray
    """Where each is most likely, shape (K, n)."""
    log_marginal: np.ndarray
    """Log density of the settings, shape (K,)."""
    lines: Lines


@dataclass(frozen=True)
class Independent(InnerAndOuter):
    """Inner entries of a row that are independent given the outer ones."""

    quantiles: np.ndarray
    """Of all that is known of the inner entries, its ends included, shape (k, n)."""

    def modes(self, outer: np.ndarray, start: np.ndarray, scale: np.ndarray) -> GivenSettings:
        """Densities of the entries given settings (K, m), looked for near starts (K, n)."""
        portions = (slice(i, i + N_ROWS[0]) for i in range(0, len(outer), N_ROWS[0]))
        return joined([self._modes(outer[i], start[i], scale) for i in portions])

    def _modes(self, outer: np.ndarray, start: np.ndarray, scale: np.ndarray) -> GivenSettings:
        everywhere = np.broadcast_to(self.quantiles.T, (*start.shape, len(self.quantiles)))
        near = start[:, :, None] + scale[:, None] * np.array(FIRST)
        knots = np.sort(np.concatenate([everywhere, near], axis=2), axis=2)
        slope = self._slopes(outer, knots, start, scale)
        places = Places(knots, slope, np.where(knots == start[:, :, None], 0.0, np.nan))
        first = np.argmax(places.heights(), axis=2)[:, :, None]
        places = places._replace(known=np.where(np.arange(knots.shape[2]) == first, 0.0, np.nan))
        base = np.take_along_axis(knots, first, axis=2)[:, :, 0]
        value = self.block.log_target(self.rows(outer, base))
        for _ in range(N_ROUNDS):
            places = self._with_peaks(places, outer, base, value)
            new = places.midpoints_of_largest_gaps(max(len(self.quantiles) // 10, 4))
            places = places.with_slopes(new, self._slopes(outer, new, start, scale))
        places = self._with_peaks(places, outer, base, value)
        lines = Lines.of_places(places, 1 / (self.quantiles[-1] - self.quantiles[0]))
        best = np.argmax(lines.height, axis=2)[:, :, None]
        inner = np.take_along_axis(places.knots, best, axis=2)[:, :, 0]
        value = self.block.log_target(self.rows(outer, inner))
        log_marginal = value - lines.log_density_of(inner)
        # a density that is infinite in rounding is not known
        return GivenSettings(inner, np.where(np.isfinite(value), log_marginal, -np.inf), lines)

    def _with_peaks(
        self, places: Places, outer: np.ndarray, base: np.ndarray, value: np.ndarray
    ) -> Places:
        """The same, and the log density at peaks: that of a base (K, n) with one entry moved."""
        k, j, g = np.nonzero(places.peaks() & np.isnan(places.known))
        if not k.size:
            return places
        moved, known = base[k], places.known.copy()
        moved[np.arange(k.size), j] = places.knots[k, j, g]
        found = self.block.log_target(self.rows(outer[k], moved))
        good = np.isfinite(found) & np.isfinite(value[k])
        known[k, j, g] = np.subtract(found, value[k], out=np.full(k.size, np.nan), where=good)
        return places._replace(known=known)

    def _slopes(
        self, outer: np.ndarray, knots: np.ndarray, start: np.ndarray, scale: np.ndarray
    ) -> np.ndarray:
        """Slopes of each density (K, n, G); where there are none they lead back to the start."""
        each = np.moveaxis(knots, 2, 0)
        slope = self.inner_at(np.tile(outer, (len(each), 1)), np.concatenate(each))[1]
        slope = np.moveaxis(slope.reshape(each.shape), 0, 2)
        back = np.sign(start[:, :, None] - knots) / scale[:, None]
        return np.clip(np.where(np.isfinite(slope), slope, back), -LARGE, LARGE)


class GivenFew(FewFirst[Independent]):
    """Entries that are independent given few others, by lines."""

    how = "each by its own density"

    def draw(self, target: Target, rng: np.random.Generator, n: int) -> Drawn:
        """Rows (n, d), and their log density (n,)."""
        outer = self.drawn_outer(rng, n)
        lines = self._lines(target, outer)
        inner = lines.drawn(rng)
        return self.parts.rows(outer, inner), self.with_outer(outer, lines.log_density_of(inner))

    def log_density_of(self, target: Target, rows: np.ndarray, log_prior: np.ndarray) -> np.ndarray:
        """Log density of rows (n, d), shape (n,)."""
        if not len(rows):
            return np.empty(0)
        outer, inner = rows[:, self.parts.outer], rows[:, self.parts.inner]
        lines = self._lines(target, outer)
        return self.with_outer(outer, lines.log_density_of(inner))

    def _lines(self, target: Target, outer: np.ndarray) -> Lines:
        return self.on(target).modes(outer, self.known.nearest(outer), self.scale).lines


def independent_given_few(
    target: Target, rows: np.ndarray, rng: np.random.Generator
) -> GivenFew | None:
    """A density of entries that are independent given few others, from rows (n, d) that are known.

    None where there are none, or too many others.
    """
    prepared, block, d = target.prepared, target.block, target.prepared.n_dims
    if not has_dense_curvature(block):
        return None
    some = rows[np.linspace(0, len(rows) - 1, N_STARTS).astype(int)]
    outer = common_entries(block, some)
    if len(outer) > min(MAX_OUTER, d / 2):
        return None
    inner, scale = np.setdiff1d(np.arange(d), outer), spread_of(rows)
    n = n_places(len(outer), prepared.flat, len(FIRST) + 2 * N_QUANTILES[0])
    prior = prepared.prior(rng, n)
    both = np.concatenate([rows, prior])[:, inner]
    if not np.all(np.abs(both) < LARGE):
        return None
    some = np.concatenate([some, prior])
    parts = Independent(block, inner, outer, np.empty((0, len(inner))))
    parts = with_enough_places(parts, both, some, scale[inner], N_STARTS)
    n = n_places(len(outer), prepared.flat, len(FIRST) + 2 * len(parts.quantiles))
    if not len(outer):
        return GivenFew(parts, None, Known(outer[None], np.median(rows, axis=0)[None]), scale)
    return GivenFew.explored(parts, rows[:, outer], rows[:, inner], prior[:, outer], rng, n)


def with_enough_places(
    parts: Independent, known: np.ndarray, rows: np.ndarray, scale: np.ndarray, n_known: int
) -> Independent:
    """The same, looking at as many quantiles of known entries (k, n) as show all peaks at rows.

    Levels are those of even steps of a normal variable. They are enough where twice as many show
    no place at which lines are e times too low, at the first ``n_known`` rows or at the others.
    """
    rng, before = np.random.default_rng(0), None
    for n in N_QUANTILES:
        levels = ndtr(np.linspace(-3, 3, n))
        levels[[0, -1]] = 0.0, 1.0
        now = replace(parts, quantiles=np.quantile(known, levels, axis=0))
        lines = now.modes(rows[:, parts.outer], rows[:, parts.inner], scale).lines
        if lines.have_one_peak():
            return replace(now, quantiles=now.quantiles[[0, -1]])
        if before is not None:
            lacking = lines.mass_above(before[1], rng)
            if max(lacking[:n_known].mean(), lacking[n_known:].mean()) < NEGLIGIBLE:
                return before[0]
        if 2 * n * parts.inner.size > MAX_DIMS * N_QUANTILES[0]:
            break
        before = now, lines
    return now


def common_entries(block: Block, rows: np.ndarray, least: float = 1e-6) -> np.ndarray:
    """Entries of rows (k, d) without which no other one changes the slope of any other.

    Those that touch the most others are taken first. Changes of less than a fraction of what the
    entry changes in its own slope are rounding, or too small to matter.
    """
    (k, d), step = rows.shape, 1e-3 * spread_of(rows)
    moved = rows[:, None] + np.concatenate([np.zeros((1, d)), step * np.eye(d)])
    slope = block.target_and_gradient(moved.reshape(-1, d))[1].reshape(k, d + 1, d)
    change = np.abs(slope[:, 1:] - slope[:, :1]) * spread_of(rows)
    own = np.einsum("kii->ki", change)[:, :, None]
    changes = np.any(~(change <= least * own), axis=0)
    touches, taken = (changes | changes.T) & ~np.eye(d, dtype=bool), list[int]()
    while touches.any():
        taken.append(int(np.argmax(touches.sum(axis=0))))
        touches[taken[-1]] = touches[:, taken[-1]] = False
    return np.sort(np.array(taken, dtype=int))
