"""Constraints and density of a level set, symbolic and compiled: by JAX, or by PyTensor and NumPy.

Functions to compile are of arrays, or of nested tuples of them, and use the arrays of the system
that they move on, so that one source runs on both.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import jacobian as symbolic_jacobian
from pytensor.tensor.variable import TensorVariable

from pymc_logz.graphs.batching import RowMap
from pymc_logz.graphs.compiling import Choice, choose_backend, linker_name
from pymc_logz.graphs.functions import compile_kwargs_for, function_for, one_at_a_time
from pymc_logz.graphs.loops import traced_in_jax
from pymc_logz.manifold.algebra import (
    NUMPY,
    Arrays,
    Dense,
    Linear,
    Structure,
    jax_arrays,
    make_algebra,
    needs_loop,
)
from pymc_logz.runners.arrays import filled, joined, leaves, lengthened, mapped


@dataclass(frozen=True)
class SymbolicSystem:
    """Constraints and log density of one point, as symbolic functions of its inputs."""

    point: TensorVariable
    """Inputs u, shape (d,)."""
    residual: TensorVariable
    """Constraints c(u), shape (m,), zero on the level set."""
    log_density: TensorVariable
    """Log density rho of the inputs."""

    @property
    def n_dims(self) -> int:
        """d, the number of inputs."""
        return int(self.point.type.shape[0])

    @property
    def n_outputs(self) -> int:
        """m, the number of constraints."""
        return int(self.residual.type.shape[0])


@dataclass(frozen=True)
class System:
    """A density on a level set, of inputs in units of their scales: the mass is the identity."""

    algebra: Dense
    """Products and solutions with the Jacobian."""
    constraint: Callable[[Any], Any]
    """c of inputs (d,), shape (m,)."""
    jacobian: Callable[[Any], Any]
    """Compressed Jacobian of inputs (d,), shape (m, s)."""
    evaluate: Callable[[Any], tuple[Linear, Any, Any]]
    """Factors, log of rho times |J J'|^(-1/2), and its gradient (d,)."""
    tolerance: Any
    """Largest |c| that counts as zero, shape (m,)."""

    @property
    def arrays(self) -> Arrays:
        """The array library."""
        return self.algebra.arrays

    def residual(self, value: Any) -> Any:
        """Largest constraint in units of its tolerance: at most 1 on the level set."""
        return self.arrays.xp.max(self.arrays.xp.abs(value) / self.tolerance)


class JaxBackend:
    """Functions on JAX, derivatives by its own transforms of the jaxified graph of one point."""

    name = "jax"

    def __init__(self, symbolic: SymbolicSystem, reason: str) -> None:
        import jax

        self.symbolic, self.reason, self.jax = symbolic, reason, jax
        self.constraint = _jax_function(symbolic.point, symbolic.residual)
        self.log_density = _jax_function(symbolic.point, symbolic.log_density)
        self.jacobian = self.compile(self._jacobian(self.constraint, None))
        """From inputs as they are to the dense Jacobian, shape (m, d)."""

    def compile(self, function: Callable) -> Callable:
        """The function, compiled."""
        return self.jax.jit(function)

    def compile_chain(self, function: Callable) -> Callable:
        """Function of ``(state, given, n)`` that passes a state on through the first n given."""
        return self.compile(partial(traced_in_jax, function))

    def system(
        self, scale: np.ndarray, tolerance: np.ndarray, structure: Structure | None
    ) -> System:
        """Constraints and density of inputs in units of their scales, to be traced by JAX."""
        jax = self.jax
        algebra = make_algebra(jax_arrays(), structure, self.symbolic.n_dims)

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
        jax, jnp = self.jax, self.jax.numpy
        n_dims, n_outputs = self.symbolic.n_dims, self.symbolic.n_outputs
        if structure is None:
            # one pass of reverse mode costs about two of forward mode (measured: 1.6)
            use_reverse = 2 * n_outputs < n_dims
            return jax.jacrev(constraint) if use_reverse else jax.jacfwd(constraint)
        # one pass for each common input, and one for all the local inputs that are k-th of a row
        columns = [np.arange(n_dims) == entry for entry in structure.common]
        columns += [np.isin(np.arange(n_dims), column) for column in structure.local.T]
        tangents = np.array(columns, dtype=float)
        # a row without a k-th local input must not see those of others
        of_common = np.full((n_outputs, structure.common.size), fill_value=True)
        present = np.concatenate([of_common, structure.local >= 0], axis=1)

        def jacobian(position: Any) -> Any:
            def along(tangent: Any) -> Any:
                return jax.jvp(constraint, (position,), (tangent,))[1]

            return jnp.where(present, jax.vmap(along)(tangents).T, 0.0)

        return jacobian


