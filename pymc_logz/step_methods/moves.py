"""Points of a level set and transitions on it, in whatever process PyMC runs a chain."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pymc_logz.manifold.kernel import ManifoldState
from pymc_logz.manifold.model import ConstrainedModel, Record, one_blas_thread
from pymc_logz.step_methods.processes import Helper


class Moves:
    """Answers messages by points and transitions; in a forked process by way of a fresh one.

    Parameters
    ----------
    model
        Compiled moves.
    """

    def __init__(self, model: ConstrainedModel) -> None:
        self.model = model
        self._pid = os.getpid()
        self._helper: Helper | None = None
        self._last: tuple[np.ndarray, ManifoldState] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Without what cannot leave the process."""
        return {"model": self.model}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Unpickle, to compile when first used."""
        self.__init__(state["model"])  # type: ignore[misc]

    def ask(self, *message: Any) -> Any:
        """Answer, computed here or in a process that can."""
        if self.model.backend.name == "jax" and os.getpid() != self._pid:
            # JAX does not survive a fork
            if self._helper is None or self._helper.pid != os.getpid():
                self._helper = Helper(self)  # type: ignore[arg-type]
            return self._helper.ask(message)
        return self.answer(message)

    def answer(self, message: tuple[Any, ...]) -> Any:
        """Answer, computed here; a function of the message alone."""
        what, *rest = message
        with one_blas_thread():
            return self._start(*rest) if what == "start" else self._moves(*rest)

    def _start(self, point: Mapping[str, np.ndarray], seed: Sequence[int]) -> np.ndarray:
        """The given point if it is on the level set, else one found from prior draws."""
        model = self.model
        position = model.position_of(point)
        with np.errstate(all="ignore"):
            residual = model.residual_at(position)
            if residual <= 1.0:
                return position
            # nearby, such as a point that was saved with fewer digits
            if residual <= 1e4:
                near, residual = model.polish(position)
                if residual <= 1.0:
                    return near
        return model.find_start(np.random.default_rng(seed))

    def _moves(self, position: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Records of transitions one after the other; see `ConstrainedModel.transitions`."""
        if self._last is None or not np.array_equal(self._last[0], position):
            self._last = (position, self.model.state_at(position))
        state, records = self.model.transitions(self._last[1], numbers)
        self._last = (Record.of(records[-1]).position, state)
        return records
