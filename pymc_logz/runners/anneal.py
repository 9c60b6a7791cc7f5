"""Annealing: fresh rows of one end of the path are moved to the other, and weighted on the way."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pymc_logz.kernels.base import Kernel, Move
from pymc_logz.runners.block import Block, Trace, joined, launch_all
from pymc_logz.weights import weight_ess, weighted_mean

Report = Callable[[int], None]
"""Called with the number of moves made since the last call."""


@dataclass(frozen=True)
class Plan:
    """A frozen schedule: K + 1 betas and the kernel settings at each.

    Rows are weighted for the step from one beta to the next *before* they move, and are not moved
    after the last weight. The share of momentum replaced before a move belongs to the gap between
    that move and the one before, so the plan read backwards is the exact time reversal.
    """

    betas: np.ndarray
    """Shape (K + 1,); 0 to 1 forward, 1 to 0 in reverse."""
    step_size: np.ndarray
    """Shape (K + 1,); those at the two ends are never used."""
    scale: np.ndarray
    """Shape (K + 1, d)."""
    correlation: np.ndarray | None = None
    """Lower triangular factors by which dense scales are more than diagonal, at S + 1 stages."""
    coordinate: np.ndarray | None = None
    """Where each beta lies between those stages, shape (K + 1,)."""

    @property
    def n_temperatures(self) -> int:
        """K, the number of weight increments."""
        return self.betas.size - 1

    def reverse(self) -> "Plan":
        """The same plan from the other end."""
        coordinate = None if self.coordinate is None else self.coordinate[::-1]
        return replace(
            self,
            betas=self.betas[::-1],
            step_size=self.step_size[::-1],
            scale=self.scale[::-1],
            coordinate=coordinate,
        )

    def end_scale(self) -> np.ndarray:
        """Scale at the last beta, shape (d,) or (d, d)."""
        return self.reverse()._scales(slice(0, 1))[0]

    def moves(self, kernel: Kernel, part: slice) -> Move:
        """Part of the K moves: one that evaluates the start, then one at each inner beta."""
        betas, step_size = self.betas[:-1].copy(), self.step_size[:-1].copy()
        betas[0] = step_size[0] = 0.0
        between = 0.5 * (self.step_size[:-1] + self.step_size[1:])
        refreshment = kernel.refreshment_for(np.roll(between, 1))
        # the start has no momentum yet; the first move gives it one, whatever beta it is made at
        refreshment[0] = 1.0
        return Move(betas[part], step_size[part], self._scales(part), refreshment[part])

    def _scales(self, part: slice) -> np.ndarray:
        """Scales of a part of the moves, shape (m, d) or (m, d, d)."""
        scale = self.scale[:-1][part]
        if self.correlation is None or self.coordinate is None:
            return scale
        # the factors of the two stages around each beta, mixed: still triangular, still invertible
        below, share = np.divmod(self.coordinate[:-1][part], 1.0)
        below = below.astype(int)
        above = np.minimum(below + 1, len(self.correlation) - 1)
        share = share[:, None, None]
        factor = (1 - share) * self.correlation[below] + share * self.correlation[above]
        return scale[:, :, None] * factor


class Annealed(NamedTuple):
    """n rows after annealing over K temperatures."""

    position: np.ndarray
    """End points, shape (n, d)."""
    log_reference: np.ndarray
    """Log reference density of the end points, shape (n,)."""
    log_ratio: np.ndarray
    """Log ratio of the end points, shape (n,)."""
    log_weight: np.ndarray
    """Shape (n,); -inf for rows that left the support, NaN log ratios counted as such."""
    acceptance_rate: np.ndarray
    """Mean acceptance probability of each row, shape (n,)."""
    n_nan: int
    """How many log ratios were NaN and were read as -inf."""
    stage_acceptance_rate: np.ndarray
    """Mean over rows at each beta, shape (K + 1,); NaN at the two ends, where nothing moves."""
    stage_mean_log_ratio: np.ndarray
    """Weighted mean log ratio at each beta, shape (K + 1,); NaN at the last one."""
    stage_weight_ess: np.ndarray
    """Effective number of rows after the weight of each beta, shape (K + 1,)."""
    score: np.ndarray
    """Gradient of the log target at the end points, shape (n, d); zeros without gradients."""


def anneal(
    block: Block,
    plan: Plan,
    start: np.ndarray,
    rng: np.random.Generator,
    report: Report | None = None,
) -> Annealed:
    """Anneal rows along a plan.

    Parameters
    ----------
    block
        Compiled moves.
    plan
        Frozen schedule.
    start
        Exact draws at the plan's first beta, shape (n, d).
    rng
        Source of all noise.
    report
        Told of progress.

    Returns
    -------
    Annealed

    References
    ----------
    Neal (2001); Sohl-Dickstein & Culpepper (2012), eq. 25, arXiv 1205.1925.
    """
    n_moves, n_rows = plan.n_temperatures, len(start)
    tally = _Tally(np.diff(plan.betas), n_rows, block.n_groups)
    states = block.portions(start)
    waiting: tuple[slice, Callable[[], Trace]] | None = None
    for first in range(0, n_moves, block.n_moves):
        part = slice(first, min(first + block.n_moves, n_moves))
        # the noise of this block is drawn while the one before is still being computed
        moves = plan.moves(block.kernel, part)
        states, trace = launch_all(block, states, moves, rng)
        if waiting is not None:
            tally.add(waiting[0], waiting[1]())
        waiting = part, trace
        if report is not None:
            report(part.stop - part.start)
    if waiting is not None:
        tally.add(waiting[0], waiting[1]())
    state = joined(states)
    return Annealed(
        position=state.position,
        log_reference=state.evaluation.log_reference,
        log_ratio=state.evaluation.log_ratio,
        log_weight=tally.log_weight,
        acceptance_rate=tally.acceptance / max(1, n_moves - 1),
        n_nan=tally.n_nan,
        stage_acceptance_rate=tally.stage[0],
        stage_mean_log_ratio=tally.stage[1],
        stage_weight_ess=tally.stage[2],
        score=state.evaluation.grad_log_reference + state.evaluation.grad_log_ratio,
    )


_OF_ROWS = ("position", "log_reference", "log_ratio", "log_weight", "acceptance_rate", "score")


class _Tally:
    """Weights and statistics of rows, block by block.

    Weights are compared within a group only: a mean is one over groups, a weight ESS their sum.
    """

    def __init__(
        self,
        increments: np.ndarray,
        n_rows: int,
        n_groups: int = 1,
    ) -> None:
        self.increments = increments
        self.groups = (-1, n_groups, n_rows // n_groups)
        self.log_weight = np.zeros(n_rows)
        self.acceptance = np.zeros(n_rows)
        self.stage = np.full((3, increments.size + 1), np.nan)
        self.stage[2, 0] = n_rows
        self.n_nan = 0

    def add(self, part: slice, trace: Trace) -> None:
        """Count a part of the moves."""
        is_nan = np.isnan(trace.log_ratio)
        log_ratio = np.where(is_nan, -np.inf, trace.log_ratio)
        self.n_nan += int(is_nan.sum())
        running = self.log_weight + np.cumsum(self.increments[part, None] * log_ratio, axis=0)
        before = np.concatenate([self.log_weight[None], running[:-1]])
        self.log_weight = running[-1]
        # the very first move only evaluates the start
        moved = trace.acceptance_rate[1:] if part.start == 0 else trace.acceptance_rate
        self.acceptance += moved.sum(axis=0)
        self.stage[0, part.stop - len(moved) : part.stop] = moved.mean(axis=1)
        log_ratio, before, running = (
            values.reshape(self.groups) for values in (log_ratio, before, running)
        )
        self.stage[1, part] = weighted_mean(log_ratio, before).mean(axis=1)
        self.stage[2, part.start + 1 : part.stop + 1] = weight_ess(running).sum(axis=1)


def merge(first: Annealed, second: Annealed) -> Annealed:
    """Two runs of one chain along one plan as one run of all their rows."""
    sizes = np.array([first.log_weight.size, second.log_weight.size])
    rows = {
        name: np.concatenate([getattr(first, name), getattr(second, name)]) for name in _OF_ROWS
    }
    means = {
        name: np.average([getattr(first, name), getattr(second, name)], axis=0, weights=sizes)
        for name in ("stage_acceptance_rate", "stage_mean_log_ratio")
    }
    return Annealed(
        **rows,
        **means,
        n_nan=first.n_nan + second.n_nan,
        stage_weight_ess=first.stage_weight_ess + second.stage_weight_ess,
    )
