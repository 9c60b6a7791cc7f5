"""Warm-up of a tempered run: starts at every level, rough log Z, step sizes; then frozen."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax

from pymc_logz.errors import PilotError
from pymc_logz.estimators.draws import TemperedDraws
from pymc_logz.estimators.tempering import rts_log_z
from pymc_logz.kernels.base import Kernel
from pymc_logz.kernels.tuning import corrected_step_size
from pymc_logz.runners.anneal import Plan
from pymc_logz.runners.arrays import rows_of
from pymc_logz.runners.moves_of_rows import Report
from pymc_logz.runners.progress import report_count
from pymc_logz.runners.temper import Tables, TemperBlock, Walk, Walkers, walk
from pymc_logz.weights import log_mean, resampled

Correction = Callable[[TemperedDraws], np.ndarray]
"""To a new ``log_z_hat``, from draws by the one so far."""
MAX_ROUNDS = 8
MAX_LEVEL_DEVIATION = 0.1
"""Rounds end when every level's share is within so much of its prior, as a part of 1 / K."""


@dataclass(frozen=True)
class Ladder:
    """K levels and all that is tuned for them, a number for each where nothing else is said."""

    betas: np.ndarray
    log_prior: np.ndarray
    """Log of the share of time that each level is to have."""
    log_z_hat: np.ndarray
    """Guess of each level's log Z, relative to the first."""
    step_size: np.ndarray
    scale: np.ndarray
    """Shape (K, d), or (K, d, d) where scales are dense."""

    @property
    def n_levels(self) -> int:
        """K."""
        return self.betas.size

    def tables(self, kernel: Kernel) -> Tables:
        """What walkers do at each level."""
        refreshment = kernel.refreshment_for(self.step_size)
        log_pseudo_prior = self.log_prior - self.log_z_hat
        return Tables(self.betas, self.step_size, self.scale, refreshment, log_pseudo_prior)

    def draws(self, *walks: Walk) -> TemperedDraws:
        """What walkers did, those of one walk after the other, as estimators take it."""
        # a walker that has not found the support yet is on its way to the first level
        level = [np.where(np.isneginf(walk.log_ratio), 0, walk.level).T for walk in walks]
        return TemperedDraws(
            level=np.concatenate(level),
            log_ratio=np.concatenate([walk.log_ratio.T for walk in walks]),
            betas=self.betas,
            log_prior=self.log_prior,
            log_z_hat=self.log_z_hat,
        )


class Round(NamedTuple):
    """What one round of a warm-up came to."""

    log_z_hat: np.ndarray
    """As corrected by the round, shape (K,)."""
    share: np.ndarray
    """Mean probability of each level given the position, shape (K,)."""
    visits: np.ndarray
    """Moves made at each level, shape (K,)."""
    length: int
    deviation: float
    """Largest distance of a level's share from its prior, times K."""


class Rounds(NamedTuple):
    """Frozen levels, and the rounds of the warm-up that led to them."""

    ladder: Ladder
    history: tuple[Round, ...]

    @property
    def n_iterations(self) -> int:
        """Iterations of all rounds."""
        return sum(one.length for one in self.history)


def make_ladder(plan: Plan, log_prior: np.ndarray) -> Ladder:
    """Levels with the settings of a plan."""
    return Ladder(
        betas=plan.betas,
        log_prior=log_prior - logsumexp(log_prior),
        log_z_hat=np.zeros(plan.betas.size),
        step_size=plan.step_size,
        scale=np.ascontiguousarray(plan.scales(slice(None))),
    )


class Climbing(NamedTuple):
    """Walkers on their way up the ladder: all that the levels to come need."""

    n_levels: int
    """Levels that they have moved at."""
    walkers: Walkers
    level: np.ndarray
    """Where each is to stop, shape (n,)."""
    position: np.ndarray
    """Where those have stopped that have, shape (n, d)."""
    log_z_hat: np.ndarray
    """Rough log Z of the levels so far, shape (K,)."""

    def stopped(self, block: TemperBlock, rng: np.random.Generator) -> Walkers:
        """Walkers that have climbed, where each of them has stopped."""
        return Walkers(block.start(self.position, rng).state, self.level)


