"""Constraints, density and moves on JAX, which is imported only when used."""

from collections.abc import Callable
from typing import Any

import numpy as np
from pytensor.tensor.variable import TensorVariable

from pymc_logz.graphs.row_map import RowMap
from pymc_logz.manifold.algebra import jax_arrays, make_algebra
from pymc_logz.manifold.structure import Structure
from pymc_logz.manifold.system import SymbolicSystem, System

REVERSE_COST = 2
"""Rough cost of one pass of reverse mode in passes of forward mode (measured: 1.6)."""


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
        """Function of ``(state, rows, n)`` that passes a state on through the first n rows."""
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


def _jax_function(point: TensorVariable, output: TensorVariable) -> Callable:
    """Function of the inputs that JAX can trace."""
    from pytensor.link.jax.dispatch import jax_funcify

    function = jax_funcify(RowMap(point, output).optimized("JAX"))
    return lambda inputs: function(inputs)[0]
