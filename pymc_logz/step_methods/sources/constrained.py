"""Points of a level set, and transitions on it, for `ConstrainedHMC`."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pymc_logz.manifold.model import ConstrainedModel, one_blas_thread
from pymc_logz.manifold.rattle import ManifoldState
from pymc_logz.manifold.starting_points import find_start
from pymc_logz.manifold.transitions import TransitionInput, TransitionRecord
from pymc_logz.step_methods.sources.base import Source
from pymc_logz.step_methods.variables import values_of_row

MAX_RESIDUAL = 1e4
"""Units of the tolerance: a point as near as this was on the set before digits were cut off."""


class StartFrom(NamedTuple):
    """Message that asks for a point of the level set."""

    point: Mapping[str, np.ndarray]
    """Value variables to start from if they lie on it."""
    seed: Sequence[int]
    """Of the search if they do not."""


class MoveOn(NamedTuple):
    """Message that asks for transitions, one after the other."""

    position: np.ndarray
    """Where to begin, shape (d,)."""
    given: Sequence[TransitionInput]


class ConstrainedSource(Source):
    """Answers messages by points of a level set and transitions on it.

    Parameters
    ----------
    model
        Compiled moves.
    """

    def __init__(self, model: ConstrainedModel) -> None:
        super().__init__()
        self.model = model
        # what a process needs that asks another one: nothing that is compiled
        self._on_jax = model.backend.name == "jax"
        flat = model.generator.flat
        self._scale, self._names, self._shapes = model.scale, flat.value_names, flat.shapes
        self._last: tuple[np.ndarray, ManifoldState] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Without what cannot leave the process."""
        return {**super().__getstate__(), "_last": None}

    def uses_jax(self) -> bool:
        """Whether the moves are compiled by JAX."""
        return self._on_jax

    def values(
        self, position: np.ndarray, point: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Value variables of a position (d,), of the types that ``point`` has."""
        return values_of_row(self._scale * position, self._names, self._shapes, point)

    def start(self, point: Mapping[str, np.ndarray], seed: Sequence[int]) -> np.ndarray:
        """The given point if it is on the level set, else one found from prior draws, (d,)."""
        return self.ask(StartFrom(point, seed))

    def move_on(
        self, position: np.ndarray, given: Sequence[TransitionInput]
    ) -> list[TransitionRecord]:
        """Records of transitions from a position on; see `ConstrainedModel.transitions`."""
        return self.ask(MoveOn(position, given))

    def answer(self, message: StartFrom | MoveOn) -> Any:
        """Point or records, computed here."""
        with one_blas_thread():
            if isinstance(message, StartFrom):
                return self._start(message)
            return self._move_on(message)

    def _start(self, message: StartFrom) -> np.ndarray:
        model = self.model
        position = model.position_of(message.point)
        with np.errstate(all="ignore"):
            residual = model.residual_at(position)
            if residual <= 1.0:
                return position
            # nearby, such as a point that was saved with fewer digits
            if residual <= MAX_RESIDUAL:
                near, residual = model.polish(position)
                if residual <= 1.0:
                    return near
        return find_start(model, np.random.default_rng(message.seed))

    def _move_on(self, message: MoveOn) -> list[TransitionRecord]:
        # the state at the position is kept from the transitions before, as a rule
        if self._last is None or not np.array_equal(self._last[0], message.position):
            self._last = (message.position, self.model.state_at(message.position))
        state, records = self.model.transitions(self._last[1], message.given)
        self._last = (records[-1].position, state)
        return records
