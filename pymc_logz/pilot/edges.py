"""Whether rows stop short of mass next to them, as Laplace's method finds it there."""

from typing import NamedTuple

import numpy as np

from pymc_logz.models.preparation import Prepared
from pymc_logz.paths.elliptical import Elliptical
from pymc_logz.paths.fitting import fitted_to_few
from pymc_logz.pilot.conditional_modes import Conditionals
from pymc_logz.runners.block import Block
from pymc_logz.trees.doubts import Doubt
from pymc_logz.weights import relative, resampled

MAX_OUTER = 6
"""Entries that are not normal, at most."""
N_PLACES, ROUNDS = 192, 3
"""Settings of them that are looked at in each round; the last round is of more weight than those
that led there."""
MAX_LOOKED_AT = 2**13
"""Conditional modes times their dimensions in a round, at most: each takes a few gradients."""
MAX_INNER = 2**8
"""Dimensions of these modes, up to which a round has settings enough."""
WIDER, DF = 2.0, 5.0
"""Than the rows: the spread of the first settings, and the degrees of freedom of their tails."""
N_CENTRES, KERNEL = 48, 0.5
"""Settings that those of the next round are around, and how far, in standard deviations."""
ERRORS = 3.0
"""Errors by which Laplace's method may have more beyond an edge."""
LEAST_PLACES = 10
"""Of weight, from which on they tell a share."""


class Look(NamedTuple):
    """What counts as stopping short."""

    least_outer: int = 2
    """Entries that are not normal, at least: one alone is confounded with none."""
    edge: float = 0.05
    """Share of the rows beyond an edge."""
    more: float = 0.1
    """Share of the posterior by which Laplace's method may have more there."""


def edge_doubts(
    prepared: Prepared,
    block: Block,
    rows: np.ndarray,
    rng: np.random.Generator,
    look: Look = Look(),  # noqa: B008
) -> list[Doubt]:
    """Whether the density goes on beyond the outermost rows, where hardly any row got to.

    Where a spread goes to zero together with what it scales, steps that suit the rest of the target
    are rejected, and rows that never come there tell nothing of it. But given such an entry, all
    that is normal in the prior is nearly so in the posterior, and Laplace's method has the density
    of the others alone, also where no row is.

    Parameters
    ----------
    prepared
        The model.
    block
        On the path from the prior, whose target is looked at.
    rows
        Draws of the posterior as the run has it, shape (n, d).
    rng
        Generator of the settings that are looked at.
    look
        What counts.
    """
    parts = _parts(prepared, block, look.least_outer)
    if parts is None:
        return []
    seen, inner = rows[:, parts.outer], rows[:, parts.inner]
    places, weight = _explored(parts, seen, inner, rng)
    if not 1 / (weight**2).sum() >= LEAST_PLACES:
        return []
    worst, reason = 0.0, ""
    for column, values, own in zip(parts.outer, places.T, seen.T, strict=True):
        for side, at in (("below", look.edge), ("above", 1 - look.edge)):
            edge = np.quantile(own, at)
            beyond = values < edge if side == "below" else values > edge
            share = float(weight @ beyond)
            error = float(np.sqrt(weight**2 @ (beyond - share) ** 2))
            if share - look.edge > max(look.more, ERRORS * error, worst):
                worst = share - look.edge
                reason = (
                    f"about {share:.0%} of the posterior has {prepared.flat.owners[column]} "
                    f"{side} {edge:.3g} (as it moves: a spread by its log), by Laplace's method "
                    f"for the normal variables, where {look.edge:.0%} of the rows are"
                )
    return [Doubt("lagging_rows", reason)] if reason else []


def _parts(prepared: Prepared, block: Block, least_outer: int) -> Conditionals | None:
    """Normal entries and the others, if there are some of the one and few of the other kind."""
    parts = Conditionals.of_normal_entries(prepared.flat, block)
    if parts is None:
        return None
    few = least_outer <= parts.outer.size <= MAX_OUTER
    some = 0 < parts.inner.size <= MAX_INNER
    return parts if few and some else None


def _explored(
    parts: Conditionals, seen: np.ndarray, inner: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Settings of the outer entries, shape (k, m), with weights that sum to one.

    By population Monte Carlo: each round is drawn around what had weight in the one before.

    Parameters
    ----------
    parts
        Has the density of the outer entries, by Laplace's method.
    seen, inner
        Entries of rows of the run, shapes (n, m) and (n, d - m).
    rng
        Generator of the settings.
    """
    n_places = min(N_PLACES, MAX_LOOKED_AT // inner.shape[1])
    scale = np.maximum(inner.std(axis=0), 1e-300)
    near, known = seen, inner
    around = fitted_to_few(seen, DF)
    centres, factor = around.centre[None], WIDER * around.factor
    for _ in range(ROUNDS):
        kernel = Elliptical(np.zeros(seen.shape[1]), factor, DF)
        places = centres[rng.integers(len(centres), size=n_places)] + kernel(rng, n_places)
        apart = (places[:, None] - centres).reshape(-1, seen.shape[1])
        log_q = np.logaddexp.reduce(kernel.log_density_of(apart).reshape(n_places, -1), axis=1)
        spread = np.maximum(near.std(axis=0), 1e-300)
        distance = np.linalg.norm((places[:, None] - near) / spread, axis=2)
        found = parts.modes(places, known[np.argmin(distance, axis=1)], scale)
        log_weight = found.log_marginal - log_q
        alive = np.isfinite(log_weight)
        if alive.sum() < 2:
            return places, np.full(len(places), np.nan)
        centres = places[resampled(log_weight, rng, N_CENTRES)]
        factor = KERNEL * fitted_to_few(centres, DF).factor
        near, known = places[alive], found.inner[alive]
    weight = relative(log_weight)
    return places, weight / weight.sum()
