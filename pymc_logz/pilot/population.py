"""The pilot: a small resampled population finds the temperatures, step sizes and scales.

Nothing of the pilot enters an estimate. It walks from the reference to the target as an adaptive
sequential Monte Carlo sampler, and leaves a list of stages, and rows near the target. The ladder
that is run with fresh rows is a refinement of that list, or starts from a fit to those rows.
"""

from dataclasses import dataclass, field
from math import gcd
from typing import Any

import numpy as np

from pymc_logz.errors import PilotError
from pymc_logz.kernels.base import Kernel, KernelState, Move
from pymc_logz.kernels.tuning import corrected_step_size
from pymc_logz.paths.schedules import betas_between, next_beta
from pymc_logz.pilot.scales import centred, population_correlation, population_scale
from pymc_logz.runners.anneal import Plan
from pymc_logz.runners.arrays import rows_of
from pymc_logz.runners.block import Block
from pymc_logz.runners.progress import shown_pilot
from pymc_logz.weights import log_mean, normalise, systematic_resample

MOVES_BETWEEN_LOOKS = 3
"""Moves after which a population is looked at: more are often more than it needs."""
ROWS_TO_CORRELATE = 8
"""Rows for each dimension from which on moves follow correlations: those of fewer rows, of which
many are copies, lead the rows that they were taken from astray, by 5 nats in 50 dimensions. And
effective rows, for each dimension, that components are fitted to."""


@dataclass(frozen=True)
class Stages:
    """What the pilot found at S + 1 inverse temperatures."""

    betas: np.ndarray
    """Shape (S + 1,), from 0 to 1."""
    step_size: np.ndarray
    """Shape (S + 1,)."""
    scale: np.ndarray
    """Shape (S + 1, d)."""
    correlation: np.ndarray | None
    """Lower triangular factors, shape (S + 1, d, d), if the kernel's scales are dense."""
    acceptance_rate: np.ndarray
    """Acceptance at the settings above, shape (S + 1,)."""
    share: np.ndarray | None = None
    """Relative number of temperatures between neighbours, shape (S,); None is as many for each."""
    end: np.ndarray | None = None
    """The population at beta = 1, shape (n, d)."""
    log_z: np.ndarray | None = None
    """Log Z less that of the reference, as each island has it, shape (islands,)."""
    rows: np.ndarray | None = None
    """Rows of the population at beta = 1, seen one block of moves after the other, if asked for;
    shape (at least so many, d)."""

    def shares(self) -> np.ndarray:
        """Share of the temperatures between neighbouring stages, shape (S,)."""
        share = np.ones(self.betas.size - 1) if self.share is None else self.share
        return share / share.sum()

    def coordinate(self, n_temperatures: int) -> np.ndarray:
        """Where the temperatures lie between the stages, shape (n_temperatures + 1,)."""
        filled = np.concatenate([[0.0], np.cumsum(self.shares())])
        even = np.linspace(0, filled[-1], n_temperatures + 1)
        return np.interp(even, filled, np.arange(self.betas.size))

    def plan(self, n_temperatures: int) -> Plan:
        """Ladder that shares out the temperatures, settings interpolated along it."""
        coordinate = self.coordinate(n_temperatures)
        betas = betas_between(self.betas, coordinate)
        betas[0], betas[-1] = 0.0, 1.0
        return self._at(betas, coordinate)

    def plan_for(self, betas: np.ndarray) -> Plan:
        """Settings interpolated for a ladder that is given."""
        fine = np.linspace(0, self.betas.size - 1, 4096)
        coordinate = np.interp(betas, betas_between(self.betas, fine), fine)
        return self._at(betas, coordinate)

    def _at(self, betas: np.ndarray, coordinate: np.ndarray) -> Plan:
        stage = np.arange(self.betas.size)
        step_size = np.exp(np.interp(coordinate, stage, np.log(self.step_size)))
        log_scale = np.log(self.scale)
        scales = [np.interp(coordinate, stage, column) for column in log_scale.T]
        scale = np.exp(np.stack(scales, axis=1))
        return Plan(betas, step_size, scale, self.correlation, coordinate)


