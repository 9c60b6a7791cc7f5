"""Kernels made of kernels, of which one leads and is tuned; one of several at each step."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Self

import numpy as np
import pytensor.tensor as pt

from pymc_logz.kernels.base import Kernel, KernelInfo, KernelState, Move, choose
from pymc_logz.kernels.choice import check_kernel
from pymc_logz.kernels.hamiltonian import walls_of
from pymc_logz.paths.geometric import AnnealingPath


def moves_integers(kernel: Any) -> bool:
    """Whether a kernel moves integers, and nothing else."""
    return getattr(kernel, "moves_integers", False)


class CombinedKernel:
    """Kernels made of others, which take their settings and their aim from the first one."""

    kernels: tuple[Kernel, ...]

    @property
    def members(self) -> Sequence[Kernel]:
        """Those that it is made of: its ``kernels``, unless it says otherwise."""
        return self.kernels

    @property
    def leader(self) -> Kernel:
        """The kernel that is tuned: the first continuous one that leaves its step size open."""
        continuous = [kernel for kernel in self.members if not moves_integers(kernel)]
        tuned = [kernel for kernel in continuous if kernel.step_size is None]
        return (tuned or continuous or list(self.members))[0]

    step_size = property(attrgetter("leader.step_size"), doc="That of the leader.")
    scale = property(attrgetter("leader.scale"), doc="That of the leader.")
    dense = property(attrgetter("leader.dense"), doc="That of the leader.")
    acceptance_for = property(attrgetter("leader.acceptance_for"), doc="That of the leader.")
    tuned_step_size = property(attrgetter("leader.tuned_step_size"), doc="That of the leader.")

    @property
    def needs_gradient(self) -> bool:
        """Whether any kernel does."""
        return any(kernel.needs_gradient for kernel in self.members)

    def refreshment_for(self, step_size: np.ndarray) -> np.ndarray:
        """That of the leader, or of the first kernel that replaces momentum at all."""
        for kernel in (self.leader, *self.members):
            if np.any(refreshment_at_two_steps(kernel) > 0):
                own = step_size if kernel.step_size is None else kernel.step_size
                return kernel.refreshment_for(np.full_like(step_size, own))
        return np.zeros_like(step_size)


def refreshment_at_two_steps(kernel: Kernel) -> np.ndarray:
    """Shares of the momentum replaced at two step sizes, equal where these do not matter."""
    return kernel.refreshment_for(np.array([0.1, 1.0]))


def with_own_settings(kernel: Kernel, move: Move) -> Move:
    """A move with what a kernel that does not lead has set; scales that are zero stay so."""
    if kernel.step_size is not None:
        # a step of size 0 is one that stays
        move = move._replace(step_size=pt.switch(move.step_size > 0, kernel.step_size, 0.0))
    if kernel.scale is not None:
        is_vector = move.scale.ndim == move.step_size.ndim + 1
        moves_here = move.scale if is_vector else pt.abs(move.scale).sum(axis=-1)
        scale = np.ones(move.scale.type.shape[-1]) * np.asarray(kernel.scale)
        move = move._replace(scale=pt.switch(pt.neq(moves_here, 0.0), scale, 0.0))
    shares = refreshment_at_two_steps(kernel)
    if shares[0] == shares[1] > 0:
        share = pt.switch(move.refreshment < 1.0, shares[0], 1.0)
        move = move._replace(refreshment=share)
    return move


@dataclass(frozen=True)
class OneOf(CombinedKernel):
    """One of several kernels at each step, drawn for each row by itself.

    Bold moves that are rarely accepted, beside small ones that are: what each kernel leaves as it
    is a mixture of them does too, and it is its own time reversal if they are. A step computes all
    of them, and costs as much.

    The pilot tunes one step size: that of the first kernel that leaves its own open.

    Parameters
    ----------
    kernels
        Two kernels at least, of the same variables: all for continuous ones, or all for discrete
        ones.
    weights
        How often each is drawn, up to a factor; None draws all alike.

    Raises
    ------
    TypeError
        If an entry of ``kernels`` is no kernel.
    ValueError
        If there are fewer than two, weights are not positive, some kernels move integers and
        others do not, or one has walls.

    References
    ----------
    Tierney (1994), Markov chains for exploring posterior distributions, section 2.4,
    doi 10.1214/aos/1176325750.

    Examples
    --------
    Nine small steps, and a jump:

    >>> from pymc_logz.kernels import Compose, Gibbs, Hamiltonian, OneOf, RandomWalk
    >>> jumps = OneOf((Hamiltonian(), RandomWalk(step_size=5.0)), (0.9, 0.1))
    >>> kernel = Compose({("early", "late"): jumps, "change": Gibbs()})
    """

    kernels: tuple[Kernel, ...]
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        kernels = tuple(self.kernels)
        if len(kernels) < 2:
            raise ValueError(
                f"kernels={self.kernels!r} must be two kernels at least, such as "
                "(Hamiltonian(), RandomWalk(step_size=5.0))"
            )
        for kernel in kernels:
            check_kernel(kernel)
            if walls_of(kernel):
                raise ValueError("a kernel with walls cannot be mixed with others")
        if len({moves_integers(kernel) for kernel in kernels}) > 1:
            names = [type(kernel).__name__ for kernel in kernels]
            raise ValueError(
                f"kernels has {names}, of which some move integers and others do not: mix "
                "kernels of the same variables, and put others beside them with Compose"
            )
        weights = np.ones(len(kernels)) if self.weights is None else np.asarray(self.weights, float)
        if weights.shape != (len(kernels),) or not np.all(np.isfinite(weights) & (weights > 0)):
            raise ValueError(
                f"weights={self.weights!r} must be {len(kernels)} positive numbers, one for each "
                "kernel"
            )
        object.__setattr__(self, "kernels", kernels)
        object.__setattr__(self, "weights", tuple(float(w) for w in weights / weights.sum()))

    @property
    def moves_integers(self) -> bool:
        """Whether it moves integers, and nothing else."""
        return moves_integers(self.kernels[0])

    def resolved(self, n_dims: int) -> Self:
        """The same with ``dense`` decided for d dimensions."""
        return replace(self, kernels=tuple(kernel.resolved(n_dims) for kernel in self.kernels))

    def evaluations_per_move(self, n_dims: int) -> int:
        """Evaluations of all kernels, and one that brings gradients up to date."""
        own = sum(kernel.evaluations_per_move(n_dims) for kernel in self.kernels)
        return own + self._is_stale

    @property
    def _is_stale(self) -> bool:
        """Whether some kernels leave gradients as they were, which others need."""
        return self.needs_gradient and not all(kernel.needs_gradient for kernel in self.kernels)

    def draw_noise(self, rng: np.random.Generator, n_moves: int, n_rows: int, n_dims: int) -> Any:
        """Uniforms that say which kernel moves a row, and the noise of each of them."""
        chosen = rng.random((n_moves, n_rows))
        return chosen, *(kernel.draw_noise(rng, n_moves, n_rows, n_dims) for kernel in self.kernels)

    def step(
        self, path: AnnealingPath, state: KernelState, move: Move, noise: Any
    ) -> tuple[KernelState, KernelInfo]:
        """Move each row by one of the kernels; leaves the density at ``move.beta`` invariant.

        The acceptance rate is that of the leader if it is tuned, at all rows, else that of the
        kernel that moves a row.
        """
        assert self.weights is not None
        chosen, *noises = noise
        new, rate, drawn_rate = state, None, None
        for i, (kernel, own) in enumerate(zip(self.kernels, noises, strict=True)):
            is_leader = kernel is self.leader
            walked = path if kernel.needs_gradient else path.without_gradients()
            own_move = move if is_leader else with_own_settings(kernel, move)
            moved, info = kernel.step(walked, state, own_move, own)
            if is_leader:
                rate = info.acceptance_rate
            if i == 0:
                new, drawn_rate = moved, info.acceptance_rate
                continue
            is_drawn = pt.ge(chosen, float(np.sum(self.weights[:i])))
            new = choose(is_drawn, moved, new)
            drawn_rate = pt.switch(is_drawn, info.acceptance_rate, drawn_rate)
        if self._is_stale:
            new = new._replace(evaluation=path.evaluate(new.position))
        return new, KernelInfo(rate if self.step_size is None else drawn_rate)
