"""Constrained Hamiltonian Monte Carlo as a PyMC step method."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar

import numpy as np
import pymc as pm
from pymc.step_methods.compound import StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.step_methods.step_sizes import StepSizeState

from pymc_logz.arguments import check_below_one, check_integer, check_positive
from pymc_logz.kernels.tuning import reasonable_step_size
from pymc_logz.manifold import rattle
from pymc_logz.manifold.missed_modes import find_start
from pymc_logz.manifold.model import (
    MAX_TRANSITIONS,
    ConstrainedModel,
    make_constrained_model,
    one_blas_thread,
)
from pymc_logz.manifold.rattle import ManifoldState, TransitionInput, TransitionRecord
from pymc_logz.models.rows import joined, starting_point
from pymc_logz.step_methods.base import (
    MAX_ENERGY_ERROR,
    STATS_OF_TRAJECTORIES,
    WholeModelStep,
    aim_of,
    checked_scale,
    declared,
)
from pymc_logz.step_methods.sources import Source

FAILURES = {
    "not_converged": rattle.NOT_CONVERGED,
    "not_reversible": rattle.NOT_REVERSIBLE,
    "not_finite": rattle.NOT_FINITE,
}


class ConstrainedSource(Source):
    """Answers messages by points of a level set and transitions on it."""

    _last: tuple[np.ndarray, ManifoldState] | None = None

    def __init__(self, model: ConstrainedModel) -> None:
        super().__init__()
        self.model = model
        # what a process needs that asks another one: nothing that is compiled
        self._on_jax = model.backend.name == "jax"

    def uses_jax(self) -> bool:
        """Whether the moves are compiled by JAX."""
        return self._on_jax

    def answer(self, message: tuple[str, Any, Any]) -> Any:
        """What a method of this name, ``start`` or ``move``, makes of its two arguments."""
        name, *given = message
        with one_blas_thread():
            return getattr(self, name)(*given)

    def start(self, point: Mapping[str, np.ndarray], seed: Sequence[int]) -> np.ndarray:
        """The given point if it is on the level set, else one from prior draws."""
        model = self.model
        position = joined(point, model.model.value_vars, "float64") / model.scale
        with np.errstate(all="ignore"):
            residual = model.residual_at(position)
            if residual <= 1.0:
                return position
            # nearby, such as a point that was on the set before digits were cut off
            if residual <= 1e4:
                near, residual = model.polish(position)
                if residual <= 1.0:
                    return np.asarray(near)
        return find_start(model, np.random.default_rng(seed))

    def move(
        self, position: np.ndarray, given: Sequence[TransitionInput]
    ) -> list[TransitionRecord]:
        """Transitions from a position, one after the other."""
        # the state at the position is kept from the transitions before, as a rule
        if self._last is None or not np.array_equal(self._last[0], position):
            self._last = (position, self.model.state_at(position))
        state, records = self.model.transitions(self._last[1], given)
        self._last = (records[-1].position, state)
        return records


@dataclass_state
class ConstrainedHMCState(StepMethodState):
    """What a chain of `ConstrainedHMC` carries from draw to draw."""

    tune: bool
    position: np.ndarray | None
    step_adapt: StepSizeState
    n_failures: int
    waiting: tuple[TransitionRecord, ...]  # of transitions made ahead of the draw
    path_length: float = field(metadata={"frozen": True})
    max_steps: int = field(metadata={"frozen": True})
    jitter: float = field(metadata={"frozen": True})


class ConstrainedHMC(WholeModelStep):
    """Hamiltonian Monte Carlo on the inputs that give exactly what was observed.

    For models with `ExactObservation`: it moves all free variables of the model along the set of
    values for which each output equals what was observed, and leaves the posterior, prior times
    likelihood given that, invariant. Each draw has a fresh momentum and follows a trajectory of
    random length; each step of it is projected back onto the set, and a trajectory whose steps
    cannot be undone is rejected.

    Parameters
    ----------
    vars
        None, or all free variables of the model.
    path_length
        Mean length of a trajectory, in units of the inputs' scales. That of each draw is uniform
        from half to one and a half times as much, since a fixed one may be half a period of some
        direction, which then never mixes.
    n_inner
        Geodesic sub-steps per step: more let the projections succeed at larger steps, where the set
        is strongly curved.
    target_accept
        Acceptance rate that the step size aims at, in (0, 1), by default 0.8; a projection that
        fails, or needs the fallback, counts as zero.
    step_size
        None adapts it.
    jitter
        The step size of each draw varies by up to this fraction of its value, in [0, 1).
    max_steps
        Steps of a trajectory at most.
    scale
        Length scales of the unconstrained inputs, one number or one each, which act as the mass
        matrix. None takes the spread of the prior.
    tolerance
        Largest distance to the set that is treated as zero, in units of the scales.
    use_structure
        Whether to look for inputs that affect only one output each, as noise does; the cost is then
        linear in their number.
    random_seed
        Seed for a first point of the set, which is found when the step method is made. The chains
        have the seeds that ``pm.sample`` gives them, and start at different points.
    model, blocked, rng, initial_point, compile_kwargs
        As in `HAIS`; JAX is by far the fastest.

    Raises
    ------
    ModelError
        If the model has no exact observation, as many outputs as inputs, an output without a
        gradient, outputs that are functions of each other; if the simulator is not finite at any
        prior draw; or if no inputs give what was observed, with those outputs that could not be
        matched.
    DiscreteVariableError
        If a free variable is discrete.
    ValueError
        If an argument is outside its range.

    See Also
    --------
    ExactObservation : how a model says that an output is observed exactly.
    pymc_logz.bridge_sampling : log Z of such a model, from the draws.
    likelihood_form : the same model with a likelihood, where its noise is simple enough.
    abc_mcmc, abc_slice : chains that accept outputs within a distance.

    Notes
    -----
    Chains start at points found from prior draws by a damped Gauss-Newton search, unless the
    ``initvals`` of ``pm.sample`` lie on the set: each finds four, moves them by 32 transitions of
    four steps, and takes one, in proportion to the density at their end points. The set must be
    connected to be explored fully: compare chains.

    Statistics: ``acceptance_rate``, ``accepted`` (0 or 1), ``energy``, ``energy_error`` (of the
    proposal), ``diverging``, ``not_converged``, ``not_reversible`` and ``not_finite`` (why a
    trajectory was given up), ``n_iterations`` (of the quasi-Newton search, per projection),
    ``n_newton`` (iterations of the fallback), ``residual`` (largest constraint in units of its
    tolerance), ``step_size``, ``step_size_bar``, ``n_steps``, and ``lp``, the log density of the
    inputs: their prior, and the likelihood of what is not observed exactly.

    With JAX and ``cores > 1`` chains have processes of their own but compute in threads of the one
    that has compiled, so that none compiles again. The draws are the same in all cases.

    Data changed by ``pm.set_data`` need a new step method: this one raises a ValueError.

    References
    ----------
    Graham & Storkey (2017), Asymptotically exact inference in differentiable generative models,
    algorithm 1, arXiv 1605.07826.

    Examples
    --------
    .. code-block:: python

        import pymc as pm
        import pymc_logz as lz

        with pm.Model() as simulator:
            v, n = pm.Normal("v"), pm.Normal("n")
            lz.ExactObservation("y", v**2 + 0.5 * n, observed=2.0)
            idata = pm.sample(step=lz.ConstrainedHMC())
    """

    name = "constrained_hmc"
    default_tune_steps = 500
    _state_class = ConstrainedHMCState
    alone = "which leaves the exact observations unmet; use ConstrainedHMC alone"
    shown: ClassVar[dict[str, Any]] = {
        "failures": ("Failures", "d"),
        "step_size": ("Step size", "0.2f"),
        "tree_size": ("Steps", "0.0f"),
    }
    failing = "failures"
    stats_dtypes_shapes: ClassVar[dict[str, Any]] = {
        **declared(np.float64, *STATS_OF_TRAJECTORIES, "n_iterations", "residual"),
        **declared(np.int64, "n_newton", "failures"),
        **declared(bool, "diverging", "tune", *FAILURES),
    }

    def __init__(
        self,
        vars: Any = None,
        *,
        path_length: float = 1.5,
        n_inner: int = 1,
        target_accept: float | None = None,
        step_size: float | None = None,
        jitter: float = 0.1,
        max_steps: int = 100,
        scale: float | Sequence[float] | None = None,
        tolerance: float = 1e-9,
        use_structure: bool = True,
        random_seed: Any = 0,
        model: pm.Model | None = None,
        blocked: bool = True,
        rng: Any = None,
        initial_point: Mapping[str, np.ndarray] | None = None,
        compile_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        model = pm.modelcontext(model)
        self._take(vars, model, rng)
        check_integer(1, n_inner=n_inner, max_steps=max_steps)
        check_below_one(jitter=jitter)
        check_positive(step_size=step_size, path_length=path_length, tolerance=tolerance)
        self.path_length, self.max_steps, self.jitter = path_length, max_steps, jitter
        self.step_size, self.n_inner = step_size, n_inner
        self.target_accept = aim_of(target_accept, step_size, 0.8)
        self._n_dims = sum(int(np.prod(value.shape)) for value in starting_point(model).values())
        constrained = make_constrained_model(
            model,
            rattle.ConstrainedHamiltonian(n_inner=n_inner),
            distance=tolerance,
            scale=None if scale is None else tuple(checked_scale(scale, self._n_dims)),
            use_structure=use_structure,
            random_seed=random_seed,
            compile_kwargs=compile_kwargs,
        )
        self._scale = constrained.scale
        self._columns = constrained.generator.flat.columns_by_name
        self.source: ConstrainedSource = ConstrainedSource(constrained).opened()
        self._reset(self.default_tune_steps)

    def _reset(self, tune: int) -> None:
        self.tune = tune > 0
        self.position: np.ndarray | None = None
        self.waiting: tuple[TransitionRecord, ...] = ()
        self.n_failures = 0
        self._set_step_size(0.25 if self.step_size is None else self.step_size)

    def _next(self, point: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """The end of a trajectory, or the point where it began."""
        if self.position is None:
            self.position = self._start(point)
        adapts = self.tune and self.step_size is None
        step_size = float(self.step_adapt.current(tune=adapts))
        if not self.waiting:
            # only a call of JAX is dear enough to make several transitions of it
            ahead = not adapts and self.source.uses_jax()
            given = [self._input(step_size) for _ in range(MAX_TRANSITIONS if ahead else 1)]
            self.waiting = tuple(self.source.ask(("move", self.position, given)))
        record, *rest = self.waiting
        self.position, self.waiting = record.position, tuple(rest)
        if adapts:
            # a trajectory that needed the fallback is too dear to aim at: it counts as a failed one
            self.step_adapt.update(record.clean_acceptance_rate, tune=True)
        bar = float(self.step_adapt.current(tune=False))
        return {**self._stats(record), "step_size": step_size, "step_size_bar": bar}

    def _row(self) -> np.ndarray | None:
        return None if self.position is None else self._scale * self.position

    def _start(self, point: Mapping[str, np.ndarray]) -> np.ndarray:
        """A position to start from, once there is a first step size too."""
        seed = self.rng.integers(2**63, size=4).tolist()
        # copies, since a worker process writes the next point into the same memory
        point = {name: np.array(value) for name, value in point.items()}
        position: np.ndarray = self.source.ask(("start", point, seed))
        if self.step_size is None and self.tune:

            def acceptance_rate(step_size: float) -> float:
                # log of a uniform number above 1: tried, not taken
                noise = self.rng.standard_normal(self._n_dims)
                tried = TransitionInput(noise, np.inf, step_size, 1)
                [record] = self.source.ask(("move", position, [tried]))
                return record.clean_acceptance_rate

            self._set_step_size(min(reasonable_step_size(acceptance_rate, 0.25), 1.0))
        return position

    def _input(self, step_size: float) -> TransitionInput:
        """What decides a trajectory: its length, step size and noise, drawn in this order."""
        path_length = self.path_length * self.rng.uniform(0.5, 1.5)
        n_steps = int(np.clip(round(path_length / step_size), 1, self.max_steps))
        jittered = step_size * (1.0 + self.jitter * self.rng.uniform(-1.0, 1.0))
        noise = self.rng.standard_normal(self._n_dims)
        return TransitionInput(noise, np.log(self.rng.random()), jittered, n_steps)

    def _stats(self, record: TransitionRecord) -> dict[str, Any]:
        failed = {name: bool(record.status == code) for name, code in FAILURES.items()}
        self.n_failures += any(failed.values()) and not self.tune
        n_projections = 2 * self.n_inner * max(int(record.n_steps), 1)
        return {
            "mean_tree_accept": float(record.acceptance_rate),
            "accepted": float(record.accepted),
            "diverging": bool(record.energy_error > MAX_ENERGY_ERROR and not any(failed.values())),
            "energy": float(record.energy),
            "energy_error": float(record.energy_error),
            "tree_size": float(record.n_steps),
            "n_iterations": int(record.n_iterations) / n_projections,
            "n_newton": int(record.n_newton),
            "residual": float(record.residual),
            "failures": self.n_failures,
            "model_logp": float(record.log_rho),
            **failed,
        }
