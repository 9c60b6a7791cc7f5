"""Annealing: fresh rows of one end of the path are moved to the other, and weighted on the way."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from pymc_logz.kernels.base import Kernel, KernelState, Move
from pymc_logz.runners.arrays import joined, rows_of
from pymc_logz.runners.block import MOST_BRIEF, Block, Trace
from pymc_logz.runners.moves_of_rows import Report, in_turn
from pymc_logz.weights import weight_ess, weighted_mean


@dataclass(frozen=True)
class Plan:
    """A frozen schedule: K + 1 betas and the kernel settings at each.

    Rows are weighted for the step from one beta to the next *before* they move, and are not moved
    after the last weight. How much momentum is replaced before a move belongs to the gap between
    that move and the one before, so the plan read backwards is the exact time reversal.
    """

    betas: np.ndarray
    """Shape (K + 1,); 0 to 1 forward, 1 to 0 in reverse."""
    step_size: np.ndarray
    """Shape (K + 1,); those at the two ends are never used."""
    scale: np.ndarray
    """Shape (K + 1, d), or (d,) if all are alike; of scales that are matrices (K + 1, d, d)."""
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
            scale=self.scale if self.scale.ndim == 1 else self.scale[::-1],
            coordinate=coordinate,
        )

    def moves(self, kernel: Kernel, part: slice) -> Move:
        """Part of the K moves: one that evaluates the start, then one at each inner beta."""
        # of these moves only: there may be very many
        part = slice(*part.indices(self.n_temperatures))
        made = np.arange(part.start, part.stop)
        before = np.maximum(made - 1, 0)
        refreshment = kernel.refreshment_for(
            0.5 * (self.step_size[before] + self.step_size[before + 1])
        )
        betas, step_size = self.betas[made], self.step_size[made]
        first = made == 0
        betas[first] = step_size[first] = 0.0
        # the start has no momentum yet; the first move gives it one, whatever beta it is made at
        refreshment[first] = 1.0
        return Move(betas, step_size, self.scales(part), refreshment)

    def scales(self, part: slice) -> np.ndarray:
        """Scales at a part of the K + 1 betas, shape (m, d) or (m, d, d)."""
        scale = self.scale
        if scale.ndim == 1:
            scale = np.broadcast_to(scale, (self.betas.size, scale.size))
        scale = scale[part]
        if self.correlation is None or self.coordinate is None:
            return scale
        # the factors of the two stages around each beta, mixed: still triangular, still invertible
        below, share = np.divmod(self.coordinate[part], 1.0)
        below = below.astype(int)
        above = np.minimum(below + 1, len(self.correlation) - 1)
        share = share[:, None, None]
        factor = (1 - share) * self.correlation[below] + share * self.correlation[above]
        return scale[:, :, None] * factor


class Annealed(NamedTuple):
    """End points of n rows (n, d) after annealing over K temperatures, and what is known of them.

    What has no other shape below is one number for each row, or for each of the K + 1 betas.
    """

    position: np.ndarray
    log_reference: np.ndarray
    log_ratio: np.ndarray
    log_weight: np.ndarray
    """-inf for rows that left the support, NaN log ratios counted as such."""
    acceptance_rate: np.ndarray
    """Mean acceptance probability of each row."""
    n_nan: int
    """How many log ratios were NaN and were read as -inf."""
    stage_acceptance_rate: np.ndarray
    """Mean over rows at each beta; NaN at the two ends, where nothing moves."""
    stage_mean_log_ratio: np.ndarray
    """Weighted mean at each beta; NaN at the last one."""
    stage_weight_ess: np.ndarray
    """Effective number of rows after the weight of each beta."""


class Underway(NamedTuple):
    """Rows on their way along a plan: numbers and arrays only, all that the moves to come need."""

    n_moves: int
    states: tuple[KernelState, ...]
    log_weight: np.ndarray
    acceptance: np.ndarray
    """Sums of acceptance probabilities; shape (n,), as the weights."""
    stage: np.ndarray
    """Acceptance rate, mean log ratio and weight ESS at each beta, shape (3, K + 1)."""
    n_nan: int = 0


def anneal(
    block: Block,
    plan: Plan,
    start: np.ndarray,
    rng: np.random.Generator,
    report: Report | None = None,
) -> Annealed:
    """Anneal exact draws (n, d) of the first beta along a plan: Neal (2001); HAIS paper, eq. 25."""
    return arrived(plan, go_on(block, plan, start_annealing(block, plan, start), rng, report))


def start_annealing(block: Block, plan: Plan, start: np.ndarray) -> Underway:
    """Rows before the first move of a plan; arguments as of `anneal`."""
    n_rows, stage = len(start), np.full((3, plan.n_temperatures + 1), np.nan)
    stage[2, 0] = n_rows
    states = tuple(block.portions(block.initial_state(start)))
    return Underway(0, states, np.zeros(n_rows), np.zeros(n_rows), stage)


def go_on(
    block: Block,
    plan: Plan,
    underway: Underway,
    rng: np.random.Generator,
    report: Report | None = None,
) -> Underway:
    """Rows after the moves that are left, or after whole blocks if the report ends them."""
    # where they stop changes no bit of what they will come to
    n_moves = plan.n_temperatures
    block = block.changed(is_brief=n_moves <= MOST_BRIEF)
    # written in place from here on: there may be very many temperatures
    underway = underway._replace(stage=underway.stage.copy())
    increments = np.diff(plan.betas)
    states: Sequence[KernelState] = underway.states
    sizes, done = [len(state.position) for state in states], underway.n_moves

    def launch(part: slice) -> Callable[[], Trace]:
        nonlocal states, done
        # the noise of this block is drawn while the one before is still being computed
        moves, done = plan.moves(block.kernel, part), part.stop
        states, trace = block.launch(states, sizes, moves, rng)
        return trace

    for part, trace in in_turn(launch, done, n_moves, block.n_moves, report):
        underway = _counted(underway, part, trace, increments, block.n_groups)
    pairs = zip(states, sizes, strict=True)
    now = tuple(rows_of(state, slice(size)) for state, size in pairs)
    return underway._replace(n_moves=done, states=now)


def arrived(plan: Plan, underway: Underway) -> Annealed:
    """Rows that have made all moves of a plan."""
    state = joined(underway.states)
    return Annealed(
        position=state.position,
        log_reference=state.evaluation.log_reference,
        log_ratio=state.evaluation.log_ratio,
        log_weight=underway.log_weight,
        acceptance_rate=underway.acceptance / max(1, plan.n_temperatures - 1),
        n_nan=underway.n_nan,
        stage_acceptance_rate=underway.stage[0],
        stage_mean_log_ratio=underway.stage[1],
        stage_weight_ess=underway.stage[2],
    )


def _counted(
    underway: Underway, part: slice, trace: Trace, increments: np.ndarray, n_groups: int
) -> Underway:
    """The same with a part of the moves counted; weights compare within a group only."""
    is_nan = np.isnan(trace.log_ratio)
    log_ratio = np.where(is_nan, -np.inf, trace.log_ratio)
    running = underway.log_weight + np.cumsum(increments[part, None] * log_ratio, axis=0)
    before = np.concatenate([underway.log_weight[None], running[:-1]])
    log_weight = running[-1]
    # the very first move only evaluates the start
    moved = trace.acceptance_rate[1:] if part.start == 0 else trace.acceptance_rate
    stage = underway.stage
    stage[0, part.stop - len(moved) : part.stop] = moved.mean(axis=1)
    groups = (-1, n_groups, log_weight.size // n_groups)
    log_ratio, before, running = (values.reshape(groups) for values in (log_ratio, before, running))
    stage[1, part] = weighted_mean(log_ratio, before).mean(axis=1)
    stage[2, part.start + 1 : part.stop + 1] = weight_ess(running).sum(axis=1)
    return underway._replace(
        log_weight=log_weight,
        acceptance=underway.acceptance + moved.sum(axis=0),
        n_nan=underway.n_nan + int(is_nan.sum()),
    )


def of_rows(name: str, runs: Sequence[Annealed]) -> np.ndarray:
    """One field of `Annealed`, of the rows of all these runs."""
    return np.concatenate([getattr(run, name) for run in runs])


def merge(first: Annealed, second: Annealed) -> Annealed:
    """Two runs of one chain along one plan as one run of all their rows."""
    runs = (first, second)
    found = along_plan(runs, [run.log_weight.size for run in runs])
    found |= {name: of_rows(name, runs) for name in Annealed._fields if name not in found}
    return Annealed(**found)


def along_plan(runs: Sequence[Annealed], sizes: Sequence[float]) -> dict[str, Any]:
    """What is known along a plan of runs of these sizes, as if they were one."""
    means = {
        name: np.average([getattr(run, name) for run in runs], axis=0, weights=sizes)
        for name in ("stage_acceptance_rate", "stage_mean_log_ratio")
    }
    weight_ess = np.sum([run.stage_weight_ess for run in runs], axis=0)
    return {**means, "stage_weight_ess": weight_ess, "n_nan": sum(run.n_nan for run in runs)}


def stay(
    block: Block, plan: Plan, start: np.ndarray, n_moves: int, rng: np.random.Generator
) -> np.ndarray:
    """Rows (n, d) after so many moves, in whole blocks, at the plan's first beta."""
    m = block.n_moves
    n = m * max(1, -(-n_moves // m))
    scale = plan.scales(slice(1))[0]
    every_scale = np.broadcast_to(scale, (n + 1, *scale.shape))
    at_start = Plan(np.full(n + 1, plan.betas[0]), np.full(n + 1, plan.step_size[0]), every_scale)
    state = block.initial_state(start)
    for first in range(0, n, m):
        state, _ = block.run(state, at_start.moves(block.kernel, slice(first, first + m)), rng)
    return state.position
