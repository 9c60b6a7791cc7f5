"""Log densities of a PyMC model at many rows at once."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable

from pymc_logz.graphs.batching import batch
from pymc_logz.graphs.compiling import compile_function
from pymc_logz.graphs.simplify import simplify
from pymc_logz.models.flat import FlatModel

ROWS_PER_CALL = 512


class RowDensity:
    """Log prior and log ratio (likelihood plus potentials) of rows, compiled once.

    Parameters
    ----------
    flat
        The model.
    compile_kwargs
        Keyword arguments of ``pytensor.function``.
    batching
        ``"vector"``, ``"row"``, or ``"auto"`` to choose from the graph.

    Attributes
    ----------
    n_nan
        Rows of `log_target` whose density was NaN.
    n_evaluated
        Rows that were computed, those that fill up a call included.
    """

    def __init__(
        self,
        flat: FlatModel,
        compile_kwargs: Mapping[str, Any] | None = None,
        batching: str = "auto",
    ) -> None:
        self.flat = flat
        self.n_nan = self.n_evaluated = 0
        self._outputs = simplify([flat.log_prior, flat.log_ratio])
        graph, self.batching = self._graph(batching)
        can_turn = batching == "auto" and self.batching == "vector"
        trial = [np.zeros((ROWS_PER_CALL, var.type.shape[1])) for var in graph[0]]
        self.compiled = compile_function(
            *graph,
            compile_kwargs,
            trial,
            (lambda: self._graph("row")[0]) if can_turn else None,
        )
        if self.compiled.is_alternative:
            self.batching = "row"

    def _graph(self, batching: str) -> tuple[tuple[list[Variable], list[Variable]], str]:
        """Inputs and outputs of a call, and how its rows are batched."""
        flat = self.flat
        # a fixed number of rows, so that backends compile one shape only
        rows = pt.matrix("rows", dtype="float64", shape=(ROWS_PER_CALL, flat.n_dims))
        inputs = [rows]
        if flat.data is not None:
            width = flat.data.type.shape[0]
            inputs.append(pt.matrix("data", dtype="float64", shape=(ROWS_PER_CALL, width)))
        evaluate, how = batch(flat.point, self._outputs, flat.n_dims, batching, flat.data)
        return (inputs, evaluate(*inputs)), how

    def __call__(
        self, rows: np.ndarray, data: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Log prior and log ratio of each row, as they come: NaN and infinities included.

        Parameters
        ----------
        rows
            Unconstrained values, shape (n, d).
        data
            Data in place of the model's own, the same for all rows, shape (D,); only if the model
            was flattened with ``symbolic`` data.

        Returns
        -------
        tuple of np.ndarray
            Both of shape (n,).
        """
        constant = () if data is None else (np.tile(data, (ROWS_PER_CALL, 1)).astype(float),)
        log_prior, log_ratio = np.empty((2, len(rows)))
        for start in range(0, len(rows), ROWS_PER_CALL):
            part = rows[start : start + ROWS_PER_CALL]
            padded = np.resize(part, (ROWS_PER_CALL, rows.shape[1])).astype(float)
            values = self.compiled.call(padded, *constant)
            self.n_evaluated += ROWS_PER_CALL
            stop = start + len(part)
            log_prior[start:stop], log_ratio[start:stop] = (
                np.asarray(value)[: len(part)] for value in values
            )
        return log_prior, log_ratio

    def log_target(self, rows: np.ndarray, data: np.ndarray | None = None) -> np.ndarray:
        """Log prior plus log ratio of rows, with -inf for NaN and outside the prior, shape (n,).

        Rows whose densities are NaN are counted in ``n_nan``.
        """
        log_prior, log_ratio = self(rows, data)
        self.n_nan += int(np.count_nonzero(np.isnan(log_prior) | np.isnan(log_ratio)))
        with np.errstate(invalid="ignore"):
            total = log_prior + log_ratio
        return np.where(np.isnan(total), -np.inf, total)
