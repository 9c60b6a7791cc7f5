"""Moves of ABC chains: a random walk with fresh noise, and elliptical slices, in a uniform ball."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from pymc_logz.manifold.approximate.simulator import Simulator

STEP_SIZES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""Steps, in standard deviations of the prior, of which a pilot takes the best."""
NARROWEST = 1e-12
"""Width of a bracket, in radians, that has shrunk to where it started."""


class Trace:
    """What chains did, along an axis of draws."""

    def __init__(self) -> None:
        self.rows: list[np.ndarray] = []
        self.distance: list[np.ndarray] = []
        self.accepted: list[np.ndarray] = []

    def keep(self, rows: np.ndarray, distance: np.ndarray, accepted: np.ndarray) -> None:
        """Add a draw of all chains: rows (n, d), their distances, what was accepted."""
        self.rows.append(rows)
        self.distance.append(distance)
        self.accepted.append(accepted)

    def jump(self, columns: np.ndarray, spread: np.ndarray) -> float:
        """Mean squared move of these columns."""
        return float((np.diff(np.stack(self.rows)[..., columns] / spread, axis=0) ** 2).mean())


class Moves(Protocol):
    """How chains of rows (n, d) within a distance of the data move."""

    def tuned(self, rows: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
        """Rows after n moves, which may find settings."""
        ...

    def run(self, rows: np.ndarray, n: int, rng: np.random.Generator) -> Trace:
        """What n moves with settled settings do."""
        ...

    def record(self) -> dict[str, Any]:
        """Name of the method, and settings."""
        ...


@dataclass
class Walk:
    """Metropolis moves: a step of some columns, prior draws of the others."""

    simulator: Simulator
    walked: np.ndarray
    """Which columns step, shape (d,)."""
    spread: np.ndarray
    """Standard deviations of their prior."""
    step_size: float | None
    """In units of these; None tunes it."""

    def record(self) -> dict[str, Any]:
        """Name and step size."""
        return {"method": "abc_mcmc", "step_size": self.step_size}

    def tuned(self, rows: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
        """Rows after n moves, with the step that moves furthest in a fifth as many."""
        if self.step_size is None:
            share = max(2, n // (5 * len(STEP_SIZES)))
            jumps = []
            for self.step_size in STEP_SIZES:
                jumps.append(self.run(rows, share, rng).jump(self.walked, self.spread))
            self.step_size = STEP_SIZES[int(np.argmax(jumps))]
        return self.run(rows, n, rng).rows[-1]

    def run(self, rows: np.ndarray, n: int, rng: np.random.Generator) -> Trace:
        """What n moves do."""
        assert self.step_size is not None
        simulator, walked, steps = self.simulator, self.walked, self.step_size * self.spread
        found, distance = Trace(), simulator.simulate(rows)[0]
        for _ in range(n):
            new = simulator.prior(rng, len(rows))
            new[:, walked] = rows[:, walked] + steps * rng.normal(size=(len(rows), len(steps)))
            new_distance, log_new = simulator.simulate(new)
            # the noise's own density is in both, and its proposal's takes it out
            old = new.copy()
            old[:, walked] = rows[:, walked]
            with np.errstate(invalid="ignore"):
                log_ratio = log_new - simulator.log_prior(old)
            accept = np.log(rng.uniform(size=len(rows))) < log_ratio
            accept &= new_distance < simulator.epsilon
            rows = np.where(accept[:, None], new, rows)
            distance = np.where(accept, new_distance, distance)
            found.keep(rows, distance, accept)
        return found


@dataclass
class Slices:
    """Elliptical slice moves of parameters and of noise in turn.

    Ellipses are those of a normal distribution with the moments of the prior.
    """

    simulator: Simulator
    walked: np.ndarray
    """Which columns are parameters, shape (d,)."""
    mean: np.ndarray
    """Of the prior, shape (d,)."""
    spread: np.ndarray
    """Its standard deviations, shape (d,)."""

    def record(self) -> dict[str, Any]:
        """Name."""
        return {"method": "abc_slice"}

    def tuned(self, rows: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
        """Rows after n moves, which have nothing to find."""
        return self.run(rows, n, rng).rows[-1]

    def run(self, rows: np.ndarray, n: int, rng: np.random.Generator) -> Trace:
        """What n moves do."""
        simulator = self.simulator
        groups = [group for group in (self.walked, ~self.walked) if group.any()]
        found, (height, distance) = Trace(), self.level(rows)
        for _ in range(n):
            before = simulator.n_simulations
            for group in groups:
                ellipse = self.mean[group], self.spread[group]
                now = height, distance
                rows, height, distance = sliced(rows, now, group, ellipse, self.level, rng)
            share = len(groups) * len(rows) / (simulator.n_simulations - before)
            found.keep(rows, distance, np.full(len(rows), share))
        return found

    def level(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log density over that of the ellipses, and the distance, of rows (n, d)."""
        distance, log_prior = self.simulator.simulate(rows)
        ratio = log_prior + 0.5 * (((rows - self.mean) / self.spread) ** 2).sum(axis=1)
        return np.where(distance < self.simulator.epsilon, ratio, -np.inf), distance


def sliced(
    rows: np.ndarray,
    now: tuple[np.ndarray, np.ndarray],
    group: np.ndarray,
    ellipse: tuple[np.ndarray, np.ndarray],
    level: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows after one slice of some columns, their level and their distance.

    Parameters
    ----------
    rows
        Shape (n, d).
    now
        Their level and their distance.
    group
        Columns that move, shape (d,).
    ellipse
        Mean and standard deviations of these.
    level
        From rows to their level and their distance.
    rng
        Generator of the ellipses and of the levels.
    """
    mean, spread = ellipse
    x = rows[:, group] - mean
    other = spread * rng.normal(size=x.shape)
    rows, height, distance = rows.copy(), now[0].copy(), now[1].copy()
    threshold = height + np.log(rng.uniform(size=len(rows)))
    angle = rng.uniform(0, 2 * np.pi, size=len(rows))
    low, high = angle - 2 * np.pi, angle.copy()
    left = np.arange(len(rows))
    while left.size:
        turn = angle[left, None]
        new = rows[left]
        new[:, group] = mean + x[left] * np.cos(turn) + other[left] * np.sin(turn)
        new_height, new_distance = level(new)
        inside = new_height > threshold[left]
        done = left[inside]
        rows[done], height[done], distance[done] = (
            part[inside] for part in (new, new_height, new_distance)
        )
        # a bracket of rounding size leaves the row where it is
        left = left[~inside & (high[left] - low[left] > NARROWEST)]
        below = angle[left] < 0
        low[left[below]], high[left[~below]] = angle[left[below]], angle[left[~below]]
        angle[left] = rng.uniform(low[left], high[left])
    return rows, height, distance
