"""Independent directions of a posterior, each with the tails that it has.

The second derivatives of the log of a density that is a product over directions W are
``W.T D(x) W`` at every point, with a diagonal D. So matrices at two points tell W, and the density
along each direction tells its width and its tails. An ellipsoid would need the heaviest of these
tails in all directions.
"""

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from scipy.special import gammaln

from pymc_logz.pilot.scales import population_scale
from pymc_logz.references.blend import N_STARTS, Drawn, Target
from pymc_logz.references.modes import followed, has_dense_curvature
from pymc_logz.runners.block import Block

STEPS = np.sinh(np.linspace(-10.6, 10.6, 241))
"""Distances along a direction, in units of its width at the mode: up to 20,000."""


@dataclass(frozen=True)
class IndependentDirections:
    """A product of Student-t densities of ``directions @ row``, normalised."""

    directions: np.ndarray
    """Shape (d, d), one per row."""
    location: np.ndarray
    """Shape (d,)."""
    scale: np.ndarray
    """Shape (d,)."""
    df: np.ndarray
    """Degrees of freedom, shape (d,)."""

    def draw(self, target: Target, rng: np.random.Generator, n: int) -> Drawn:
        """Rows (n, d)."""
        noise = rng.standard_t(self.df, size=(n, len(self.df)))
        return np.linalg.solve(self.directions, (self.location + self.scale * noise).T).T, None

    def log_density_of(self, target: Target, rows: np.ndarray, log_prior: np.ndarray) -> np.ndarray:
        """Log density of rows (n, d), shape (n,)."""
        standard = (rows @ self.directions.T - self.location) / self.scale
        parts = log_student_t(standard, self.df) - np.log(self.scale)
        return np.asarray(parts.sum(axis=1) + np.linalg.slogdet(self.directions)[1])

    @property
    def what(self) -> str:
        """What it is, for a reason."""
        return (
            f"{len(self.df)} independent directions with "
            f"{self.df.min():.2g} to {self.df.max():.2g} degrees of freedom"
        )


def log_student_t(standard: np.ndarray, df: np.ndarray | float) -> np.ndarray:
    """Log density of a Student-t distribution of scale 1, by element."""
    half = 0.5 * (np.asarray(df) + 1)
    constant = gammaln(half) - gammaln(half - 0.5) - 0.5 * np.log(np.asarray(df) * np.pi)
    return np.asarray(constant - half * np.log1p(standard**2 / df))


def independent_directions(
    target: Target, rows: np.ndarray, rng: np.random.Generator
) -> IndependentDirections | None:
    """Directions in which a target is independent, if it is, and its tails along each.

    From rows (n, d) of the posterior, as far as it is known; None where second derivatives are not
    finite, or densities along a line have no width. Whether the target is independent is not
    checked: a blend gives a density that does not fit a small share.
    """
    block, d = target.block, rows.shape[1]
    if not has_dense_curvature(block):
        return None
    scale = population_scale(rows, np.full(len(rows), 1 / len(rows)), np.ones(d))
    rows = np.unique(rows, axis=0)  # copies of one row say nothing new
    chosen = rows[rng.permutation(len(rows))[:N_STARTS]]
    if not (modes := followed(block, chosen, scale)):
        return None
    factor, mode = np.linalg.cholesky(modes[0].precision), modes[0].component.centre
    parts = _curvature(block, np.concatenate([mode[None], chosen]), factor)
    good = np.isfinite(parts).all(axis=(1, 2))
    if not good[0] or good.sum() < 2:
        return None
    directions = _that_all_are_diagonal_in(parts[good], rng) @ factor.T
    if not np.all(np.isfinite(directions)):
        return None
    lines = mode + STEPS[:, None, None] * np.linalg.inv(directions).T
    height, known = np.full(lines.shape[:2], -np.inf), np.ones(lines.shape[:2], dtype=bool)
    if target.prepared.flat.calls_host:  # a black box copes with what is among draws
        along = (rows - mode) @ directions.T
        known = (STEPS[:, None] >= along.min(axis=0)) & (STEPS[:, None] <= along.max(axis=0))
    height[known] = block.log_target(lines[known])
    height[np.isposinf(height)] = -np.inf  # that comes of rounding
    return _fitted(directions, directions @ mode, height.T)


