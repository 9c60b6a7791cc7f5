"""Which inputs reach which constraints, and projections onto a level set and its tangent space."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from pytensor.graph.basic import Variable
from pytensor.graph.op import Op
from pytensor.graph.traversal import applys_between, graph_inputs, io_toposort
from pytensor.scalar import basic as scalar
from pytensor.scan.op import Scan
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.shape import Shape, Shape_i
from scipy.linalg import cho_solve

from pymc_logz.errors import ModelError

# what is known to be analytic wherever it is finite, by name; all else counts as not. An index that
# depends on the inputs needs a cast to integers, which is not analytic
ANALYTIC = {"Add", "Sub", "Mul", "TrueDiv", "Neg", "Sqr", "Sqrt", "Pow", "Reciprocal", "Exp"}
ANALYTIC |= {"Expm1", "Log", "Log1p", "Sin", "Cos", "Tan", "Tanh", "Sinh", "Cosh", "ArcTan"}
ANALYTIC |= {"Sigmoid", "Softplus", "Identity", "Second", "ARange", "DimShuffle", "Dot", "Sum"}
ANALYTIC |= {"Split", "Join", "MakeVector", "Alloc", "AllocEmpty", "Reshape", "SpecifyShape"}
ANALYTIC |= {"Unbroadcast", "ViewOp", "Subtensor", "IncSubtensor"}
ANALYTIC |= {"AdvancedSubtensor", "AdvancedSubtensor1", "AdvancedIncSubtensor"}
ANALYTIC |= {"TensorFromScalar", "ScalarFromTensor"}

RELATIVE_ROUNDING = 64 * np.finfo(float).eps
"""Relative error of an output that some dozens of operations leave."""


class Structure(NamedTuple):
    """Inputs that reach any number of constraints, and those that reach one each."""

    common: np.ndarray
    """Indices of inputs, shape (L,)."""
    local: np.ndarray
    """Indices of inputs that reach constraint i only, row i of (m, k); -1 where none."""


def is_analytic(inputs: Sequence[Variable], outputs: Sequence[Variable]) -> bool:
    """Whether the outputs are known to be analytic functions of the inputs.

    Then a derivative that is zero at a random point is zero everywhere.
    """
    moved = set(inputs)
    for node in io_toposort(inputs, outputs):
        # a shape is the same whatever the values are
        if not (moved.isdisjoint(node.inputs) or isinstance(node.op, Shape | Shape_i)):
            if not _is_analytic(node.op):
                return False
            moved.update(node.outputs)
    return True


def _is_analytic(op: Op) -> bool:
    if isinstance(op, Elemwise):
        return _is_analytic(op.scalar_op)
    if isinstance(op, scalar.Composite):
        return all(_is_analytic(node.op) for node in op.fgraph.apply_nodes)
    if isinstance(op, scalar.Cast):
        return bool(op.o_type.dtype.startswith("float"))
    if isinstance(op, Scan):
        inner = op.fgraph
        return not op.info.as_while and is_analytic(inner.inputs, inner.outputs)
    if type(op).__name__ == "Blockwise":
        return _is_analytic(op.core_op)
    return any(kind.__name__ in ANALYTIC for kind in type(op).__mro__)


def find_structure(
    jacobians: np.ndarray, noise: Sequence[int], labels: Sequence[str], *, analytic: bool
) -> Structure | None:
    """Structure of Jacobians (n, m, d) at random points; None where none helps.

    ``noise`` are inputs declared to reach one constraint each; without, zeros are trusted if the
    functions are ``analytic``.
    """
    reached = np.any(jacobians != 0.0, axis=0)
    n_affected = reached.sum(axis=0)
    n_outputs, n_dims = reached.shape
    if noise:
        wrong = [entry for entry in noise if n_affected[entry] > 1]
        if wrong:
            names = [labels[i] for i in np.flatnonzero(reached[:, wrong[0]])[:5]]
            raise ModelError(
                f"an entry of the declared noise reaches {int(n_affected[wrong[0]])} entries of "
                f"the output ({', '.join(names)}, ...), but may reach one; leave out noise=, or "
                "write it with the observed values of earlier entries in place of simulated ones"
            )
        is_local = np.isin(np.arange(n_dims), [entry for entry in noise if n_affected[entry]])
        # an input that reached nothing here may reach something elsewhere
        common = np.flatnonzero(~is_local)
    elif analytic and n_outputs >= 8:  # the dense Gram matrix of fewer costs next to nothing
        is_local = n_affected == 1
        common = np.flatnonzero(n_affected > 1)
    else:
        return None
    rows = [np.flatnonzero(row & is_local).tolist() for row in reached]
    width = max(1, max(map(len, rows)))
    local = np.array([row + [-1] * (width - len(row)) for row in rows])
    if np.any(local[:, :1] < 0) or not 0 < common.size <= n_outputs:
        return None
    if common.size > n_outputs // 2:
        # many common inputs may have full rank, which only the dense form makes use of where the
        # diagonal part of the Gram matrix is lost beside theirs
        of_common, of_local = (
            np.linalg.norm(jacobians[:, :, columns], axis=2) for columns in (common, is_local)
        )
        if not np.all(of_local > 1e-4 * of_common):
            return None
    return Structure(common, local)


def needs_loop(outputs: Sequence[Variable]) -> bool:
    """Whether a graph has a Scan, which is differentiated best row by row."""
    nodes = applys_between(list(graph_inputs(outputs)), outputs)
    return any(isinstance(node.op, Scan) for node in nodes)


class Arrays(NamedTuple):
    """What moves need of an array library."""

    xp: Any
    """``numpy`` or ``jax.numpy``."""
    while_loop: Callable[..., Any]
    """``(condition, body, state)`` to the last state."""
    cholesky: Callable[[Any], Any]
    """Lower factor; NaN where the matrix is not positive definite."""
    cho_solve: Callable[[Any, Any], Any]
    """``(factor, right side)`` to the solution."""
    solve: Callable[[Any, Any], Any]
    """``(matrix, right side)`` to the solution; not finite where the matrix is singular."""


def _while_loop(condition: Callable, body: Callable, state: Any) -> Any:
    while condition(state):
        state = body(state)
    return state


def _nan_where_singular(function: Callable) -> Callable:
    def call(*args: np.ndarray) -> np.ndarray:
        try:
            return np.asarray(function(*args))
        except np.linalg.LinAlgError:
            return np.full_like(args[-1], np.nan)

    return call


NUMPY = Arrays(
    np,
    _while_loop,
    _nan_where_singular(np.linalg.cholesky),
    lambda factor, right: cho_solve((factor, True), right, check_finite=False),
    _nan_where_singular(np.linalg.solve),
)


def jax_arrays() -> Arrays:
    """The same for JAX, imported only when asked for."""
    import jax
    import jax.numpy as jnp

    return Arrays(
        jnp,
        jax.lax.while_loop,
        jnp.linalg.cholesky,
        lambda factor, right: jax.scipy.linalg.cho_solve((factor, True), right),
        jnp.linalg.solve,
    )


class Linear(NamedTuple):
    """Jacobian at a point, and the factors of its Gram matrix."""

    jacobian: Any
    """Compressed, shape (m, s)."""
    inverse_diagonal: Any
    """Inverse of the diagonal part of the Gram matrix, shape (m,); empty if dense."""
    factor: Any
    """Cholesky factor of the Gram matrix (m, m), or of the small matrix (L, L)."""


@dataclass(frozen=True)
class Dense:
    """Products and solutions with a Jacobian that is a matrix (m, d)."""

    arrays: Arrays

    def compress(self, dense: Any) -> Any:
        """Compressed form (m, s) of a dense Jacobian (m, d): here the matrix itself."""
        return dense

    def factorise(self, jacobian: Any, raised: Any = 0.0) -> Linear:
        """Factors of the Gram matrix J J', its diagonal raised by numbers (m,)."""
        xp = self.arrays.xp
        gram = jacobian @ jacobian.T + raised * xp.eye(len(jacobian))
        return Linear(jacobian, xp.zeros(0), self.arrays.cholesky(gram))

    def multiplied(self, linear: Linear, vector: Any) -> Any:
        """J vector, shape (m,)."""
        return linear.jacobian @ vector

    def transposed(self, linear: Linear, vector: Any) -> Any:
        """J' vector, shape (d,)."""
        return linear.jacobian.T @ vector

    def solved(self, linear: Linear, right: Any) -> Any:
        """Inverse Gram matrix times right side."""
        return self.arrays.cho_solve(linear.factor, right)

    def cross_solve(self, jacobian: Any, base: Any, right: Any) -> Any:
        """Inverse of J J_base' times right side."""
        return self.arrays.solve(jacobian @ base.T, right)

    def half_log_det(self, linear: Linear) -> Any:
        """Half the log determinant of the Gram matrix (appendix B, eq. 38)."""
        xp = self.arrays.xp
        return xp.log(xp.diag(linear.factor)).sum()

    def cross_log_det(self, jacobian: Any, base: Any) -> Any:
        """Log of the absolute determinant of J J_base'."""
        return self.arrays.xp.linalg.slogdet(jacobian @ base.T)[1]

    def weights(self, linear: Linear) -> Any:
        """Derivative of `half_log_det` by the compressed Jacobian (appendix B, eq. 40)."""
        return self.solved(linear, linear.jacobian)

    def row_norms(self, jacobian: Any) -> Any:
        """Euclidean norm of each row of J, shape (m,)."""
        return self.arrays.xp.sqrt((jacobian**2).sum(axis=1))