def _jax_function(point: TensorVariable, output: TensorVariable) -> Callable:
    """Function of the inputs that JAX can trace."""
    from pytensor.link.jax.dispatch import jax_funcify

    function = jax_funcify(RowMap(point, output).optimized("JAX"))
    return lambda inputs: function(inputs)[0]


class PytensorBackend:
    """Functions of PyTensor graphs, for every other backend; moves then run in NumPy."""

    def __init__(
        self, symbolic: SymbolicSystem, reason: str, mode: Any, kwargs: Mapping[str, Any]
    ) -> None:
        point, residual, log_density = symbolic.point, symbolic.residual, symbolic.log_density

        def compiled(output: Any, *more: Any, **options: Any) -> Callable:
            options = compile_kwargs_for(mode, {"trust_input": True, **kwargs, **options})
            return one_at_a_time(function_for([point, *more], output, **options))

        self.symbolic, self.reason = symbolic, reason
        self.name = linker_name(mode)
        self.constraint = compiled(residual)
        self._density = compiled([log_density, pt.grad(log_density, point)])
        jacobian = symbolic_jacobian(residual, point, vectorize=not needs_loop([residual]))
        self.jacobian = self.compile(compiled(jacobian))
        """From inputs as they are to the dense Jacobian, shape (m, d)."""
        weights = pt.matrix("weights", dtype="float64")
        gradient = pt.grad((weights * jacobian).sum(), point, disconnected_inputs="ignore")
        self._pull = compiled(gradient, weights, on_unused_input="ignore")
        """Gradient of the entries of the Jacobian weighted by a matrix (m, d)."""

    def compile(self, function: Callable) -> Callable:
        """The function, quiet about values that are not finite."""

        def quiet(*args: Any) -> Any:
            with np.errstate(all="ignore"):
                return function(*args)

        return quiet

    def compile_chain(self, function: Callable) -> Callable:
        """Function of ``(state, given, n)`` that passes a state on through the first n given."""
        one = self.compile(function)

        def chain(state: Any, given: Any, n: int) -> tuple[Any, Any]:
            records = []
            for i in range(n):
                state, record = one(state, mapped(itemgetter(i), given))
                records.append(record)
            return state, filled(records[0], map(np.stack, zip(*map(leaves, records), strict=True)))

        return chain

    def system(
        self, scale: np.ndarray, tolerance: np.ndarray, structure: Structure | None
    ) -> System:
        """Constraints and density of inputs in units of their scales, on NumPy arrays."""
        algebra = make_algebra(NUMPY, structure, self.symbolic.n_dims)

        def constraint(position: np.ndarray) -> np.ndarray:
            return np.array(self.constraint(scale * position))

        def jacobian(position: np.ndarray) -> np.ndarray:
            return algebra.compress(scale * np.asarray(self.jacobian(scale * position)))

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
        # what stands for no input, -1, has the last column
        dense = np.zeros((self.symbolic.n_outputs, self.symbolic.n_dims + 1))
        common, own = np.split(compressed, [structure.common.size], axis=1)
        dense[:, structure.common] = common
        np.put_along_axis(dense, structure.local, own, axis=1)
        return dense[:, :-1]


Backend = JaxBackend | PytensorBackend


def compile_rows(backend: Backend, function: Callable) -> Callable:
    """Function of ``(rows, *others)`` that applies one of ``(row, *others)`` to each row."""
    chain = backend.compile_chain(lambda others, row: (others, function(row, *others)))
    n = 256  # rows of each call, so that JAX compiles one function for any number of them

    def over_rows(rows: np.ndarray, *others: Any) -> tuple[np.ndarray, ...]:
        chunks = [rows[begin : begin + n] for begin in range(0, len(rows), n)]
        found = [chain(others, lengthened(chunk, n, 0), len(chunk))[1] for chunk in chunks]
        return tuple(part[: len(rows)] for part in joined(found))

    return over_rows


def make_backend(symbolic: SymbolicSystem, compile_kwargs: Mapping[str, Any] | None) -> Backend:
    """The backend that `choose_backend` decides on, which ``"mode"`` does if it is given."""

    def make(choice: Choice) -> Backend:
        if not choice.is_jax:
            return PytensorBackend(symbolic, choice.reason, choice.mode, choice.kwargs)
        backend = JaxBackend(symbolic, choice.reason)
        for function in (backend.constraint, backend.log_density):
            backend.compile(function)(np.zeros(symbolic.n_dims))
        return backend

    return choose_backend(make, compile_kwargs, gain="makes this much faster")
