"""Level sets with exact draws of the posterior on them: what constrained moves are tested on."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import pytensor.tensor as pt

from pymc_logz.manifold.backends import (
    Backend,
    JaxBackend,
    PytensorBackend,
    SymbolicSystem,
    System,
)

N_GRID = 200_001


class Curve:
    """Two standard normal inputs on a level set on which the first gives the second.

    Parameters
    ----------
    output
        Symbolic output of symbolic inputs (2,).
    observed
        What the output equals.
    second
        From the first input (n,) to the second one.
    log_derivative
        From the first input to log of d(output) / d(second input), which makes the density of the
        first input that of the posterior.
    grid
        Range of the first input.
    mirror
        Signs that turn this branch into a second one of the same mass; None if there is none.
    """

    def __init__(
        self,
        output: Callable[[Any], Any],
        observed: float,
        second: Callable[[np.ndarray], np.ndarray],
        log_derivative: Callable[[np.ndarray], np.ndarray],
        grid: tuple[float, float],
        mirror: tuple[int, int] | None = None,
    ) -> None:
        point = pt.tensor("u", dtype="float64", shape=(2,))
        residual = pt.stack([output(point) - np.float64(observed)])
        log_density = -0.5 * (point**2).sum() - np.log(2 * np.pi)
        self.symbolic = SymbolicSystem(point, residual, log_density)
        self.second, self.log_derivative, self.grid = second, log_derivative, grid
        self.mirror = mirror

    def _log_density(self, first: np.ndarray) -> np.ndarray:
        """Log of joint density of output and first input, by change of variables."""
        second = self.second(first)
        square = first**2 + second**2
        return -0.5 * square - np.log(2 * np.pi) - self.log_derivative(first)

    @cached_property
    def _table(self) -> tuple[np.ndarray, np.ndarray]:
        grid = np.linspace(*self.grid, N_GRID)
        density = np.exp(self._log_density(grid))
        mass = np.concatenate(
            [[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(grid))]
        )
        return grid, mass

    @property
    def log_z(self) -> float:
        """Log density of the output at what was observed."""
        return float(np.log(self._table[1][-1]) + (0.0 if self.mirror is None else np.log(2.0)))

    def draw(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Exact draws, shape (n, 2)."""
        grid, mass = self._table
        first = np.interp(rng.random(n), mass / mass[-1], grid)
        rows = np.stack([first, self.second(first)], axis=1)
        if self.mirror is None:
            return rows
        return np.where(rng.random((n, 1)) < 0.5, rows, rows * np.array(self.mirror))

    def mean(self, function: Callable[[np.ndarray], np.ndarray]) -> float:
        """Posterior mean of a function of inputs (n, 2), the same on both branches."""
        grid, mass = self._table
        middle = 0.5 * (grid[1:] + grid[:-1])
        values = function(np.stack([middle, self.second(middle)], axis=1))
        return float(values @ np.diff(mass) / mass[-1])

    def jax(self) -> JaxBackend:
        """Compiled by JAX."""
        return JaxBackend(self.symbolic, "test")

    def numpy(self) -> PytensorBackend:
        """In NumPy, without waiting for a compiler."""
        return PytensorBackend(self.symbolic, "test", "FAST_COMPILE", {})


def plain_system(backend: Backend, tolerance: float = 1e-11) -> System:
    """Inputs as they are, every constraint met to one tolerance."""
    symbolic = backend.symbolic
    return backend.system(np.ones(symbolic.n_dims), np.full(symbolic.n_outputs, tolerance), None)


def parabola() -> Curve:
    """Output v^2 + n / 2 at 2: two modes."""
    return Curve(
        lambda u: u[0] ** 2 + 0.5 * u[1],
        2.0,
        lambda v: 2.0 * (2.0 - v**2),
        lambda v: np.full_like(v, np.log(0.5)),
        (-4.0, 4.0),
    )


def unequal() -> Curve:
    """Output exp(v) - v + n / 2 at 2: a narrow mode, and a broad one of about the same mass."""
    return Curve(
        lambda u: pt.exp(u[0]) - u[0] + 0.5 * u[1],
        2.0,
        lambda v: 2.0 * (2.0 - np.exp(v) + v),
        lambda v: np.full_like(v, np.log(0.5)),
        (-6.0, 3.0),
    )


def two_branches() -> Curve:
    """Output n^2 - v^2 at 1: two branches that do not meet."""
    return Curve(
        lambda u: u[1] ** 2 - u[0] ** 2,
        1.0,
        lambda v: np.sqrt(1.0 + v**2),
        lambda v: np.log(2.0 * np.sqrt(1.0 + v**2)),
        (-6.0, 6.0),
        mirror=(1, -1),
    )


def nearly_singular() -> Curve:
    """Output v n at 0.05: two branches, with a Jacobian that is small where they come close."""
    return Curve(
        lambda u: u[0] * u[1],
        0.05,
        lambda v: 0.05 / v,
        np.log,
        (0.005, 8.0),
        mirror=(-1, -1),
    )


def surface() -> SymbolicSystem:
    """Two constraints on five normal inputs of unequal spread, curved in all directions."""
    u = pt.tensor("u", dtype="float64", shape=(5,))
    outputs = [u[0] ** 2 + u[1] ** 2 + 0.3 * u[2] - 2.0, u[1] * u[3] + pt.sin(u[4]) - 0.4]
    spread = np.array([1.0, 0.7, 1.5, 1.0, 2.0])
    return SymbolicSystem(u, pt.stack(outputs), -0.5 * ((u / spread) ** 2).sum())


def on_surface(rng: np.random.Generator) -> np.ndarray:
    """A point of `surface`, shape (5,)."""
    u = np.array([1.0, 0.5, 0.0, 0.3, 0.0]) + 0.2 * rng.standard_normal(5)
    u[2] = (2.0 - u[0] ** 2 - u[1] ** 2) / 0.3
    u[4] = np.arcsin(0.4 - u[1] * u[3])
    return u
