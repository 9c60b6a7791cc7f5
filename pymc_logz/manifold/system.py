"""Symbolic constraints and density of a generator as compiled functions, on JAX or PyTensor."""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import get_mode
from pytensor.gradient import jacobian as symbolic_jacobian
from pytensor.link.jax.linker import JAXLinker
from pytensor.tensor.variable import TensorVariable

from pymc_logz.graphs.batching import RowMap
from pymc_logz.graphs.compiling import compile_kwargs_for
from pymc_logz.manifold.algebra import NUMPY, Arrays, Dense, Structured, jax_arrays
from pymc_logz.manifold.projection import System
from pymc_logz.manifold.structure import Structure, needs_loop

REVERSE_COST = 2
"""Rough cost of one pass of reverse mode in passes of forward mode (measured: 1.6)."""

logger = logging.getLogger("pymc.pymc_logz")


class SymbolicSystem:
    """Constraints and log density of one point, as symbolic functions of its inputs.

    Parameters
    ----------
    point
        Inputs u, shape (d,).
    residual
        Constraints c(u), shape (m,), zero on the level set.
    log_density
        Log density rho of the inputs.
    """

    def __init__(
        self, point: TensorVariable, residual: TensorVariable, log_density: TensorVariable
    ) -> None:
        self.point, self.residual, self.log_density = point, residual, log_density
        self.n_dims, self.n_outputs = int(point.type.shape[0]), int(residual.type.shape[0])


def _algebra(arrays: Arrays, structure: Structure | None, n_dims: int) -> Dense | Structured:
    if structure is None:
        return Dense(arrays)
    return Structured(arrays, structure.common, structure.local, n_dims)


class JaxBackend:
    """Functions on JAX, derivatives by its own transforms of the jaxified graph of one point."""

    name = "jax"

    def __init__(self, symbolic: SymbolicSystem, reason: str) -> None:
        self.symbolic, self.reason = symbolic, reason
        self.constraint = _jax_function(symbolic.point, symbolic.residual)
        density = _jax_function(symbolic.point, symbolic.log_density.reshape((1,)))
        self.log_density = lambda inputs: density(inputs)[0]

    def compile(self, function: Callable) -> Callable:
        """The function, compiled."""
        import jax

        return jax.jit(function)

    def compile_rows(self, function: Callable) -> Callable:
        """Function of ``(rows, *others)`` that applies one of ``(row, *others)`` to each row."""
        import jax

        def over_rows(rows: Any, *others: Any) -> Any:
            return jax.lax.map(lambda row: function(row, *others), rows)

        return jax.jit(over_rows)

    def compile_chain(self, function: Callable) -> Callable:
        """Function of ``(state, rows, n)`` that passes a state on through the first n rows.

        ``function`` maps ``(state, row)`` to the next state and a record; the records come back as
        one array, of as many rows.
        """
        import jax
        import jax.numpy as jnp

        def chain(state: Any, rows: Any, n: Any) -> tuple[Any, Any]:
            _, record = jax.eval_shape(function, state, rows[0])

            def move(i: Any, carried: tuple[Any, Any]) -> tuple[Any, Any]:
                state, records = carried
                state, record = function(state, rows[i])
                return state, records.at[i].set(record)

            return jax.lax.fori_loop(0, n, move, (state, jnp.zeros((len(rows), *record.shape))))

        return jax.jit(chain)

    def system(
        self, scale: np.ndarray, tolerance: np.ndarray, structure: Structure | None
    ) -> System:
        """Constraints and density of inputs in units of their scales, to be traced by JAX."""
        import jax

        algebra = _algebra(jax_arrays(), structure, self.symbolic.n_dims)

        def constraint(position: Any) -> Any:
            return self.constraint(scale * position)

        jacobian = self._jacobian(constraint, structure)

        def evaluate(position: Any) -> tuple[Any, Any, Any]:
            compressed, pull = jax.vjp(jacobian, position)
            linear = algebra.factorise(compressed)
            # the derivative of half_log_det by J is known, so that nothing is differentiated twice
            [of_determinant] = pull(algebra.weights(linear))
            log_density, gradient = jax.value_and_grad(self.log_density)(scale * position)
            log_density = log_density - algebra.half_log_det(linear)
            return linear, log_density, scale * gradient - of_determinant

        return System(algebra, constraint, jacobian, evaluate, tolerance)

    def _jacobian(self, constraint: Callable, structure: Structure | None) -> Callable:
        """Compressed Jacobian, by the cheaper of forward and reverse mode."""
        import jax
        import jax.numpy as jnp

        n_dims, n_outputs = self.symbolic.n_dims, self.symbolic.n_outputs
        if structure is None:
            use_reverse = REVERSE_COST * n_outputs < n_dims
            return jax.jacrev(constraint) if use_reverse else jax.jacfwd(constraint)
        # one pass for each common input, and one for all the local inputs that are k-th of a row
        columns = [np.arange(n_dims) == entry for entry in structure.common]
        columns += [np.isin(np.arange(n_dims), column) for column in structure.local.T]
        tangents = np.array(columns, dtype=float)
        n_common = structure.common.size
        present = np.ones((n_outputs, len(tangents)))
        present[:, n_common:] = structure.local >= 0

        def jacobian(position: Any) -> Any:
            def along(tangent: Any) -> Any:
                return jax.jvp(constraint, (position,), (tangent,))[1]

            # a row without a k-th local input must not see those of others
            return jnp.where(present > 0, jax.vmap(along)(tangents).T, 0.0)

        return jacobian


