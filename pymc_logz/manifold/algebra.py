"""Projections onto a level set and its tangent space, for NumPy and JAX from one source.

Inputs u have d entries, constraints c(u) = 0 have m, and J is the Jacobian of c. Where most inputs
reach one constraint only, J is kept in compressed form: its columns of *common* inputs (m, L), and
for each constraint its entries of *local* inputs (m, k). The Gram matrix J J' is then diagonal plus
rank L, and no matrix of m rows and m columns is ever made.

References
----------
Graham & Storkey (2017), algorithm 1 and appendix C, arXiv 1605.07826.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.linalg import cho_solve

from pymc_logz.manifold.structure import Structure


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


def _cholesky(matrix: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return np.full_like(matrix, np.nan)


def _solve(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.solve(matrix, right)
    except np.linalg.LinAlgError:
        return np.full_like(right, np.nan)


NUMPY = Arrays(
    np,
    _while_loop,
    _cholesky,
    lambda factor, right: cho_solve((factor, True), right, check_finite=False),
    _solve,
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


class Algebra(Protocol):
    """Products and solutions with a Jacobian in one of its forms."""

    @property
    def arrays(self) -> Arrays:
        """The array library."""

    def compress(self, dense: Any) -> Any:
        """Compressed form (m, s) of a dense Jacobian (m, d)."""

    def factorise(self, jacobian: Any, raised: Any = 0.0) -> Linear:
        """Factors of the Gram matrix, its diagonal raised by numbers (m,)."""

    def multiply(self, linear: Linear, vector: Any) -> Any:
        """J vector, shape (m,)."""

    def transposed(self, linear: Linear, vector: Any) -> Any:
        """J' vector, shape (d,)."""

    def solve(self, linear: Linear, right: Any) -> Any:
        """Inverse Gram matrix times right side."""

    def cross_solve(self, jacobian: Any, base: Any, right: Any) -> Any:
        """Inverse of J J_base' times right side."""

    def half_log_det(self, linear: Linear) -> Any:
        """Half the log determinant of the Gram matrix."""

    def cross_log_det(self, jacobian: Any, base: Any) -> Any:
        """Log of the absolute determinant of J J_base'."""

    def weights(self, linear: Linear) -> Any:
        """Compressed form of the inverse Gram matrix times J: derivative of `half_log_det` by J."""

    def row_norms(self, jacobian: Any) -> Any:
        """Euclidean norm of each row of J, shape (m,)."""


@dataclass(frozen=True)
class Dense:
    """The Jacobian as a matrix (m, d)."""

    arrays: Arrays

    def compress(self, dense: Any) -> Any:
        """The matrix itself."""
        return dense

    def factorise(self, jacobian: Any, raised: Any = 0.0) -> Linear:
        """Cholesky factor of J J' + diag(raised)."""
        xp = self.arrays.xp
        gram = jacobian @ jacobian.T + raised * xp.eye(len(jacobian))
        return Linear(jacobian, xp.zeros(0), self.arrays.cholesky(gram))

    def multiply(self, linear: Linear, vector: Any) -> Any:
        """J vector."""
        return linear.jacobian @ vector

    def transposed(self, linear: Linear, vector: Any) -> Any:
        """J' vector."""
        return linear.jacobian.T @ vector

    def solve(self, linear: Linear, right: Any) -> Any:
        """Inverse Gram matrix times right side."""
        return self.arrays.cho_solve(linear.factor, right)

    def cross_solve(self, jacobian: Any, base: Any, right: Any) -> Any:
        """Inverse of J J_base' times right side."""
        return self.arrays.solve(jacobian @ base.T, right)

    def half_log_det(self, linear: Linear) -> Any:
        """Sum of the logs of the factor's diagonal (appendix B, eq. 38)."""
        xp = self.arrays.xp
        return xp.log(xp.diag(linear.factor)).sum()

    def cross_log_det(self, jacobian: Any, base: Any) -> Any:
        """Log of the absolute determinant of J J_base'."""
        return self.arrays.xp.linalg.slogdet(jacobian @ base.T)[1]

    def weights(self, linear: Linear) -> Any:
        """Matrix in the square brackets of appendix B, eq. 40."""
        return self.solve(linear, linear.jacobian)

    def row_norms(self, jacobian: Any) -> Any:
        """Norms of the rows."""
        return self.arrays.xp.sqrt((jacobian**2).sum(axis=1))


