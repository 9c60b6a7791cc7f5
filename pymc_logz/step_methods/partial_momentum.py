"""Hamiltonian Monte Carlo with a momentum that persists, as a PyMC step method."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pymc as pm
from pymc.exceptions import SamplingError
from pymc.step_methods.compound import StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.step_methods.step_sizes import StepSizeState

from pymc_logz.arguments import check_below_one, check_integer, check_positive
from pymc_logz.errors import ModelError
from pymc_logz.graphs.gradients import needs_gradients
from pymc_logz.kernels import hamiltonian
from pymc_logz.kernels.hamiltonian import check_refreshment, fraction_replaced, refreshed
from pymc_logz.kernels.tuning import reasonable_step_size
from pymc_logz.models.context import without_labels
from pymc_logz.models.rows import columns_of
from pymc_logz.seeds import random_generator
from pymc_logz.step_methods.base import (
    MAX_ENERGY_ERROR,
    STATS_OF_TRAJECTORIES,
    ChosenStep,
    ScaleAdaptation,
    aim_of,
    checked_scale,
    continuous_vars,
    declared,
    gradient_scale,
    values_of_row,
    window_ends,
)

HALF_LIFE = 2.0 * hamiltonian.HALF_LIFE
"""Twice that of the kernel, as in the paper: means of a chain with diagonal scales forget more
slowly than the log ratio does (docs/theory/decisions.md)."""


class PhasePoint(NamedTuple):
    """Where the step is, with what has been computed there."""

    position: np.ndarray
    """Unconstrained values of the step's variables, shape (d,)."""
    momentum: np.ndarray
    """Whitened: standard normal whatever the scales, shape (d,)."""
    log_density: float
    """Log density of the model, in nats."""
    gradient: np.ndarray
    """Gradient of ``log_density``, shape (d,)."""

    @property
    def energy(self) -> float:
        """Potential plus kinetic energy, in nats."""
        return 0.5 * float(self.momentum @ self.momentum) - self.log_density


@dataclass_state
class PartialMomentumState(StepMethodState):
    """What a chain of `PartialMomentumHMC` carries from draw to draw."""

    tune: bool
    momentum: np.ndarray
    scale_adapt: ScaleAdaptation
    step_adapt: StepSizeState
    window_ends: tuple[int, ...]
    n_draws: int
    n_divergences: int
    n_steps: int = field(metadata={"frozen": True})
    refreshment: float | None = field(metadata={"frozen": True})
    half_life: float = field(metadata={"frozen": True})
    jitter: float = field(metadata={"frozen": True})


