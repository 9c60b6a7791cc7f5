"""Tempered walkers that step methods draw from: batches of exact draws at beta = 1."""

from typing import Any, NamedTuple

import numpy as np
import pymc as pm
from scipy.special import log_softmax, softmax

from pymc_logz.kernels.base import KernelState
from pymc_logz.paths.geometric import Evaluation
from pymc_logz.references.reference import Reference
from pymc_logz.runners.block import Block
from pymc_logz.runners.temper import TemperBlock, Walkers
from pymc_logz.step_methods.sources import BlockSource
from pymc_logz.tempered.warm_up import Ladder, climb


class Ensemble(NamedTuple):
    """W walkers, and in front of them the one row that is held at beta = 1."""

    position: np.ndarray
    """Shape (1 + W, d)."""
    momentum: np.ndarray
    """Shape (1 + W, d)."""
    log_reference: np.ndarray
    """Shape (1 + W,)."""
    log_ratio: np.ndarray
    """Shape (1 + W,); NaN where it is that."""
    grad_log_reference: np.ndarray
    """Shape (1 + W, d)."""
    grad_log_ratio: np.ndarray
    """Shape (1 + W, d)."""
    level: np.ndarray
    """Levels of the walkers, shape (W,)."""

    @property
    def walkers(self) -> Walkers:
        """The walkers alone."""
        position, momentum, *evaluation = (part[1:] for part in self[:-1])
        return Walkers(KernelState(position, momentum, Evaluation(*evaluation)), self.level)

    def with_walkers(self, walkers: Walkers) -> "Ensemble":
        """The same held row before other walkers."""
        position, momentum, evaluation = walkers.state
        news = (position, momentum, *evaluation)
        rows = (
            np.concatenate([part[:1], np.asarray(new)])
            for part, new in zip(self[:-1], news, strict=True)
        )
        return Ensemble._make([*rows, np.asarray(walkers.level)])

    def exchanged(self, row: int, level: int) -> "Ensemble":
        """The held row has changed places with another one, and got this level there."""
        order = np.arange(len(self.position))
        order[[0, row]] = row, 0
        levels = self.level.copy()
        levels[row - 1] = level
        return Ensemble._make([*(part[order] for part in self[:-1]), levels])


class Draws(NamedTuple):
    """B draws at beta = 1, and where the walkers were."""

    position: np.ndarray
    """Shape (B, d)."""
    log_ratio: np.ndarray
    """Log target minus log reference of the draws, shape (B,)."""
    log_density: np.ndarray
    """Log density of the model at the draws, shape (B,)."""
    accepted: np.ndarray
    """Whether the draw is another one than before, shape (B,)."""
    acceptance_rate: np.ndarray
    """Mean over the moves of all walkers since the draw before, shape (B,)."""
    walker_level: np.ndarray
    """Shape (B, W)."""
    walker_log_ratio: np.ndarray
    """Shape (B, W)."""


def refresh_held(
    ensemble: Ensemble, ladder: Ladder, rng: np.random.Generator
) -> tuple[Ensemble, bool]:
    """Ensemble with the held row drawn afresh from all rows, and whether it is another one.

    Given the rows, but not which of them is held, a row is the held one with probability in
    proportion to its density at beta = 1 over its density as a walker, whatever its level. That
    ratio is q(beta = 1 | x), up to a constant. So this is a Gibbs step: it leaves the joint
    distribution of held row and walkers as it is, and that of the held row is the target at every
    draw. The row that was held becomes a walker, whose level is drawn given its position.

    References
    ----------
    Rows as each other's proposals: Tjelmeland (2004), Using all Metropolis-Hastings proposals to
    estimate mean values, NTNU preprint 4/2004; Andrieu, Lee & Vihola (2018), doi 10.3150/15-BEJ785.
    """
    log_ratio = np.where(np.isnan(ensemble.log_ratio), -np.inf, ensemble.log_ratio)
    tilt = np.zeros((log_ratio.size, ladder.n_levels))
    tilt[:, 1:] = ladder.betas[1:] * log_ratio[:, None]
    log_law = log_softmax(tilt + ladder.log_prior - ladder.log_z_hat, axis=1)
    if log_law[:, -1].max() == -np.inf:
        return ensemble, False
    row = int(rng.choice(log_ratio.size, p=softmax(log_law[:, -1])))
    level = int(rng.choice(ladder.n_levels, p=np.exp(log_law[0])))
    return (ensemble.exchanged(row, level), True) if row else (ensemble, False)


class WalkSource(BlockSource):
    """Walks an ensemble on, a batch of draws at a time.

    New walkers make ``tune`` moves at each level on their way up.
    """

    def __init__(
        self,
        model: pm.Model,
        block: Block,
        reference: Reference,
        walking: TemperBlock,
        ladder: Ladder,
        *,
        tune: int,
        batch_size: int,
    ) -> None:
        super().__init__(model, block, reference)
        self._walking: TemperBlock | None = walking
        self.n_walkers, self.ladder = walking.n_walkers, ladder
        self.tune, self.batch_size = tune, batch_size

    def __getstate__(self) -> dict[str, Any]:
        """Without what cannot leave the process."""
        return {**super().__getstate__(), "_walking": None}

    def batch(self, carried: Ensemble | None, rng: np.random.Generator) -> tuple[Ensemble, Draws]:
        """A batch of draws, and the ensemble to go on with; None starts a new one."""
        ensemble = self._start(rng) if carried is None else carried
        tables = self.ladder.tables(self.kernel)
        records = []
        fresh = self.walking.fresh_rows(self.batch_size * self.walking.n_moves, rng)
        for _ in range(self.batch_size):
            walkers = self.walking.renewed(ensemble.walkers, tables, fresh)
            walkers, trace = self.walking.launch(walkers, tables, rng)
            moved = ensemble.with_walkers(walkers)
            ensemble, accepted = refresh_held(moved, self.ladder, rng)
            log_ratio = ensemble.log_ratio[0]
            records.append(
                Draws(
                    position=ensemble.position[0],
                    log_ratio=log_ratio,
                    log_density=ensemble.log_reference[0] + log_ratio,
                    accepted=np.array(accepted),
                    acceptance_rate=np.array(trace().acceptance_rate.mean()),
                    walker_level=moved.level,
                    walker_log_ratio=np.where(
                        np.isnan(moved.log_ratio[1:]), -np.inf, moved.log_ratio[1:]
                    ),
                )
            )
        return ensemble, Draws(*(np.stack(column) for column in zip(*records, strict=True)))

    def _start(self, rng: np.random.Generator) -> Ensemble:
        """Walkers at levels of their own; any of them is held until a first draw is made."""
        start = self.block.path.sample_reference(rng, self.n_walkers)
        walkers, _ = climb(self.walking, self.ladder, start, self.tune, rng)
        position, momentum, evaluation = walkers.state
        first = int(np.argmax(walkers.level))
        parts = (np.asarray(part) for part in (position, momentum, *evaluation))
        rows = (np.concatenate([part[first : first + 1], part]) for part in parts)
        return Ensemble._make([*rows, np.asarray(walkers.level)])

    @property
    def walking(self) -> TemperBlock:
        """Compiled iterations of the walkers."""
        if self._walking is None:
            self._walking = TemperBlock(
                self.block,
                self.ladder.n_levels,
                self.n_walkers,
                compile_kwargs=self.compile_kwargs,
            )
        return self._walking
