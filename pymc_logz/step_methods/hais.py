"""Annealed rows as proposals of an exact Markov chain: HAIS as a PyMC step method."""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pymc as pm
import xarray as xr

from pymc_logz.arguments import check_integer, settings_among
from pymc_logz.errors import logger
from pymc_logz.hais.settings import VARIANCES, HaisSettings
from pymc_logz.kernels.base import Kernel
from pymc_logz.loop.calls import begun
from pymc_logz.loop.frozen import Planned
from pymc_logz.loop.planning import plan_run
from pymc_logz.runners.anneal import anneal
from pymc_logz.runners.moves import kernel_for
from pymc_logz.step_methods.base import BatchedStep, declared
from pymc_logz.step_methods.sources import BlockSource
from pymc_logz.trees.posterior import checked_reference


class Proposals(NamedTuple):
    """n annealed rows."""

    position: np.ndarray
    """Unconstrained end points, shape (n, d)."""
    log_weight: np.ndarray
    """Shape (n,)."""
    log_ratio: np.ndarray
    """Log target minus log reference at the end points, shape (n,)."""
    log_density: np.ndarray
    """Log density of the model at the end points, shape (n,)."""


class ProposalSource(BlockSource):
    """Batches of annealed rows along a frozen plan; each is independent of all others."""

    def __init__(self, model: pm.Model, planned: Planned, batch_size: int) -> None:
        super().__init__(model, planned)
        self.plan, self.batch_size = planned.plan, batch_size

    def batch(self, carried: None, rng: np.random.Generator) -> tuple[None, Proposals]:
        """One batch of rows; none goes on with another one."""
        block = self.block
        run = anneal(block, self.plan, block.path.sample_reference(rng, self.batch_size), rng)
        log_density = run.log_reference + run.log_ratio
        return None, Proposals(
            self.reference.restored(run.position),
            run.log_weight,
            run.log_ratio,
            log_density - self.reference.log_volume(run.position),
        )


class HAIS(BatchedStep):
    """Hamiltonian annealed importance sampling inside ``pm.sample``.

    Each draw proposes the end of a trajectory that was annealed from a fresh draw of the prior, and
    accepts it with probability min(1, w' / w), where w is the importance weight of a trajectory:
    particle independent Metropolis-Hastings. The posterior is the chain's exact stationary
    distribution, modes that lie far apart included. The log weight of *every* proposal, accepted or
    not, is kept, and ``pymc_logz.evidence`` makes log Z from them.

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
    pymc_logz.sample_hais : the same particles without a chain, faster, and with more options.
    SimulatedTempering : for models where no single trajectory gets from the prior to the posterior.
    pymc_logz.evidence : log Z from the weights of a chain.

    Notes
    -----
    Statistics: ``log_weight`` of the proposal, ``accepted`` (0 or 1), ``acceptance_rate``;
    ``log_ratio`` and ``lp`` of the draw. The chain starts at its first trajectory of positive
    weight, whatever ``initvals`` says; the few tuning draws of the default let it forget that one.

    With JAX and ``cores > 1`` chains have processes of their own but compute in threads of the one
    that has compiled, so that none compiles again. The draws are the same in all cases.

    Data changed by ``pm.set_data`` need a new step method, since the plan is made for the old: this
    one raises a ValueError.

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
    default_tune_steps = 32
    alone = "but the weights of HAIS hold only for the ends of its own trajectories; use HAIS alone"
    shown: ClassVar[dict[str, Any]] = {
        "log_weight": ("Log w", "0.2f"),
        "acceptance_rate": ("Acc", "0.2f"),
    }
    stats_dtypes_shapes: ClassVar[dict[str, Any]] = {
        **declared(
            np.float64, "log_weight", "acceptance_rate", "log_ratio", "model_logp", "accepted"
        ),
        **declared(bool, "tune"),
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
        model = self._take(vars, pm.modelcontext(model), rng)
        check_integer(2, batch_size=batch_size)
        check_integer(1, pilot_tune=pilot_tune)
        kernel, reference = kernel_for(kernel, model), checked_reference(reference, model)
        own = {"draws": batch_size, "tune": pilot_tune, "target_variance": VARIANCES[0]}
        settings = HaisSettings.from_arguments(**settings_among(locals(), HaisSettings), **own)
        with begun(settings, random_seed, False, compile_kwargs) as call:
            planned = plan_run(*self._prepare(model, call), settings, call.rngs.pilot)
        logger.info("HAIS: the pilot chose %d temperatures.", planned.plan.n_temperatures)
        self.source = ProposalSource(model, planned, batch_size).opened()
        self._reset(self.default_tune_steps)

    def _next(self, point: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Propose the end of the next trajectory, and go there or stay."""
        proposed = self._next_row()
        log_weight = float(proposed.log_weight)
        acceptance_rate = self._acceptance_rate(log_weight)
        accepted = self.rng.random() < acceptance_rate
        if accepted:
            self.held = proposed
        return {
            "log_weight": log_weight,
            "acceptance_rate": acceptance_rate,
            "accepted": float(accepted),
            "log_ratio": np.nan if self.held is None else float(self.held.log_ratio),
            "model_logp": np.nan if self.held is None else float(self.held.log_density),
        }

    def _acceptance_rate(self, log_weight: float) -> float:
        """Probability of moving to a trajectory of this log weight."""
        if log_weight == -np.inf:
            return 0.0
        # before the first trajectory the weight is zero, so any positive one is accepted
        present = -np.inf if self.held is None else float(self.held.log_weight)
        return float(np.exp(min(0.0, log_weight - present)))
