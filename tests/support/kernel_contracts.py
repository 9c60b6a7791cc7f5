"""What every kernel must satisfy, written once: run on each kernel and each energy.

`check_invariant` needs a compiled block and exact draws, so it serves any kernel that a block
takes. The integrator suites need a plain function, see `Integrator`.
"""

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np

from pymc_logz.kernels.base import KernelState, Move
from pymc_logz.paths.geometric import Evaluation
from pymc_logz.runners.block import Block
from support.checks import CheckFailedError, check_means, check_same_law

MIN_ACCEPTANCE = 0.02


class Integrator(Protocol):
    """A symmetric integrator on a batch of rows."""

    def __call__(
        self, position: np.ndarray, momentum: np.ndarray, step_size: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Position and momentum after one step, energy (n,) before and after it."""


class ExactDraws(Protocol):
    """``(rng, beta, n)`` to independent draws (n, d) of the density at beta."""

    def __call__(self, rng: np.random.Generator, beta: float, n: int) -> np.ndarray:
        """Exact draws."""


class RecordedNoise:
    """Stands in for a Generator: chosen normals and uniforms in place of random ones."""

    def __init__(self, normal: Any = 0.0, uniform: Any = 0.5) -> None:
        self.normal, self.uniform = normal, uniform

    def standard_normal(self, shape: tuple[int, ...]) -> np.ndarray:
        """The chosen normals in this shape."""
        return np.broadcast_to(self.normal, shape).copy()

    def random(self, shape: tuple[int, ...]) -> np.ndarray:
        """The chosen uniforms in this shape."""
        return np.broadcast_to(self.uniform, shape).copy()


def constant_moves(
    block: Block,
    *,
    beta: float,
    step_size: float,
    scale: Any,
    refreshment: float,
    n_moves: int | None = None,
) -> Move:
    """The same move ``n_moves`` times, by default a whole block of them."""
    n_moves = block.n_moves if n_moves is None else n_moves
    return Move(
        np.full(n_moves, float(beta)),
        np.full(n_moves, float(step_size)),
        np.broadcast_to(np.asarray(scale, dtype=float), (n_moves, *block.scale_shape)).copy(),
        np.full(n_moves, float(refreshment)),
    )


def evaluated_state(block: Block, position: np.ndarray, momentum: np.ndarray) -> KernelState:
    """State at exactly this position and momentum, its path values known."""
    still = constant_moves(block, n_moves=1, beta=0.0, step_size=0.0, scale=1.0, refreshment=0.0)
    state, _ = block.run(block.initial_state(position), still, np.random.default_rng(0))
    evaluation = Evaluation(*(np.asarray(value) for value in state.evaluation))
    np.testing.assert_array_equal(state.position, position)
    return KernelState(np.asarray(position), momentum, evaluation)


def total_energy(state: KernelState, beta: float) -> np.ndarray:
    """Potential plus kinetic energy of each row, recomputed with NumPy."""
    log_density = np.asarray(state.evaluation.log_reference)
    if beta > 0:
        log_density = log_density + beta * np.asarray(state.evaluation.log_ratio)
    return np.asarray(0.5 * (np.asarray(state.momentum) ** 2).sum(axis=1) - log_density)


def check_invariant(
    block: Block,
    exact_draws: ExactDraws,
    rng: np.random.Generator,
    *,
    n_rows: int,
    beta: float,
    scale: Any,
    settings: Iterable[tuple[float, float]],
) -> None:
    """Fail unless exact draws of position and momentum keep their law under a block of moves.

    Functionals of position, momentum, both together, and the energy are compared row by row
    (paired z-test), and their laws with those of fresh exact draws (Kolmogorov-Smirnov), for each
    pair of step size and refreshment in ``settings``.
    """
    shape = (n_rows, block.path.n_dims)
    before, fresh = (
        evaluated_state(block, exact_draws(rng, beta, n_rows), rng.standard_normal(shape))
        for _ in range(2)
    )
    old = _functionals(before, before, beta)
    for step_size, refreshment in settings:
        moves = constant_moves(
            block, beta=beta, step_size=step_size, scale=scale, refreshment=refreshment
        )
        after, trace = block.run(before, moves, rng)
        acceptance = trace.acceptance_rate.mean()
        assert acceptance > MIN_ACCEPTANCE, f"nothing moves at step size {step_size}"
        label = f"step size {step_size}, refreshment {refreshment}: "
        new = _functionals(after, before, beta)
        check_means({label + name: new[name] - old[name] for name in old})
        pairs = _marginals(after, fresh, beta)
        check_same_law({label + name: pair for name, pair in pairs.items()})


def _functionals(state: KernelState, yardstick: KernelState, beta: float) -> dict[str, np.ndarray]:
    """Bounded functionals, so that heavy tails keep a standard error."""
    position = _squash(np.asarray(state.position), np.asarray(yardstick.position))
    momentum = np.asarray(state.momentum)
    energy = total_energy(state, beta)[:, None]
    energy = _squash(energy, total_energy(yardstick, beta)[:, None])[:, 0]
    values = {"energy": energy, "energy^2": energy**2}
    for i in range(position.shape[1]):
        x, v = position[:, i], momentum[:, i]
        values |= {f"x{i}": x, f"x{i}^2": x**2, f"v{i}": v, f"v{i}^2": v**2, f"x{i} v{i}": x * v}
    if position.shape[1] > 1:
        values["x0 x1"] = position[:, 0] * position[:, 1]
        values["x0 v1"] = position[:, 0] * momentum[:, 1]
    return values


def _squash(values: np.ndarray, yardstick: np.ndarray) -> np.ndarray:
    """Columns mapped to (-1, 1) around the yardstick's median, by its quartiles."""
    low, middle, high = np.quantile(yardstick, [0.25, 0.5, 0.75], axis=0)
    return np.tanh((values - middle) / (high - low))


def _marginals(
    left: KernelState, right: KernelState, beta: float
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    pairs = {"energy": (total_energy(left, beta), total_energy(right, beta))}
    for i in range(np.shape(left.position)[1]):
        for name in ("position", "momentum"):
            columns = (np.asarray(getattr(state, name))[:, i] for state in (left, right))
            pairs[f"{name} {i}"] = tuple(columns)  # type: ignore[assignment]
    return pairs


def check_order(
    integrate: Integrator,
    position: np.ndarray,
    momentum: np.ndarray,
    *,
    duration: float,
    order: float,
    tolerance: float = 0.15,
) -> None:
    """Fail unless the energy error over a fixed time falls as step size to the power ``order``."""
    n_steps = np.array([16, 32, 64, 128])
    errors = []
    for n in n_steps:
        end = (position, momentum)
        for step in range(n):
            *end, first, last = integrate(*end, duration / n)
            if step == 0:
                start_energy = first
        errors.append(np.sqrt(np.mean((last - start_energy) ** 2)))
    _check_slope(duration / n_steps, np.array(errors), order, tolerance)


def check_local_order(
    integrate: Integrator,
    position: np.ndarray,
    momentum: np.ndarray,
    *,
    step_sizes: np.ndarray,
    order: float,
    tolerance: float = 0.15,
) -> None:
    """Fail unless the energy error of one step falls as step size to the power ``order``."""
    errors = []
    for step_size in step_sizes:
        *_, first, last = integrate(position, momentum, float(step_size))
        errors.append(np.sqrt(np.mean((last - first) ** 2)))
    _check_slope(step_sizes, np.array(errors), order, tolerance)


def _check_slope(step_sizes: np.ndarray, errors: np.ndarray, order: float, tol: float) -> None:
    slope = np.polyfit(np.log(step_sizes), np.log(errors), 1)[0]
    if not abs(slope - order) < tol:
        raise CheckFailedError(f"energy error has order {slope:.2f}, not {order}: {errors}")


def check_reversible(
    integrate: Integrator,
    position: np.ndarray,
    momentum: np.ndarray,
    *,
    step_size: float,
    atol: float = 1e-9,
) -> None:
    """Fail unless step, flip, step, flip comes back, after having gone somewhere."""
    there, v, *_ = integrate(position, momentum, step_size)
    back, w, *_ = integrate(there, -v, step_size)
    assert np.all(np.abs(there - position).max(axis=1) > 1e3 * atol), "a row did not move"
    error = max(np.abs(back - position).max(), np.abs(w + momentum).max())
    if not error < atol:
        raise CheckFailedError(f"{error:.2g} away from the start after stepping back")


def check_volume(
    integrate: Integrator,
    position: np.ndarray,
    momentum: np.ndarray,
    *,
    step_size: float,
    rtol: float = 1e-6,
) -> None:
    """Fail unless the Jacobian of (position, momentum), by central differences, has det +-1."""
    n, d = position.shape
    start = np.concatenate([position, momentum], axis=1)
    width = 1e-5
    moved = []
    for sign in (1.0, -1.0):
        nudged = (start[:, None, :] + sign * width * np.eye(2 * d)).reshape(n * 2 * d, 2 * d)
        x, v, *_ = integrate(nudged[:, :d], nudged[:, d:], step_size)
        moved.append(np.concatenate([x, v], axis=1).reshape(n, 2 * d, 2 * d))
    volume = np.abs(np.linalg.det((moved[0] - moved[1]) / (2 * width)))
    if not np.all(np.abs(volume - 1) < rtol):
        raise CheckFailedError(f"volume changes by factors {volume.min()} to {volume.max()}")
