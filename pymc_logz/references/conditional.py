"""Rows that need no path: the few entries that are not normal first, then the others given those.

Where entries of a row are normal in the prior given the others, they are nearly so in the
posterior, whose conditional mode and curvature are found for each row by Newton's method. That also
gives the density of the others alone, by Laplace's method, wherever it is asked for: at spreads
that go to zero too, where rows that move hardly get. So the others are explored in their own few
dimensions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar, Self

import numpy as np
from scipy.special import gammaln, logsumexp

from pymc_logz.models.context import n_affordable
from pymc_logz.models.flat import FlatModel
from pymc_logz.models.known_priors import n_factored, normal_columns
from pymc_logz.models.preparation import Prepared
from pymc_logz.paths.elliptical import Clusters, fitted_clusters, fitted_to_few
from pymc_logz.references.blend import N_ROWS, N_STARTS, Drawn, Target
from pymc_logz.references.conditional_modes import Conditionals, InnerAndOuter
from pymc_logz.references.marginal_peaks import Known, Peak, peaks_apart, spread_of
from pymc_logz.references.matrices import Factors, Whole
from pymc_logz.references.modes import MAX_DIMS
from pymc_logz.references.reference import widened
from pymc_logz.weights import resampled, weight_ess

MAX_OUTER = 16
"""Entries that are not normal, at most: weights of too many of them tell nothing."""
MAX_INNER = 2**9
"""Normal entries of whole matrices: each mode takes several gradients for each, and a cube."""
INNER_INFLATION = 1.02
"""Factor in a conditional covariance that is nearly right."""
PER_ENTRY = 10
"""Effective settings of the others for each of them that a component of a fit takes."""


@dataclass(frozen=True)
class FewFirst[P: InnerAndOuter]:
    """A density of rows: Student-t components of a few ``outer`` entries, others given those."""

    how: ClassVar[str]
    """By what the others are drawn."""
    parts: P
    """What tells about the others at settings of the few; kept without its block: plain data."""
    fit: Clusters | None
    """Of the few; None where there are none."""
    known: Known
    """Where the others are looked for."""
    scale: np.ndarray
    """Rough standard deviations of the others, shape (n,)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", replace(self.parts, block=None))

    @classmethod
    def explored(
        cls,
        parts: P,
        outer: np.ndarray,
        inner: np.ndarray,
        prior: np.ndarray,
        rng: np.random.Generator,
        n: int,
        peaks: Sequence[Peak] = (),
    ) -> Self | None:
        """From a fit to draws of the few entries, by adaptive importance sampling.

        Rounds of n settings start from entries of rows that are known, ``outer`` (N, m) and
        ``inner`` (N, d - m), from draws of the prior (k, m), and from peaks. There are three or
        more, until all together are enough for each component of a fit. None where they are too
        little even for one.
        """
        enough, scale = PER_ENTRY * outer.shape[1], spread_of(inner)
        if peaks:
            scale = max(peaks, key=lambda one: one.log_mass).scale
        known = Known(
            np.vstack([outer, *(one.outer for one in peaks)]),
            np.vstack([inner, *(one.inner for one in peaks)]),
        )
        first = fitted_clusters(outer, len(outer), rng)
        others = [fitted_to_few(prior[np.all(np.isfinite(prior), axis=1)], 5.0)]
        others += [one.density for one in peaks]
        fits = [
            Clusters(
                (*(one.wider(4.0) for one in first.components), *others),
                np.append(0.6 * first.shares, np.full(len(others), 0.4 / len(others))),
            )
        ]
        places, log_marginal, modes = np.empty((0, outer.shape[1])), np.empty(0), inner[:0]
        for _ in range(6):
            new, made = fits[-1](rng, n), None
            found = parts.modes(new, known.nearest(new), scale)
            places, modes = np.concatenate([places, new]), np.concatenate([modes, found.inner])
            log_marginal = np.concatenate([log_marginal, found.log_marginal])
            log_q = logsumexp([fit.log_density_of(places) for fit in fits], axis=0)
            log_q -= np.log(len(fits))
            log_weight, alive = log_marginal - log_q, np.isfinite(log_marginal)
            if not alive.any():
                return None
            known, ess = Known(places[alive], modes[alive]), float(weight_ess(log_weight))
            if len(places) >= 3 * n and ess > enough:
                fit = fitted_clusters(places[resampled(log_weight, rng, len(places))], ess, rng)
                made = cls(parts, with_tails(fit), known, scale)
                if ess > enough * len(fit.shares):
                    break
            chosen = places[resampled(log_weight, rng, len(places))]
            fits.append(with_tails(fitted_clusters(chosen, max(ess, 2.0), rng)))
        return made

    def on(self, target: Target) -> P:
        """The parts, on the path of a target."""
        return replace(self.parts, block=target.block)

    def drawn_outer(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """The few of n rows, shape (n, m)."""
        return np.empty((n, 0)) if self.fit is None else self.fit(rng, n)

    def with_outer(self, outer: np.ndarray, log_density: np.ndarray) -> np.ndarray:
        """Log density of whole rows, by that of the others given the few."""
        return log_density if self.fit is None else log_density + self.fit.log_density_of(outer)

    @property
    def what(self) -> str:
        """What it is, for a reason."""
        n = self.parts.inner.size
        return f"{n} of {n + self.parts.outer.size} values drawn {self.how}"


class ConditionalNormal(FewFirst[Conditionals]):
    """Entries that are nearly normal given few others."""

    how = "as normal given the others"

    def draw(self, target: Target, rng: np.random.Generator, n: int) -> Drawn:
        """Rows (n, d), and their log density (n,)."""
        outer = self.drawn_outer(rng, n)
        mode, factors, sides = self._conditional(target, outer)
        noise, df = rng.standard_normal(mode.shape), inner_df(self.parts.inner.size)
        noise *= np.sqrt(df / rng.chisquare(df, size=(n, 1)))
        if self.parts.skewed:
            is_above = rng.random(mode.shape) * sides.sum(axis=2) < sides[:, :, 1]
            noise = np.abs(noise) * np.where(is_above, sides[:, :, 1], -sides[:, :, 0])
        inner = mode + factors.drawn(noise)
        log_density = self._density(outer, noise, factors, sides)
        return self.parts.rows(outer, inner), log_density

    def log_density_of(self, target: Target, rows: np.ndarray, log_prior: np.ndarray) -> np.ndarray:
        """Log density of rows (n, d), shape (n,)."""
        outer = rows[:, self.parts.outer]
        mode, factors, sides = self._conditional(target, outer)
        whitened = factors.whitened(rows[:, self.parts.inner] - mode)
        return self._density(outer, whitened, factors, sides)

    def _density(
        self, outer: np.ndarray, whitened: np.ndarray, factors: Factors, sides: np.ndarray
    ) -> np.ndarray:
        """Log density (n,), by how far the normal entries are from their modes (n, k)."""
        square = (whitened / np.where(whitened > 0, sides[:, :, 1], sides[:, :, 0])) ** 2
        k, df = whitened.shape[1], inner_df(whitened.shape[1])
        constant = gammaln(0.5 * (df + k)) - gammaln(0.5 * df) - 0.5 * k * np.log(df * np.pi)
        log_density = constant + 0.5 * factors.log_det()
        log_density -= 0.5 * (df + k) * np.log1p(square.sum(axis=1) / df)
        log_density -= np.log(sides.mean(axis=2)).sum(axis=1)
        return self.with_outer(outer, log_density)

    def _conditional(
        self, target: Target, outer: np.ndarray
    ) -> tuple[np.ndarray, Factors, np.ndarray]:
        """Modes (n, k) of the normal entries, factors of their precisions, and their sides.

        They depend on the other entries alone, each row for itself.
        """
        parts, start = self.on(target), self.known.nearest(outer)
        found = parts.modes(outer, start, self.scale)
        # any density will do that the others determine
        lost = ~np.isfinite(found.log_marginal)
        mode = np.where(lost[:, None], start, found.inner)
        usual = parts.matrices.of_diagonal(self.scale**-2.0)
        precision = np.where(lost[:, None, None], usual, found.precision)
        return mode, parts.matrices.factors(precision / INNER_INFLATION), found.sides


def inner_df(d: int) -> float:
    """Degrees of freedom of d entries that are nearly normal together.

    Tails that bound the weights, and cost nothing.
    """
    return max(20.0, 2.0 * d)


def has_conditional_normals(prepared: Prepared, cheap: int = 16) -> bool:
    """Whether a model has normal entries, and of these and of others no more than are drawn.

    Each row takes several times as many gradients as there are normal entries. Up to so many
    ``cheap`` ones these may cost the cube of the dimensions.
    """
    n_inner = normal_columns(prepared.flat).size
    if not 0 < n_inner <= MAX_DIMS or prepared.n_dims - n_inner > MAX_OUTER:
        return False
    return n_inner <= cheap or not n_factored(prepared.flat.model)


def conditional_normal(
    target: Target, rows: np.ndarray, rng: np.random.Generator
) -> ConditionalNormal | None:
    """Conditional normals of a model, the other entries explored from rows (n, d) that are known.

    None where the model has no normal entries, too many, or the others are not found.

    References
    ----------
    Rue, Martino & Chopin (2009), doi 10.1111/j.1467-9868.2008.00700.x, sections 3.1 and 3.2, for
    the density of the others; Cornuet, Marin, Mira & Robert (2012), arXiv 0907.1254, for weights of
    all rounds together.
    """
    prepared, parts = target.prepared, Conditionals.of_normal_entries(target)
    if parts is None or not has_conditional_normals(prepared):
        return None
    parts = without_factors(parts, rows)
    outer, inner = rows[:, parts.outer], rows[:, parts.inner]
    some = np.linspace(0, len(rows) - 1, N_STARTS).astype(int)
    parts = parts.with_sides(outer[some], inner[some], spread_of(inner))
    if not parts.outer.size:
        known = Known(outer[:1], np.median(inner, axis=0)[None])
        return ConditionalNormal(parts, None, known, spread_of(inner))
    n = n_places(parts.outer.size, prepared.flat, parts.matrices.groups.n)
    prior = prepared.prior(rng, n)[:, parts.outer]
    # draws of a vague prior, and rows that walked from them, may be nowhere near
    starts, known = np.concatenate([outer[:16], prior]), Known(outer, inner)
    seen = parts.modes(starts, known.nearest(starts), spread_of(inner))
    peaks = peaks_apart(parts, starts, seen)
    return ConditionalNormal.explored(parts, outer, inner, prior, rng, len(prior), peaks)


def n_places(n_outer: int, flat: FlatModel, n_gradients: int, each: int = 128) -> int:
    """Settings of so many others to look at, each of which takes a multiple of these gradients."""
    return n_affordable(flat, each // 2, min(each * max(n_outer, 1), N_ROWS[0]), n_gradients)


def without_factors(
    parts: Conditionals, rows: np.ndarray, least: float = 0.25, most: float = 0.6
) -> Conditionals:
    """The same with entries among the others that change the curvature of the rest.

    A slope times a covariate that is itself unknown is normal given neither: each is, given the
    other one. Each entry is moved by a standard deviation, at the conditional modes of some rows,
    and the curvature of the others changes, or does not. If it does, by the fraction ``least``, the
    entry is taken that most of these changes are of, or for: ``most`` of their squares may be left
    without it, since where the likelihood is not normal no entry is to blame.
    """
    some = rows[np.linspace(0, len(rows) - 1, 12).astype(int)]
    scale = spread_of(rows[:, parts.inner])
    parts = parts.with_zeros(some[::3], scale)
    square = _changes(parts, some, scale)
    if square is None:
        return parts
    taken = list[int]()
    while len(parts.outer) + len(taken) < MAX_OUTER and len(taken) + 1 < len(scale):
        total = square.sum()
        # no entry changes an element of its own row
        touching = square.sum(axis=(1, 2)) + 2 * square.sum(axis=(0, 2))
        without = total - touching + np.einsum("ijj->j", square)
        best = int(np.argmin(without))
        if not total > least**2 or without[best] > most * total:
            break
        taken.append(best)
        square[best], square[:, best], square[:, :, best] = 0.0, 0.0, 0.0
    if not taken:
        return parts
    left = np.setdiff1d(np.arange(len(scale)), taken)
    outer = np.sort(np.append(parts.outer, parts.inner[taken]))
    found = Conditionals(parts.block, parts.inner[left], outer, Whole(left.size))
    return found.with_zeros(some[::3], scale[left])


def _changes(parts: Conditionals, some: np.ndarray, scale: np.ndarray) -> np.ndarray | None:
    """Mean square of what a move of entry i changes in the curvature of a and b, shape (n, n, n).

    In units of the curvature; at the modes of the normal entries given the others of some rows
    (k, d). None where there is no mode.
    """
    found = parts.modes(some[:, parts.outer], some[:, parts.inner], scale)
    good = np.isfinite(found.log_marginal)
    if not good.any():
        return None
    n, each = len(scale), np.arange(len(scale))
    whole = parts.matrices.whole(found.precision[good])
    width = np.array([np.sqrt(np.diag(np.linalg.inv(one))) for one in whole])
    away = np.concatenate([np.zeros((len(width), 1, n)), width[:, None] * np.eye(n)], axis=1)
    moved = (found.inner[good][:, None] + away).reshape(-1, n)
    rows = parts.rows(np.repeat(some[good][:, parts.outer], n + 1, axis=0), moved)
    curved = parts.matrices.whole(parts.curvature(rows, np.repeat(width, n + 1, axis=0)))
    square = np.zeros((n, n, n))
    for (here, *there), one in zip(curved.reshape(-1, n + 1, n, n), width, strict=True):
        square += (np.nan_to_num(np.array(there) - here) * np.outer(one, one)) ** 2
    # entry i tells of the others only
    square[each, each], square[each, :, each] = 0.0, 0.0
    return square / good.sum()


def with_tails(fit: Clusters, width: float = 2.0, share: float = 0.15) -> Clusters:
    """Each component twice, once of another ``width``, lest tails be too light."""
    both = list(product(widened(fit).components, (1.0, width)))
    shares = np.outer(fit.shares, [1 - share, share]).ravel()
    return Clusters(tuple(one.wider(w**2) for one, w in both), shares)
