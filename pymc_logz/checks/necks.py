"""Whether draws stop short of mass next to them, as Laplace's method finds it there.

That is the narrow end of a funnel, which all chains may pass by.
"""

from collections.abc import Mapping
from typing import Any

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


def neck_doubts(
    prepared: Prepared,
    rows: np.ndarray,
    rng: np.random.Generator,
    compile_kwargs: Mapping[str, Any] | None,
) -> list[Doubt]:
    """Whether the posterior goes on beyond its draws (n, d), where normal variables narrow.

    Chains whose steps suit the wide end of a funnel do not enter its neck: R-hat is 1, and nothing
    diverges. Gradients are compiled only where draws look like those of a funnel.
    """
    if prepared.flat.sites or prepared.prior.obstacle is not None:
        return []
    if not is_funnel(rows, normal_columns(prepared.flat)):
        return []
    block = block_for(prepared, RunSettings(reference="prior"), compile_kwargs)
    return edge_doubts(prepared, block, rows[rng.permutation(len(rows))[:2048]], rng)


def edge_doubts(
    prepared: Prepared,
    block: Block,
    rows: np.ndarray,
    rng: np.random.Generator,
    edge: float = 0.02,
    more: float = 0.05,
    least: int = 10,
) -> list[Doubt]:
    """Whether the density goes on beyond the outermost rows, where hardly any row got to.

    Where a spread goes to zero together with what it scales, steps that suit the rest of the target
    are rejected, and rows that never come there tell nothing of it. But given such an entry, all
    that is normal in the prior is nearly so in the posterior, and Laplace's method has the density
    of the others alone, also where no row is.

    By that the share of the posterior beyond an edge, where ``edge`` of the rows are, has to be
    larger by ``more``, and by 3 errors, as ``least`` settings of weight tell it. Laplace's method
    is corrected by what it is off at the rows themselves.
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
    for found in explored(parts, seen, inner, prior, n_places, rng, n_rounds=3):
        places, log_weight, _, scale = found
        if np.isfinite(log_weight).sum() < 2:
            return []
    weight, edges = normalise(log_weight), np.quantile(seen, [edge, 1 - edge], axis=0)
    if 1 / (weight**2).sum() < least:
        return []
    some = rows[np.linspace(0, len(rows) - 1, n_places).astype(int)]
    off = np.exp(_off_inside(parts, some, scale))
    share, error = shares_beyond(places, weight, edges)
    change = off / (1 - share * (1 - off))
    share, error = share * change, error * change
    over = np.where(share - edge > np.maximum(more, 3.0 * error), share, 0.0)
    worst = int(np.argmax(over))
    if not over[worst]:
        return []
    side, entry = divmod(worst, parts.outer.size)
    name = prepared.flat.owners[parts.outer[entry]]
    reason = (
        f"about {over[worst]:.0%} of the posterior has {name} {('below', 'above')[side]} "
        f"{edges[side, entry]:.3g} (as it moves: a spread by its log), by Laplace's method for "
        f"the normal variables, where {edge:.0%} of the draws are"
    )
    return [Doubt("uncovered", reason)]


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