class PytensorBackend:
    """Functions of PyTensor graphs, for every other backend; the kernel then runs in NumPy."""

    def __init__(
        self, symbolic: SymbolicSystem, reason: str, mode: Any, kwargs: Mapping[str, Any]
    ) -> None:
        self.symbolic, self.reason = symbolic, reason
        self._mode, self._kwargs = mode, {"trust_input": True, **kwargs}
        self.constraint = self._function([symbolic.point], symbolic.residual)
        linker = type(get_mode(mode).linker).__name__
        self.name = linker.removesuffix("Linker").lower()

    def _function(self, inputs: Sequence[Any], output: Any) -> Callable:
        return pytensor.function(
            list(inputs), output, **compile_kwargs_for(self._mode, self._kwargs)
        )

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
        return pytensor.function(inputs, gradient, **compile_kwargs_for(self._mode, kwargs))

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
        algebra = _algebra(NUMPY, structure, self.symbolic.n_dims)

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


Backend = JaxBackend | PytensorBackend


def choose_backend(
    symbolic: SymbolicSystem, compile_kwargs: Mapping[str, Any] | None, trial: np.ndarray
) -> Backend:
    """The user's mode, else JAX where it is installed and can, else PyTensor's default.

    Parameters
    ----------
    symbolic
        What to compile.
    compile_kwargs
        Keyword arguments of ``pytensor.function``; ``"mode"`` decides the backend when given.
    trial
        Inputs to try JAX with, shape (d,).
    """
    kwargs = dict(compile_kwargs or {})
    mode = kwargs.pop("mode", None)
    if mode is not None:
        reason = "compile_kwargs['mode'] asked for it"
        if isinstance(get_mode(mode).linker, JAXLinker):
            return JaxBackend(symbolic, reason)
        return PytensorBackend(symbolic, reason, mode, kwargs)
    if find_spec("jax") is None:
        reason = "JAX is not installed; 'pip install pymc-logz[jax]' makes this much faster"
    else:
        try:
            backend = JaxBackend(symbolic, "JAX is installed and the model converts")
            backend.compile(backend.constraint)(trial)
            backend.compile(backend.log_density)(trial)
            return backend
        except Exception as error:  # a conversion can fail with any exception of JAX or PyTensor
            reason = f"JAX could not run this model ({type(error).__name__}: {str(error)[:200]})"
    logger.info("Compiling with PyTensor's default backend: %s.", reason)
    return PytensorBackend(symbolic, reason, None, kwargs)


def _jax_function(point: TensorVariable, output: TensorVariable) -> Callable:
    """Function of the inputs that JAX can trace."""
    from pytensor.link.jax.dispatch import jax_funcify

    function = jax_funcify(RowMap(point, output).optimized("JAX"))
    return lambda inputs: function(inputs)[0]