@dataclass(frozen=True)
class Structured(Dense):
    """The Jacobian of common inputs (m, L) beside that of local inputs (m, k)."""

    structure: Structure
    n_dims: int

    @cached_property
    def _slots(self) -> np.ndarray:
        """For each input its place among common and local entries, or the place after the last."""
        inputs = np.concatenate([self.structure.common, self.structure.local.ravel()])
        used = np.flatnonzero(inputs >= 0)
        slots = np.full(self.n_dims, inputs.size)
        slots[inputs[used]] = used
        return slots

    def _parts(self, jacobian: Any) -> tuple[Any, Any]:
        n_common = self.structure.common.size
        return jacobian[:, :n_common], jacobian[:, n_common:]

    def compress(self, dense: Any) -> Any:
        """Columns of common inputs, then each row's own entries of local inputs."""
        xp, (common, local) = self.arrays.xp, self.structure
        own = xp.where(local >= 0, dense[np.arange(len(local))[:, None], local], 0.0)
        return xp.concatenate([dense[:, common], own], axis=1)

    def _lemma(self, jacobian: Any, base: Any, raised: Any = 0.0) -> tuple[Any, Any, Any]:
        """Of J J_base' = D + C C_base' with D diagonal: D^-1, D^-1 C, 1 + C_base' D^-1 C."""
        (common, own), (common_base, own_base) = self._parts(jacobian), self._parts(base)
        inverse = 1.0 / ((own * own_base).sum(axis=1) + raised)
        scaled = inverse[:, None] * common
        return inverse, scaled, self.arrays.xp.eye(common.shape[1]) + common_base.T @ scaled

    def factorise(self, jacobian: Any, raised: Any = 0.0) -> Linear:
        """Factors by the matrix inversion lemma."""
        inverse, _, small = self._lemma(jacobian, jacobian, raised)
        return Linear(jacobian, inverse, self.arrays.cholesky(small))

    def multiplied(self, linear: Linear, vector: Any) -> Any:
        """J vector."""
        common, own = self._parts(linear.jacobian)
        # the entry of a missing local input is zero, whatever it meets
        inputs = self.structure
        return common @ vector[inputs.common] + (own * vector[inputs.local]).sum(axis=1)

    def transposed(self, linear: Linear, vector: Any) -> Any:
        """J' vector."""
        xp = self.arrays.xp
        common, own = self._parts(linear.jacobian)
        parts = [common.T @ vector, (own * vector[:, None]).ravel(), xp.zeros(1)]
        return xp.concatenate(parts)[self._slots]

    def solved(self, linear: Linear, right: Any) -> Any:
        """Inverse Gram matrix times right side."""
        common, _ = self._parts(linear.jacobian)
        scaled = common * linear.inverse_diagonal[:, None]
        small = self.arrays.cho_solve(linear.factor, scaled.T @ right)
        return linear.inverse_diagonal * right - scaled @ small

    def cross_solve(self, jacobian: Any, base: Any, right: Any) -> Any:
        """Inverse of J J_base' times right side."""
        inverse, scaled, small = self._lemma(jacobian, base)
        right = inverse * right
        return right - scaled @ self.arrays.solve(small, self._parts(base)[0].T @ right)

    def half_log_det(self, linear: Linear) -> Any:
        """Half log determinant by the matrix determinant lemma."""
        large = -0.5 * self.arrays.xp.log(linear.inverse_diagonal).sum()
        return large + super().half_log_det(linear)

    def cross_log_det(self, jacobian: Any, base: Any) -> Any:
        """Log of the absolute determinant of J J_base', by the matrix determinant lemma."""
        xp, (inverse, _, small) = self.arrays.xp, self._lemma(jacobian, base)
        return xp.linalg.slogdet(small)[1] - xp.log(xp.abs(inverse)).sum()

    def weights(self, linear: Linear) -> Any:
        """Derivative of `half_log_det` by the compressed Jacobian."""
        xp = self.arrays.xp
        common, own = self._parts(linear.jacobian)
        inverse = linear.inverse_diagonal[:, None]
        scaled = common * inverse
        of_common = self.arrays.cho_solve(linear.factor, scaled.T).T
        # diagonal of the inverse Gram matrix
        diagonal = inverse[:, 0] - (of_common * scaled).sum(axis=1)
        return xp.concatenate([of_common, own * diagonal[:, None]], axis=1)


def make_algebra(arrays: Arrays, structure: Structure | None, n_dims: int) -> Dense:
    """Algebra of dense Jacobians, or of those with a structure, for d inputs."""
    return Dense(arrays) if structure is None else Structured(arrays, structure, n_dims)
