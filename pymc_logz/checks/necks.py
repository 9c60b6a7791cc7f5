"""Whether draws of a posterior lack the narrow end of a funnel, which chains may all pass by."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pymc_logz.checks.edges import Look, edge_doubts
from pymc_logz.loop.planning import block_for
from pymc_logz.models.known_priors import normal_columns
from pymc_logz.models.preparation import Prepared
from pymc_logz.pilot.settings import RunSettings
from pymc_logz.trees.doubts import Doubt


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
