"""What the tails of a target say against its log Z."""

import numpy as np

from pymc_logz.models.beyond_draws import Densities, growing_tail
from pymc_logz.models.flat import FlatModel
from pymc_logz.trees.doubts import Doubt
from pymc_logz.weights import NEGLIGIBLE, pareto_khat


def tail_doubts(
    flat: FlatModel, densities: Densities, rows: np.ndarray, rng: np.random.Generator
) -> list[Doubt]:
    """Whether log Z may be infinite, as far as lines from draws of the posterior, and they, tell.

    Or whether a sum over discrete values ended too early.

    ``densities`` are log prior and log likelihood of rows (n, d), here draws.
    """
    if beyond := _limit_doubts(flat, rows, rng):
        return beyond
    found = None
    if not flat.calls_host:  # a black box need not cope with what is beyond draws
        found = growing_tail(densities, rows, flat.bends, rng, flat.continuous)
    if found is None:
        return [] if flat.sites else _pole_doubts(densities, rows)
    reason = (
        f"far out along {flat.owners[found]!r} the likelihood grows as fast as the prior "
        "falls, so that the mass there has no end"
    )
    return [Doubt("maybe_infinite", reason)]


def _limit_doubts(flat: FlatModel, rows: np.ndarray, rng: np.random.Generator) -> list[Doubt]:
    """Whether discrete values that have no end were summed too short a way."""
    if flat.summed is None:
        return []
    share = flat.summed.share_at_limits(rows[:: -(-len(rows) // 256)], rng)
    if not share > NEGLIGIBLE:
        return []
    reason = (
        f"{share:.0%} of the posterior has discrete values near the last ones that were summed "
        f"({flat.summed.plan.route}), and may go on beyond; give them an end, or move them "
        "(sum_out=False)"
    )
    return [Doubt("missed_mode", reason)]


def _pole_doubts(
    densities: Densities, rows: np.ndarray, khats: tuple[float, float] = (0.3, 0.5)
) -> list[Doubt]:
    """Whether the density grows without an end as draws come closer to some point.

    In one or two dimensions a smooth density has a highest value, and its values at draws a tail
    that ends there. One that goes to infinity as a power of the distance has values with a Pareto
    tail, of whose end a finite number of draws has seen next to nothing. If the prior has it, its
    draws are there too.

    ``khats`` are the largest k-hat of densities at 256 draws (n, d) and more, and at fewer. It is
    -0.2 to -0.8 on ordinary models, and 0.4 to 0.9 where rows hardly come near a pole that has a
    fifth of Z; of 128 draws below 0.4, and 0.6 to 1.4.
    """
    rows = np.unique(rows, axis=0)
    # with cusps in four dimensions k-hat is 0.2: densities at draws differ by too much there
    if rows.shape[1] > 2 or len(rows) < 64:
        return []
    rows = rows[:: -(-len(rows) // 1024)]
    with np.errstate(all="ignore"):
        log_prior, log_ratio = densities(rows)
        values = log_ratio, log_prior + log_ratio
    khat = float(np.min([pareto_khat(one[np.isfinite(one)]) for one in values]))
    if not khat > khats[int(len(rows) < 256)]:
        return []
    reason = (
        f"densities at draws of the posterior have a tail with a k-hat of {khat:.2g}, as if they "
        "were infinite at some point: that of a smooth density is below 0"
    )
    return [Doubt("maybe_infinite", reason)]
