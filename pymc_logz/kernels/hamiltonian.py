"""The Hamiltonian kernel: leapfrog steps with fully or partially refreshed momentum."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_logz.kernels.base import KernelInfo, KernelState, Move, Noise
from pymc_logz.path import AnnealingPath, grad_log_density, log_density

MAX_STEPS = 64
MAX_DENSE = 64


@dataclass(frozen=True)
class Hamiltonian:
    """Settings of a Hamiltonian kernel with a standard normal (whitened) momentum.

    One step refreshes the momentum, follows ``n_steps`` kick-drift-kick leapfrog steps, accepts or
    rejects their end, and turns the momentum round on rejection. With one leapfrog step and
    partial refreshment it is the transition of Hamiltonian annealed importance sampling; with
    ``refreshment=1`` it is Hamiltonian Monte Carlo.

    Parameters
    ----------
    n_steps
        Leapfrog steps per accept or reject decision, 1 to 64.
    refreshment
        Share of the momentum *variance* replaced before a step, in [0, 1]:
        ``p <- sqrt(1 - refreshment) p + sqrt(refreshment) noise``. None replaces half of it per
        unit of trajectory time, ``1 - 0.5**(n_steps * step_size)``.
    step_size
        Leapfrog step size in units of ``scale``. None lets the pilot choose it.
    scale
        Length scale of each unconstrained dimension: one number, or a tuple of d numbers. None
        lets the pilot choose it.
    dense
        Whether the pilot's scales follow the correlations of the population too. None does so in
        up to 64 dimensions, where it costs next to nothing.

    Raises
    ------
    ValueError
        If a setting is outside its range.

    References
    ----------
    Sohl-Dickstein & Culpepper (2012), section 2.3, arXiv 1205.1925. The paper's step 4 prints
    ``gamma r`` where only ``sqrt(gamma) r`` leaves the momentum's law invariant.

    Examples
    --------
    The paper's own setting, whatever the model:

    >>> from pymc_logz import Hamiltonian
    >>> Hamiltonian(step_size=0.2, scale=1.0)
    Hamiltonian(n_steps=1, refreshment=None, step_size=0.2, scale=1.0, dense=None)
    """

    n_steps: int = 1
    refreshment: float | None = None
    step_size: float | None = None
    scale: float | tuple[float, ...] | None = None
    dense: bool | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.n_steps, int | np.integer) or not 1 <= self.n_steps <= MAX_STEPS:
            raise ValueError(
                f"n_steps={self.n_steps!r} must be a whole number from 1 to {MAX_STEPS}"
            )
        if self.refreshment is not None and not 0 <= self.refreshment <= 1:
            raise ValueError(
                f"refreshment={self.refreshment!r} must lie in [0, 1]: it is the share of the "
                "momentum variance that is replaced"
            )
        if self.step_size is not None and not 0 < self.step_size < np.inf:
            raise ValueError(f"step_size={self.step_size!r} must be positive and finite")
        if self.scale is not None and not np.all(
            np.isfinite(self.scale) & (np.array(self.scale) > 0)
        ):
            raise ValueError(f"scale={self.scale!r} must be positive and finite")

    def resolved(self, n_dims: int) -> "Hamiltonian":
        """The same settings with ``dense`` decided for d dimensions."""
        if self.scale is not None:
            return replace(self, dense=False)
        return replace(self, dense=n_dims <= MAX_DENSE if self.dense is None else self.dense)

    def refreshment_for(self, step_size: np.ndarray) -> np.ndarray:
        """Share of the momentum variance to replace over steps of these sizes."""
        if self.refreshment is not None:
            return np.full_like(step_size, self.refreshment)
        return 1.0 - 0.5 ** (self.n_steps * step_size)

    def step(
        self, path: AnnealingPath, state: KernelState, move: Move, noise: Noise
    ) -> tuple[KernelState, KernelInfo]:
        """Refresh, integrate, accept or reject; leaves the density at ``move.beta`` invariant."""
        refreshed = refresh_momentum(state, move.refreshment, noise.normal)
        proposal = leapfrog(path, refreshed, move, self.n_steps)
        return accept_or_flip(refreshed, proposal, move.beta, noise.log_uniform)


def refresh_momentum(state: KernelState, refreshment: Any, normal: Any) -> KernelState:
    """Replace a share of the momentum variance; the standard normal stays invariant."""
    momentum = pt.sqrt(1.0 - refreshment) * state.momentum + pt.sqrt(refreshment) * normal
    return state._replace(momentum=momentum)


def leapfrog(path: AnnealingPath, state: KernelState, move: Move, n_steps: int) -> KernelState:
    """Kick, drift, kick, ``n_steps`` times: one evaluation of the path each."""
    position, momentum, evaluation = state
    for _ in range(n_steps):
        momentum = momentum + _kick(evaluation, move)
        position = position + move.step_size * _scaled(momentum, move.scale)
        evaluation = path.evaluate(position)
        momentum = momentum + _kick(evaluation, move)
    return KernelState(position, momentum, evaluation)


def _kick(evaluation: Any, move: Move) -> TensorVariable:
    """Change of the whitened momentum over half a step: the gradient, scaled back."""
    gradient = grad_log_density(evaluation, move.beta)
    back = move.scale if move.scale.ndim == 1 else move.scale.T
    return 0.5 * move.step_size * _scaled(gradient, back)


def _scaled(rows: Any, scale: Any) -> TensorVariable:
    """Scale applied to each row: elementwise, or as a matrix."""
    return rows * scale if scale.ndim == 1 else rows @ scale.T


def energy(state: KernelState, beta: Any) -> TensorVariable:
    """Potential plus kinetic energy of each row, shape (n,)."""
    return 0.5 * (state.momentum**2).sum(axis=1) - log_density(state.evaluation, beta)


def accept_or_flip(
    state: KernelState, proposal: KernelState, beta: Any, log_uniform: Any
) -> tuple[KernelState, KernelInfo]:
    """Metropolis: go to the proposal, or stay and turn the momentum round."""
    log_accept = energy(state, beta) - energy(proposal, beta)
    # inf - inf: a row outside the support that stays outside
    log_accept = pt.switch(pt.isnan(log_accept), -np.inf, log_accept)
    accepted = log_uniform < log_accept
    evaluation = [
        _choose(accepted, new, old)
        for new, old in zip(proposal.evaluation, state.evaluation, strict=True)
    ]
    chosen = KernelState(
        position=_choose(accepted, proposal.position, state.position),
        momentum=_choose(accepted, proposal.momentum, -state.momentum),
        evaluation=type(state.evaluation)(*evaluation),
    )
    return chosen, KernelInfo(pt.exp(pt.minimum(log_accept, 0.0)))


def _choose(accepted: TensorVariable, new: Any, old: Any) -> TensorVariable:
    return pt.switch(accepted if new.ndim == 1 else accepted[:, None], new, old)
