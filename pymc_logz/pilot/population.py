"""The pilot: a small resampled population finds the temperatures, step sizes and scales.

Nothing of the pilot enters an estimate. It walks from the reference to the target as an adaptive
sequential Monte Carlo sampler, and leaves a list of stages, and rows near the target. The ladder
that is run with fresh rows is a refinement of that list, or starts from a fit to those rows.
"""

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import stdtrit

from pymc_logz.errors import PilotError, warn
from pymc_logz.kernels.base import Move
from pymc_logz.kernels.tuning import corrected_step_size
from pymc_logz.paths.schedules import betas_between, next_beta
from pymc_logz.pilot.scales import centred, population_correlation, population_scale
from pymc_logz.runners.anneal import Plan
from pymc_logz.runners.arrays import rows_of
from pymc_logz.runners.block import Block
from pymc_logz.runners.progress import BRIDGE, shown_pilot
from pymc_logz.weights import ALPHA, log_mean, normalise, relative, systematic_resample

if TYPE_CHECKING:
    from pymc_logz.pilot.settings import RunSettings

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
    end: np.ndarray | None = None
    """The population at beta = 1, shape (n, d)."""
    log_z: np.ndarray | None = None
    """Log Z less that of the reference, as each island has it, shape (islands,)."""
    rows: np.ndarray | None = None
    """Rows of the population at beta = 1, seen one block of moves after the other, if asked for;
    shape (at least so many, d)."""

    def plan(self, n_temperatures: int) -> Plan:
        """Ladder of as many temperatures between all neighbours, settings interpolated along it."""
        coordinate = np.linspace(0, self.betas.size - 1, n_temperatures + 1)
        betas = betas_between(self.betas, coordinate)
        betas[0], betas[-1] = 0.0, 1.0
        return self._at(betas, coordinate)

    def plan_for(self, betas: np.ndarray) -> Plan:
        """Settings interpolated for a ladder that is given."""
        fine = np.linspace(0, self.betas.size - 1, 4096)
        coordinate = np.interp(betas, betas_between(self.betas, fine), fine)
        return self._at(betas, coordinate)

    def islands_log_z(self) -> tuple[float, float]:
        """Log Z of all islands together, and its error, in nats."""
        assert self.log_z is not None
        island, n = relative(self.log_z), self.log_z.size
        error = island.std(ddof=1) / island.mean() / np.sqrt(n) if n > 1 else np.inf
        return log_mean(self.log_z), float(error)

    def exceeds(self, log_z: float, error: float) -> bool:
        """Whether the rows found more than another log Z of the same reference, beyond chance.

        They are resampled in islands, each of which has an unbiased Z of its own, however badly its
        rows move; so their mean is above Z by chance only, which a t-test bounds. That it is below
        says nothing.
        """
        if self.log_z is None or self.log_z.size < 2:
            return False
        own, own_error = self.islands_log_z()
        limit = stdtrit(self.log_z.size - 1, 1 - ALPHA)
        return bool(own - log_z > limit * np.hypot(own_error, error))

    def warn_of_stuck(self, least: float = 0.1) -> None:
        """Say where the rows hardly moved: a smaller share was accepted."""
        if (betas := self.betas[self.acceptance_rate < least]).size:
            warn(
                f"particles hardly move at {betas.size} stages of the pilot, first at "
                f"beta={betas[0]:.3g}: give the kernel a smaller step_size or leave it to the "
                "pilot, use a larger tune, or kernel='slice'"
            )

    def _at(self, betas: np.ndarray, coordinate: np.ndarray) -> Plan:
        stage = np.arange(self.betas.size)
        step_size = np.exp(np.interp(coordinate, stage, np.log(self.step_size)))
        log_scale = np.log(self.scale)
        scales = [np.interp(coordinate, stage, column) for column in log_scale.T]
        scale = np.exp(np.stack(scales, axis=1))
        return Plan(betas, step_size, scale, self.correlation, coordinate)