@dataclass
class Population:
    """Equally weighted rows at one beta, and the settings found so far."""

    state: KernelState
    log_ratio: np.ndarray
    step_size: float
    scale: np.ndarray
    correlation: np.ndarray | None
    acceptance_rate: float = np.nan
    n_groups: int = 1
    """Groups of rows next to each other, whose targets differ."""
    n_parts: int = 1
    """Parts, each some of a group, that are weighted, and resampled, apart."""
    log_z: np.ndarray = field(default_factory=lambda: np.zeros(1))
    """Log of the mean weight of each part so far, shape (n_parts,)."""

    def weight(self, step: float) -> np.ndarray:
        """Weights of a step in beta, of the same sum in each part, shape (n,)."""
        log_weight = step * self.log_ratio.reshape(self.n_parts, -1)
        # a part that is lost stays as it is
        lost = log_weight.max(axis=1, keepdims=True) == -np.inf
        return normalise(np.where(lost, 0.0, log_weight), axis=1).ravel() / self.n_parts

    def count(self, step: float) -> None:
        """Add what a step in beta is worth to the log Z of each part."""
        log_weight = step * self.log_ratio.reshape(self.n_parts, -1)
        self.log_z = self.log_z + np.array([log_mean(part) for part in log_weight])

    def measure(self, kernel: Kernel, weight: np.ndarray) -> None:
        """Take the scales, where the kernel leaves them open, from the weighted rows."""
        if kernel.scale is not None:
            return
        position = centred(np.asarray(self.state.position), weight, self.n_groups)
        self.scale = population_scale(position, weight, self.scale)
        self.correlate(kernel, position, weight)

    def correlate(
        self, kernel: Kernel, position: np.ndarray, weight: np.ndarray | None = None
    ) -> None:
        """Take the correlations, where the kernel's scales are dense, from enough rows."""
        if not kernel.dense:
            return
        n, d = position.shape
        weight = np.full(n, 1.0 / n) if weight is None else weight
        few = n < ROWS_TO_CORRELATE * d
        self.correlation = np.eye(d) if few else population_correlation(position, weight)

    def stage(self, beta: float) -> tuple[Any, ...]:
        """What is kept of it, in the order of `Stages`."""
        return beta, self.step_size, self.scale, self.correlation, self.acceptance_rate


def run_pilot(
    block: Block,
    start: np.ndarray,
    rng: np.random.Generator,
    *,
    target_accept: float,
    tune: int,
    n_target_rows: int = 0,
    max_stages: int = 500,
    islands: int = 4,
) -> Stages:
    """Walk a resampled population from the reference to the target.

    It starts at draws of the reference, shape (n, d), and makes at most ``tune`` moves at each
    stage: rows move on when they are no longer where they were. At beta = 1 ``n_target_rows`` rows
    are kept, from as many blocks of moves as it takes. The rows are resampled in ``islands``, as
    many independent looks at the path.

    Raises
    ------
    PilotError
        If beta = 1 is out of reach.
    """
    kernel = block.kernel
    n_parts = gcd(islands, len(start)) if block.n_groups == 1 else block.n_groups
    population = Population(
        state=block.initial_state(start),
        log_ratio=np.empty(0),
        step_size=kernel.step_size or 0.5,
        scale=np.ones(start.shape[1]) * (1.0 if kernel.scale is None else kernel.scale),
        correlation=None,
        n_groups=block.n_groups,
        n_parts=n_parts,
        log_z=np.zeros(n_parts),
    )
    population.measure(kernel, np.full(len(start), 1.0 / len(start)))
    beta, mover = 0.0, _Mover(block, population, rng, target_accept)
    mover.settle(beta, tune)
    stages = [population.stage(beta)]
    while beta < 1.0:
        beta_before, beta = beta, next_beta(population.log_ratio.reshape(n_parts, -1), beta)
        if beta <= beta_before or len(stages) > max_stages:
            raise PilotError(
                f"the pilot stopped at beta={beta_before:.3g} after {len(stages)} stages: the "
                "prior and the likelihood are too far apart, or the particles no longer move. Try "
                "a higher target_accept, a larger tune, reference='laplace', or a prior closer to "
                "the data"
            )
        population.count(beta - beta_before)
        weight = population.weight(beta - beta_before)
        population.measure(kernel, weight)
        resample(population, weight, rng)
        mover.settle(beta, tune)
        stages.append(population.stage(beta))
        if (shown := shown_pilot()) is not None:
            shown.reached(beta)
    rows = mover.target_rows(n_target_rows)
    stages[-1] = population.stage(beta)
    betas, step_size, scale, correlation, acceptance_rate = zip(*stages, strict=True)
    return Stages(
        np.array(betas),
        np.array(step_size),
        np.stack(scale),
        None if population.correlation is None else np.stack(correlation),
        np.array(acceptance_rate),
        end=np.asarray(population.state.position),
        log_z=population.log_z,
        rows=rows,
    )


