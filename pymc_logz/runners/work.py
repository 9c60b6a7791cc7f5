"""What a run costs on whatever machine: evaluations of the model, counted where they are made."""

import threading
from typing import Any

from pymc_logz.kernels.base import Kernel


class Work:
    """Number of evaluations of the model at one row each, which all threads of a run add to.

    Every evaluation that is computed counts, also that of a move which only fills up a block. What
    compiling a function calls it with once does not.
    """

    def __init__(self) -> None:
        self._done, self._lock = 0, threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process counts for itself."""
        return Work, ()

    @property
    def done(self) -> int:
        """Evaluations so far."""
        return self._done

    def add(self, n_evaluations: int) -> None:
        """Count more of them."""
        with self._lock:
            self._done += n_evaluations

    def record(self, pilot: int, kernel: Kernel, run: int | None = None) -> dict[str, int]:
        """Attributes of a result: evaluations until everything was frozen, and those since then.

        ``pilot`` is what was `done` when everything was frozen, and ``run`` what was at the end of
        the run, if its numbers were checked after that. Where ``kernel`` needs gradients an
        evaluation is of both value and gradient (``row_gradients``), else of the value alone
        (``row_evaluations``).
        """
        unit = "row_gradients" if kernel.needs_gradient else "row_evaluations"
        if run is None:
            return {f"pilot_{unit}": pilot, f"run_{unit}": self.done - pilot}
        checks = {f"check_{unit}": self.done - run}
        return {f"pilot_{unit}": pilot, f"run_{unit}": run - pilot, **checks}
