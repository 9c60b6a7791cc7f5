"""Projection of a point onto a level set: quasi-Newton steps that reuse a factor, then Newton."""

from typing import Any, NamedTuple

from pymc_logz.manifold.algebra import Linear
from pymc_logz.manifold.backends import System

MAX_RESIDUAL = 1e30
"""Units of the tolerance: a search that is as far off as this has diverged."""


class Projection(NamedTuple):
    """Where the search for a point of the level set ended."""

    position: Any
    residual: Any
    """In units of the tolerance: it converged if this is at most 1."""
    n_iterations: Any
    """Of the quasi-Newton search."""
    n_newton: Any
    """Of Newton's method with line search, which takes over where that fails."""


def project_position(
    system: System, start: Any, base: Linear, max_iterations: int = 30
) -> Projection:
    """Point of the level set at ``start - J_base' multipliers``, by solving for the multipliers.

    The quasi-Newton search has the Gram matrix of the base point for its derivative, so that an
    iteration costs one evaluation of the constraints and a solution with known factors; Newton's
    method with line search takes over where it fails. The result depends on nothing but ``start``
    and ``base``, which the reversibility check relies on.

    References
    ----------
    Graham & Storkey (2017), function ProjectPosition of algorithm 1; Barth et al. (1995), doi
    10.1002/jcc.540161003, for the symmetric quasi-Newton search.
    """
    algebra, xp = system.algebra, system.arrays.xp

    def search(state: tuple[Any, ...]) -> Any:
        _, _, residual, n = state
        return (residual > 1.0) & (residual < MAX_RESIDUAL) & (n < max_iterations)

    def improve(state: tuple[Any, ...]) -> tuple[Any, ...]:
        position, value, _, n = state
        position = position - algebra.transposed(base, algebra.solve(base, value))
        value = system.constraint(position)
        return position, value, system.residual(value), n + 1

    value = system.constraint(start)
    first = (start, value, system.residual(value), 0)
    position, value, residual, n = system.arrays.while_loop(search, improve, first)
    found = residual <= 1.0
    begin = (xp.where(found, position, start), xp.where(found, value, first[1]))
    residual = xp.where(found, residual, first[2])
    position, residual, n_newton = _newton(system, begin, residual, base, max_iterations)
    return Projection(position, residual, n, n_newton)


def _newton(
    system: System, begin: tuple[Any, Any], residual: Any, base: Linear, max_iterations: int
) -> tuple[Any, Any, Any]:
    """Newton's method with line search; returns at once where ``residual`` is at most 1.

    It gives up where a thousandth of a step is not enough of a decrease (Armijo's usual constant).
    """
    algebra, xp, min_step, sufficient = system.algebra, system.arrays.xp, 2.0**-10, 1e-4

    def search(state: tuple[Any, ...]) -> Any:
        _, _, residual, n, step = state
        return (
            (residual > 1.0) & (residual < MAX_RESIDUAL) & (n < max_iterations) & (step >= min_step)
        )

    def improve(state: tuple[Any, ...]) -> tuple[Any, ...]:
        position, value, residual, n, _ = state
        jacobian = system.jacobian(position)
        multipliers = algebra.cross_solve(jacobian, base.jacobian, value)
        direction = -algebra.transposed(base, multipliers)

        def worse(line: tuple[Any, ...]) -> Any:
            step, _, reached = line
            return ~(reached <= (1.0 - sufficient * step) * residual) & (step >= min_step)

        def shorten(line: tuple[Any, ...]) -> tuple[Any, ...]:
            step = 0.5 * line[0]
            value = system.constraint(position + step * direction)
            return step, value, system.residual(value)

        trial = system.constraint(position + direction)
        line = (xp.asarray(1.0), trial, system.residual(trial))
        step, trial, reached = system.arrays.while_loop(worse, shorten, line)
        return position + step * direction, trial, reached, n + 1, step

    start = (*begin, residual, 0, xp.asarray(1.0))
    position, _, residual, n, _ = system.arrays.while_loop(search, improve, start)
    return position, residual, n
