"""Annealed rows as proposals of an exact Markov chain: HAIS as a PyMC step method."""

import logging
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pymc as pm
import xarray as xr
from pymc.step_methods.compound import StepMethodState
from pymc.step_methods.state import dataclass_state

from pymc_logz.arguments import check_whole
from pymc_logz.hais.settings import HaisSettings
from pymc_logz.kernels.base import Kernel
from pymc_logz.loop.planning import block_for, plan_run
from pymc_logz.models.preparation import prepare
from pymc_logz.pilot.settings import TARGET_VARIANCE
from pymc_logz.runners.moves import kernel_for
from pymc_logz.seeds import generators_from, random_generator
from pymc_logz.step_methods.base import ChosenStep
from pymc_logz.step_methods.sources.annealed import Proposals, ProposalSource
from pymc_logz.step_methods.variables import (
    check_whole_model,
    values_of_row,
)
from pymc_logz.trees.posterior import checked_reference

logger = logging.getLogger("pymc.pymc_logz")


@dataclass_state
class HAISState(StepMethodState):
    """What a chain of `HAIS` carries from draw to draw."""

    tune: bool
    position: np.ndarray | None
    log_weight: float
    log_ratio: float
    log_density: float
    batch: Proposals | None
    n_used: int


class HAIS(ChosenStep):
    """Hamiltonian annealed importance sampling inside ``pm.sample``.

    Each draw proposes the end of a trajectory that was annealed from a fresh draw of the prior, and
    accepts it with probability min(1, w' / w), where w is the importance weight of a trajectory:
    particle independent Metropolis-Hastings. The chain has the posterior as its exact law, modes
    that lie far apart included. The log weight of *every* proposal, accepted or not, is kept, and
    ``pymc_logz.evidence`` makes log Z from them.

    All tuning is done when the step method is made: a pilot population chooses temperatures, step
    sizes and length scales, as in `sample_hais`.

    Parameters
    ----------
    vars
        None, or all free variables of the model: it moves the whole model.
    betas, kernel, target_accept, reference
        As in `sample_hais`.
    pilot_tune
        Moves that the pilot makes at each of its stages.
    batch_size
        Trajectories computed at a time, at least 2. More is faster up to some hundreds.
    random_seed
        Seed of the pilot, fixed so that the same ``pm.sample(random_seed=...)`` gives the same
        draws. The chains have the seeds that ``pm.sample`` gives them.
    model
        PyMC model; None takes the one on the context stack.
    blocked
        Always True.
    rng
        Random generator; ``pm.sample`` sets its own.
    initial_point
        Not used: trajectories start at the prior.
    compile_kwargs
        Keyword arguments of ``pytensor.function``; ``{"mode": "NUMBA"}`` chooses a backend. By
        default JAX is used if it is installed and the model converts.

    Raises
    ------
    ModelError, PilotError, ValueError
        As `sample_hais`.

    See Also
    --------
    sample_hais : the same draws with weights, and log Z at once.
    evidence : log Z of the tree of ``pm.sample``.

    Notes
    -----
    Statistics: ``log_weight`` of the proposal, ``accepted``, ``acceptance_rate``; ``log_ratio`` and
    ``lp`` of the draw. The chain starts at its first trajectory of positive weight, whatever
    ``initvals`` says; the few tuning draws of the default let it forget that one.

    With JAX and ``cores > 1`` chains have processes of their own but compute in threads of the one
    that has compiled, so that none compiles again. The draws are the same in all cases.

    Data changed by ``pm.set_data`` need a new step method, since the plan is made for the old.

    References
    ----------
    Sohl-Dickstein & Culpepper (2012), arXiv 1205.1925; Andrieu, Doucet & Holenstein (2010),
    Particle Markov chain Monte Carlo methods, section 2.4.2, doi
    10.1111/j.1467-9868.2009.00736.x, with the annealed trajectory for the particle filter.

    Examples
    --------
    .. code-block:: python

        import pymc as pm
        import pymc_logz as lz

        with lz.energies.beta_bernoulli().model:
            idata = pm.sample(step=lz.HAIS())
        lz.evidence(idata)["evidence"]["log_z"]
    """

    name = "hais"
    default_blocked = True
    default_tune_steps = 32
    _state_class = HAISState
    shown: ClassVar[dict[str, Any]] = {
        "log_weight": ("Log w", "0.2f"),
        "acceptance_rate": ("Acc", "0.2f"),
    }
    stats_dtypes_shapes: ClassVar[dict[str, Any]] = {
        "log_weight": (np.float64, []),
        "acceptance_rate": (np.float64, []),
        "accepted": (bool, []),
        "log_ratio": (np.float64, []),
        "tune": (bool, []),
        "model_logp": (np.float64, []),
    }

    def __init__(
        self,
        vars: Any = None,
        *,
        betas: str | int | np.ndarray = "adaptive",
        kernel: Kernel | str | None = None,
        pilot_tune: int = 64,
        target_accept: float | None = None,
        reference: str | xr.DataTree | None = None,
        batch_size: int = 256,
        random_seed: Any = 0,
        model: pm.Model | None = None,
        blocked: bool = True,
        rng: Any = None,
        initial_point: Mapping[str, np.ndarray] | None = None,
        compile_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        model = pm.modelcontext(model)
        check_whole_model(vars, model)
        check_whole(2, batch_size=batch_size)
        check_whole(1, pilot_tune=pilot_tune)
        self.vars = model.value_vars
        self.rng = random_generator(rng)
        settings = HaisSettings.asked(
            draws=batch_size,
            betas=betas,
            kernel=kernel_for(kernel, model),
            tune=pilot_tune,
            target_accept=target_accept,
            reference=checked_reference(reference, model),
            target_variance=TARGET_VARIANCE,
        )
        rngs = generators_from(random_seed)
        prepared = prepare(model, rngs.checks, integers=True)
        block = block_for(prepared, settings, compile_kwargs)
        planned = plan_run(prepared, block, settings, rngs.pilot)
        logger.info("HAIS: the pilot chose %d temperatures.", planned.plan.n_temperatures)
        self._names, self._shapes = prepared.flat.value_names, prepared.flat.shapes
        self.source = ProposalSource(
            model,
            planned.block,
            planned.reference,
            planned.plan,
            batch_size=batch_size,
        ).opened()
        self._reset(tune=True)

    def _reset(self, tune: bool) -> None:
        self.tune = tune
        # before the first trajectory the weight is zero, so any positive one is accepted
        self.position: np.ndarray | None = None
        self.log_weight, self.log_ratio, self.log_density = -np.inf, np.nan, np.nan
        self.batch: Proposals | None = None
        self.n_used = 0

    def setup_chain(self, rng: Any, tune: int, draws: int) -> None:
        """Forget the chain before; called by ``pm.sample`` at the start of each chain."""
        super().setup_chain(rng, tune, draws)
        self._reset(tune > 0)

    def step(self, point: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[Any]]:
        """One draw: the end of the proposed trajectory, or the point as it is."""
        self._check_untouched(point)
        batch, row = self._next_row()
        log_weight = float(batch.log_weight[row])
        acceptance_rate = self._acceptance_rate(log_weight)
        accepted = self.rng.random() < acceptance_rate
        if accepted:
            self.position, self.log_weight = batch.position[row], log_weight
            self.log_ratio = float(batch.log_ratio[row])
            self.log_density = float(batch.log_density[row])
        stats = {
            "log_weight": log_weight,
            "acceptance_rate": acceptance_rate,
            "accepted": accepted,
            "log_ratio": self.log_ratio,
            "tune": self.tune,
            "model_logp": self.log_density,
        }
        return {**point, **self._values(point)}, [stats]

    def _acceptance_rate(self, log_weight: float) -> float:
        """Probability of moving to a trajectory of this log weight."""
        if log_weight == -np.inf:
            return 0.0
        return float(np.exp(min(0.0, log_weight - self.log_weight)))

    def _next_row(self) -> tuple[Proposals, int]:
        if self.batch is None or self.n_used == len(self.batch.log_weight):
            seed = self.rng.integers(2**63, size=4).tolist()
            self.batch, self.n_used = self.source.draw(seed), 0
        self.n_used += 1
        return self.batch, self.n_used - 1

    def _values(self, point: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Value variables of the chain's position, as `point` has them."""
        if self.position is None:
            return {}
        return values_of_row(self.position, self._names, self._shapes, point)

    def _check_untouched(self, point: Mapping[str, np.ndarray]) -> None:
        """A weight belongs to a trajectory with its end: nothing else may move that."""
        self.check_untouched(
            self._values(point),
            point,
            "but the weights of HAIS hold only for the ends of its own trajectories; use HAIS "
            "alone",
        )
