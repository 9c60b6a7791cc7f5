"""What the tails of a target say against its log Z."""

import numpy as np

from pymc_logz.models.flat import FlatModel, variable_of
from pymc_logz.models.tails import Densities, growing_tail
from pymc_logz.trees.doubts import Doubt


def tail_doubts(
    flat: FlatModel, densities: Densities, rows: np.ndarray, rng: np.random.Generator
) -> list[Doubt]:
    """Whether log Z may be infinite, as far as lines from draws of the posterior tell.

    Parameters
    ----------
    flat
        The model.
    densities
        Its log prior and log likelihood of rows (n, d).
    rows
        Draws, shape (n, d).
    rng
        Generator that chooses among them.
    """
    names = {rv.name for rv in flat.model.free_RVs}
    transformed = np.repeat(
        [name not in names for name in flat.value_names],
        [int(np.prod(shape)) for shape in flat.shapes],
    )
    found = growing_tail(densities, rows, transformed, rng, flat.continuous)
    if found is None:
        return []
    reason = (
        f"far out along {variable_of(flat, found)!r} the likelihood grows as fast as the prior "
        "falls, so that the mass there has no end"
    )
    return [Doubt("maybe_infinite", reason)]
