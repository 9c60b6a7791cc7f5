"""The pilot: a small resampled population finds the temperatures, step sizes and scales.

Nothing of the pilot enters an estimate. It walks from the reference to the target as an adaptive
sequential Monte Carlo sampler, and leaves a list of stages; the ladder that is run with fresh rows
is a refinement of that list.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.special import softmax

from pymc_logz.errors import PilotError
from pymc_logz.kernels.base import KernelState, Move
from pymc_logz.kernels.tuning import population_scale, tuned_step_size
from pymc_logz.runners.anneal import Plan, anneal
from pymc_logz.runners.block import Block
from pymc_logz.schedules import next_beta

MAX_STAGES = 500
MAX_TEMPERATURES = 2**14
FIRST_CUTS = 16


@dataclass(frozen=True)
class Stages:
    """What the pilot found at S + 1 inverse temperatures."""

    betas: np.ndarray
    """Shape (S + 1,), from 0 to 1."""
    step_size: np.ndarray
    """Shape (S + 1,)."""
    scale: np.ndarray
    """Shape (S + 1, d)."""
    acceptance_rate: np.ndarray
    """Acceptance at the settings above, shape (S + 1,)."""

    def plan(self, n_temperatures: int) -> Plan:
        """Ladder of equal steps in the stage coordinate, settings interpolated along it."""
        coordinate = np.linspace(0, self.betas.size - 1, n_temperatures + 1)
        betas = self._beta_of_stage()(coordinate)
        betas[0], betas[-1] = 0.0, 1.0
        return self._at(betas, coordinate)

    def plan_for(self, betas: np.ndarray) -> Plan:
        """Settings interpolated for a ladder that is given."""
        fine = np.linspace(0, self.betas.size - 1, 4096)
        coordinate = np.interp(betas, self._beta_of_stage()(fine), fine)
        return self._at(betas, coordinate)

    def _beta_of_stage(self) -> PchipInterpolator:
        return PchipInterpolator(np.arange(self.betas.size), self.betas)

    def _at(self, betas: np.ndarray, coordinate: np.ndarray) -> Plan:
        stage = np.arange(self.betas.size)
        step_size = np.exp(np.interp(coordinate, stage, np.log(self.step_size)))
        log_scale = np.log(self.scale)
        scale = [np.interp(coordinate, stage, column) for column in log_scale.T]
        return Plan(betas, step_size, np.exp(np.stack(scale, axis=1)))


@dataclass
class Population:
    """Equally weighted rows at one beta, and the settings found so far."""

    state: KernelState
    log_ratio: np.ndarray
    scale: np.ndarray
    step_size: float
    acceptance_rate: float = np.nan


def run_pilot(
    block: Block,
    start: np.ndarray,
    rng: np.random.Generator,
    *,
    target_accept: float,
    tune: int,
    report: Callable[[float], None] | None = None,
) -> Stages:
    """Walk a resampled population from the reference to the target.

    Parameters
    ----------
    block
        Compiled moves.
    start
        Draws of the reference, shape (n, d).
    rng
        Source of all noise.
    target_accept
        Acceptance rate that step sizes aim at.
    tune
        Moves at each stage.
    report
        Told of each beta reached.

    Returns
    -------
    Stages

    Raises
    ------
    PilotError
        If beta = 1 is out of reach.
    """
    uniform = np.full(start.shape[0], 1.0 / start.shape[0])
    fixed_scale, fixed_step = block.kernel.scale, block.kernel.step_size
    scale = np.broadcast_to(np.asarray(fixed_scale or 1.0, dtype=float), start.shape[1:])
    if fixed_scale is None:
        scale = population_scale(start, uniform, np.ones(start.shape[1]))
    population = Population(block.initial_state(start), np.empty(0), scale, fixed_step or 0.5)
    settle(block, population, 0.0, rng, target_accept, tune)
    stages = [(0.0, population.step_size, scale, population.acceptance_rate)]
    beta = 0.0
    while beta < 1.0:
        beta_before, beta = beta, next_beta(population.log_ratio, beta)
        if beta <= beta_before or len(stages) > MAX_STAGES:
            raise PilotError(
                f"the pilot stopped at beta={beta_before:.3g} after {len(stages)} stages: the "
                "prior and the likelihood are too far apart, or the rows no longer move. Try a "
                "higher target_accept, a larger tune, or a prior closer to the data"
            )
        weight = softmax((beta - beta_before) * population.log_ratio)
        if fixed_scale is None:
            population.scale = population_scale(
                np.asarray(population.state.position), weight, population.scale
            )
        resample(population, weight, rng)
        settle(block, population, beta, rng, target_accept, tune)
        stages.append((beta, population.step_size, population.scale, population.acceptance_rate))
        if report is not None:
            report(beta)
    return Stages(*(np.array(column) for column in zip(*stages, strict=True)))


def resample(population: Population, weight: np.ndarray, rng: np.random.Generator) -> None:
    """Replace the rows by rows drawn in proportion to their weight."""
    chosen = systematic_resample(weight, weight.size, rng)
    position, momentum, evaluation = population.state
    population.state = KernelState(
        np.asarray(position)[chosen],
        np.asarray(momentum)[chosen],
        type(evaluation)(*(np.asarray(value)[chosen] for value in evaluation)),
    )
    population.log_ratio = population.log_ratio[chosen]


def systematic_resample(weight: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Indices of n rows, each drawn in proportion to its normalised weight, shape (n,)."""
    points = (np.arange(n) + rng.random()) / n
    cumulative = np.cumsum(weight)
    return np.searchsorted(cumulative / cumulative[-1], points, side="right").clip(
        max=weight.size - 1
    )


