"""A model with exact observations, ready to be sampled: scales, structure, compiled functions."""

from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
from threadpoolctl import (  # type: ignore[import-untyped]  # PyMC's own dependency
    ThreadpoolController,
)

from pymc_logz.errors import ModelError
from pymc_logz.manifold.algebra import NUMPY
from pymc_logz.manifold.generator import Generator, make_generator
from pymc_logz.manifold.kernel import ConstrainedHamiltonian, ManifoldState, TransitionInfo
from pymc_logz.manifold.projection import System, project_position
from pymc_logz.manifold.starting_points import Found, Search, find_point
from pymc_logz.manifold.structure import Structure, find_structure, is_analytic
from pymc_logz.manifold.system import Backend, SymbolicSystem, choose_backend
from pymc_logz.models.prior import PriorDraws

N_PRIOR = 256
N_JACOBIANS = 4
N_TRIES = 100
N_CANDIDATES = 4
MAX_TRANSITIONS = 16
"""In one call, since a call of a function of JAX costs as much as several steps."""
SETTLING = (0.2, 4)
"""Step size and number of steps before candidates for a start are compared."""
QUARTILE_WIDTH = 1.349


@cache
def _threads() -> ThreadpoolController:
    return ThreadpoolController()


def one_blas_thread() -> Any:
    """Context in which BLAS does not start threads, which cost more than these small matrices."""
    return _threads().limit(limits=1, user_api="blas")


class Record(NamedTuple):
    """What is known after a transition; see `ConstrainedModel.transitions`."""

    position: np.ndarray
    """Inputs in units of their scales, shape (d,)."""
    log_density: float
    info: TransitionInfo

    @classmethod
    def of(cls, row: np.ndarray) -> "Record":
        """From a row of numbers."""
        n = len(TransitionInfo._fields)
        return cls(np.array(row[: -n - 1]), float(row[-n - 1]), TransitionInfo(*row[-n:].tolist()))


def transition_row(
    noise: np.ndarray, log_uniform: float, step_size: float, n_steps: int
) -> np.ndarray:
    """What decides a transition, as a row of `ConstrainedModel.transitions`, shape (d + 3,)."""
    return np.concatenate([noise, [log_uniform, step_size, n_steps]])


