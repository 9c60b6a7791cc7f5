"""A model with exact observations, ready to be sampled: its level set and compiled moves on it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # PyMC's own dependency

from pymc_logz.errors import ModelError
from pymc_logz.graphs.functions import settings_key
from pymc_logz.manifold.algebra import (
    NUMPY,
    RELATIVE_ROUNDING,
    Dense,
    Structure,
    find_structure,
    is_analytic,
    make_algebra,
)
from pymc_logz.manifold.backends import Backend, System, make_backend
from pymc_logz.manifold.generator import Generator, make_generator
from pymc_logz.manifold.rattle import (
    ConstrainedHamiltonian,
    ManifoldState,
    TransitionInput,
    TransitionRecord,
    project_position,
    state_at,
)
from pymc_logz.models.cache import kept_for
from pymc_logz.models.prior import PriorDraws

MAX_TRANSITIONS = 16
"""In one call, since a call of a function of JAX costs as much as several steps."""
MAX_STARTS = 2**15
"""Prior draws after which a simulator counts as finite nowhere."""

_threads = cache(ThreadpoolController)


def one_blas_thread() -> Any:
    """Context in which BLAS does not start threads, which cost more than these small matrices."""
    return _threads().limit(limits=1, user_api="blas")


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


class ConstrainedModel:
    """The level set of a model's exact observations, and compiled moves on it.

    Inputs are in units of ``scale``, by default the spread of the prior; ``distance`` to the set
    counts as none. It pickles as what it was made of, and compiles again where it arrives.
    """

    def __init__(
        self,
        model: pm.Model,
        moves: ConstrainedHamiltonian,
        rng: np.random.Generator,
        *,
        distance: float = 1e-9,
        scale: Sequence[float] | np.ndarray | None = None,
        use_structure: bool = True,
        compile_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self.model, self.moves, self.distance = model, moves, distance
        self.compile_kwargs = compile_kwargs
        self.generator  # noqa: B018  # checks the model before it is drawn from
        # scales need no more than a digit
        rows = PriorDraws(model)(rng, 256)
        if scale is None:
            # quartiles of a normal distribution are 1.349 standard deviations apart
            low, high = np.quantile(rows, [0.25, 0.75], axis=0)
            width = (high - low) / 1.349
            scale = np.where(np.isfinite(width) & (width > 0), width, 1.0)
        self.scale = np.array(scale)
        self.structure = self._structure_at(rows) if use_structure else None
        self.tolerance = self.find_point(rng).tolerance
        """Size of each constraint that counts as zero, shape (m,)."""
        self.system = replace(self.system, tolerance=self.tolerance)

    def __getstate__(self) -> dict[str, Any]:
        """What it was made of, without cached properties."""
        return {name: value for name, value in vars(self).items() if not hasattr(type(self), name)}

    @cached_property
    def backend(self) -> Backend:
        """What functions are compiled with, the same whatever the units of inputs."""
        return kept_for(self.model).get(
            (make_backend, settings_key(self.compile_kwargs)),
            lambda: make_backend(make_generator(self.model), self.compile_kwargs),
        )

    @property
    def generator(self) -> Generator:
        """Symbolic form."""
        symbolic = self.backend.symbolic
        assert isinstance(symbolic, Generator)
        return symbolic

    def _structure_at(self, rows: np.ndarray) -> Structure | None:
        """Structure that the first four finite Jacobians have in common."""
        generator = self.generator
        jacobians = [np.asarray(self.backend.jacobian(row)) for row in rows[:32]]
        finite = [value for value in jacobians if np.all(np.isfinite(value))][:4]
        if not finite:
            return None
        analytic = is_analytic([generator.point], [generator.residual])
        return find_structure(
            np.stack(finite), generator.noise, generator.labels, analytic=analytic
        )

    @cached_property
    def system(self) -> System:
        """Density and constraints; any tolerance will do before a point has been found."""
        tolerance = vars(self).get("tolerance", np.ones(self.generator.n_outputs))
        return self.backend.system(self.scale, tolerance, self.structure)

    @cached_property
    def state_at(self) -> Callable[[np.ndarray], ManifoldState]:
        """Function from a position (d,) to the state there."""
        system = self.system
        return self.backend.compile(lambda position: state_at(system, position))

    # what a search needs, which runs in NumPy

    @cached_property
    def _constraint(self) -> Callable[[np.ndarray], Any]:
        return self.backend.compile(self.system.constraint)

    @cached_property
    def _jacobian(self) -> Callable[[np.ndarray], Any]:
        return self.backend.compile(self.system.jacobian)

    @cached_property
    def _algebra(self) -> Dense:
        return make_algebra(NUMPY, self.structure, self.generator.n_dims)

    def find_point(self, rng: np.random.Generator) -> Found:
        """A point of the level set where a chain may start, by way of the first prior draws."""
        best, n_finite = None, 0
        with np.errstate(all="ignore"):
            blocks = (PriorDraws(self.model)(rng, 128) for _ in range(MAX_STARTS // 128))
            drawn = (start for block in blocks for start in block / self.scale)
            finite = (one for one in drawn if np.all(np.isfinite(self._constraint(one))))
            for start in islice(finite, 100):
                n_finite += 1
                found = self.search(start)
                if found.converged and self.has_full_rank(found):
                    state = self.state_at(found.position)
                    if np.isfinite(state.log_density) and np.all(np.isfinite(state.gradient)):
                        return found
                if best is None or found.distance < best.distance:
                    best = found
        raise ModelError(self._explanation(best, n_finite))

    def search(self, start: np.ndarray) -> Found:
        """Follow damped Gauss-Newton steps of least length from ``start`` (Levenberg-Marquardt)."""
        algebra, found = self._algebra, self._found(start, np.asarray(self._constraint(start)))
        # how far one unit of the inputs moves each constraint where the search begins
        units = np.maximum(algebra.row_norms(found.jacobian), 1e-300)
        # relative to the Gram matrix: below 1e-12 it changes no digit, above 1e8 steps are none
        damping = 1e-3
        for _ in range(200):
            if found.converged or not np.all(np.isfinite(found.jacobian)):
                break
            linear = algebra.factorise(found.jacobian, damping * units**2)
            step = -algebra.transposed(linear, algebra.solved(linear, found.value))
            # a longer step leaves the region that the prior draw stands for
            ahead = found.position + step * np.minimum(1.0, 10.0 / np.linalg.norm(step))
            trial = np.asarray(self._constraint(ahead))
            if _size(trial / units) < _size(found.value / units):
                found = self._found(ahead, trial)
                damping = max(damping / 5.0, 1e-12)
            else:
                damping *= 8.0
            if damping > 1e8:
                break
        return found

    def _found(self, position: np.ndarray, value: np.ndarray) -> Found:
        jacobian = np.asarray(self._jacobian(position))
        rounding = RELATIVE_ROUNDING * np.maximum(np.abs(self.generator.observed), 1e-300)
        tolerance = self.distance * self._algebra.row_norms(jacobian) + rounding
        # zero is met whatever the Jacobian is
        residual = np.where(value == 0, 0.0, np.abs(value) / tolerance)
        residual = np.where(np.isnan(residual), np.inf, residual)
        return Found(position, value, residual, tolerance, jacobian)

    def has_full_rank(self, found: Found) -> bool:
        """Whether the rows of the Jacobian are independent beyond rounding."""
        # a row without a norm gives NaN, which is below no bound and above none
        norms = self._algebra.row_norms(found.jacobian)
        linear = self._algebra.factorise(found.jacobian / norms[:, None])
        if linear.inverse_diagonal.size:
            return bool(np.all(np.isfinite(linear.factor)) and linear.inverse_diagonal.max() < 1e14)
        # rows have norm one: above the square root of rounding error
        return bool(np.min(np.diag(linear.factor)) > 1e-7)

    def _explanation(self, best: Found | None, n_finite: int) -> str:
        """Why no search has ended at a point where a chain may start."""
        labels = self.generator.labels
        if best is None:
            return (
                f"the observed output is NaN or infinite at each of {MAX_STARTS} prior draws, so "
                "there is nowhere to start from; check the simulator, or narrow the prior so that "
                "it stays finite"
            )
        if best.converged:
            return (
                "the Jacobian of the exactly observed outputs has not full rank where they are "
                f"matched: some of {_listed(labels)} are functions of others, or do not move with "
                "any input, or the density is zero there; leave out what is redundant, or give it "
                "noise of its own"
            )
        worst = [i for i in np.argsort(best.residual)[::-1] if best.residual[i] > 1.0]
        norms = self._algebra.row_norms(best.jacobian)
        still = _listed([labels[i] for i in worst if norms[i] == 0])
        hint = f"; {still} did not move with any input" if still else ""
        return (
            f"no inputs were found that give what was observed, from {n_finite} finite prior "
            f"draws: the closest are off by {np.abs(best.value).max():.3g}, and {len(worst)} of "
            f"{len(labels)} entries could not be matched ({_listed([labels[i] for i in worst])})"
            f"{hint}. Check that the simulator can reach the data; if it can, pass a point that "
            "does as initvals to pm.sample"
        )

    def dense_jacobian(self, position: np.ndarray) -> np.ndarray:
        """Jacobian of all constraints by all inputs in units of their scales, shape (m, d)."""
        return self.scale * np.asarray(self.backend.jacobian(self.scale * position))

    def structure_holds(self, position: np.ndarray) -> bool:
        """Whether no entry of the Jacobian is left out at a position."""
        if self.structure is None:
            return True
        expected = np.sqrt((self.dense_jacobian(position) ** 2).sum(axis=1))
        found = self._algebra.row_norms(np.asarray(self._jacobian(position)))
        return bool(np.allclose(found, expected, rtol=1e-8))

    def residual_at(self, position: np.ndarray) -> float:
        """Largest constraint in units of its tolerance: at most 1 on the level set."""
        value = np.asarray(self._constraint(position))
        return float(np.max(np.abs(value) / self.tolerance))

    @cached_property
    def polish(self) -> Callable[[np.ndarray], tuple[Any, Any]]:
        """Function from a position to the nearest point within tolerance, and to its residual."""
        system = self.system

        def polish(position: Any) -> tuple[Any, Any]:
            base = system.algebra.factorise(system.jacobian(position))
            end = project_position(system, position, base, self.moves.max_iterations)
            return end.position, end.residual

        return self.backend.compile(polish)

    @cached_property
    def _chain(self) -> Callable:
        return self.backend.compile_chain(partial(self.moves.transition, self.system))

    def transitions(
        self, state: ManifoldState, given: Sequence[TransitionInput]
    ) -> tuple[ManifoldState, list[TransitionRecord]]:
        """State after some transitions, at most `MAX_TRANSITIONS`, and a record of each."""
        # one shape, so that it is compiled once
        padded = [*given, *[given[-1]] * (MAX_TRANSITIONS - len(given))]
        stacked = TransitionInput(*map(np.stack, zip(*padded, strict=True)))
        state, records = self._chain(state, stacked, len(given))
        each = zip(*map(np.asarray, records), strict=True)
        return state, [TransitionRecord(*record) for record in islice(each, len(given))]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")


def _size(values: np.ndarray) -> float:
    """Euclidean norm, infinite where something is NaN."""
    size = float(np.linalg.norm(values))
    return np.inf if np.isnan(size) else size


def make_constrained_model(
    model: pm.Model,
    moves: ConstrainedHamiltonian | None = None,
    *,
    random_seed: Any = 0,
    compile_kwargs: Mapping[str, Any] | None = None,
    **settings: Any,
) -> ConstrainedModel:
    """A model's level set ready for moves, made once for the same settings of `ConstrainedModel`.

    The seed is that of the prior draws that scales, structure and tolerances are read off.
    """
    moves = moves or ConstrainedHamiltonian()

    def make() -> ConstrainedModel:
        rng = np.random.default_rng(random_seed)
        return ConstrainedModel(model, moves, rng, compile_kwargs=compile_kwargs, **settings)

    if not isinstance(random_seed, int | None):
        return make()  # a generator gives other draws each time
    key = (moves, random_seed, settings_key(compile_kwargs), settings_key(settings))
    return kept_for(model).get((make_constrained_model, *key), make)