def _curvature(block: Block, rows: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Minus the second derivatives at rows (n, d), in units of those at a mode, shape (n, d, d).

    By differences along axes in which those at the mode are the identity: along those of the rows,
    rounding hides the narrowest direction where widths are far apart. ``factor`` is the Cholesky
    factor of the mode's precision.
    """
    n, d = rows.shape
    axes = np.linalg.inv(factor)
    moved = rows[:, None] + 1e-3 * np.concatenate([axes, -axes])
    slope = block.target_and_gradient(moved.reshape(-1, d))[1]
    forward, backward = np.split(slope.reshape(n, -1, d) @ axes.T, 2, axis=1)
    change = (backward - forward) / 2e-3
    return 0.5 * (change + change.transpose(0, 2, 1))


def _that_all_are_diagonal_in(
    parts: np.ndarray, rng: np.random.Generator, n_sums: int = 16
) -> np.ndarray:
    """Directions W (d, d), one per row, of matrices ``W.T D W`` (n, d, d), the first positive.

    They are the inverse of the generalised eigenvectors of the first and a sum of the others, in
    which two directions may be alike: of some sums the one that leaves the least beside the
    diagonals.
    """
    first, others = parts[0], parts[1:]
    size = np.sqrt((others**2).sum(axis=(1, 2), keepdims=True))
    scaled = others / np.where(size > 0, size, 1.0)
    best, least = np.full_like(first, np.nan), np.inf
    for shares in rng.standard_normal((n_sums, len(scaled))):
        with suppress(np.linalg.LinAlgError):
            _, vectors = eigh(np.tensordot(shares, scaled, 1), first)
            diagonal = vectors.T @ scaled @ vectors
            left = ((diagonal - diagonal * np.eye(len(first))) ** 2).sum()
            if left < least:
                least, best = left, vectors.T @ first
    return best


def _fitted(
    directions: np.ndarray, middle: np.ndarray, height: np.ndarray
) -> IndependentDirections | None:
    """Student-t densities with the least second moments of weights along each direction.

    Directions (d, d) cross at coordinates ``middle`` (d,); ``height`` is the log target at `STEPS`
    along each, shape (d, steps).
    """
    log_share = height + np.log(np.gradient(STEPS))
    with np.errstate(invalid="ignore"):
        share = np.exp(log_share - log_share.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    below = np.cumsum(share, axis=1) - 0.5 * share
    low, centre, high = (
        np.array([np.interp(level, row, STEPS) for row in below]) for level in (0.1587, 0.5, 0.8413)
    )
    width = 0.5 * (high - low)
    if not np.all(np.isfinite(width)) or not np.all(width > 0):
        return None
    # degrees of freedom, and widths in units of half of the central 68%, to choose from
    degrees = [0.5, 0.7, 1.0, 1.3, 1.6, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0, 30.0]
    grid = np.meshgrid(degrees, np.geomspace(0.4, 2.5, 15), indexing="ij")
    df, factor = (part.ravel() for part in grid)
    scales = width[:, None] * factor
    standard = (STEPS - centre[:, None])[:, None] / scales[..., None]
    log_q = log_student_t(standard, df[:, None]) - np.log(scales)[..., None]
    log_q += np.log(np.gradient(STEPS))
    second_moment = np.exp(2 * np.log(np.maximum(share, 1e-300))[:, None] - log_q).sum(axis=2)
    best = np.argmin(second_moment, axis=1)
    each = np.arange(len(centre))
    return IndependentDirections(directions, middle + centre, scales[each, best], df[best])