class PartialMomentumHMC(ChosenStep):
    """Hamiltonian Monte Carlo whose momentum persists from draw to draw.

    Each draw replaces a part of the momentum by noise, follows ``n_steps`` leapfrog steps, and
    accepts or rejects their end; a rejection turns the momentum round. Momentum that persists keeps
    the direction of travel over many short trajectories, so that one leapfrog step per draw does
    not lead to a random walk, and every point on the way is a draw.

    It can be used wherever ``pm.HamiltonianMC`` can: for all continuous variables, or for some of
    them together with other step methods. While tuning it adapts one length scale per dimension, in
    windows of growing length, and the step size, by dual averaging.

    Parameters
    ----------
    vars
        Continuous variables to move; None takes all of the model.
    n_steps
        Leapfrog steps per draw.
    refreshment
        Fraction of the momentum *variance* that is replaced before a draw, in [0, 1]. None replaces
        half of it per ``half_life``, ``1 - 0.5**(n_steps * step_size / half_life)``; 1 is ordinary
        Hamiltonian Monte Carlo.
    half_life
        Trajectory time, in units of ``scale``, in which half of the momentum variance is replaced
        if ``refreshment`` is None. Longer is better for means in slow directions, shorter for
        variances: 0.5 gains a quarter for variances and loses a quarter to a third for means.
    target_accept
        Acceptance rate that the step size aims at, in (0, 1), by default 0.9. It should be high,
        since a rejection costs the direction of travel.
    step_size
        Leapfrog step size in units of ``scale``. None adapts it.
    scale
        Length scale of each unconstrained dimension: one number, or one for each dimension in the
        model's order of variables. None adapts it.
    jitter
        The step size of each draw varies by up to this fraction of its value, in [0, 1). 0 means no
        variation.
    model
        PyMC model; None takes the one on the context stack.
    blocked
        Whether all variables move together.
    rng
        Random generator; ``pm.sample`` sets its own.
    initial_point
        Point that gives the shapes of the variables.
    compile_kwargs
        Keyword arguments of ``pm.compile`` for the log density and its gradient.

    Raises
    ------
    DiscreteVariableError
        If one of ``vars`` is discrete.
    ModelError
        If the model has no gradient by them.
    ValueError
        If an argument is outside its range.

    See Also
    --------
    pymc_logz.sample_hmc : many chains together, with moves compiled as one block.
    ConstrainedHMC : for models with exact observations.

    Notes
    -----
    Statistics: ``acceptance_rate``, ``accepted`` (0 or 1), ``diverging``, ``energy``,
    ``energy_error`` (of the proposal), ``step_size``, ``step_size_bar``, ``n_steps``, ``lp``. As
    with PyMC's own samplers, ``lp`` is 0 where another step method comes after this one.

    Neighbouring draws lie close together, since a draw costs a fraction of one of NUTS: compare
    effective sample sizes per second, and use ``n_steps`` (2 or 3) to have fewer draws of more
    value. A trajectory ``n_steps * step_size`` near pi or a multiple comes back to where it was, or
    to its mirror image: stay below 2, or use ``jitter``.

    References
    ----------
    Horowitz (1991), A generalized guided Monte Carlo algorithm, doi 10.1016/0370-2693(91)90812-5.
    By half-life: Sohl-Dickstein & Culpepper (2012), section 2.3, arXiv 1205.1925. Scales:
    as in nutpie, from draws and gradients.

    Examples
    --------
    .. code-block:: python

        import pymc as pm, pymc_logz as lz
        with lz.energies.radiata_pine("density").model:  # or beside steps of other variables
            idata = pm.sample(step=lz.PartialMomentumHMC())
    """

    name = "partial_momentum_hmc"
    _state_class = PartialMomentumState
    shown: ClassVar[dict[str, Any]] = {
        "divergences": ("Divergences", "d"),
        "step_size": ("Step size", "0.2f"),
    }
    failing = "divergences"
    stats_dtypes_shapes: ClassVar[dict[str, Any]] = {
        **declared(np.float64, *STATS_OF_TRAJECTORIES),
        **declared(bool, "diverging", "tune"),
        **declared(int, "divergences"),
    }

    def __init__(
        self,
        vars: Any = None,
        *,
        n_steps: int = 1,
        refreshment: float | None = None,
        half_life: float = HALF_LIFE,
        target_accept: float | None = None,
        step_size: float | None = None,
        scale: float | Sequence[float] | None = None,
        jitter: float = 0.0,
        model: pm.Model | None = None,
        blocked: bool = True,
        rng: Any = None,
        initial_point: Mapping[str, np.ndarray] | None = None,
        compile_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        model = pm.modelcontext(model)
        self.vars = continuous_vars(vars, model)
        self.n_steps, self.jitter, self.step_size = n_steps, jitter, step_size
        self.refreshment, self.half_life = refreshment, half_life
        self.target_accept = aim_of(target_accept, step_size, 0.9)
        self.rng = random_generator(rng)
        if initial_point is None:
            initial_point = model.initial_point(0)
        shapes = {var.name: np.shape(initial_point[var.name]) for var in self.vars}
        self._columns, n_dims = columns_of(shapes), sum(map(math.prod, shapes.values()))
        if not n_dims:
            raise ModelError(f"vars have no entries to move: their shapes are {shapes}")
        self.scale = None if scale is None else checked_scale(scale, n_dims)
        check_integer(1, n_steps=n_steps)
        check_refreshment(refreshment, half_life, HALF_LIFE)
        check_positive(step_size=step_size)
        check_below_one(jitter=jitter)
        settings: dict[str, Any] = {"initial_point": initial_point, **(compile_kwargs or {})}
        model = without_labels(model)
        values = [var for var in model.value_vars if var.name in shapes]
        with model, needs_gradients("step=pm.Slice() or step=pm.Metropolis()"):
            # inside the model, so that its check_bounds counts
            self._log_density = model.logp_dlogp_function(values, ravel_inputs=True, **settings)
        self._log_density._pytensor_function.trust_input = True
        self._other_names = tuple(self._log_density._extra_vars_shared)
        self._n_dims = n_dims
        self._pid = os.getpid()
        self._reset(tune=1000)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Unpickle: the function was compiled again, in this process."""
        self.__dict__.update(state)
        self._pid = os.getpid()

    def _reset(self, tune: int) -> None:
        self.tune = tune > 0
        self.window_ends = window_ends(tune)
        self.n_draws = self.n_divergences = 0
        self.momentum = np.zeros(self._n_dims)
        self.scale_adapt = ScaleAdaptation(np.ones(self._n_dims))
        self._set_step_size(0.5 * self._n_dims**-0.25 if self.step_size is None else self.step_size)
        self._cached: PhasePoint | None = None
        self._others: list[np.ndarray] = []

    def setup_chain(self, rng: Any, tune: int, draws: int) -> None:
        """As of all steps; refused in a fork with JAX."""
        linker = type(self._log_density._pytensor_function.maker.linker).__name__
        if linker == "JAXLinker" and os.getpid() != self._pid:
            raise RuntimeError(
                "PartialMomentumHMC was compiled with JAX, which does not survive a fork; pass "
                'cores=1 or mp_ctx="forkserver" to pm.sample'
            )
        super().setup_chain(rng, tune, draws)

    def step(self, point: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[Any]]:
        """One draw: the point with this step's variables moved, and its statistics."""
        # log densities of -inf and what comes of them are expected on the way
        with np.errstate(all="ignore"):
            start = self._start(point)
            was_tuning = self.tune
            step_size = float(self.step_adapt.current(self.tune and self.step_size is None))
            end, stats = self._transition(start, step_size)
            if self.tune:
                self._adapt(end, stats["mean_tree_accept"])
        self._cached, self.momentum = end, end.momentum
        self.n_draws += 1
        bar = float(self.step_adapt.current(tune=False))
        stats |= {"step_size": step_size, "step_size_bar": bar, "tune": was_tuning}
        moved = values_of_row(end.position, self._columns, point)
        return {**point, **moved}, [stats]

    def _transition(self, start: PhasePoint, step_size: float) -> tuple[PhasePoint, dict[str, Any]]:
        """Refresh, integrate, accept or turn round."""
        share = self.refreshment
        if share is None:
            share = fraction_replaced(self.n_steps * step_size, self.half_life)
        noise = self.rng.standard_normal(self._n_dims)
        start = start._replace(momentum=refreshed(start.momentum, noise, share, np.sqrt))
        if self.jitter:
            step_size *= 1.0 + self.jitter * self.rng.uniform(-1.0, 1.0)
        proposal = self._leapfrog(start, step_size, self.n_steps)
        energy_error = proposal.energy - start.energy
        if np.isnan(energy_error):
            energy_error = np.inf
        acceptance_rate = float(np.exp(min(0.0, -energy_error)))
        diverging = bool(energy_error > MAX_ENERGY_ERROR)
        self.n_divergences += diverging and not self.tune
        accepted = self.rng.random() < acceptance_rate
        end = proposal if accepted else self._rejected(start)
        return end, {
            "mean_tree_accept": acceptance_rate,
            "accepted": float(accepted),
            "diverging": diverging,
            "divergences": self.n_divergences,
            "energy": end.energy,
            "energy_error": energy_error,
            "tree_size": float(self.n_steps),
            "model_logp": end.log_density,
        }

    @staticmethod
    def _rejected(start: PhasePoint) -> PhasePoint:
        """Stay and turn round: without it the momentum would not keep its distribution."""
        return start._replace(momentum=-start.momentum)

    def _leapfrog(self, start: PhasePoint, step_size: float, n_steps: int) -> PhasePoint:
        """Kick, drift, kick, ``n_steps`` times; stops where the density is zero."""
        scale = self.scale_adapt.scale if self.scale is None else self.scale
        step, point = step_size * scale, start
        for _ in range(n_steps):
            momentum = point.momentum + 0.5 * step * point.gradient
            position = point.position + step * momentum
            log_density, gradient = self._evaluate(position)
            momentum = momentum + 0.5 * step * gradient
            point = PhasePoint(position, momentum, log_density, gradient)
            if not point.log_density > -np.inf:
                break
        return point

    def _evaluate(self, position: np.ndarray) -> tuple[float, np.ndarray]:
        """Log density, NaN read as -inf, and its gradient."""
        raveled = position.astype(self._log_density.dtype)
        try:
            log_density, gradient = self._log_density._pytensor_function(raveled)
        except (np.linalg.LinAlgError, ValueError, FloatingPointError):
            return -np.inf, np.zeros_like(position)
        log_density = float(log_density)
        return -np.inf if np.isnan(log_density) else log_density, np.asarray(gradient, dtype=float)

    def _start(self, point: Mapping[str, np.ndarray]) -> PhasePoint:
        """Where the chain is, evaluated again only if another step method moved something."""
        position = np.concatenate([np.ravel(point[name]) for name in self._columns])
        others = [point[name] for name in self._other_names]
        if self._cached is not None and self._is_cached(self._cached, position, others):
            return self._cached._replace(momentum=self.momentum)
        # copies, since a worker process writes the next point into the same memory
        self._others = [np.array(value) for value in others]
        if self._other_names:
            self._log_density.set_extra_values(
                dict(zip(self._other_names, self._others, strict=True))
            )
        log_density, gradient = self._evaluate(position)
        if not np.isfinite(log_density):
            raise SamplingError(
                f"the log density of the model is {log_density} where PartialMomentumHMC starts; "
                "check the initial point with model.debug()"
            )
        start = PhasePoint(position.astype(float), self.momentum, log_density, gradient)
        if self.n_draws == 0:  # momentum, scales and step size to begin a chain with
            self.scale_adapt = ScaleAdaptation(gradient_scale(start.gradient))
            start = start._replace(momentum=self.rng.standard_normal(self._n_dims))
            self._find_step_size(start)
        return start

    def _is_cached(
        self, cached: PhasePoint, position: np.ndarray, others: list[np.ndarray]
    ) -> bool:
        same = np.array_equal(position, cached.position.astype(position.dtype))
        return same and all(map(np.array_equal, others, self._others))

    def _find_step_size(self, start: PhasePoint) -> None:
        if self.step_size is not None:
            return

        def acceptance_rate(step_size: float) -> float:
            end = self._leapfrog(start, step_size, 1)
            error = end.energy - start.energy
            return 0.0 if np.isnan(error) else float(np.exp(min(0.0, -error)))

        guess = float(self.step_adapt.current(tune=False))
        self._set_step_size(reasonable_step_size(acceptance_rate, guess))

    def _adapt(self, end: PhasePoint, acceptance_rate: float) -> None:
        if self.step_size is None:
            self.step_adapt.update(acceptance_rate, tune=True)
        if self.scale is not None:
            return
        self.scale_adapt = self.scale_adapt.added(end.position, end.gradient)
        if self.n_draws + 1 in self.window_ends:
            self.scale_adapt = self.scale_adapt.finished()
            self._find_step_size(end)
