"""A model with exact observations, ready to be sampled: its level set and compiled moves on it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from itertools import islice
from typing import Any

import numpy as np
import pymc as pm
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # PyMC's own dependency

from pymc_logz.errors import ModelError
from pymc_logz.graphs.kept import settings_key
from pymc_logz.manifold.algebra import NUMPY, Structure, find_structure, is_analytic, make_algebra
from pymc_logz.manifold.backends import Backend, System, make_backend
from pymc_logz.manifold.gauss_newton import MAX_STARTS, Found, Search, explanation, project_position
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

MAX_TRANSITIONS = 16
"""In one call, since a call of a function of JAX costs as much as several steps."""


_threads = cache(ThreadpoolController)


def one_blas_thread() -> Any:
    """Context in which BLAS does not start threads, which cost more than these small matrices."""
    return _threads().limit(limits=1, user_api="blas")


class ConstrainedModel:
    """The level set of a model's exact observations, and compiled moves on it.

    Inputs are in units of ``scale``, by default the spread of the prior; ``distance`` to the set
    counts as none. It pickles as what it was made of, and compiles again where it arrives.
    """

    def __init__(
        self,
        model: pm.Model,
        moves: ConstrainedHamiltonian,
        rng: np.random.Generator,
        *,
        distance: float = 1e-9,
        scale: Sequence[float] | np.ndarray | None = None,
        use_structure: bool = True,
        compile_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self.model, self.moves, self.distance = model, moves, distance
        self.compile_kwargs = compile_kwargs
        self.generator  # noqa: B018  # checks the model before it is drawn from
        # scales need no more than a digit
        rows = PriorDraws(model)(rng, 256)
        if scale is None:
            # quartiles of a normal distribution are 1.349 standard deviations apart
            low, high = np.quantile(rows, [0.25, 0.75], axis=0)
            width = (high - low) / 1.349
            scale = np.where(np.isfinite(width) & (width > 0), width, 1.0)
        self.scale = np.array(scale)
        self.structure = self._structure_at(rows) if use_structure else None
        self.tolerance = self.find_point(rng).tolerance
        """Size of each constraint that counts as zero, shape (m,)."""

    def __getstate__(self) -> dict[str, Any]:
        """What it was made of, without cached properties."""
        return {name: value for name, value in vars(self).items() if not hasattr(type(self), name)}

    @cached_property
    def backend(self) -> Backend:
        """What functions are compiled with, the same whatever the units of inputs."""
        return kept_for(self.model).get(
            (make_backend, settings_key(self.compile_kwargs)),
            lambda: make_backend(make_generator(self.model), self.compile_kwargs),
        )

    @property
    def generator(self) -> Generator:
        """Symbolic form."""
        symbolic = self.backend.symbolic
        assert isinstance(symbolic, Generator)
        return symbolic

    def _structure_at(self, rows: np.ndarray) -> Structure | None:
        """Structure that the first four finite Jacobians have in common."""
        generator = self.generator
        jacobians = [np.asarray(self.backend.jacobian(row)) for row in rows[:32]]
        finite = [value for value in jacobians if np.all(np.isfinite(value))][:4]
        if not finite:
            return None
        analytic = is_analytic([generator.point], [generator.residual])
        return find_structure(
            np.stack(finite), generator.noise, generator.labels, analytic=analytic
        )

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
        system = self._untoleranced
        return Search(
            self.backend.compile(system.constraint),
            self.backend.compile(system.jacobian),
            make_algebra(NUMPY, self.structure, self.generator.n_dims),
            self.generator.observed,
            self.distance,
        )

    def find_point(self, rng: np.random.Generator) -> Found:
        """A point of the level set where a chain may start, by way of the first prior draws.

        A ModelError has the best residual, and the entries that could not be matched.
        """
        search, best, n_finite, deficient = self.search, None, 0, False
        with np.errstate(all="ignore"):
            blocks = (PriorDraws(self.model)(rng, 128) for _ in range(MAX_STARTS // 128))
            drawn = (start for block in blocks for start in block / self.scale)
            finite = (one for one in drawn if np.all(np.isfinite(search.constraint(one))))
            for start in islice(finite, 100):
                n_finite += 1
                found = search.run(start)
                if found.converged and search.has_full_rank(found):
                    state = self.state_at(found.position)
                    if np.isfinite(state.log_density) and np.all(np.isfinite(state.gradient)):
                        return found
                elif found.converged:
                    deficient = True
                if best is None or found.distance < best.distance:
                    best = found
        raise ModelError(explanation(search, best, self.generator.labels, n_finite, deficient))

    def structure_holds(self, position: np.ndarray) -> bool:
        """Whether no entry of the Jacobian is left out at a position."""
        if self.structure is None:
            return True
        dense = self.scale * np.asarray(self.backend.jacobian(self.scale * position))
        expected = np.sqrt((dense**2).sum(axis=1))
        found = self.search.algebra.row_norms(np.asarray(self.search.jacobian(position)))
        return bool(np.allclose(found, expected, rtol=1e-8))

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
        return self.backend.compile_chain(partial(self.moves.transition, self.system))

    def transitions(
        self, state: ManifoldState, given: Sequence[TransitionInput]
    ) -> tuple[ManifoldState, list[TransitionRecord]]:
        """State after some transitions, at most `MAX_TRANSITIONS`, and a record of each."""
        # one shape, so that it is compiled once
        padded = [*given, *[given[-1]] * (MAX_TRANSITIONS - len(given))]
        stacked = TransitionInput(*map(np.stack, zip(*padded, strict=True)))
        state, records = self._chain(state, stacked, len(given))
        each = zip(*map(np.asarray, records), strict=True)
        return state, [TransitionRecord(*record) for record in islice(each, len(given))]


def make_constrained_model(
    model: pm.Model,
    moves: ConstrainedHamiltonian | None = None,
    *,
    random_seed: Any = 0,
    compile_kwargs: Mapping[str, Any] | None = None,
    **settings: Any,
) -> ConstrainedModel:
    """A model's level set ready for moves, made once for the same settings of `ConstrainedModel`.

    The seed is that of the prior draws that scales, structure and tolerances are read off. A
    ModelError is raised if no inputs give what was observed, or the Jacobian has not full rank.
    """
    moves = moves or ConstrainedHamiltonian()

    def make() -> ConstrainedModel:
        rng = np.random.default_rng(random_seed)
        return ConstrainedModel(model, moves, rng, compile_kwargs=compile_kwargs, **settings)

    if not isinstance(random_seed, int | None):
        return make()  # a generator gives other draws each time
    key = (moves, random_seed, settings_key(compile_kwargs), settings_key(settings))
    return kept_for(model).get((make_constrained_model, *key), make)
