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
from pymc_logz.kernels.base import Kernel, KernelState, Move
from pymc_logz.kernels.tuning import (
    population_correlation,
    population_scale,
)
from pymc_logz.runners.anneal import Plan, anneal, weight_ess
from pymc_logz.runners.block import Block
from pymc_logz.schedules import next_beta

MAX_STAGES = 500
MAX_TEMPERATURES = 2**14
FIRST_CUTS = 16
FIRST_STEP_SIZE = 0.5
MAX_GROWTH = 4
MAX_EXTRA_BLOCKS = 8
ACCEPT_TOLERANCE = 0.1


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
        return Plan(betas, step_size, np.exp(np.stack(scale, axis=1)), self.correlation, coordinate)


@dataclass
class Population:
    """Equally weighted rows at one beta, and the settings found so far."""

    state: KernelState
    log_ratio: np.ndarray
    step_size: float
    scale: np.ndarray
    correlation: np.ndarray | None
    acceptance_rate: float = np.nan

    def measure(self, kernel: Kernel, weight: np.ndarray) -> None:
        """Take the scales, where the kernel leaves them open, from the weighted rows."""
        if kernel.scale is not None:
            return
        position = np.asarray(self.state.position)
        self.scale = population_scale(position, weight, self.scale)
        if kernel.dense:
            self.correlation = population_correlation(position, weight)

    def full_scale(self) -> np.ndarray:
        """Scale as a move takes it, shape (d,) or (d, d)."""
        if self.correlation is None:
            return self.scale
        return self.scale[:, None] * self.correlation


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
        Acceptance rate that step sizes aim at, where the kernel has no aim of its own.
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
    kernel = block.kernel
    target_accept = kernel.acceptance_for(target_accept)
    population = Population(
        state=block.initial_state(start),
        log_ratio=np.empty(0),
        step_size=kernel.step_size or FIRST_STEP_SIZE,
        scale=np.ones(start.shape[1]) * (1.0 if kernel.scale is None else kernel.scale),
        correlation=None,
    )
    population.measure(kernel, np.full(len(start), 1.0 / len(start)))
    beta = 0.0
    settle(block, population, beta, rng, target_accept, tune)
    stages = [_record(beta, population)]
    while beta < 1.0:
        beta_before, beta = beta, next_beta(population.log_ratio, beta)
        if beta <= beta_before or len(stages) > MAX_STAGES:
            raise PilotError(
                f"the pilot stopped at beta={beta_before:.3g} after {len(stages)} stages: the "
                "prior and the likelihood are too far apart, or the rows no longer move. Try a "
                "higher target_accept, a larger tune, or a prior closer to the data"
            )
        weight = softmax((beta - beta_before) * population.log_ratio)
        population.measure(kernel, weight)
        resample(population, weight, rng)
        settle(block, population, beta, rng, target_accept, tune)
        stages.append(_record(beta, population))
        if report is not None:
            report(beta)
    return _stack(stages)


def _record(beta: float, population: Population) -> Stages:
    """One stage."""
    return Stages(
        betas=np.array(beta),
        step_size=np.array(population.step_size),
        scale=population.scale,
        correlation=population.correlation,
        acceptance_rate=np.array(population.acceptance_rate),
    )


def _stack(stages: list[Stages]) -> Stages:
    columns = {
        name: [getattr(stage, name) for stage in stages]
        for name in ("betas", "step_size", "scale", "correlation", "acceptance_rate")
    }
    if columns["correlation"][0] is None:
        return Stages(
            **{k: np.stack(v) for k, v in columns.items() if k != "correlation"}, correlation=None
        )
    return Stages(**{name: np.stack(values) for name, values in columns.items()})


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
    """Move the population at one beta, correcting its step size after each block.

    It moves for longer than asked if the step size is still far from right.
    """
    n_blocks = -(-tune // block.n_moves)
    scale = np.tile(population.full_scale(), (block.n_moves, *[1] * len(block.scale_shape)))
    for i in range(n_blocks + MAX_EXTRA_BLOCKS):
        step_size = np.full(block.n_moves, population.step_size)
        refreshment = block.kernel.refreshment_for(step_size)
        if population.log_ratio.size == 0:  # not evaluated yet: see Block.initial_state
            step_size[0], refreshment[0] = 0.0, 1.0
        moves = Move(np.full(block.n_moves, beta), step_size, scale, refreshment)
        population.state, trace = block.run(population.state, moves, rng)
        last = trace.log_ratio[-1]
        population.log_ratio = np.where(np.isnan(last), -np.inf, last)
        moved = trace.acceptance_rate[step_size > 0]
        if len(moved):
            population.acceptance_rate = float(moved.mean())
        if block.kernel.step_size is None and len(moved):
            population.step_size = block.kernel.tuned_step_size(
                population.step_size, population.acceptance_rate, target_accept
            )
        off_target = abs(population.acceptance_rate - target_accept) > ACCEPT_TOLERANCE
        if i + 1 >= n_blocks and not (off_target and block.kernel.step_size is None):
            break


def choose_length(
    block: Block,
    stages: Stages,
    draw_start: Callable[[], np.ndarray],
    rng: np.random.Generator,
    target_variance: float,
) -> int:
    """Number of temperatures at which the log weight has the target variance.

    Anneals trial rows on a short ladder and scales its length by the variance found, since the
    variance falls as one over the number of temperatures once the rows keep up with the path. It
    stops where a longer ladder no longer helps.
    """
    n_temperatures = FIRST_CUTS * (stages.betas.size - 1)
    before = np.inf
    while True:
        trial = anneal(block, stages.plan(n_temperatures), draw_start(), rng)
        variance = log_weight_variance(trial.log_weight)
        growth = variance / target_variance
        if growth <= 1 or 0.8 * before < variance < 1 or n_temperatures >= MAX_TEMPERATURES:
            return n_temperatures
        if growth <= MAX_GROWTH:
            return int(min(n_temperatures * growth, MAX_TEMPERATURES))
        before = variance
        n_temperatures = int(min(n_temperatures * MAX_GROWTH, MAX_TEMPERATURES))


def log_weight_variance(log_weight: np.ndarray) -> float:
    """Variance of log weights as if they were normal, whatever becomes of the rows that got lost.

    Rows of hardly any weight cost the estimate their share of the rows and nothing else, but would
    rule the plain variance.
    """
    ess = float(weight_ess(log_weight))
    if ess == 0:
        return np.inf
    variance = np.log(log_weight.size / ess)
    if variance < 1:
        return float(variance)
    # so few rows carry the weight that the weight ESS says no more than that
    middle, upper = np.quantile(log_weight, [0.5, 0.8413])
    return float(max(variance, (upper - middle) ** 2 if np.isfinite(middle) else np.inf))
