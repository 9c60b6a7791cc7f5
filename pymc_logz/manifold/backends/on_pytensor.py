"""Constraints and density as functions of PyTensor; moves run in NumPy."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import get_mode
from pytensor.gradient import jacobian as symbolic_jacobian

from pymc_logz.graphs.kept import one_at_a_time
from pymc_logz.graphs.modes import compile_kwargs_for
from pymc_logz.manifold.algebra import NUMPY, make_algebra
from pymc_logz.manifold.structure import Structure, needs_loop
from pymc_logz.manifold.system import SymbolicSystem, System


class PytensorBackend:
    """Functions of PyTensor graphs, for every other backend; moves then run in NumPy."""

    def __init__(
        self, symbolic: SymbolicSystem, reason: str, mode: Any, kwargs: Mapping[str, Any]
    ) -> None:
        self.symbolic, self.reason = symbolic, reason
        self._mode, self._kwargs = mode, {"trust_input": True, **kwargs}
        self.constraint = self._function([symbolic.point], symbolic.residual)
        linker = type(get_mode(mode).linker).__name__
        self.name = linker.removesuffix("Linker").lower()

    def _function(self, inputs: Sequence[Any], output: Any) -> Callable:
        kwargs = compile_kwargs_for(self._mode, self._kwargs)
        return one_at_a_time(pytensor.function(list(inputs), output, **kwargs))

    @cached_property
    def _graph_jacobian(self) -> Any:
        residual, point = self.symbolic.residual, self.symbolic.point
        return symbolic_jacobian(residual, point, vectorize=not needs_loop([residual]))

    @cached_property
    def _dense(self) -> Callable:
        return self._function([self.symbolic.point], self._graph_jacobian)

    @cached_property
    def _pull(self) -> Callable:
        """Gradient of the entries of the Jacobian weighted by a matrix (m, d)."""
        weights = pt.matrix("weights", dtype="float64")
        total = (weights * self._graph_jacobian).sum()
        gradient = pt.grad(total, self.symbolic.point, disconnected_inputs="ignore")
        inputs = [self.symbolic.point, weights]
        kwargs = {**self._kwargs, "on_unused_input": "ignore"}
        return one_at_a_time(
            pytensor.function(inputs, gradient, **compile_kwargs_for(self._mode, kwargs))
        )

    @cached_property
    def _density(self) -> Callable:
        log_density, point = self.symbolic.log_density, self.symbolic.point
        return self._function([point], [log_density, pt.grad(log_density, point)])

    def compile(self, function: Callable) -> Callable:
        """The function, quiet about values that are not finite."""

        def quiet(*args: Any) -> Any:
            with np.errstate(all="ignore"):
                return function(*args)

        return quiet

    def compile_rows(self, function: Callable) -> Callable:
        """Function of ``(rows, *others)`` that applies one of ``(row, *others)`` to each row."""
        one = self.compile(function)

        def over_rows(rows: np.ndarray, *others: Any) -> tuple[np.ndarray, ...]:
            columns = zip(*(one(row, *others) for row in rows), strict=True)
            return tuple(np.stack(column) for column in columns)

        return over_rows

    def compile_chain(self, function: Callable) -> Callable:
        """Function of ``(state, rows, n)`` that passes a state on through the first n rows."""
        one = self.compile(function)

        def chain(state: Any, rows: np.ndarray, n: int) -> tuple[Any, np.ndarray]:
            records = []
            for row in rows[:n]:
                state, record = one(state, row)
                records.append(record)
            return state, np.stack(records)

        return chain

    def system(
        self, scale: np.ndarray, tolerance: np.ndarray, structure: Structure | None
    ) -> System:
        """Constraints and density of inputs in units of their scales, on NumPy arrays."""
        algebra = make_algebra(NUMPY, structure, self.symbolic.n_dims)

        def constraint(position: np.ndarray) -> np.ndarray:
            return np.array(self.constraint(scale * position))

        def jacobian(position: np.ndarray) -> np.ndarray:
            return algebra.compress(scale * np.asarray(self._dense(scale * position)))

        def evaluate(position: np.ndarray) -> tuple[Any, Any, Any]:
            inputs = scale * position
            linear = algebra.factorise(jacobian(position))
            weights = self._expanded(algebra.weights(linear), structure) * scale
            log_density, gradient = self._density(inputs)
            gradient = gradient - self._pull(inputs, np.ascontiguousarray(weights))
            log_density = float(log_density) - algebra.half_log_det(linear)
            return linear, log_density, scale * gradient

        return System(algebra, constraint, jacobian, evaluate, tolerance)

    def _expanded(self, compressed: np.ndarray, structure: Structure | None) -> np.ndarray:
        """Dense form (m, d) of a compressed matrix."""
        if structure is None:
            return compressed
        dense = np.zeros((self.symbolic.n_outputs, self.symbolic.n_dims))
        n_common = structure.common.size
        dense[:, structure.common] = compressed[:, :n_common]
        rows, places = np.nonzero(structure.local >= 0)
        dense[rows, structure.local[rows, places]] = compressed[rows, n_common + places]
        return dense
