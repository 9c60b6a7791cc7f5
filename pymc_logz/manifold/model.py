"""A model with exact observations, ready to be sampled: compiled moves on its level set."""

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
from pymc_logz.manifold.backends.base import Backend
from pymc_logz.manifold.compiled import PickledByFields, compiled_generator
from pymc_logz.manifold.generator import Generator
from pymc_logz.manifold.level_set import LevelSet, find_level_set
from pymc_logz.manifold.projection import project_position
from pymc_logz.manifold.rattle import ConstrainedHamiltonian, ManifoldState
from pymc_logz.manifold.system import System
from pymc_logz.manifold.transitions import TransitionInput, TransitionRecord
from pymc_logz.models.keeping import kept_for

MAX_TRANSITIONS = 16
"""In one call, since a call of a function of JAX costs as much as several steps."""


@cache
def _threads() -> ThreadpoolController:
    return ThreadpoolController()


def one_blas_thread() -> Any:
    """Context in which BLAS does not start threads, which cost more than these small matrices."""
    return _threads().limit(limits=1, user_api="blas")


@dataclass(frozen=True, eq=False)
class ConstrainedModel(PickledByFields):
    """Compiled moves on the level set of a model's exact observations.

    Inputs are in units of their scales. `make_constrained_model` finds what it is made of; it
    pickles as that, and compiles again where it arrives.
    """

    level_set: LevelSet
    moves: ConstrainedHamiltonian
    tolerance: np.ndarray
    """Size of each constraint that counts as zero, shape (m,)."""

    @property
    def generator(self) -> Generator:
        """Symbolic form."""
        return self.level_set.compiled.generator

    @property
    def backend(self) -> Backend:
        """What functions are compiled with."""
        return self.level_set.compiled.backend

    @property
    def scale(self) -> np.ndarray:
        """Length scales of the unconstrained inputs, shape (d,)."""
        return self.level_set.scale

    @cached_property
    def system(self) -> System:
        """Density and constraints."""
        return replace(self.level_set.system, tolerance=self.tolerance)

    def state_at(self, position: np.ndarray) -> ManifoldState:
        """State at a position, shape (d,)."""
        return self.level_set.state_at(position)

    def residual_at(self, position: np.ndarray) -> float:
        """Largest constraint in units of its tolerance: at most 1 on the level set."""
        value = np.asarray(self.level_set.search.constraint(position))
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

        def transition(state: ManifoldState, row: Any) -> tuple[ManifoldState, Any]:
            state, info = moves.transition(system, state, TransitionInput.unpacked(row))
            record = TransitionRecord(state.position, state.log_density, info)
            return state, record.packed(system.arrays.xp)

        return self.backend.compile_chain(transition)

    def transitions(
        self, state: ManifoldState, given: Sequence[TransitionInput]
    ) -> tuple[ManifoldState, list[TransitionRecord]]:
        """State after some transitions, one after the other, and a record of each.

        Parameters
        ----------
        state
            Where the chain is.
        given
            What decides each transition; at most `MAX_TRANSITIONS` of them.
        """
        # one shape, so that it is compiled once
        rows = np.zeros((MAX_TRANSITIONS, self.scale.size + len(TransitionInput._fields) - 1))
        rows[: len(given)] = [one.packed() for one in given]
        state, records = self._chain(state, rows, len(given))
        return state, [TransitionRecord.unpacked(row) for row in np.asarray(records)[: len(given)]]

    def named(self, position: np.ndarray) -> dict[str, np.ndarray]:
        """Value variables by name of one position."""
        return self.generator.flat.named_values(self.scale * position)

    def position_of(self, point: Mapping[str, np.ndarray]) -> np.ndarray:
        """Inputs in units of their scales, shape (d,), of value variables by name."""
        parts = [np.ravel(point[name]) for name in self.generator.flat.value_names]
        return np.concatenate(parts).astype(float) / self.scale


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
    """A model's level set and the tolerances at a first point of it, ready for moves.

    Parameters
    ----------
    model
        Model with exact observations.
    moves
        Settings of the moves; None takes the defaults.
    tolerance
        Distance to the level set that counts as none, in units of the scales.
    scale
        Length scales of the unconstrained inputs, shape (d,); None takes the spread of the prior.
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
    settings = (tolerance, use_structure, settings_key(compile_kwargs))
    given = None if scale is None else tuple(np.ravel(scale).tolist())
    moves = moves or ConstrainedHamiltonian()

    def make() -> ConstrainedModel:
        rng = np.random.default_rng(random_seed)
        level_set = find_level_set(
            compiled_generator(model, compile_kwargs),
            rng,
            distance=tolerance,
            scale=scale,
            use_structure=use_structure,
        )
        tolerances = level_set.tolerances_at(level_set.find_point(rng).position)
        return ConstrainedModel(level_set, moves, tolerances)

    if not isinstance(random_seed, int | None):
        return make()  # a generator gives other draws each time
    return kept_for(model).get((make_constrained_model, moves, given, random_seed, *settings), make)