def start_climb(
    block: TemperBlock, ladder: Ladder, start: np.ndarray, rng: np.random.Generator
) -> Climbing:
    """Walkers at the foot of the ladder; arguments as of `climb`."""
    walkers = block.start(start, rng)
    level = np.asarray(walkers.level)
    return Climbing(0, walkers, level, np.zeros_like(start), np.zeros(ladder.n_levels))


def climb_on(
    block: TemperBlock,
    ladder: Ladder,
    climbing: Climbing,
    n_moves: int,
    rng: np.random.Generator,
    report: Report | None = None,
) -> Climbing:
    """Walkers at the top of the ladder, or at a level below it where the report ends the climb."""
    tables = ladder.tables(block.kernel)
    n_levels, walkers, level = climbing[:3]
    position, log_z_hat = climbing.position.copy(), climbing.log_z_hat.copy()
    ends: bool | None = False

    def reported(n_made: int) -> None:  # not before it has made all moves at a level
        nonlocal ends
        ends = report is not None and report(n_made)

    for k in range(n_levels, ladder.n_levels):
        walkers, part = walk(block, walkers, tables.all_at(k), n_moves, rng, report=reported)
        stops = level == k
        position[stops] = walkers.state.position[stops]
        if k + 1 < ladder.n_levels:
            step = ladder.betas[k + 1] - ladder.betas[k]
            gain = log_mean(step * part.log_ratio)
            if not np.isfinite(gain):  # as if one more row had weight one
                gain = -np.log(part.log_ratio.size + 1)
            log_z_hat[k + 1] = log_z_hat[k] + gain
            log_weight = step * part.log_ratio[-1]
            if log_weight.max() > -np.inf:
                chosen = resampled(log_weight, rng)
                walkers = Walkers(rows_of(walkers.state, chosen), walkers.level)
        n_levels = k + 1
        if ends:
            break
    return Climbing(n_levels, walkers, level, position, log_z_hat)


def climb(
    block: TemperBlock,
    ladder: Ladder,
    start: np.ndarray,
    n_moves: int,
    rng: np.random.Generator,
) -> tuple[Walkers, np.ndarray]:
    """Walkers near equilibrium at levels spread over the ladder, and rough log Z of the levels."""
    # all climb together, and are resampled at each level, as a sequential Monte Carlo sampler
    climbing = climb_on(block, ladder, start_climb(block, ladder, start, rng), n_moves, rng)
    return climbing.stopped(block, rng), climbing.log_z_hat


def run_rounds(
    block: TemperBlock,
    ladder: Ladder,
    walkers: Walkers,
    rng: np.random.Generator,
    *,
    length: int,
    target_accept: float,
    update: str = "rts",
) -> Rounds:
    """Rounds, each twice as long, that correct ``log_z_hat`` and step sizes till shares fit."""
    # Carlson et al. (2016), section 2.4, arXiv 1603.01912
    # swaps need no constants, and have one walker at each level whatever they are
    update = update if block.exchange == "gibbs" else "rts"
    correct = CORRECTIONS[update]()
    history, report = list[Round](), report_count("Warm-up", None)
    for _ in range(MAX_ROUNDS):
        walkers = Walkers(walkers.state, block.spread_levels(rng))
        share, moves = np.zeros(ladder.n_levels), np.zeros((2, ladder.n_levels))
        portion = length if update == "rts" else block.n_moves
        for _ in range(0, length, portion):
            walkers, part = walk(
                block, walkers, ladder.tables(block.kernel), portion, rng, every=portion
            )
            draws = ladder.draws(part)
            share += level_probabilities(draws) * portion / length
            moves += moves_by_level(part, ladder.n_levels)
            log_z_hat = correct(draws)
            if not np.all(np.isfinite(log_z_hat)):
                raise PilotError(
                    "no walker found a likelihood that is not zero, as it is at nearly all of the "
                    "prior: use pymc_logz.sample_hais, or a prior that is more often elsewhere"
                )
            ladder = replace(ladder, log_z_hat=log_z_hat)
        ladder = with_tuned_steps(ladder, block.kernel, moves[0], moves[1], target_accept)
        deviation = float(np.abs(share - np.exp(ladder.log_prior)).max() * ladder.n_levels)
        history.append(Round(ladder.log_z_hat, share, moves[0].astype(int), length, deviation))
        report(length)
        if deviation < MAX_LEVEL_DEVIATION:
            break
        length = min(2 * length, 2048)
    return Rounds(ladder, tuple(history))


