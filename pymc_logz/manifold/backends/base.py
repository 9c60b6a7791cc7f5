"""What every backend of a level set does; see `choose_backend` for which one is taken."""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from pymc_logz.manifold.structure import Structure
from pymc_logz.manifold.system import SymbolicSystem, System


class Backend(Protocol):
    """Makes constraints and density of a symbolic system, and compiles what is written with them.

    Functions to compile are of arrays, or of nested tuples of them, and use the arrays of
    ``system(...).arrays``, so that one source runs on every backend.
    """

    name: str
    """``"jax"``, or the name of the PyTensor linker in lower case."""
    reason: str
    """Why this backend, in a sentence."""
    symbolic: SymbolicSystem

    def system(
        self, scale: np.ndarray, tolerance: np.ndarray, structure: Structure | None
    ) -> System:
        """Constraints and density of inputs in units of their scales.

        Parameters
        ----------
        scale
            Length scales of the inputs, shape (d,).
        tolerance
            Largest constraint that counts as zero, shape (m,).
        structure
            Which inputs reach which constraints; None for a dense Jacobian.
        """

    def compile(self, function: Callable) -> Callable:
        """The function, compiled."""

    def compile_rows(self, function: Callable) -> Callable:
        """Function of ``(rows, *others)`` that applies one of ``(row, *others)`` to each row."""

    def compile_chain(self, function: Callable) -> Callable:
        """Function of ``(state, rows, n)`` that passes a state on through the first n rows.

        ``function`` maps ``(state, row)`` to the next state and a record, which is one array. The
        result is the last state and the records, a row each; there may be more than n of those.
        """
