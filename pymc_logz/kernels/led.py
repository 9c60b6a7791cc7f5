"""Kernels made of kernels: one of them leads, and is what the pilot tunes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt

from pymc_logz.kernels.base import Kernel, Move


def moves_integers(kernel: Any) -> bool:
    """Whether a kernel moves integers, and nothing else."""
    return getattr(kernel, "moves_integers", False)


class Led:
    """What kernels made of others have from the one that leads: their settings, and their aim.

    Heirs have ``members``, the ones that they are made of.
    """

    @property
    def members(self) -> Sequence[Kernel]:
        """Those that it is made of."""
        raise NotImplementedError

    @property
    def leader(self) -> Kernel:
        """The kernel that is tuned: the first continuous one that leaves its step size open."""
        continuous = [kernel for kernel in self.members if not moves_integers(kernel)]
        tuned = [kernel for kernel in continuous if kernel.step_size is None]
        return (tuned or continuous or list(self.members))[0]

    @property
    def step_size(self) -> float | None:
        """That of the leader."""
        return self.leader.step_size

    @property
    def scale(self) -> Any:
        """That of the leader."""
        return self.leader.scale

    @property
    def dense(self) -> bool | None:
        """That of the leader."""
        return self.leader.dense

    @property
    def needs_gradient(self) -> bool:
        """Whether any kernel does."""
        return any(kernel.needs_gradient for kernel in self.members)

    def refreshment_for(self, step_size: np.ndarray) -> np.ndarray:
        """That of the leader, or of the first kernel that replaces momentum at all."""
        for kernel in (self.leader, *self.members):
            own = (
                step_size if kernel.step_size is None else np.full_like(step_size, kernel.step_size)
            )
            if np.any(two_shares(kernel) > 0):
                return kernel.refreshment_for(own)
        return np.zeros_like(step_size)

    def acceptance_for(self, target_accept: float) -> float:
        """That of the leader."""
        return self.leader.acceptance_for(target_accept)

    def tuned_step_size(
        self, step_size: float, acceptance_rate: float, target_accept: float
    ) -> float:
        """That of the leader."""
        return self.leader.tuned_step_size(step_size, acceptance_rate, target_accept)


def two_shares(kernel: Kernel) -> np.ndarray:
    """Shares of the momentum replaced at two step sizes, equal where these do not matter."""
    return kernel.refreshment_for(np.array([0.1, 1.0]))


def width(move: Move) -> int:
    """Static d of a move's scale."""
    return int(move.scale.type.shape[-1])


def with_own_settings(kernel: Kernel, move: Move) -> Move:
    """A move with what a kernel that does not lead has set by itself.

    Its scales stay zero at variables of others.
    """
    if kernel.step_size is not None:
        # a step of size 0 is one that stays
        move = move._replace(step_size=pt.switch(move.step_size > 0, kernel.step_size, 0.0))
    if kernel.scale is not None:
        is_vector = move.scale.ndim == move.step_size.ndim + 1
        moves_here = move.scale if is_vector else pt.abs(move.scale).sum(axis=-1)
        scale = np.ones(width(move)) * np.asarray(kernel.scale)
        move = move._replace(scale=pt.switch(pt.neq(moves_here, 0.0), scale, 0.0))
    shares = two_shares(kernel)
    if shares[0] == shares[1] > 0:
        share = pt.switch(move.refreshment < 1.0, shares[0], 1.0)
        move = move._replace(refreshment=share)
    return move
