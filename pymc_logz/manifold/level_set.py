"""The level set of a model's exact observations: units and structure of its inputs, its points."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pymc_logz.manifold.algebra import NUMPY, make_algebra
from pymc_logz.manifold.compiled import CompiledGenerator, PickledByFields
from pymc_logz.manifold.gauss_newton import Found, Search, find_point
from pymc_logz.manifold.rattle import ManifoldState, state_at
from pymc_logz.manifold.structure import Structure, find_structure, is_analytic
from pymc_logz.manifold.system import System

N_PRIOR = 256
"""Prior draws that the scales are read off, which need no more than a digit."""
N_JACOBIANS = 4
"""Jacobians that the pattern of zeros is read off: one is enough if functions are analytic."""
N_TRIES = 100
"""Searches before it is said that no inputs give what was observed."""
QUARTILE_WIDTH = 1.349
"""Of a standard normal, from the first quartile to the third."""


@dataclass(frozen=True, eq=False)
class LevelSet(PickledByFields):
    """The level set of a model in units of its inputs' scales, and the search for points of it."""

    compiled: CompiledGenerator
    scale: np.ndarray
    """Length scales of the unconstrained inputs, shape (d,)."""
    structure: Structure | None
    """Which inputs reach which constraints; None for a dense Jacobian."""
    distance: float
    """Distance to the level set that counts as none, in units of the scales."""

    @cached_property
    def system(self) -> System:
        """Constraints and density; their tolerances are known only once a point has been found."""
        n_outputs = self.compiled.generator.n_outputs
        return self.compiled.backend.system(self.scale, np.ones(n_outputs), self.structure)

    @cached_property
    def state_at(self) -> Callable[[np.ndarray], ManifoldState]:
        """Function from a position to the state there."""
        system = self.system
        return self.compiled.backend.compile(lambda position: state_at(system, position))

    @cached_property
    def search(self) -> Search:
        """Compiled constraints and Jacobian, for a search that runs in NumPy."""
        system, backend, generator = self.system, self.compiled.backend, self.compiled.generator
        return Search(
            backend.compile(system.constraint),
            backend.compile(system.jacobian),
            make_algebra(NUMPY, self.structure, generator.n_dims),
            generator.observed,
            self.distance,
        )

    def find_point(self, rng: np.random.Generator) -> Found:
        """A point of the level set, by way of the first prior draws that lead to one."""

        def usable(found: Found) -> bool:
            state = self.state_at(found.position)
            return bool(np.isfinite(state.log_density) and np.all(np.isfinite(state.gradient)))

        return find_point(
            self.search,
            lambda n: self.compiled.prior(rng, n) / self.scale,
            self.compiled.generator.labels,
            usable=usable,
            n_tries=N_TRIES,
        )

    def tolerances_at(self, position: np.ndarray) -> np.ndarray:
        """Size of each constraint that is as good as zero near a position, shape (m,)."""
        return self.search.tolerances(self._row_norms(position))

    def structure_holds(self, position: np.ndarray) -> bool:
        """Whether no entry of the Jacobian is left out at a position."""
        if self.structure is None:
            return True
        dense = self.scale * np.asarray(self.compiled.jacobian(self.scale * position))
        expected = np.sqrt((dense**2).sum(axis=1))
        return bool(np.allclose(self._row_norms(position), expected, rtol=1e-8))

    def _row_norms(self, position: np.ndarray) -> np.ndarray:
        return self.search.algebra.row_norms(np.asarray(self.search.jacobian(position)))


def find_level_set(
    compiled: CompiledGenerator,
    rng: np.random.Generator,
    *,
    distance: float,
    scale: np.ndarray | None,
    use_structure: bool,
) -> LevelSet:
    """The level set, with units and structure of its inputs read off draws of the prior.

    Parameters
    ----------
    compiled
        The model.
    rng
        Generator of the draws.
    distance
        Distance to the level set that counts as none, in units of the scales.
    scale
        Length scales of the unconstrained inputs, shape (d,); None takes the spread of the prior.
    use_structure
        Whether to look for inputs that reach one constraint each.
    """
    rows = compiled.prior(rng, N_PRIOR)
    scale = _spread(rows) if scale is None else scale
    structure = _structure_at(compiled, rows) if use_structure else None
    return LevelSet(compiled, scale, structure, distance)


def _spread(rows: np.ndarray) -> np.ndarray:
    """Standard deviation of each column, told from its quartiles."""
    low, high = np.quantile(rows, [0.25, 0.75], axis=0)
    width = (high - low) / QUARTILE_WIDTH
    return np.where(np.isfinite(width) & (width > 0), width, 1.0)


def _structure_at(compiled: CompiledGenerator, rows: np.ndarray) -> Structure | None:
    """Structure that the first finite Jacobians at some inputs have in common."""
    generator = compiled.generator
    jacobians = [np.asarray(compiled.jacobian(row)) for row in rows[: 8 * N_JACOBIANS]]
    finite = [value for value in jacobians if np.all(np.isfinite(value))][:N_JACOBIANS]
    if not finite:
        return None
    analytic = is_analytic([generator.flat.point], [generator.residual])
    return find_structure(np.stack(finite), generator.noise, generator.labels, analytic=analytic)