def resample(population: Population, weight: np.ndarray, rng: np.random.Generator) -> None:
    """Replace the rows by rows of their part, drawn in proportion to their weight."""
    parts = np.split(weight, population.n_parts)
    n = weight.size // population.n_parts
    chosen = np.concatenate(
        [i * n + systematic_resample(part, n, rng) for i, part in enumerate(parts)]
    )
    population.state = rows_of(population.state, chosen)
    population.log_ratio = population.log_ratio[chosen]


@dataclass(frozen=True)
class _Mover:
    """Moves a population, and corrects its step size."""

    block: Block
    population: Population
    rng: np.random.Generator
    target_accept: float

    def settle(self, beta: float, tune: int) -> None:
        """Move the population at one beta, correcting its step size after each block.

        It moves until its rows are no longer where they were, for ``tune`` moves at most; for
        longer than that only if the step size is still much too long: its acceptance rate is a
        tenth below the aim. Above it, rows only move less than they could, which their correlation
        tells. Draws of the reference need no moves but to find a step size.
        """
        population, kernel = self.population, self.block.kernel
        n_looks, aim = -(-tune // MOVES_BETWEEN_LOOKS), kernel.acceptance_for(self.target_accept)
        start, is_reference = np.asarray(population.state.position), population.log_ratio.size == 0
        correlation = [1.0]
        for i in range(n_looks + 16):
            self.move(beta)
            correlation.append(correlation_with(start, population))
            # nothing may have moved yet: see `move`
            good = population.acceptance_rate >= aim - 0.1
            if not good and kernel.step_size is None:
                continue
            if is_reference or i + 1 >= n_looks or _forgot(correlation):
                break

    def move(self, beta: float) -> None:
        """A few moves of the population, and a correction of its step size."""
        block, population = self.block, self.population
        n_moves, scale = min(MOVES_BETWEEN_LOOKS, block.n_moves), population.scale
        if population.correlation is not None:
            scale = scale[:, None] * population.correlation
        scale = np.tile(scale, (n_moves, *[1] * len(block.scale_shape)))
        step_size = np.full(n_moves, population.step_size)
        refreshment = block.kernel.refreshment_for(step_size)
        if population.log_ratio.size == 0:  # not evaluated yet: see Block.initial_state
            step_size[0], refreshment[0] = 0.0, 1.0
        moves = Move(np.full(n_moves, beta), step_size, scale, refreshment)
        population.state, trace = block.run(population.state, moves, self.rng)
        if (shown := shown_pilot()) is not None:
            shown.moved(n_moves)
        last = trace.log_ratio[-1]
        population.log_ratio = np.where(np.isnan(last), -np.inf, last)
        moved = trace.acceptance_rate[step_size > 0]
        if len(moved):
            population.acceptance_rate = float(moved.mean())
            population.step_size = corrected_step_size(
                block.kernel, population.step_size, population.acceptance_rate, self.target_accept
            )

    def target_rows(self, n: int) -> np.ndarray | None:
        """At least n rows at beta = 1, where the population moves on between one look and the next.

        Moves follow the correlations of all rows that were seen, of which nothing is estimated.
        """
        if not n:
            return None
        seen = np.asarray(self.population.state.position)
        while len(seen) < n:
            self.population.correlate(self.block.kernel, seen)
            self.move(1.0)
            seen = np.concatenate([seen, np.asarray(self.population.state.position)])
        return seen


def _forgot(correlation: list[float], enough: float = 0.5, slow: float = 0.9) -> bool:
    """Whether rows forgot where they were, or all of it that they will: not which mode it was.

    A fit is no better for rows that moved four times as long as it takes for a correlation that is
    ``enough`` (docs/theory/decisions.md). It stays where it is if it hardly fell, twice in a row.
    """
    now = correlation[-1]
    stays = len(correlation) > 3 and now > slow * correlation[-2] > slow**2 * correlation[-3]
    return now <= enough or stays


def correlation_with(before: np.ndarray, population: Population) -> float:
    """Largest correlation, over dimensions, of where rows were and where they are; 1 if stuck."""
    now = np.asarray(population.state.position)
    alike = np.ones(len(now))
    one, other = (centred(rows, alike, population.n_groups) for rows in (before, now))
    one, other = one - one.mean(axis=0), other - other.mean(axis=0)
    norm = np.sqrt((one**2).sum(axis=0) * (other**2).sum(axis=0))
    product = (one * other).sum(axis=0)
    return float(np.divide(product, norm, out=np.ones_like(norm), where=norm > 0).max())