def moves_by_level(walk: Walk, n_levels: int) -> tuple[np.ndarray, np.ndarray]:
    """Number of moves at each level, and sum of their acceptance probabilities, shape (K,)."""
    level = walk.level.ravel()
    accepted = np.bincount(level, walk.acceptance_rate.ravel(), n_levels)
    return np.bincount(level, minlength=n_levels), accepted


def level_probabilities(draws: TemperedDraws) -> np.ndarray:
    """Mean probability of each level given the position: c_k of Carlson et al., eq. 9."""
    return softmax(draws.log_prior + rts_log_z(draws) - draws.log_z_hat[0])


def with_tuned_steps(
    ladder: Ladder,
    kernel: Kernel,
    moved: np.ndarray,
    accepted: np.ndarray,
    target_accept: float,
) -> Ladder:
    """Ladder with step sizes corrected by `moves_by_level`, where the kernel leaves them open."""
    step_size = ladder.step_size.copy()
    for k in np.flatnonzero(moved >= 64):
        rate = float(accepted[k] / moved[k])
        step_size[k] = corrected_step_size(kernel, float(step_size[k]), rate, target_accept)
    return replace(ladder, step_size=step_size)


def stochastic_approximation() -> Correction:
    """Small steps after every block of iterations, along the deviation of the shares."""
    # Carlson et al., eq. 19; a gain of 1 / t is for runs that are never frozen, and this one, of a
    # burn-in, forgets a bad start sooner: Tan (2017), eq. 8, doi 10.1080/10618600.2015.1113975
    steps = count(1)

    def corrected(draws: TemperedDraws) -> np.ndarray:
        prior = np.exp(draws.log_prior)
        gain = min(float(prior.min()), next(steps) ** -0.6)
        log_z_hat = draws.log_z_hat[0] + gain * level_probabilities(draws) / prior
        return log_z_hat - log_z_hat[0]

    return corrected


def wang_landau() -> Correction:
    """Levels that are visited are made less likely, by less and less."""
    # the step is halved when every level has had its share of visits, to within a fifth, since it
    # was last halved: Wang & Landau (2001), doi 10.1103/PhysRevLett.86.2050; Atchade & Liu (2010)
    step, visits = 1.0, np.zeros(())

    def corrected(draws: TemperedDraws) -> np.ndarray:
        nonlocal step, visits
        prior = np.exp(draws.log_prior)
        visits = visits + draws.visits
        share = draws.visits / draws.n_draws / prior
        log_z_hat = draws.log_z_hat[0] + step * prior.min() * share
        if np.all(np.abs(visits / np.sum(visits) / prior - 1.0) < 0.2):
            step, visits = 0.5 * step, np.zeros(())
        return log_z_hat - log_z_hat[0]

    return corrected


CORRECTIONS: dict[str, Callable[[], Correction]] = {
    "rts": lambda: rts_log_z,
    "wang_landau": wang_landau,
    "stochastic_approximation": stochastic_approximation,
}
"""Ways to correct ``log_z_hat``, by name: RTS does after each round, the others at each block."""