def settle(
    block: Block,
    population: Population,
    beta: float,
    rng: np.random.Generator,
    target_accept: float,
    tune: int,
) -> None:
    """Move the population at one beta, correcting its step size after each block."""
    n_blocks = -(-tune // block.n_moves)
    for _ in range(n_blocks):
        step_size = np.full(block.n_moves, population.step_size)
        refreshment = block.kernel.refreshment_for(step_size)
        if population.log_ratio.size == 0:  # not evaluated yet: see Block.initial_state
            step_size[0], refreshment[0] = 0.0, 1.0
        moves = Move(
            np.full(block.n_moves, beta),
            step_size,
            np.tile(population.scale, (block.n_moves, 1)),
            refreshment,
        )
        population.state, trace = block.run(population.state, moves, rng)
        population.log_ratio = np.where(np.isnan(trace.log_ratio[-1]), -np.inf, trace.log_ratio[-1])
        population.acceptance_rate = float(trace.acceptance_rate[1:].mean())
        if block.kernel.step_size is None:
            population.step_size = tuned_step_size(
                population.step_size, population.acceptance_rate, target_accept
            )


def choose_length(
    block: Block,
    stages: Stages,
    draw_start: Callable[[], np.ndarray],
    rng: np.random.Generator,
    target_variance: float,
) -> tuple[int, float]:
    """Number of temperatures at which the log weight has the target variance.

    Anneals trial rows on a short ladder and scales its length by the variance found, since the
    variance falls as one over the number of temperatures once the rows keep up with the path.

    Returns
    -------
    n_temperatures : int
    variance : float
        Variance of the log weight on the last trial ladder.
    """
    n_temperatures = FIRST_CUTS * (stages.betas.size - 1)
    while True:
        trial = anneal(block, stages.plan(n_temperatures), draw_start(), rng)
        log_weight = trial.log_weight[np.isfinite(trial.log_weight)]
        variance = float(np.var(log_weight)) if log_weight.size > 1 else np.inf
        growth = variance / target_variance
        wanted = n_temperatures * max(1.0, growth)
        if growth <= 8 or n_temperatures >= MAX_TEMPERATURES // 4:
            return int(min(wanted, max(MAX_TEMPERATURES, n_temperatures))), variance
        n_temperatures = int(min(n_temperatures * 4, MAX_TEMPERATURES))
