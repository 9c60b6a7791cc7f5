"""Staying at one end of a plan: ordinary Markov chain moves with its frozen settings."""

import numpy as np

from pymc_logz.kernels.base import Move
from pymc_logz.runners.anneal import Plan
from pymc_logz.runners.arrays import joined, rows_of, trimmed
from pymc_logz.runners.block import Block, launch_all


def stay_at_end(
    block: Block, plan: Plan, start: np.ndarray, n_moves: int, rng: np.random.Generator
) -> np.ndarray:
    """Move rows at the plan's last beta, with the settings it has there.

    Parameters
    ----------
    block
        Compiled moves.
    plan
        Frozen schedule; only its end is used.
    start
        Shape (n, d).
    n_moves
        Moves to make, rounded up to whole blocks.
    rng
        Source of all noise.

    Returns
    -------
    np.ndarray
        Where the rows are, shape (n, d).
    """
    m = block.n_moves
    step_size = np.full(m, plan.step_size[-1])
    scale = np.repeat(plan.end_scale()[None], m, axis=0)
    refreshment = block.kernel.refreshment_for(step_size)
    move = Move(np.full(m, plan.betas[-1]), step_size, scale, refreshment)
    first = move._replace(
        beta=np.concatenate([[0.0], move.beta[1:]]),
        step_size=np.concatenate([[0.0], move.step_size[1:]]),
        refreshment=np.concatenate([[1.0], move.refreshment[1:]]),
    )
    states = block.portions(start)
    sizes = rows_of(states)
    for i in range(max(1, -(-n_moves // m))):
        states, wait = launch_all(block, states, sizes, first if i == 0 else move, rng)
        wait()
    return joined(trimmed(states, sizes)).position
