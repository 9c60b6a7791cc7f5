"""Many chains as one batch of rows: a start, a tuning, draws with everything frozen."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pymc_logz.errors import warn
from pymc_logz.kernels.base import KernelState, Move
from pymc_logz.kernels.tuning import MAX_STEP_SIZE, MIN_STEP_SIZE
from pymc_logz.pilot.population import ROWS_TO_CORRELATE, Stages
from pymc_logz.pilot.scales import population_correlation, population_scale
from pymc_logz.runners.block import Block


@dataclass
class StepSize:
    """A step size that follows a moving average of acceptance rates, until it is frozen.

    References
    ----------
    Theano Development Team (2013), Deep Learning Tutorials, chapter Hybrid Monte-Carlo Sampling,
    https://github.com/lisa-lab/DeepLearningTutorials.
    """

    now: float
    """Step size of the next move, in units of the scales."""
    target_accept: float
    """Acceptance rate that is aimed at."""
    average: float
    """Moving average of the mean acceptance rate of all chains."""

    def update(self, acceptance_rate: float, past: float = 0.9, change: float = 0.02) -> None:
        """Follow the mean acceptance rate of the chains in one move.

        ``past`` is the weight of the past in the moving average, ``change`` the relative change of
        the step size.
        """
        self.average = past * self.average + (1.0 - past) * acceptance_rate
        factor = 1.0 + (change if self.average > self.target_accept else -change)
        self.now = float(np.clip(self.now * factor, MIN_STEP_SIZE, MAX_STEP_SIZE))


def scale_of_chains(position: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Scale from where all chains are: one for each dimension, or a triangular matrix.

    Correlations are taken from enough chains only; ``before`` is the scale so far.
    """
    n, d = position.shape
    alike = np.full(n, 1.0 / n)
    lengths = before if before.ndim == 1 else np.sqrt((before**2).sum(axis=1))
    scale = population_scale(position, alike, lengths)
    if before.ndim == 1:
        return scale
    if n < ROWS_TO_CORRELATE * d:
        return before * (scale / lengths)[:, None]
    return scale[:, None] * population_correlation(position, alike)


class Draws(NamedTuple):
    """What chains did after tuning, along an axis of draws."""

    position: np.ndarray
    """Unconstrained, shape (draws, n, d)."""
    log_density: np.ndarray
    """In nats, up to the constant log Z, shape (draws, n)."""
    acceptance_rate: np.ndarray
    """Shape (draws, n)."""


@dataclass
class Chains:
    """Chains on their way, all with the same settings.

    The step size of a move varies by up to the fraction ``jitter``.
    """

    block: Block
    state: KernelState
    scale: np.ndarray
    step: StepSize
    jitter: float
    rng: np.random.Generator

    @classmethod
    def started(
        cls,
        block: Block,
        stages: Stages,
        start: np.ndarray,
        target_accept: float,
        jitter: float,
        rng: np.random.Generator,
    ) -> "Chains":
        """Chains at rows (n, d), with the settings that a pilot ended with."""
        scale = stages.scale[-1]
        if stages.correlation is not None:
            scale = scale[:, None] * stages.correlation[-1]
        step = StepSize(float(stages.step_size[-1]), target_accept, target_accept)
        chains = cls(block, block.initial_state(start), scale, step, jitter, rng)
        chains.move(0.0, 1.0)  # which evaluates the start
        return chains

    def move(self, step_size: float, refreshment: float | None = None) -> np.ndarray:
        """One move of all chains at beta = 1; their acceptance rates, shape (n,)."""
        step_sizes = np.array([step_size])
        renewed = self.block.kernel.refreshment_for(step_sizes)
        if refreshment is not None:
            renewed = np.array([refreshment])
        move = Move(np.ones(1), step_sizes, self.scale[None], renewed)
        self.state, trace = self.block.run(self.state, move, self.rng)
        return trace.acceptance_rate[0]

    def jittered(self) -> float:
        """A step size near the one that is tuned."""
        return self.step.now * float(self.rng.uniform(1.0 - self.jitter, 1.0 + self.jitter))

    def tune(self, n_moves: int, report: Callable[[int], None]) -> None:
        """Make moves that find the step size, and at three times the scales."""
        fixed_step = self.block.kernel.step_size is not None
        fixed_scale = self.block.kernel.scale is not None
        at = {int(part * n_moves) for part in (0.25, 0.5, 0.75)}
        for i in range(n_moves):
            if i in at and not fixed_scale:
                self.scale = scale_of_chains(np.asarray(self.state.position), self.scale)
            accepted = self.move(self.jittered())
            if not fixed_step:
                self.step.update(float(accepted.mean()))
            report(1)

    def draw(self, n_draws: int, report: Callable[[int], None]) -> Draws:
        """Make moves with everything frozen, and keep where they lead.

        An interrupt keeps the draws made so far, and is raised again if there is none.
        """
        kept: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        try:
            for _ in range(n_draws):
                accepted = self.move(self.jittered())
                evaluation = self.state.evaluation
                log_density = np.add(*map(np.asarray, evaluation[:2]))
                kept.append((np.asarray(self.state.position), log_density, accepted))
                report(1)
        except KeyboardInterrupt:
            if not kept:
                raise
            warn(f"interrupted: {len(kept)} of {n_draws} draws of each chain are there, and kept")
        return Draws(*(np.stack(part) for part in zip(*kept, strict=True)))
