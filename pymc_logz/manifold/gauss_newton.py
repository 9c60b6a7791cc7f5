"""Points of a level set, found from random inputs by a damped Gauss-Newton search."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

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

    The quasi-Newton search has the Gram matrix of the base point for its derivative (Barth et al.,
    1995, doi 10.1002/jcc.540161003); Newton's method with line search takes over where it fails.
    The result depends on ``start`` and ``base`` alone, as the reversibility check needs it.
    """
    algebra, xp = system.algebra, system.arrays.xp

    def search(state: tuple[Any, ...]) -> Any:
        _, _, residual, n = state
        return (residual > 1.0) & (residual < MAX_RESIDUAL) & (n < max_iterations)

    def improve(state: tuple[Any, ...]) -> tuple[Any, ...]:
        position, value, _, n = state
        position = position - algebra.transposed(base, algebra.solved(base, value))
        value = system.constraint(position)
        return position, value, system.residual(value), n + 1

    value = system.constraint(start)
    first = (start, value, system.residual(value))
    *last, n = system.arrays.while_loop(search, improve, (*first, 0))
    found = last[2] <= 1.0
    begin = [xp.where(found, *pair) for pair in zip(last, first, strict=True)]
    position, residual, n_newton = _newton(system, begin, base, max_iterations)
    return Projection(position, residual, n, n_newton)


def _newton(
    system: System, begin: Sequence[Any], base: Linear, max_iterations: int
) -> tuple[Any, Any, Any]:
    """Newton's method with line search from a position, its value and its residual."""
    # it gives up where a thousandth of a step is not enough of a decrease (Armijo's usual constant)
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

    start = (*begin, 0, xp.asarray(1.0))
    position, _, residual, n, _ = system.arrays.while_loop(search, improve, start)
    return position, residual, n


RELATIVE_ROUNDING = 64 * np.finfo(float).eps
"""Relative error of an output that some dozens of operations leave."""
MAX_STARTS = 2**15
"""Prior draws after which a simulator counts as finite nowhere."""


class Found(NamedTuple):
    """Where a search ended."""

    position: np.ndarray
    """Inputs in units of their scales, shape (d,)."""
    value: np.ndarray
    """Constraints there, shape (m,)."""
    residual: np.ndarray
    """Size of each constraint in units of its tolerance, shape (m,); infinite where it is NaN."""
    tolerance: np.ndarray
    """Size of each constraint that counts as zero there, shape (m,)."""
    jacobian: np.ndarray
    """Compressed, shape (m, s)."""

    @property
    def converged(self) -> bool:
        """Whether every constraint is met."""
        return bool(np.max(self.residual) <= 1.0)

    @property
    def distance(self) -> tuple[int, float]:
        """Constraints that are not met, and how far off they are."""
        return int(np.sum(self.residual > 1.0)), _size(self.value)


@dataclass(frozen=True)
class Search:
    """What a search needs to know of the level set, as functions of inputs in their units."""

    constraint: Callable[[np.ndarray], Any]
    jacobian: Callable[[np.ndarray], Any]
    algebra: Any
    """On NumPy arrays."""
    observed: np.ndarray
    """What was observed, shape (m,), for the rounding errors to expect."""
    tolerance: float
    """Distance to the level set that counts as none, in units of the scales."""

    def run(self, start: np.ndarray, max_iterations: int = 200) -> Found:
        """Follow damped Gauss-Newton steps of least length from ``start`` (Levenberg-Marquardt)."""
        found = self._found(start, np.asarray(self.constraint(start)))
        # how far one unit of the inputs moves each constraint where the search begins
        units = np.maximum(self.algebra.row_norms(found.jacobian), 1e-300)
        # relative to the Gram matrix: below 1e-12 it changes no digit, above 1e8 steps are none
        damping = 1e-3
        for _ in range(max_iterations):
            if found.converged or not np.all(np.isfinite(found.jacobian)):
                break
            ahead = found.position + self._step(found, damping * units**2)
            trial = np.asarray(self.constraint(ahead))
            if _size(trial / units) < _size(found.value / units):
                found = self._found(ahead, trial)
                damping = max(damping / 5.0, 1e-12)
            else:
                damping *= 8.0
            if damping > 1e8:
                break
        return found

    def _found(self, position: np.ndarray, value: np.ndarray) -> Found:
        jacobian = np.asarray(self.jacobian(position))
        rounding = RELATIVE_ROUNDING * np.maximum(np.abs(self.observed), 1e-300)
        tolerance = self.tolerance * self.algebra.row_norms(jacobian) + rounding
        residual = np.abs(value) / np.where(tolerance > 0, tolerance, np.inf)
        # a constraint that no input moves is met or it is not
        residual = np.where((tolerance > 0) | (value == 0), residual, np.inf)
        residual = np.where(np.isnan(residual), np.inf, residual)
        return Found(position, value, residual, tolerance, jacobian)

    def _step(self, found: Found, raised: np.ndarray) -> np.ndarray:
        linear = self.algebra.factorise(found.jacobian, raised)
        step = -self.algebra.transposed(linear, self.algebra.solved(linear, found.value))
        length = float(np.linalg.norm(step))
        if not np.isfinite(length):
            return np.full_like(found.position, np.nan)
        # a longer step leaves the region that the prior draw stands for
        return step * min(1.0, 10.0 / max(length, 1e-300))

    def has_full_rank(self, found: Found) -> bool:
        """Whether the rows of the Jacobian are independent beyond rounding."""
        norms = self.algebra.row_norms(found.jacobian)
        if not (np.all(np.isfinite(norms)) and np.all(norms > 0)):
            return False
        linear = self.algebra.factorise(found.jacobian / norms[:, None])
        if linear.inverse_diagonal.size:
            return bool(np.all(np.isfinite(linear.factor)) and linear.inverse_diagonal.max() < 1e14)
        # rows have norm one: above the square root of rounding error
        return bool(np.min(np.diag(linear.factor)) > 1e-7)


def explanation(
    search: Search,
    best: Found | None,
    labels: Sequence[str],
    n_finite: int,
    deficient: bool,
) -> str:
    """Why no search has ended at a point where a chain may start."""
    if best is None:
        return (
            f"the observed output is NaN or infinite at each of {MAX_STARTS} prior draws, so there "
            "is nowhere to start from; check the simulator, or narrow the prior so that it stays "
            "finite"
        )
    if deficient or best.converged:
        return (
            "the Jacobian of the exactly observed outputs has not full rank where they are "
            f"matched: some of {_listed(labels, range(len(labels)))} are functions of others, or "
            "do not move with any input, or the density is zero there; leave out what is "
            "redundant, or give it noise of its own"
        )
    worst = [i for i in np.argsort(best.residual)[::-1] if best.residual[i] > 1.0]
    still = [i for i in worst if search.algebra.row_norms(best.jacobian)[i] == 0]
    hint = f"; {_listed(labels, still)} did not move with any input" if still else ""
    return (
        f"no inputs were found that give what was observed, from {n_finite} finite prior draws: "
        f"the closest are off by {np.abs(best.value).max():.3g}, and {len(worst)} of "
        f"{len(labels)} entries could not be matched ({_listed(labels, worst)}){hint}. Check that "
        "the simulator can "
        "reach the data; if it can, pass a point that does as initvals to pm.sample"
    )


def _listed(labels: Sequence[str], entries: Sequence[int]) -> str:
    names = [labels[i] for i in entries]
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")


def _size(values: np.ndarray) -> float:
    """Euclidean norm, infinite where something is NaN."""
    size = float(np.linalg.norm(values))
    return np.inf if np.isnan(size) else size