@dataclass(frozen=True)
class Structured:
    """The Jacobian of common inputs (m, L) beside that of local inputs (m, k)."""

    arrays: Arrays
    common: np.ndarray
    """Indices of the inputs that may reach any constraint, shape (L,)."""
    local: np.ndarray
    """Indices of the inputs that reach constraint i only, row i of (m, k); -1 where none."""
    n_dims: int
    _slots: np.ndarray = field(init=False)
    """For each input its place among common and local entries, or the place after the last."""

    def __post_init__(self) -> None:
        n_common, flat = self.common.size, self.local.ravel()
        slots = np.full(self.n_dims, n_common + flat.size)
        slots[self.common] = np.arange(n_common)
        used = flat >= 0
        slots[flat[used]] = n_common + np.flatnonzero(used)
        object.__setattr__(self, "_slots", slots)

    def _parts(self, jacobian: Any) -> tuple[Any, Any]:
        return jacobian[:, : self.common.size], jacobian[:, self.common.size :]

    def compress(self, dense: Any) -> Any:
        """Columns of common inputs, then each row's own entries of local inputs."""
        xp = self.arrays.xp
        rows = np.arange(len(self.local))[:, None]
        own = xp.where(self.local >= 0, dense[rows, self.local], 0.0)
        return xp.concatenate([dense[:, self.common], own], axis=1)

    def factorise(self, jacobian: Any, raised: Any = 0.0) -> Linear:
        """Factors by the matrix inversion lemma: Gram = D + C C' with D diagonal."""
        xp = self.arrays.xp
        common, own = self._parts(jacobian)
        inverse = 1.0 / ((own**2).sum(axis=1) + raised)
        small = xp.eye(self.common.size) + common.T @ (inverse[:, None] * common)
        return Linear(jacobian, inverse, self.arrays.cholesky(small))

    def multiply(self, linear: Linear, vector: Any) -> Any:
        """J vector."""
        common, own = self._parts(linear.jacobian)
        # the entry of a missing local input is zero, whatever it meets
        return common @ vector[self.common] + (own * vector[self.local]).sum(axis=1)

    def transposed(self, linear: Linear, vector: Any) -> Any:
        """J' vector."""
        xp = self.arrays.xp
        common, own = self._parts(linear.jacobian)
        parts = [common.T @ vector, (own * vector[:, None]).ravel(), xp.zeros(1)]
        return xp.concatenate(parts)[self._slots]

    def solve(self, linear: Linear, right: Any) -> Any:
        """Inverse Gram matrix times right side."""
        common, _ = self._parts(linear.jacobian)
        scaled = common * linear.inverse_diagonal[:, None]
        small = self.arrays.cho_solve(linear.factor, scaled.T @ right)
        return linear.inverse_diagonal * right - scaled @ small

    def cross_solve(self, jacobian: Any, base: Any, right: Any) -> Any:
        """Inverse of J J_base' times right side."""
        xp = self.arrays.xp
        common, own = self._parts(jacobian)
        common_base, own_base = self._parts(base)
        inverse = 1.0 / (own * own_base).sum(axis=1)
        scaled = common * inverse[:, None]
        small = xp.eye(self.common.size) + common_base.T @ scaled
        return inverse * right - scaled @ self.arrays.solve(
            small, common_base.T @ (inverse * right)
        )

    def half_log_det(self, linear: Linear) -> Any:
        """Half log determinant by the matrix determinant lemma."""
        xp = self.arrays.xp
        large = -0.5 * xp.log(linear.inverse_diagonal).sum()
        return large + xp.log(xp.diag(linear.factor)).sum()

    def cross_log_det(self, jacobian: Any, base: Any) -> Any:
        """Log of the absolute determinant of J J_base', by the matrix determinant lemma."""
        xp = self.arrays.xp
        common, own = self._parts(jacobian)
        common_base, own_base = self._parts(base)
        diagonal = (own * own_base).sum(axis=1)
        small = xp.eye(self.common.size) + common_base.T @ (common / diagonal[:, None])
        return xp.log(xp.abs(diagonal)).sum() + xp.linalg.slogdet(small)[1]

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

    def row_norms(self, jacobian: Any) -> Any:
        """Norms of the rows."""
        return self.arrays.xp.sqrt((jacobian**2).sum(axis=1))


def make_algebra(arrays: Arrays, structure: Structure | None, n_dims: int) -> Algebra:
    """Algebra of dense Jacobians, or of those with a structure, for d inputs."""
    if structure is None:
        return Dense(arrays)
    return Structured(arrays, structure.common, structure.local, n_dims)
