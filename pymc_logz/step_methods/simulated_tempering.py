"""Simulated tempering inside ``pm.sample``: tempered walkers, and one exact draw at beta = 1."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pymc as pm
import xarray as xr
from scipy.special import log_softmax, softmax

from pymc_logz.arguments import check_integer, settings_among
from pymc_logz.errors import logger
from pymc_logz.kernels.base import Kernel
from pymc_logz.loop.calls import begun
from pymc_logz.loop.frozen import Planned
from pymc_logz.runners.arrays import joined, rows_of
from pymc_logz.runners.moves import kernel_for
from pymc_logz.runners.temper import TemperBlock, Walkers
from pymc_logz.step_methods.base import BatchedStep, declared
from pymc_logz.step_methods.sources import BlockSource
from pymc_logz.tempered.run import place_levels, warm_up
from pymc_logz.tempered.settings import TemperedSettings
from pymc_logz.tempered.warm_up import Ladder, climb
from pymc_logz.trees.posterior import checked_reference


class Draws(NamedTuple):
    """B draws at beta = 1, and where the walkers were, shape (B, W); of the draws shape (B,)."""

    position: np.ndarray
    """Shape (B, d)."""
    log_ratio: np.ndarray
    """Log target minus log reference."""
    model_logp: np.ndarray
    """Log density of the model."""
    accepted: np.ndarray
    """Whether the draw is another one than before."""
    acceptance_rate: np.ndarray
    """Mean over the moves of all walkers since the draw before."""
    walker_level: np.ndarray
    walker_log_ratio: np.ndarray


def refresh_held(
    walkers: Walkers, ladder: Ladder, rng: np.random.Generator
) -> tuple[Walkers, bool]:
    """Walkers with the held row drawn afresh from all rows, and whether it is another one."""
    # given the rows, but not which of them is held, a row is the held one with probability in
    # proportion to its density at beta = 1 over that as a walker, whatever its level: to q(beta = 1
    # | x). So this is a Gibbs step, and the row that was held becomes a walker, whose level is
    # drawn given its position: Tjelmeland (2004), NTNU preprint 4/2004; Andrieu, Lee & Vihola
    # (2018), doi 10.3150/15-BEJ785
    log_ratio = walkers.state.evaluation.log_ratio
    log_ratio = np.where(np.isnan(log_ratio), -np.inf, log_ratio)
    tilt = np.zeros((log_ratio.size, ladder.n_levels))
    tilt[:, 1:] = ladder.betas[1:] * log_ratio[:, None]
    log_distribution = log_softmax(tilt + ladder.log_prior - ladder.log_z_hat, axis=1)
    if log_distribution[:, -1].max() == -np.inf:
        return walkers, False
    row = int(rng.choice(log_ratio.size, p=softmax(log_distribution[:, -1])))
    level = int(rng.choice(ladder.n_levels, p=np.exp(log_distribution[0])))
    if row == 0:
        return walkers, False
    order = np.arange(log_ratio.size)
    order[[0, row]] = row, 0
    walkers = rows_of(walkers, order)
    walkers.level[row] = level
    return walkers, True


class WalkSource(BlockSource):
    """Lets walkers walk on, a batch of draws at a time; ``tune`` moves a level on the way up."""

    batch_size = 32

    def __init__(
        self, model: pm.Model, planned: Planned, walking: TemperBlock, ladder: Ladder, tune: int
    ) -> None:
        super().__init__(model, planned)
        self.walking, self.ladder, self.tune = walking, ladder, tune
        self.n_walkers = walking.n_walkers

    def batch(self, carried: Walkers | None, rng: np.random.Generator) -> tuple[Walkers, Draws]:
        """A batch of draws, and rows to go on with, the held one first; None starts new ones."""
        now = self._start(rng) if carried is None else carried
        tables = self.ladder.tables(self.kernel)
        records = []
        fresh = self.walking.fresh_rows(self.batch_size * self.walking.n_moves, rng)
        for _ in range(self.batch_size):
            walkers = self.walking.renewed(rows_of(now, slice(1, None)), tables, fresh)
            walkers, trace = self.walking.launch(walkers, tables, rng)
            moved, walk = joined([rows_of(now, slice(1)), walkers]), trace()
            now, accepted = refresh_held(moved, self.ladder, rng)
            log_reference, log_ratio = (part[0] for part in now.state.evaluation[:2])
            records.append(
                Draws(
                    position=now.state.position[0],
                    log_ratio=log_ratio,
                    model_logp=log_reference + log_ratio,
                    accepted=np.array(float(accepted)),
                    acceptance_rate=np.array(walk.acceptance_rate.mean()),
                    walker_level=moved.level[1:],
                    walker_log_ratio=walk.log_ratio[-1],
                )
            )
        return now, Draws(*(np.stack(column) for column in zip(*records, strict=True)))

    def _start(self, rng: np.random.Generator) -> Walkers:
        """Walkers at levels of their own; any of them is held until a first draw is made."""
        start = self.block.path.sample_reference(rng, self.n_walkers)
        walkers, _ = climb(self.walking, self.ladder, start, self.tune, rng)
        return joined([rows_of(walkers, [np.argmax(walkers.level)]), walkers])

    @cached_property
    def walking(self) -> TemperBlock:
        """Compiled iterations of the walkers, made again where it arrives."""
        return TemperBlock(self.block, self.ladder.n_levels, self.n_walkers)


class SimulatedTempering(BatchedStep):
    """Simulated tempering inside ``pm.sample``.

    Each chain has some walkers, whose inverse temperature moves along with their position, and a
    particle held at beta = 1. Between two draws the walkers make 32 iterations; then the held
    particle is drawn from itself and the walkers, with the probability of beta = 1 given their
    position. That leaves the posterior invariant exactly, so every draw is one of the posterior,
    and walkers bring it to modes that no chain at beta = 1 would find. Levels and log ratios of the
    walkers are kept, and ``pymc_logz.evidence`` makes log Z from them.

    All tuning is done when the step method is made, as in `pymc_logz.sample_tempered`, which is
    faster and keeps more; this one fits into what is built on ``pm.sample``.

    Parameters
    ----------
    vars
        As in `HAIS`.
    walkers
        Walkers of each chain.
    betas, level_prior, update, kernel, target_accept, reference
        As in `pymc_logz.sample_tempered`.
    pilot_tune
        ``tune`` of `pymc_logz.sample_tempered`.
    random_seed, model, blocked, rng, initial_point, compile_kwargs
        As in `HAIS`.

    Raises
    ------
    ModelError, PilotError, ValueError
        As `pymc_logz.sample_tempered`.

    See Also
    --------
    pymc_logz.sample_tempered : the same walkers, faster, with draws of all levels.
    HAIS : independent annealed proposals, where one trajectory gets there.
    pymc_logz.evidence : log Z from the walkers of a chain.

    Notes
    -----
    Statistics: ``walker_level`` and ``walker_log_ratio`` of all walkers; ``beta``, ``log_prior``
    and ``log_z_hat`` of the levels; ``accepted`` (0 or 1), whether the draw is another particle;
    ``acceptance_rate`` of the walkers' moves; ``log_ratio`` and ``lp`` of the draw.

    Chains in processes of their own, and data changed by ``pm.set_data``, are as with `HAIS`.

    References
    ----------
    Carlson, Stinson, Pakman & Paninski (2016), arXiv 1603.01912; Geyer & Thompson (1995), doi
    10.1080/01621459.1995.10476590. The held particle: Andrieu, Lee & Vihola (2018), doi
    10.3150/15-BEJ785, with tempered walkers for the independent proposals.

    Examples
    --------
    .. code-block:: python

        import pymc as pm
        import pymc_logz as lz

        with lz.energies.beta_bernoulli().model:
            idata = pm.sample(step=lz.SimulatedTempering())
        lz.evidence(idata)["evidence"]["log_z"]
    """

    name = "simulated_tempering"
    default_tune_steps = 100
    alone = "but SimulatedTempering carries its own walkers from draw to draw; use it alone"
    shown: ClassVar[dict[str, Any]] = {
        "log_ratio": ("Log ratio", "0.2f"),
        "acceptance_rate": ("Acc", "0.2f"),
    }
    stats_dtypes_shapes: ClassVar[dict[str, Any]] = {
        **declared(np.float64, "acceptance_rate", "log_ratio", "model_logp", "accepted"),
        **declared(bool, "tune"),
    }

    def __init__(
        self,
        vars: Any = None,
        *,
        walkers: int = 16,
        betas: str | int | np.ndarray = "adaptive",
        level_prior: str | np.ndarray = "uniform",
        update: str = "rts",
        kernel: Kernel | str | None = None,
        pilot_tune: int = 64,
        target_accept: float | None = None,
        reference: str | xr.DataTree | None = None,
        random_seed: Any = 0,
        model: pm.Model | None = None,
        blocked: bool = True,
        rng: Any = None,
        initial_point: Mapping[str, np.ndarray] | None = None,
        compile_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        model = self._take(vars, pm.modelcontext(model), rng)
        check_integer(1, pilot_tune=pilot_tune)
        kernel, reference = kernel_for(kernel, model), checked_reference(reference, model)
        given = settings_among(locals(), TemperedSettings)
        settings = TemperedSettings.from_arguments(**given, tune=pilot_tune)
        with begun(settings, random_seed, False, compile_kwargs) as call:
            prepared, block = self._prepare(model, call)
            planned = place_levels(prepared, block, call)
            walking, rounds = warm_up(planned, call)
        ladder = rounds.ladder
        of_levels = {"beta": ladder.betas, "log_prior": ladder.log_prior}
        self.level_stats = {**of_levels, "log_z_hat": ladder.log_z_hat}
        self.source = WalkSource(model, planned, walking, ladder, pilot_tune).opened()
        self._declare_stats(walkers, ladder.n_levels)
        logger.info("SimulatedTempering: %d levels, %d walkers.", ladder.n_levels, walkers)
        self._reset(self.default_tune_steps)

    def _declare_stats(self, n_walkers: int, n_levels: int) -> None:
        """Statistics whose length is known only now."""
        level, number = (np.dtype((kind, (n_walkers,))) for kind in (np.int64, np.float64))
        vectors = {"walker_level": (level, [n_walkers]), "walker_log_ratio": (number, [n_walkers])}
        of_level = (np.dtype((np.float64, (n_levels,))), [n_levels])
        self.stats_dtypes_shapes = {  # type: ignore[misc]
            **type(self).stats_dtypes_shapes,
            **vectors,
            **dict.fromkeys(self.level_stats, of_level),
        }
        self.stats_dtypes = [{name: kind for name, (kind, _) in self.stats_dtypes_shapes.items()}]

    def _next(self, point: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """The held row after the walkers have moved on."""
        self.held = self._next_row()
        stats = self.held._asdict()
        del stats["position"]
        return {**stats, **self.level_stats}
