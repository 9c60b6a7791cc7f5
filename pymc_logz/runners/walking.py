"""Walks: walkers of a `TemperBlock` driven block by block, at once or a part at a time."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from pymc_logz.runners.moves_of_rows import in_turn
from pymc_logz.runners.temper import Tables, TemperBlock, Walk, Walkers


class Walking(NamedTuple):
    """Walkers on their way: numbers and arrays only, all that the iterations to come need."""

    n_made: int
    """Iterations made."""
    walkers: Walkers
    fresh: np.ndarray | None = None
    """Draws of the reference that were made and are not used yet, shape (n, d)."""


def walk(
    block: TemperBlock,
    walkers: Walkers,
    tables: Tables,
    n_iterations: int,
    rng: np.random.Generator,
    *,
    every: int = 1,
    report: Callable[[int], None] | None = None,
) -> tuple[Walkers, Walk]:
    """Where walkers are after so many iterations with frozen settings, and what they did."""
    underway = Walking(0, walkers)
    underway, part = walk_on(block, underway, tables, n_iterations, rng, every=every, report=report)
    return underway.walkers, whole_walk([part], n_iterations, every)


def walk_on(
    block: TemperBlock,
    underway: Walking,
    tables: Tables,
    n_iterations: int,
    rng: np.random.Generator,
    *,
    every: int = 1,
    report: Callable[[int], None] | None = None,
    enough: Callable[[], bool] | None = None,
) -> tuple[Walking, Walk]:
    """Walkers after the iterations that are left of a walk, or whole blocks until ``enough``."""
    done, walkers = underway.n_made, underway.walkers
    fresh = block.fresh_rows(n_iterations, rng)
    fresh.left = underway.fresh

    def launch(part: slice) -> Callable[[], Walk]:
        nonlocal walkers, done
        done = part.start + block.n_moves
        walkers, trace = block.launch(block.renewed(walkers, tables, fresh), tables, rng)
        return trace

    blocks = in_turn(launch, done, n_iterations, block.n_moves, report, enough)
    parts = []
    for part, trace in blocks:
        kept = trace.position[-(part.start + 1) % every :: every]
        parts.append(trace._replace(position=kept.astype(float)))
    return Walking(done, walkers, fresh.left), whole_walk(parts)


def whole_walk(parts: Sequence[Walk], n_iterations: int | None = None, every: int = 1) -> Walk:
    """Parts of one walk as one, with no more than so many iterations."""
    joined = {
        name: np.concatenate([getattr(part, name) for part in parts])[:n_iterations]
        for name in Walk._fields
    }
    n_positions = None if n_iterations is None else n_iterations // every
    return Walk(**{**joined, "position": joined["position"][:n_positions]})