class ConstrainedModel:
    """Compiled moves on the level set of a model's exact observations.

    Inputs are in units of their scales, the spread of the prior in the unconstrained space. It
    pickles as the model and the settings, and compiles again where it arrives.

    Parameters
    ----------
    model
        Model with exact observations.
    kernel
        Settings of the moves.
    tolerance
        Distance to the level set that counts as none, in units of the scales.
    scale
        Length scales of the unconstrained inputs, shape (d,); None takes the prior's.
    use_structure
        Whether to look for inputs that reach one constraint each.
    random_seed
        Seed of the prior draws that scales, structure and tolerances are read off.
    compile_kwargs
        Keyword arguments of ``pytensor.function``.

    Raises
    ------
    ModelError
        If no inputs give what was observed, or the Jacobian has not full rank.
    """

    def __init__(
        self,
        model: pm.Model,
        kernel: ConstrainedHamiltonian,
        *,
        tolerance: float = 1e-9,
        scale: np.ndarray | None = None,
        use_structure: bool = True,
        random_seed: Any = 0,
        compile_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self.model, self.kernel, self.compile_kwargs = model, kernel, compile_kwargs
        self.distance = tolerance
        rng = np.random.default_rng(random_seed)
        rows = self.prior(rng, N_PRIOR)
        self.scale = _spread(rows) if scale is None else scale
        self.structure = self._find_structure(rows) if use_structure else None
        self.tolerance = np.ones(self.generator.n_outputs)
        self.first = self.search(rng).position
        self.tolerance = self._tolerances_at(self.first)
        # compiled for the placeholder above
        self.__dict__.pop("system")

    def __getstate__(self) -> dict[str, Any]:
        """Without what is compiled."""
        kept = ("model", "kernel", "compile_kwargs", "distance", "scale", "structure")
        return {name: self.__dict__[name] for name in (*kept, "tolerance", "first")}

    @cached_property
    def generator(self) -> Generator:
        """Symbolic form."""
        return make_generator(self.model)

    @cached_property
    def prior(self) -> PriorDraws:
        """Draws of the prior as unconstrained rows."""
        self.generator  # noqa: B018  # checks the model before it is drawn from
        return PriorDraws(self.model)

    @cached_property
    def backend(self) -> Backend:
        """What functions are compiled with."""
        generator = self.generator
        symbolic = SymbolicSystem(generator.flat.point, generator.residual, generator.log_density)
        return choose_backend(symbolic, self.compile_kwargs, np.zeros(generator.n_dims))

    @cached_property
    def system(self) -> System:
        """Density and constraints."""
        return self.backend.system(self.scale, self.tolerance, self.structure)

    @cached_property
    def _dense_jacobian(self) -> Any:
        """Jacobian (m, d) by inputs as they are."""
        generator = self.generator
        ones = np.ones(generator.n_dims)
        system = self.backend.system(ones, np.ones(generator.n_outputs), None)
        return self.backend.compile(system.jacobian)

    def _structure_holds(self, position: np.ndarray) -> bool:
        """Whether no entry of the Jacobian is left out at a position."""
        if self.structure is None:
            return True
        dense = self.scale * np.asarray(self._dense_jacobian(self.scale * position))
        search = self._searching
        norms = search.algebra.row_norms(np.asarray(search.jacobian(position)))
        return bool(np.allclose(norms, np.sqrt((dense**2).sum(axis=1)), rtol=1e-8))

    def _find_structure(self, rows: np.ndarray) -> Structure | None:
        generator = self.generator
        jacobians = [np.asarray(self._dense_jacobian(row)) for row in rows[: 8 * N_JACOBIANS]]
        finite = [value for value in jacobians if np.all(np.isfinite(value))][:N_JACOBIANS]
        if not finite:
            return None
        analytic = is_analytic([generator.flat.point], [generator.residual])
        return find_structure(
            np.stack(finite), generator.noise, generator.labels, analytic=analytic
        )

    @cached_property
    def _searching(self) -> Search:
        system = self.system
        twin = type(system.algebra)(
            **{**_fields(system.algebra), "arrays": NUMPY}  # the search runs in NumPy
        )
        return Search(
            self.backend.compile(system.constraint),
            self.backend.compile(system.jacobian),
            twin,
            self.generator.observed,
            self.distance,
        )

    def search(self, rng: np.random.Generator) -> Found:
        """A point of the level set, by way of the first prior draws that lead to one."""

        def usable(found: Found) -> bool:
            state = self.state_at(found.position)
            return bool(np.isfinite(state.log_density) and np.all(np.isfinite(state.gradient)))

        return find_point(
            self._searching,
            lambda n: self.prior(rng, n) / self.scale,
            self.generator.labels,
            usable=usable,
            n_tries=N_TRIES,
        )

    def _tolerances_at(self, position: np.ndarray) -> np.ndarray:
        search = self._searching
        return search.tolerances(search.algebra.row_norms(np.asarray(search.jacobian(position))))

    def find_start(self, rng: np.random.Generator) -> np.ndarray:
        """A point of the level set, shape (d,), by way of fresh prior draws.

        A search may end in a corner, or in a mode of hardly any mass, that a chain takes long to
        leave or never leaves. So a few points are found, each goes some transitions on, and one is
        drawn in proportion to the density that they came to: modes of like density each have their
        chance.
        """
        candidates: list[tuple[float, np.ndarray]] = []
        for _ in range(N_TRIES):
            try:
                position, residual = self.polish(self.search(rng).position)
            except ModelError:
                if candidates:
                    break
                raise
            if not self._structure_holds(position):
                raise ModelError(
                    "an input taken for noise of one output reaches others where they are matched; "
                    "pass use_structure=False, and leave out noise= if it was declared"
                )
            if residual <= 1.0:
                candidates.append(self.settled(position, rng))
            if len(candidates) == N_CANDIDATES:
                break
        if not candidates:
            raise ModelError(
                "the points found where the exact observations are met could not be brought to "
                "the tolerance; raise tolerance="
            )
        # the largest of log densities with Gumbel noise is a draw in proportion to the densities
        heights = [log_density + rng.gumbel() for log_density, _ in candidates]
        return candidates[int(np.argmax(heights))][1]

    def settled(self, position: np.ndarray, rng: np.random.Generator) -> tuple[float, np.ndarray]:
        """Where some transitions lead, and the mean log density of the second half of them."""
        state = self.state_at(position)
        for _ in range(2):
            rows = [
                transition_row(rng.standard_normal(position.size), np.log(rng.random()), *SETTLING)
                for _ in range(MAX_TRANSITIONS)
            ]
            state, records = self.transitions(state, np.array(rows))
        log_density = float(np.mean([Record.of(record).log_density for record in records]))
        return log_density, Record.of(records[-1]).position

    def residual_at(self, position: np.ndarray) -> float:
        """Largest constraint in units of its tolerance: at most 1 on the level set."""
        value = np.asarray(self._searching.constraint(position))
        return float(np.max(np.abs(value) / self.tolerance))

    def polish(self, position: np.ndarray) -> tuple[np.ndarray, float]:
        """The nearest point that meets the tolerance, and its residual in units of that."""
        end, residual = self._polish(position)
        return np.asarray(end), float(residual)

    @cached_property
    def _polish(self) -> Any:
        system = self.system

        def polish(position: Any) -> tuple[Any, Any]:
            base = system.algebra.factorise(system.jacobian(position))
            end = project_position(system, position, base, self.kernel.max_iterations)
            return end.position, end.residual

        return self.backend.compile(polish)

    @cached_property
    def state_at(self) -> Any:
        """Function from a position to the `ManifoldState` there."""
        return self.backend.compile(lambda position: self.kernel.state_at(self.system, position))

    @cached_property
    def _chain(self) -> Any:
        system, kernel = self.system, self.kernel
        xp = system.arrays.xp

        def transition(state: ManifoldState, numbers: Any) -> tuple[ManifoldState, Any]:
            # one array in and one out: each one that crosses over to JAX costs as much as a step
            noise, (log_uniform, step_size, n_steps) = numbers[:-3], numbers[-3:]
            state, info = kernel.transition(system, state, noise, log_uniform, step_size, n_steps)
            record = xp.stack([xp.asarray(value, dtype=float) for value in info])
            return state, xp.concatenate([state.position, xp.stack([state.log_density]), record])

        return self.backend.compile_chain(transition)

    def transitions(
        self, state: ManifoldState, numbers: np.ndarray
    ) -> tuple[ManifoldState, np.ndarray]:
        """State after as many transitions as ``numbers`` has rows, and a record of each.

        Parameters
        ----------
        state
            Where the chain is.
        numbers
            A `transition_row` for each transition, shape (n, d + 3); n is at most
            `MAX_TRANSITIONS`.

        Returns
        -------
        tuple
            The state, and a row of numbers for each transition that `Record.of` reads.
        """
        # one shape, so that it is compiled once
        rows = np.zeros((MAX_TRANSITIONS, numbers.shape[1]))
        rows[: len(numbers)] = numbers
        state, records = self._chain(state, rows, len(numbers))
        return state, np.asarray(records)[: len(numbers)]

    def named(self, position: np.ndarray) -> dict[str, np.ndarray]:
        """Value variables by name of one position."""
        return self.generator.flat.named_values(self.scale * position)

    def position_of(self, point: Mapping[str, np.ndarray]) -> np.ndarray:
        """Inputs in units of their scales, shape (d,), of value variables by name."""
        parts = [np.ravel(point[name]) for name in self.generator.flat.value_names]
        return np.concatenate(parts).astype(float) / self.scale


def _fields(algebra: Any) -> dict[str, Any]:
    names = ("arrays", "common", "local", "n_dims")
    return {name: getattr(algebra, name) for name in names if hasattr(algebra, name)}


def _spread(rows: np.ndarray) -> np.ndarray:
    """Standard deviation of each column, told from its quartiles."""
    low, high = np.quantile(rows, [0.25, 0.75], axis=0)
    width = (high - low) / QUARTILE_WIDTH
    return np.where(np.isfinite(width) & (width > 0), width, 1.0)
