"""A random walk with normal jumps, as a PyMC step method."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar

import numpy as np
import pymc as pm
from pymc.step_methods.compound import StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.util import get_random_generator

from pymc_logz.arguments import check_positive, check_probability
from pymc_logz.step_methods.base import ChosenStep, continuous_vars

DECAY = 0.6
"""Power by which adaptation fades, between 1/2 and 1: Andrieu & Thoms (2008), algorithm 4."""


@dataclass_state
class GaussianWalkState(StepMethodState):
    """What a chain of `GaussianWalk` carries from draw to draw."""

    tune: bool
    scale: float
    n_tuned: int
    first_scale: float = field(metadata={"frozen": True})
    target_accept: float = field(metadata={"frozen": True})


class GaussianWalk(ChosenStep):
    """Metropolis with a normal proposal whose one scale is adapted while tuning.

    Parameters
    ----------
    vars
        Continuous variables to move; None takes all of the model.
    scale
        Standard deviation of a jump in each unconstrained dimension, where tuning begins.
    target_accept
        Acceptance rate that tuning aims at, in (0, 1).
    model
        PyMC model; None takes the one on the context stack.
    blocked
        Whether all variables move together.
    rng
        Random generator; ``pm.sample`` sets its own.
    initial_point
        Not used.
    compile_kwargs
        Keyword arguments of ``pm.compile`` for the log density.

    Raises
    ------
    DiscreteVariableError
        If one of ``vars`` is discrete.
    ValueError
        If an argument is outside its range.

    Notes
    -----
    Statistics: ``acceptance_rate``, ``accepted`` (0 or 1), ``scale``, ``lp``.

    References
    ----------
    Andrieu & Thoms (2008), A tutorial on adaptive MCMC, doi 10.1007/s11222-008-9110-y,
    algorithm 4.

    Examples
    --------
    .. code-block:: python

        from pymc_logz.step_methods.gaussian_walk import GaussianWalk

        with model:
            idata = pm.sample(step=GaussianWalk())
    """

    name = "gaussian_walk"
    default_blocked = True
    _state_class = GaussianWalkState
    shown: ClassVar[dict[str, Any]] = {"scale": ("Scale", "0.2f")}
    # as other step methods have them: PyMC refuses one name with two types, and calls
    # mean_tree_accept acceptance_rate and model_logp lp in the tree
    stats_dtypes_shapes: ClassVar[dict[str, Any]] = {
        "mean_tree_accept": (np.float64, []),
        "accepted": (np.float64, []),
        "scale": (np.float64, []),
        "tune": (bool, []),
        "model_logp": (np.float64, []),
    }

    def __init__(
        self,
        vars: Any = None,
        *,
        scale: float = 1.0,
        target_accept: float = 0.3,
        model: pm.Model | None = None,
        blocked: bool = True,
        rng: Any = None,
        initial_point: Mapping[str, np.ndarray] | None = None,
        compile_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        check_positive(scale=scale)
        check_probability(target_accept=target_accept)
        model = pm.modelcontext(model)
        self.vars = continuous_vars(vars, model)
        self.first_scale, self.target_accept = float(scale), float(target_accept)
        self.rng = get_random_generator(rng)
        # takes points by name, so that no order of variables can go wrong
        self._log_density = model.compile_logp(**(compile_kwargs or {}))
        self._reset(tune=True)

    def _reset(self, tune: bool) -> None:
        self.tune, self.scale, self.n_tuned = tune, self.first_scale, 0

    def setup_chain(self, rng: Any, tune: int, draws: int) -> None:
        """Forget the chain before; called by ``pm.sample`` at the start of each chain."""
        super().setup_chain(rng, tune, draws)
        self._reset(tune > 0)

    def step(self, point: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[Any]]:
        """One draw: the proposed point, or the same one again, and its statistics."""
        was_tuning, scale = self.tune, self.scale
        proposal = dict(point)  # keeps the order of keys, by which PyMC records values
        for var in self.vars:
            value = point[var.name]
            jump = scale * self.rng.standard_normal(value.shape)
            proposal[var.name] = np.asarray(value + jump, dtype=value.dtype)
        # evaluated anew, since another step method may have moved the rest
        here, there = self._evaluate(point), self._evaluate(proposal)
        acceptance_rate = self._acceptance_rate(here, there)
        accepted = self.rng.random() < acceptance_rate
        if self.tune:
            self._adapt(acceptance_rate)
        return proposal if accepted else dict(point), [
            {
                "mean_tree_accept": acceptance_rate,
                "accepted": float(accepted),
                "scale": scale,
                "tune": was_tuning,
                "model_logp": there if accepted else here,
            }
        ]

    def _evaluate(self, point: Mapping[str, np.ndarray]) -> float:
        """Log density of the unconstrained variables, NaN read as -inf."""
        with np.errstate(all="ignore"):
            log_density = float(self._log_density(point))
        return -np.inf if np.isnan(log_density) else log_density

    def _acceptance_rate(self, here: float, there: float) -> float:
        return 0.0 if there == -np.inf else float(np.exp(min(0.0, there - here)))

    def _adapt(self, acceptance_rate: float) -> None:
        """Longer jumps if too many are accepted, by less and less."""
        self.n_tuned += 1
        gain = self.n_tuned**-DECAY
        self.scale *= float(np.exp(gain * (acceptance_rate - self.target_accept)))
