"""Moves of ABC chains: a random walk with fresh noise, and elliptical slices, in a uniform ball."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pymc_logz.manifold.approximate.simulator import Simulator


class Trace(NamedTuple):
    """What n chains did, along a first axis of draws."""

    rows: np.ndarray
    """Shape (draws, n, d)."""
    distance: np.ndarray
    """Shape (draws, n)."""
    accepted: np.ndarray
    """Whether a move was accepted, or the share of its simulations that were, shape (draws, n)."""


def _trace(draws: Sequence[tuple[np.ndarray, ...]]) -> Trace:
    return Trace(*(np.stack(column) for column in zip(*draws, strict=True)))


@dataclass
class Moves:
    """How chains of rows (n, d) within a distance of the data move."""

    simulator: Simulator
    walked: np.ndarray
    """Which columns are parameters, shape (d,)."""
    mean: np.ndarray
    """Of the prior: of all columns, or of parameters alone."""
    spread: np.ndarray
    """Its standard deviations there."""

    method: ClassVar[str]

    def tuned(self, rows: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
        """Rows after n moves, which may find settings."""
        return self.run(rows, n, rng).rows[-1]

    def run(self, rows: np.ndarray, n: int, rng: np.random.Generator) -> Trace:
        """What n moves with fixed settings do."""
        raise NotImplementedError

    def record(self) -> dict[str, Any]:
        """Name of the method, and settings."""
        return {"method": self.method}


@dataclass
class Walk(Moves):
    """Metropolis moves: a step of the parameters, prior draws of the others."""

    step_size: float | None
    """In standard deviations of the prior; None tunes it."""

    method: ClassVar[str] = "abc_mcmc"

    def record(self) -> dict[str, Any]:
        """Name and step size."""
        return {**super().record(), "step_size": self.step_size}

    def tuned(self, rows: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
        """Rows after n moves, with the step that moves furthest in a fifth as many."""
        if self.step_size is None:
            tried, jumps = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0), []
            for self.step_size in tried:
                moved = self.run(rows, max(2, n // (5 * len(tried))), rng).rows
                jump = np.diff(moved[..., self.walked] / self.spread, axis=0)
                jumps.append(float((jump**2).mean()))
            self.step_size = tried[int(np.argmax(jumps))]
        return super().tuned(rows, n, rng)

    def run(self, rows: np.ndarray, n: int, rng: np.random.Generator) -> Trace:
        """What n moves do."""
        assert self.step_size is not None
        simulator, walked, draws = self.simulator, self.walked, []
        steps, distance = self.step_size * self.spread, simulator.simulate(rows)[0]
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
            draws.append((rows, distance, accept))
        return _trace(draws)


@dataclass
class Slices(Moves):
    """Elliptical slice moves of parameters and of noise in turn.

    Ellipses are those of a normal distribution with the moments of the prior.
    """

    method: ClassVar[str] = "abc_slice"

    def run(self, rows: np.ndarray, n: int, rng: np.random.Generator) -> Trace:
        """What n moves do."""
        simulator, draws = self.simulator, []
        groups = [group for group in (self.walked, ~self.walked) if group.any()]
        height, distance = self.level(rows)
        for _ in range(n):
            before = simulator.n_simulations
            for group in groups:
                ellipse = self.mean[group], self.spread[group]
                now = height, distance
                rows, height, distance = sliced(rows, now, group, ellipse, self.level, rng)
            share = len(groups) * len(rows) / (simulator.n_simulations - before)
            draws.append((rows, distance, np.full(len(rows), share)))
        return _trace(draws)

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
    """Rows after one slice of the columns ``group``, their level and their distance.

    ``now`` are the level and the distance of ``rows`` (n, d), which ``level`` gives of any rows;
    ``ellipse`` is the mean and the standard deviations of the columns that move.
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
        left = left[~inside & (high[left] - low[left] > 1e-12)]
        below = angle[left] < 0
        low[left[below]], high[left[~below]] = angle[left[below]], angle[left[~below]]
        angle[left] = rng.uniform(low[left], high[left])
    return rows, height, distance