class Population:
    """Equally weighted rows at one beta, what moves them, and the settings found so far.

    They start at rows (n, d), which are resampled in four islands, or in the groups of a block.
    """

    def __init__(
        self, block: Block, start: np.ndarray, rng: np.random.Generator, target_accept: float
    ) -> None:
        self.block, self.rng, self.target_accept = block, rng, target_accept
        self.state = block.initial_state(start)
        self.log_ratio = np.empty(0)
        """Empty before the first move."""
        self.step_size, scale = block.kernel.step_size or 0.5, block.kernel.scale
        self.scale = np.ones(start.shape[1]) * (1.0 if scale is None else scale)
        self.n_parts = gcd(4, len(start)) if block.n_groups == 1 else block.n_groups
        """Parts of the population that are weighted and resampled separately."""
        self.log_z = np.zeros(self.n_parts)
        """Log of the mean weight of each part so far, shape (n_parts,)."""
        self.correlation: np.ndarray | None = None
        self.acceptance_rate = np.nan
        self.measure(np.full(len(start), 1.0 / len(start)))

    @property
    def position(self) -> np.ndarray:
        """Where the rows are, shape (n, d)."""
        return np.asarray(self.state.position)

    def reweight(self, step: float) -> None:
        """Take a step in beta: count what it is worth, measure the weighted rows, resample."""
        log_weight = step * self.log_ratio.reshape(self.n_parts, -1)
        self.log_z = self.log_z + [log_mean(part) for part in log_weight]
        weight = self.weight(log_weight)
        self.measure(weight)
        self.resample(weight)

    def weight(self, log_weight: np.ndarray) -> np.ndarray:
        """Weights by parts (n_parts, k), of the same sum in each, shape (n,)."""
        # a part that is lost stays as it is
        lost = log_weight.max(axis=1, keepdims=True) == -np.inf
        return normalise(np.where(lost, 0.0, log_weight)).ravel() / self.n_parts

    def measure(self, weight: np.ndarray) -> None:
        """Take the scales, where the kernel leaves them open, from the weighted rows."""
        if self.block.kernel.scale is not None:
            return
        position = centred(self.position, weight, self.block.n_groups)
        self.scale = population_scale(position, weight, self.scale)
        self.correlate(position, weight)

    def correlate(self, position: np.ndarray, weight: np.ndarray) -> None:
        """Take the correlations, where the kernel's scales are dense, from enough rows."""
        if self.block.kernel.dense:
            n, d = position.shape
            few = n < ROWS_TO_CORRELATE * d
            self.correlation = np.eye(d) if few else population_correlation(position, weight)

    def resample(self, weight: np.ndarray) -> None:
        """Replace the rows by rows of their part, drawn in proportion to their weight."""
        n = weight.size // self.n_parts
        parts = enumerate(np.split(weight, self.n_parts))
        chosen = [i * n + systematic_resample(part, n, self.rng) for i, part in parts]
        self.state = rows_of(self.state, np.concatenate(chosen))
        self.log_ratio = self.log_ratio[np.concatenate(chosen)]

    def stage(self, beta: float) -> tuple[Any, ...]:
        """What is kept of it, in the order of `Stages`."""
        return beta, self.step_size, self.scale, self.correlation, self.acceptance_rate

    def equilibrate(self, beta: float, tune: int) -> None:
        """Move at one beta, correcting the step size after each block.

        Rows move until they are no longer where they were, ``tune`` times at most; more than that
        only if the step size is still much too long: its acceptance rate is a tenth below the aim.
        Above it, rows only move less than they could, which their correlation tells. Draws of the
        reference need no moves but to find a step size.
        """
        kernel, start, is_reference = self.block.kernel, self.position, self.log_ratio.size == 0
        n_looks, aim = -(-tune // MOVES_BETWEEN_LOOKS), kernel.acceptance_for(self.target_accept)
        correlation = [1.0]
        for i in range(n_looks + 16):
            self.move(beta)
            correlation.append(self.correlation_with(start))
            # nothing may have moved yet: see `move`
            good = self.acceptance_rate >= aim - 0.1
            if not good and kernel.step_size is None:
                continue
            if is_reference or i + 1 >= n_looks or _forgot(correlation):
                break

    def move(self, beta: float) -> None:
        """A few moves, and a correction of the step size."""
        block = self.block
        n_moves, scale = min(MOVES_BETWEEN_LOOKS, block.n_moves), self.scale
        if self.correlation is not None:
            scale = scale[:, None] * self.correlation
        scale = np.tile(scale, (n_moves, *[1] * len(block.scale_shape)))
        step_size = np.full(n_moves, self.step_size)
        refreshment = block.kernel.refreshment_for(step_size)
        if self.log_ratio.size == 0:  # not evaluated yet: see Block.initial_state
            step_size[0], refreshment[0] = 0.0, 1.0
        moves = Move(np.full(n_moves, beta), step_size, scale, refreshment)
        self.state, trace = block.run(self.state, moves, self.rng)
        if (shown := shown_pilot()) is not None:
            shown.moved(n_moves, BRIDGE if block.follows_whole_gradient else "")
        last = trace.log_ratio[-1]
        self.log_ratio = np.where(np.isnan(last), -np.inf, last)
        moved = trace.acceptance_rate[step_size > 0]
        if len(moved):
            self.acceptance_rate = float(moved.mean())
            self.step_size = corrected_step_size(
                block.kernel, self.step_size, self.acceptance_rate, self.target_accept
            )

    def seen_at_target(self, n: int) -> np.ndarray:
        """At least n rows at beta = 1, where the rows move on between one look and the next.

        Moves follow the correlations of all rows that were seen, of which nothing is estimated.
        """
        seen = self.position
        while len(seen) < n:
            self.correlate(seen, np.full(len(seen), 1.0 / len(seen)))
            self.move(1.0)
            seen = np.concatenate([seen, self.position])
        return seen

    def correlation_with(self, before: np.ndarray) -> float:
        """Largest correlation, over dimensions, of where rows were and are; 1 if stuck."""
        alike = np.ones(len(before))
        one, other = (centred(rows, alike, self.block.n_groups) for rows in (before, self.position))
        one, other = one - one.mean(axis=0), other - other.mean(axis=0)
        norm = np.linalg.norm(one, axis=0) * np.linalg.norm(other, axis=0)
        product = (one * other).sum(axis=0)
        return float(np.divide(product, norm, out=np.ones_like(norm), where=norm > 0).max())


def run_pilot(
    block: Block,
    start: np.ndarray,
    rng: np.random.Generator,
    settings: "RunSettings",
    *,
    n_target_rows: int = 0,
    max_stages: int = 500,
    stays_within: bool = False,
) -> Stages:
    """Walk a resampled population from the reference to the target.

    It starts at draws of the reference, shape (n, d), and makes at most ``settings.tune`` moves at
    each stage: rows move on when they are no longer where they were. At beta = 1 ``n_target_rows``
    rows are kept, from as many blocks of moves as it takes. With ``stays_within`` rows start where
    the likelihood is positive, and stay there; log Z is relative to that part of the prior.

    Raises
    ------
    PilotError
        If beta = 1 is out of reach.
    """
    population, beta = Population(block, start, rng, settings.target_accept), 0.0
    # times 0 a likelihood of zero would let rows go
    population.equilibrate(float(np.finfo(float).tiny) if stays_within else beta, settings.tune)
    stages = [population.stage(beta)]
    while beta < 1.0:
        log_ratio = population.log_ratio.reshape(population.n_parts, -1)
        beta_before, beta = beta, next_beta(log_ratio, beta)
        if beta <= beta_before or len(stages) > max_stages:
            raise PilotError(
                f"the pilot stopped at beta={beta_before:.3g} after {len(stages)} stages: the "
                "prior and the likelihood are too far apart, or the particles no longer move. Try "
                "a higher target_accept, a larger tune, reference='laplace', or a prior closer to "
                "the data"
            )
        population.reweight(beta - beta_before)
        population.equilibrate(beta, settings.tune)
        stages.append(population.stage(beta))
        if (shown := shown_pilot()) is not None:
            shown.reached(beta)
    rows = population.seen_at_target(n_target_rows) if n_target_rows else None
    stages[-1] = population.stage(beta)
    betas, step_size, scale, correlation, acceptance_rate = zip(*stages, strict=True)
    return Stages(
        np.array(betas),
        np.array(step_size),
        np.stack(scale),
        None if population.correlation is None else np.stack(correlation),
        np.array(acceptance_rate),
        end=population.position,
        log_z=population.log_z,
        rows=rows,
    )


def _forgot(correlation: list[float], enough: float = 0.5, slow: float = 0.9) -> bool:
    """Whether rows forgot where they were, or forget no more, as rows that stay in their modes.

    A fit is no better for rows that moved four times as long as it takes for a correlation that is
    ``enough`` (docs/theory/decisions.md). It stays where it is if it hardly fell, twice in a row.
    """
    now = correlation[-1]
    stays = len(correlation) > 3 and now > slow * correlation[-2] > slow**2 * correlation[-3]
    return now <= enough or stays
