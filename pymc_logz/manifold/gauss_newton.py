"""Points of a level set, found from random inputs by a damped Gauss-Newton search."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from pymc_logz.errors import ModelError
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
    """Newton's method with line search; returns at once where ``residual`` is at most 1."""
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

    start = (*begin, residual, 0, xp.asarray(1.0))
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
    """Shape (m,)."""
    jacobian: np.ndarray
    """Compressed, shape (m, s)."""

    @property
    def converged(self) -> bool:
        """Whether every constraint is met."""
        return bool(np.max(self.residual) <= 1.0)


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

    def tolerances(self, row_norms: np.ndarray) -> np.ndarray:
        """Size of each constraint that counts as zero where J has rows of these norms, (m,)."""
        return self.tolerance * row_norms + RELATIVE_ROUNDING * np.maximum(
            np.abs(self.observed), 1e-300
        )

    def run(self, start: np.ndarray, max_iterations: int = 200) -> Found:
        """Follow damped Gauss-Newton steps of least length from ``start`` (Levenberg-Marquardt)."""
        position, value = start, np.asarray(self.constraint(start))
        found = self._found(position, value)
        # how far one unit of the inputs moves each constraint where the search begins
        units = np.maximum(self.algebra.row_norms(found.jacobian), 1e-300)
        # relative to the Gram matrix: below 1e-12 it changes no digit, above 1e8 steps are none
        damping = 1e-3
        for _ in range(max_iterations):
            if found.converged or not np.all(np.isfinite(found.jacobian)):
                break
            step = self._step(found, value, damping * units**2)
            trial = np.asarray(self.constraint(position + step))
            if _size(trial / units) < _size(value / units):
                position, value = position + step, trial
                found = self._found(position, value)
                damping = max(damping / 5.0, 1e-12)
            else:
                damping *= 8.0
            if damping > 1e8:
                break
        return found

    def _found(self, position: np.ndarray, value: np.ndarray) -> Found:
        jacobian = np.asarray(self.jacobian(position))
        tolerance = self.tolerances(self.algebra.row_norms(jacobian))
        residual = np.abs(value) / np.where(tolerance > 0, tolerance, np.inf)
        # a constraint that no input moves is met or it is not
        residual = np.where((tolerance > 0) | (value == 0), residual, np.inf)
        residual = np.where(np.isnan(residual), np.inf, residual)
        return Found(position, value, residual, tolerance, jacobian)

    def _step(self, found: Found, value: np.ndarray, raised: np.ndarray) -> np.ndarray:
        linear = self.algebra.factorise(found.jacobian, raised)
        step = -self.algebra.transposed(linear, self.algebra.solve(linear, value))
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


def find_point(
    search: Search,
    draw: Callable[[int], np.ndarray],
    labels: Sequence[str],
    usable: Callable[[Found], bool],
) -> Found:
    """A point of the level set, from the first random inputs (n, d) of ``draw`` that lead to one.

    ``usable`` says whether a chain may start there. A ModelError has the best residual, and the
    entries that could not be matched.
    """
    best: Found | None = None
    n_finite, deficient = 0, False
    with np.errstate(all="ignore"):
        drawn = (start for _ in range(MAX_STARTS // 128) for start in draw(128))
        finite = (one for one in drawn if np.all(np.isfinite(np.asarray(search.constraint(one)))))
        for start in islice(finite, 100):
            n_finite += 1
            found = search.run(start)
            if found.converged and search.has_full_rank(found):
                if usable(found):
                    return found
            elif found.converged:
                deficient = True
            if best is None or _closeness(found) < _closeness(best):
                best = found
    raise ModelError(_explanation(search, best, labels, n_finite, deficient))


def _explanation(
    search: Search,
    best: Found | None,
    labels: Sequence[str],
    n_finite: int,
    deficient: bool,
) -> str:
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


def _closeness(found: Found) -> tuple[int, float]:
    """Constraints that are not met, and how far off they are."""
    return int(np.sum(found.residual > 1.0)), _size(found.value)


def _size(values: np.ndarray) -> float:
    """Euclidean norm, infinite where something is NaN."""
    size = float(np.linalg.norm(values))
    return np.inf if np.isnan(size) else size
