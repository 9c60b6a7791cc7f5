"""The peak of the density of a few entries, the others, normal given them, integrated out."""

from typing import NamedTuple

import numpy as np

from pymc_logz.models.beyond_draws import MAX_DIMS
from pymc_logz.models.preparation import Prepared
from pymc_logz.references.blend import N_STARTS
from pymc_logz.references.conditional_modes import Conditionals, Modes
from pymc_logz.runners.block import Block
from pymc_logz.weights import TOLERANCE

MAX_OTHERS = 6
"""Entries that are not normal, at most: products of them grow with the square."""
FIRST_SCALE = (0.05, 1.0)
"""Bounds of the first guess at a standard deviation."""


class Peak(NamedTuple):
    """Where the marginal density of the outer entries is highest."""

    outer: np.ndarray  # Shape (m,).
    factor: np.ndarray
    """Its columns are axes, one standard deviation long; lower triangular, shape (m, m)."""
    inner: np.ndarray  # The mode of the others given those, shape (n,).
    precision: np.ndarray  # Minus the second derivatives there, one of `matrices`.


class Start(NamedTuple):
    """Where the marginal density of the outer entries is highest, and how it was found."""

    parts: Conditionals
    prior: np.ndarray  # Draws of the prior, shape (n, d); the search started among the first.
    seen: Modes  # Conditional modes there.
    peak: Peak


def highest_marginal(
    prepared: Prepared, block: Block, rng: np.random.Generator, n_climbs: int = 128
) -> Start | None:
    """The peak of a latent Gaussian model; None where there are few normal entries, or no peak.

    In few dimensions the prior's rows are as good a guide. The search starts at the first draws of
    the prior, which the fit is held against; so many more are there for rows to climb from.
    """
    if prepared.n_dims <= MAX_DIMS:
        return None
    parts = Conditionals.of_normal_entries(prepared.flat, block)
    if parts is None or not parts.inner.size or parts.outer.size > MAX_OTHERS:
        return None
    prior = prepared.prior(rng, N_STARTS + n_climbs)
    scale = np.clip(prior[:, parts.inner].std(axis=0), *FIRST_SCALE)
    first = prior[:N_STARTS]
    parts = parts.with_pattern(first[: N_STARTS // 2], scale)
    seen = parts.modes(first[:, parts.outer], first[:, parts.inner], scale)
    peak = highest_peak(parts, first[:, parts.outer], seen)
    return None if peak is None else Start(parts, prior, seen, peak)


def highest_peak(
    parts: Conditionals, outer: np.ndarray, seen: Modes, factor: float = 3.0
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
        # a mode is found to within the tolerance
        if is_higher := value[0] > top - TOLERANCE:
            top, inner, precision = value[0], found.inner[0], found.precision[0]
            before = centre, inner, precision
        if not is_higher or not np.all(np.isfinite(value)):
            centre, inner, precision = before
            spread, growth = spread / factor, 1.0
            continue
        up, down = value[1 : m + 1], value[m + 1 :]
        slope, curvature = (up - down) / 2, 2 * value[0] - up - down
        convex = curvature <= 0
        step = np.where(convex, np.sign(slope) * np.inf, slope / np.where(convex, 1.0, curvature))
        wide = np.where(convex, np.inf, spread / np.sqrt(np.where(convex, 1.0, curvature)))
        wide = np.clip(wide, spread / factor, growth * spread)
        step = np.clip(step, -2.0, 2.0) * spread
        small = np.all((np.abs(step) < 0.3 * wide) & (spread < factor * wide))
        centre, spread, growth = centre + step, wide, factor
        if small:
            break
    else:
        if m:
            return None
    at = parts.modes(centre[None], inner[None], parts.scale_of(precision))
    if not np.isfinite(at.log_marginal[0]):
        return None
    return Peak(centre, np.diag(spread), at.inner[0], at.precision[0])
