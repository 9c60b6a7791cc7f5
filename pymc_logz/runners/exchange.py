"""How walkers change their levels, and what happens to them at the reference."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_logz.kernels.base import Move


class Tables(NamedTuple):
    """What a walker does at each of K levels."""

    betas: Any
    """Inverse temperatures, shape (K,)."""
    step_size: Any
    """Shape (K,)."""
    scale: Any
    """Shape (K, d), or (K, d, d) where scales are dense."""
    refreshment: Any
    """Share of the momentum variance replaced before a move, shape (K,)."""
    log_pseudo_prior: Any
    """Log of the level's prior over its estimated constant, shape (K,); swaps do without it."""

    def moves(self, level: Any) -> Move:
        """What walkers at these levels (n,) do, each its own."""
        parts = (self.betas, self.step_size, self.scale, self.refreshment)
        return Move(*(part[level] for part in parts))

    def all_at(self, level: int) -> "Tables":
        """Tables whose every level has the settings of one: walkers then stay at its beta."""
        return Tables(*(np.repeat(part[level : level + 1], len(part), axis=0) for part in self))


def draw_levels(
    log_ratio: TensorVariable, tables: Tables, log_uniform: TensorVariable
) -> TensorVariable:
    """Levels drawn given the position (Gibbs), by inversion, shape (n,).

    Carlson et al. (2016), eq. 7, arXiv 1603.01912: ``q(k | x)`` is proportional to
    ``exp(beta_k * log_ratio) * prior_k / Z_k`` on the geometric path.
    """
    log_density = pt.switch(pt.eq(tables.betas, 0), 0.0, tables.betas * log_ratio[:, None])
    probability = pt.special.softmax(log_density + tables.log_pseudo_prior, axis=1)
    below = pt.cumsum(probability, axis=1)[:, :-1]
    return (pt.exp(log_uniform)[:, None] > below).sum(axis=1)


def swap_levels(
    log_ratio: TensorVariable,
    level: TensorVariable,
    betas: TensorVariable,
    log_uniform: TensorVariable,
    parity: TensorVariable,
) -> TensorVariable:
    """Levels after swaps between neighbours, each K walkers in a row by themselves, shape (n,).

    Levels k and k + 1 are up for a swap in every other iteration, those of even and of odd k by
    turns, which takes walkers up and down the ladder faster than swaps at random: Okabe et al.
    (2001), doi 10.1016/S0009-2614(01)00055-0; Syed et al. (2022), arXiv 1905.02939.
    """
    k = betas.type.shape[0]
    log_ratio, level, log_uniform = (x.reshape((-1, k)) for x in (log_ratio, level, log_uniform))
    # which walker (second axis) is at which level (third axis)
    is_at = pt.eq(level[:, :, None], np.arange(k))
    ratio = pt.switch(is_at, log_ratio[:, :, None], 0.0).sum(axis=1)
    log_accept = (betas[:-1] - betas[1:]) * (ratio[:, 1:] - ratio[:, :-1])
    # two walkers outside the support stay as they are: inf - inf
    log_accept = pt.switch(pt.isnan(log_accept), -np.inf, log_accept)
    swaps = (log_uniform[:, :-1] < log_accept) & pt.eq(np.arange(k - 1) % 2, parity)
    swaps = pt.cast(swaps, "int64")
    none = pt.zeros_like(swaps[:, :1])
    up, down = pt.concatenate([swaps, none], axis=1), pt.concatenate([none, swaps], axis=1)
    return level.ravel() + pt.switch(is_at, (up - down)[:, None, :], 0).sum(axis=2).ravel()


class FreshRows:
    """Independent draws of a reference, made many at a time and handed out a few at a time.

    Those of a mixture are made in the exact shares of its components.

    Parameters
    ----------
    draw
        ``(rng, n)`` to n rows of the reference, shape (n, d).
    rng
        Source of them.
    n_at_once
        Rows to be made at a time.
    """

    def __init__(
        self,
        draw: Callable[[np.random.Generator, int], np.ndarray],
        rng: np.random.Generator,
        n_at_once: int,
    ) -> None:
        self.draw, self.rng, self.n_at_once = draw, rng, n_at_once
        self.left: np.ndarray | None = None

    def take(self, n: int) -> np.ndarray:
        """The next n rows, shape (n, d)."""
        if self.left is None or len(self.left) < n:
            made = self.draw(self.rng, max(n, self.n_at_once))
            self.left = made if self.left is None else np.concatenate([self.left, made])
        taken, self.left = self.left[:n], self.left[n:]
        return taken
