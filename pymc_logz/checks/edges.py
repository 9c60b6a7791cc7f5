"""Whether rows stop short of mass next to them, as Laplace's method finds it there.

Of draws that chains made that mass is the narrow end of a funnel, which all may pass by.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pymc_logz.loop.planning import block_for
from pymc_logz.models.known_priors import normal_columns
from pymc_logz.models.preparation import Prepared
from pymc_logz.pilot.settings import RunSettings
from pymc_logz.references.blend import Target
from pymc_logz.references.conditional import MAX_INNER, explored, without_factors
from pymc_logz.references.conditional_modes import Conditionals
from pymc_logz.references.marginal_peaks import MAX_OTHERS
from pymc_logz.runners.block import Block
from pymc_logz.trees.doubts import Doubt
from pymc_logz.weights import log_mean, normalise, shares_beyond


class Look(NamedTuple):
    """What counts as stopping short.

    By Laplace's method the share of the posterior beyond an edge, where ``edge`` of the rows are,
    is larger by ``more``, as ``n_places`` settings of weight tell it.
    """

    edge: float
    more: float
    n_places: int = 10


LOOKS = Look(edge=0.05, more=0.1), Look(edge=0.01, more=0.06, n_places=30)
"""The second has fewer rows and more settings to tell by: it sees where a twentieth is missing."""


def edge_doubts(
    prepared: Prepared,
    block: Block,
    rows: np.ndarray,
    rng: np.random.Generator,
    looks: Sequence[Look] = LOOKS,
) -> list[Doubt]:
    """Whether the density goes on beyond the outermost rows, where hardly any row got to.

    Where a spread goes to zero together with what it scales, steps that suit the rest of the target
    are rejected, and rows that never come there tell nothing of it. But given such an entry, all
    that is normal in the prior is nearly so in the posterior, and Laplace's method has the density
    of the others alone, also where no row is.

    Rows (n, d) are draws of the posterior as the run has it. There has to be more beyond an edge by
    3 errors, Laplace's method being corrected by what it is off at the rows themselves. The first
    of ``looks`` also tells whether further rounds are needed: not if there is less by 2 errors, as
    is often seen in the first.
    """
    parts = Conditionals.of_normal_entries(Target(prepared, block))
    if parts is None or not 0 < parts.inner.size <= MAX_INNER:
        return []
    parts = without_factors(parts, rows)
    if not 0 < parts.outer.size <= MAX_OTHERS:
        return []
    seen, inner = rows[:, parts.outer], rows[:, parts.inner]
    prior = prepared.prior(rng, block.n_rows)[:, parts.outer]
    # each of the modes takes a few gradients for each of its dimensions
    n_places = min(192, 2**13 // inner.shape[1])
    rounds = explored(parts, seen, inner, prior, n_places, rng, n_rounds=3)
    for found in rounds:
        places, log_weight, _, scale = found
        if np.isfinite(log_weight).sum() < 2:
            return []
        weight = normalise(log_weight)
        share, error = shares_beyond(places, weight, _edges(seen, looks[0]))
        n_effective, most = 1 / (weight**2).sum(), looks[0].edge + looks[0].more
        if n_effective >= looks[0].n_places and np.all(share + 2.0 * error < most):
            return []
    some = rows[np.linspace(0, len(rows) - 1, n_places).astype(int)]
    off = np.exp(_off_inside(parts, some, scale))
    for look in looks:
        edges = _edges(seen, look)
        share, error = shares_beyond(places, weight, edges)
        change = off / (1 - share * (1 - off))
        share, error = share * change, error * change
        over = np.where(share - look.edge > np.maximum(look.more, 3.0 * error), share, 0.0)
        worst = int(np.argmax(over))
        if not over[worst] or n_effective < look.n_places:
            continue
        side, entry = divmod(worst, parts.outer.size)
        name = prepared.flat.owners[parts.outer[entry]]
        reason = (
            f"about {over[worst]:.0%} of the posterior has {name} {('below', 'above')[side]} "
            f"{edges[side, entry]:.3g} (as it moves: a spread by its log), by Laplace's method for "
            f"the normal variables, where {look.edge:.0%} of the particles are"
        )
        return [Doubt("lagging_rows", reason)]
    return []


def _off_inside(parts: Conditionals, rows: np.ndarray, scale: np.ndarray) -> float:
    """Log of the factor by which Laplace's method is off where rows (n, d) are.

    Given the others the normal entries of draws have the density that it takes to be normal: the
    mean quotient of both is this factor, as of prior and joint density in Gelfand & Dey (1994).
    """
    outer, inner = rows[:, parts.outer], rows[:, parts.inner]
    found = parts.modes(outer, inner, scale)
    good = np.isfinite(found.log_marginal)
    if not good.any():
        return -np.inf
    apart = inner[good] - found.inner[good]
    at_mode, _ = parts.at(parts.rows(outer[good], found.inner[good]))
    square = (parts.matrices.factors(found.precision[good]).whitened(apart) ** 2).sum(axis=1)
    return log_mean(at_mode - 0.5 * square - parts.at(rows[good])[0])


def _edges(seen: np.ndarray, look: Look) -> np.ndarray:
    """Lower and upper edge of each entry of rows (n, m), shape (2, m)."""
    return np.quantile(seen, [look.edge, 1 - look.edge], axis=0)


def neck_doubts(
    prepared: Prepared,
    rows: np.ndarray,
    rng: np.random.Generator,
    compile_kwargs: Mapping[str, Any] | None,
) -> list[Doubt]:
    """Whether the posterior goes on beyond its draws, where normal variables narrow.

    Chains whose steps suit the wide end of a funnel do not enter its neck: R-hat is 1, and nothing
    diverges. Laplace's method for the normal variables has the density of the others there too.
    Gradients are compiled only where draws look like those of a funnel.
    """
    if prepared.flat.sites or prepared.prior.obstacle is not None:
        return []
    if not is_funnel(rows, normal_columns(prepared.flat)):
        return []
    block = block_for(prepared, RunSettings(reference="prior"), compile_kwargs)
    chosen = rows[rng.permutation(len(rows))[:2048]]
    # draws are many, unlike rows with weights, and a bridge has nothing else to tell
    found = edge_doubts(prepared, block, chosen, rng, [Look(edge=0.02, more=0.05)])
    return [Doubt("uncovered", one.reason) for one in found]


def is_funnel(
    rows: np.ndarray, inner: np.ndarray, of_one: float = 0.25, of_all: float = 0.09
) -> bool:
    """Whether the widths of some entries of rows (n, d) follow one of the others.

    The correlation of that with the log of how far normal ones are from their middle, of one of
    them or on average, is up to 0.19 and 0.08 in hierarchies that are not centred, and 0.18 and
    0.10 at least in eight schools that are.
    """
    outer = np.setdiff1d(np.arange(rows.shape[1]), inner)
    if not inner.size or not outer.size:
        return False
    distance = np.abs(rows[:, inner] - np.median(rows[:, inner], axis=0))
    width = np.log(np.maximum(distance, 1e-300))
    columns = np.concatenate([rows[:, outer], width], axis=1)
    with np.errstate(invalid="ignore"):
        alike = np.abs(np.corrcoef(columns.T)[: outer.size, outer.size :])
    alike = np.where(np.isnan(alike), 0.0, alike)
    return bool(alike.max() > of_one or alike.mean(axis=1).max() > of_all)
