"""A model with exact observations, ready to be sampled: its level set and compiled moves on it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
import pymc as pm
from threadpoolctl import (  # type: ignore[import-untyped]  # PyMC's own dependency
    ThreadpoolController,
)

from pymc_logz.graphs.kept import settings_key
from pymc_logz.manifold.algebra import NUMPY, Structure, find_structure, is_analytic, make_algebra
from pymc_logz.manifold.backends import Backend, System, make_backend
from pymc_logz.manifold.gauss_newton import Found, Search, find_point, project_position
from pymc_logz.manifold.generator import Generator, make_generator
from pymc_logz.manifold.rattle import (
    ConstrainedHamiltonian,
    ManifoldState,
    TransitionInput,
    TransitionRecord,
    state_at,
)
from pymc_logz.models.cache import kept_for
from pymc_logz.models.prior import PriorDraws
from pymc_logz.runners.arrays import filled, leaves

MAX_TRANSITIONS = 16
"""In one call, since a call of a function of JAX costs as much as several steps."""


@cache
def _threads() -> ThreadpoolController:
    return ThreadpoolController()


def one_blas_thread() -> Any:
    """Context in which BLAS does not start threads, which cost more than these small matrices."""
    return _threads().limit(limits=1, user_api="blas")


class CompiledAgain:
    """What pickles without its cached properties: they are made again where it arrives."""

    def __getstate__(self) -> dict[str, Any]:
        """What it was made of."""
        made = {name for name in vars(self) if hasattr(type(self), name)}
        return {name: value for name, value in vars(self).items() if name not in made}


@dataclass(frozen=True, eq=False)
class CompiledGenerator(CompiledAgain):
    """A model with exact observations, and what it compiles to whatever the units of its inputs."""

    model: pm.Model
    compile_kwargs: Mapping[str, Any] | None
    """Keyword arguments of ``pytensor.function``; ``"mode"`` decides the backend when given."""

    @cached_property
    def generator(self) -> Generator:
        """Symbolic form."""
        return make_generator(self.model)

    @property
    def prior(self) -> PriorDraws:
        """Draws of the prior as unconstrained rows, none of which was counted yet."""
        self.generator  # noqa: B018  # checks the model before it is drawn from
        return PriorDraws(self.model)

    @cached_property
    def backend(self) -> Backend:
        """What functions are compiled with."""
        return make_backend(self.generator, self.compile_kwargs)

    @cached_property
    def jacobian(self) -> Callable[[np.ndarray], Any]:
        """Function from inputs as they are, shape (d,), to the dense Jacobian, shape (m, d)."""
        generator = self.generator
        ones = np.ones(generator.n_dims)
        system = self.backend.system(ones, np.ones(generator.n_outputs), None)
        return self.backend.compile(system.jacobian)


class ConstrainedModel(CompiledAgain):
    """The level set of a model's exact observations, and compiled moves on it.

    Inputs are in units of ``scale``, by default the spread of the prior; ``distance`` to the set
    counts as none. It pickles as what it was made of, and compiles again where it arrives.
    """

    def __init__(
        self,
        compiled: CompiledGenerator,
        moves: ConstrainedHamiltonian,
        rng: np.random.Generator,
        *,
        distance: float,
        scale: np.ndarray | None,
        use_structure: bool,
    ) -> None:
        # scales need no more than a digit
        rows = compiled.prior(rng, 256)
        self.compiled, self.moves, self.distance = compiled, moves, distance
        self.scale = _spread(rows) if scale is None else scale
        self.structure = _structure_at(compiled, rows) if use_structure else None
        found = self.find_point(rng).position
        self.tolerance = self.search.tolerances(self._row_norms(found))
        """Size of each constraint that counts as zero, shape (m,)."""

    @property
    def generator(self) -> Generator:
        """Symbolic form."""
        return self.compiled.generator

    @property
    def backend(self) -> Backend:
        """What functions are compiled with."""
        return self.compiled.backend

    @cached_property
    def _untoleranced(self) -> System:
        """Density and constraints, as they are known before a point has been found."""
        ones = np.ones(self.generator.n_outputs)
        return self.backend.system(self.scale, ones, self.structure)

    @cached_property
    def system(self) -> System:
        """Density and constraints."""
        return replace(self._untoleranced, tolerance=self.tolerance)

    @cached_property
    def state_at(self) -> Callable[[np.ndarray], ManifoldState]:
        """Function from a position (d,) to the state there."""
        system = self._untoleranced
        return self.backend.compile(lambda position: state_at(system, position))

    @cached_property
    def search(self) -> Search:
        """Compiled constraints and Jacobian, for a search that runs in NumPy."""
        system, generator = self._untoleranced, self.generator
        return Search(
            self.backend.compile(system.constraint),
            self.backend.compile(system.jacobian),
            make_algebra(NUMPY, self.structure, generator.n_dims),
            generator.observed,
            self.distance,
        )

    def find_point(self, rng: np.random.Generator) -> Found:
        """A point of the level set, by way of the first prior draws that lead to one."""

        def usable(found: Found) -> bool:
            state = self.state_at(found.position)
            return bool(np.isfinite(state.log_density) and np.all(np.isfinite(state.gradient)))

        def draw(n: int) -> np.ndarray:
            return self.compiled.prior(rng, n) / self.scale

        return find_point(self.search, draw, self.generator.labels, usable)

    def structure_holds(self, position: np.ndarray) -> bool:
        """Whether no entry of the Jacobian is left out at a position."""
        if self.structure is None:
            return True
        dense = self.scale * np.asarray(self.compiled.jacobian(self.scale * position))
        expected = np.sqrt((dense**2).sum(axis=1))
        return bool(np.allclose(self._row_norms(position), expected, rtol=1e-8))

    def _row_norms(self, position: np.ndarray) -> np.ndarray:
        return self.search.algebra.row_norms(np.asarray(self.search.jacobian(position)))

    def residual_at(self, position: np.ndarray) -> float:
        """Largest constraint in units of its tolerance: at most 1 on the level set."""
        value = np.asarray(self.search.constraint(position))
        return float(np.max(np.abs(value) / self.tolerance))

    def polish(self, position: np.ndarray) -> tuple[np.ndarray, float]:
        """The nearest point that meets the tolerance, and its residual in units of that."""
        end, residual = self._polish(position)
        return np.asarray(end), float(residual)

    @cached_property
    def _polish(self) -> Callable:
        system = self.system

        def polish(position: Any) -> tuple[Any, Any]:
            base = system.algebra.factorise(system.jacobian(position))
            end = project_position(system, position, base, self.moves.max_iterations)
            return end.position, end.residual

        return self.backend.compile(polish)

    @cached_property
    def _chain(self) -> Callable:
        system, moves = self.system, self.moves

        def transition(
            state: ManifoldState, given: TransitionInput
        ) -> tuple[ManifoldState, TransitionRecord]:
            state, info = moves.transition(system, state, given)
            return state, TransitionRecord(state.position, state.log_density, info)

        return self.backend.compile_chain(transition)

    def transitions(
        self, state: ManifoldState, given: Sequence[TransitionInput]
    ) -> tuple[ManifoldState, list[TransitionRecord]]:
        """State after some transitions, at most `MAX_TRANSITIONS`, and a record of each."""
        # one shape, so that it is compiled once
        padded = [*given, *[given[-1]] * (MAX_TRANSITIONS - len(given))]
        stacked = TransitionInput(*map(np.stack, zip(*padded, strict=True)))
        state, records = self._chain(state, stacked, len(given))
        parts = list(map(np.asarray, leaves(records)))
        return state, [filled(records, (part[i] for part in parts)) for i in range(len(given))]

    def position_of(self, point: Mapping[str, np.ndarray]) -> np.ndarray:
        """Inputs in units of their scales, shape (d,), of value variables by name."""
        parts = [np.ravel(point[name]) for name in self.generator.flat.value_names]
        return np.concatenate(parts).astype(float) / self.scale


def _spread(rows: np.ndarray) -> np.ndarray:
    """Standard deviation of each column by its quartiles, 1.349 of them apart if it is normal."""
    low, high = np.quantile(rows, [0.25, 0.75], axis=0)
    width = (high - low) / 1.349
    return np.where(np.isfinite(width) & (width > 0), width, 1.0)


def _structure_at(compiled: CompiledGenerator, rows: np.ndarray) -> Structure | None:
    """Structure that the first four finite Jacobians have in common; one is enough if analytic."""
    generator = compiled.generator
    jacobians = [np.asarray(compiled.jacobian(row)) for row in rows[:32]]
    finite = [value for value in jacobians if np.all(np.isfinite(value))][:4]
    if not finite:
        return None
    analytic = is_analytic([generator.flat.point], [generator.residual])
    return find_structure(np.stack(finite), generator.noise, generator.labels, analytic=analytic)


def make_constrained_model(
    model: pm.Model,
    moves: ConstrainedHamiltonian | None = None,
    *,
    tolerance: float = 1e-9,
    scale: np.ndarray | None = None,
    use_structure: bool = True,
    random_seed: Any = 0,
    compile_kwargs: Mapping[str, Any] | None = None,
) -> ConstrainedModel:
    """A model's level set ready for moves, made once for the same settings.

    The seed is that of the prior draws that scales, structure and tolerances are read off. A
    ModelError is raised if no inputs give what was observed, or the Jacobian has not full rank.
    """
    settings = (tolerance, use_structure, settings_key(compile_kwargs))
    given = None if scale is None else tuple(np.ravel(scale).tolist())
    moves = moves or ConstrainedHamiltonian()

    def make() -> ConstrainedModel:
        key = (CompiledGenerator, settings_key(compile_kwargs))
        compiled = kept_for(model).get(key, lambda: CompiledGenerator(model, compile_kwargs))
        rng, how = np.random.default_rng(random_seed), {"use_structure": use_structure}
        return ConstrainedModel(compiled, moves, rng, distance=tolerance, scale=scale, **how)

    if not isinstance(random_seed, int | None):
        return make()  # a generator gives other draws each time
    return kept_for(model).get((make_constrained_model, moves, given, random_seed, *settings), make)
