"""Simulated tempering inside ``pm.sample``: tempered walkers, and one exact draw at beta = 1."""

import logging
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pymc as pm
import xarray as xr

from pymc_logz.arguments import check_whole
from pymc_logz.kernels.base import Kernel
from pymc_logz.runners.moves import kernel_for
from pymc_logz.runners.progress import progress_bar
from pymc_logz.step_methods.base import BatchedStep, declared
from pymc_logz.step_methods.walkers import Draws, WalkSource
from pymc_logz.tempered.run import place_levels, warm_up
from pymc_logz.tempered.settings import TemperedSettings
from pymc_logz.trees.posterior import checked_reference

LADDER_STATS = {"beta": "betas", "log_prior": "log_prior", "log_z_hat": "log_z_hat"}
"""Statistics that hold the ladder, by the name that the ladder has for them."""

logger = logging.getLogger("pymc.pymc_logz")


class SimulatedTempering(BatchedStep):
    """Simulated tempering inside ``pm.sample``.

    Each chain has some walkers, whose inverse temperature moves along with their position, and one
    row that is held at beta = 1. Between two draws the walkers make 32 iterations; then the held
    row is drawn afresh from itself and the walkers, with the probability of beta = 1 given their
    position. That leaves the posterior invariant exactly, so every draw is one of the posterior,
    and walkers bring it to modes that no chain at beta = 1 would find. Levels and log ratios of the
    walkers are kept, and ``pymc_logz.evidence`` makes log Z from them.

    All tuning is done when the step method is made, as in `pymc_logz.sample_tempered`, which is
    faster and keeps more; this one fits into what is built on ``pm.sample``.

    Parameters
    ----------
    vars
        None, or all free variables of the model: it moves the whole model.
    walkers
        Walkers of each chain.
    betas, level_prior, update, kernel, target_accept, reference
        As in `pymc_logz.sample_tempered`.
    pilot_tune
        ``tune`` of `pymc_logz.sample_tempered`.
    random_seed
        Seed of pilot and warm-up, fixed so that the same ``pm.sample(random_seed=...)`` gives the
        same draws. The chains have the seeds that ``pm.sample`` gives them.
    model
        PyMC model; None takes the one on the context stack.
    blocked
        Always True.
    rng
        Random generator; ``pm.sample`` sets its own.
    initial_point
        Not used: walkers start at the prior.
    compile_kwargs
        Keyword arguments of ``pytensor.function``; ``{"mode": "NUMBA"}`` chooses a backend. By
        default JAX is used if it is installed and the model converts.

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
    and ``log_z_hat`` of the levels; ``accepted``, whether the draw is another row than before;
    ``acceptance_rate`` of the walkers' moves; ``log_ratio`` and ``lp`` of the draw.

    With JAX and ``cores > 1`` chains have processes of their own but compute in threads of the one
    that has compiled, so that none compiles again. The draws are the same in all cases.

    Data changed by ``pm.set_data`` need a new step method, since the levels are made for the old.

    References
    ----------
    Carlson, Stinson, Pakman & Paninski (2016), arXiv 1603.01912; Geyer & Thompson (1995), doi
    10.1080/01621459.1995.10476590. The held row: Andrieu, Lee & Vihola (2018), doi
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
        **declared(np.float64, "acceptance_rate", "log_ratio", "model_logp"),
        **declared(bool, "accepted", "tune"),
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
        model = pm.modelcontext(model)
        self._take(vars, model, rng)
        check_whole(1, pilot_tune=pilot_tune)
        settings = TemperedSettings.asked(
            walkers=walkers,
            betas=betas,
            level_prior=level_prior,
            update=update,
            kernel=kernel_for(kernel, model),
            tune=pilot_tune,
            target_accept=target_accept,
            reference=checked_reference(reference, model),
        )
        prepared, block, rngs = self._prepare(model, settings, random_seed, compile_kwargs)
        with progress_bar(False) as progress:
            block, plan, start_from = place_levels(prepared, block, settings, rngs.pilot, progress)
            frozen = warm_up(block, plan, settings, rngs.pilot, compile_kwargs, progress)
        self.ladder = frozen.ladder
        self.source = WalkSource(
            model,
            block,
            start_from,
            frozen.block,
            frozen.ladder,
            tune=pilot_tune,
            batch_size=32,
        ).opened()
        self._declare_stats(walkers, self.ladder.n_levels)
        logger.info("SimulatedTempering: %d levels, %d walkers.", self.ladder.n_levels, walkers)
        self._reset(tune=True)

    def _declare_stats(self, n_walkers: int, n_levels: int) -> None:
        """Statistics whose length is known only now."""
        level, number = (np.dtype((kind, (n_walkers,))) for kind in (np.int64, np.float64))
        vectors = {"walker_level": (level, [n_walkers]), "walker_log_ratio": (number, [n_walkers])}
        of_level = (np.dtype((np.float64, (n_levels,))), [n_levels])
        self.stats_dtypes_shapes = {  # type: ignore[misc]
            **type(self).stats_dtypes_shapes,
            **vectors,
            **dict.fromkeys(LADDER_STATS, of_level),
        }
        self.stats_dtypes = [{name: kind for name, (kind, _) in self.stats_dtypes_shapes.items()}]

    def _next(self, point: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """The held row after the walkers have moved on."""
        draw: Draws = self._next_row()
        self.held = draw
        return {
            "acceptance_rate": float(draw.acceptance_rate),
            "accepted": bool(draw.accepted),
            "log_ratio": float(draw.log_ratio),
            "model_logp": float(draw.log_density),
            "walker_level": draw.walker_level,
            "walker_log_ratio": draw.walker_log_ratio,
            **{stat: getattr(self.ladder, name) for stat, name in LADDER_STATS.items()},
        }
