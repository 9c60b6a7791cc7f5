"""The Hamiltonian kernel: refreshed momentum, leapfrog steps, and walls that reflect them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_logz.arguments import check_fraction, check_integer, check_positive
from pymc_logz.kernels.base import (
    MAX_STEPS,
    KernelInfo,
    KernelState,
    Move,
    Noise,
    column,
    metropolis,
    strides,
)
from pymc_logz.kernels.tuning import KernelDefaults, check_scale
from pymc_logz.paths.geometric import AnnealingPath, grad_log_density, log_density

HALF_LIFE = 0.5
"""Trajectory time, in units of the scales, in which half of the momentum variance is replaced.

The paper has 1; the log ratio, which is what weights are made of, forgets fastest at 0.35 to 0.7
(docs/theory/decisions.md).
"""
type Wall = tuple[tuple[float, ...], float]
"""Coefficients a and bound b of a'x <= b."""


@dataclass(frozen=True)
class Hamiltonian(KernelDefaults):
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
        Fraction of the momentum *variance* replaced before a step, in [0, 1]:
        ``p <- sqrt(1 - refreshment) p + sqrt(refreshment) noise``. None replaces half of it per
        ``half_life``, ``1 - 0.5**(n_steps * step_size / half_life)``.
    step_size
        Leapfrog step size in units of ``scale``. None lets the pilot choose it.
    scale
        Length scale of each unconstrained dimension: one number, or a tuple of d numbers. None
        lets the pilot choose it.
    dense
        Whether the pilot's scales follow the correlations of the population too. None does so in
        up to 64 dimensions, where it costs next to nothing.
    half_life
        Trajectory time, in units of ``scale``, in which half of the momentum variance is replaced
        if ``refreshment`` is None. The paper has 1.
    walls
        Linear constraints ``a'x <= b`` on the unconstrained row x of d values, as pairs (a, b):
        trajectories are reflected by them, as in the paper. The model's density must be zero
        beyond, and prior draws within: that is for variables with ``transform=None``, or for a
        potential that is -inf there. Rows start from the prior then.

    Raises
    ------
    ValueError
        If a setting is outside its range.

    References
    ----------
    Sohl-Dickstein & Culpepper (2012), section 2.3, arXiv 1205.1925. The paper's step 4 prints
    ``gamma r`` where only ``sqrt(gamma) r`` leaves the momentum's distribution invariant.

    Examples
    --------
    The paper's own setting, whatever the model:

    >>> from pymc_logz.kernels import Hamiltonian
    >>> paper = Hamiltonian(step_size=0.2, scale=1.0, half_life=1.0)
    """

    n_steps: int = 1
    refreshment: float | None = None
    step_size: float | None = None
    scale: float | tuple[float, ...] | None = None
    dense: bool | None = None
    half_life: float = HALF_LIFE
    walls: tuple[Wall, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "walls", checked_walls(self.walls))
        check_integer(1, MAX_STEPS, n_steps=self.n_steps)
        check_positive(one=True, step_size=self.step_size)
        check_refreshment(self.refreshment, self.half_life, HALF_LIFE)
        check_scale(self.scale, self.dense)

    def evaluations_per_move(self, n_dims: int) -> int:
        """One evaluation of the path per leapfrog step."""
        return self.n_steps

    def refreshment_for(self, step_size: np.ndarray) -> np.ndarray:
        """Fraction of the momentum variance to replace over steps of these sizes."""
        if self.refreshment is not None:
            return np.full_like(step_size, self.refreshment)
        return fraction_replaced(self.n_steps * step_size, self.half_life)

    def step(
        self, path: AnnealingPath, state: KernelState, move: Move, noise: Noise
    ) -> tuple[KernelState, KernelInfo]:
        """Refresh, integrate, accept or reject; leaves the density at ``move.beta`` invariant."""
        share = column(move.refreshment)
        start = state._replace(momentum=refreshed(state.momentum, noise.normal, share, pt.sqrt))
        end = leapfrog(path, start, move, self.n_steps, self.walls)
        log_accept = energy(start, move.beta) - energy(end, move.beta)
        turned = start._replace(momentum=-start.momentum)
        return metropolis(log_accept, noise.log_uniform, end, turned)


@dataclass(frozen=True)
class Langevin(Hamiltonian):
    """Settings of the Metropolis-adjusted Langevin algorithm.

    It is the Hamiltonian kernel with one leapfrog step and a momentum that is drawn afresh each
    time: the proposal ``x + step_size**2 / 2 scale**2 gradient + step_size scale noise``.

    Parameters
    ----------
    step_size, scale, dense
        As for `Hamiltonian`.

    References
    ----------
    Roberts & Tweedie (1996), Exponential convergence of Langevin distributions and their discrete
    approximations, Bernoulli 2, 341, doi 10.2307/3318418.

    Examples
    --------
    >>> from pymc_logz.kernels import Langevin
    >>> proposal = Langevin(step_size=0.5)
    >>> proposal.n_steps, proposal.refreshment
    (1, 1.0)
    """

    n_steps: int = field(default=1, init=False)
    refreshment: float | None = field(default=1.0, init=False)
    half_life: float = field(default=HALF_LIFE, init=False)
    walls: tuple[Wall, ...] = field(default=(), init=False)


def leapfrog(
    path: AnnealingPath,
    state: KernelState,
    move: Move,
    n_steps: int,
    walls: Sequence[Wall] = (),
) -> KernelState:
    """Kick, drift, kick, ``n_steps`` times: one evaluation of the path each."""

    def kick(evaluation: Any) -> TensorVariable:
        # half a step of the whitened momentum
        return 0.5 * strides(grad_log_density(evaluation, move.beta), move, back=True)

    for _ in range(n_steps):
        momentum = state.momentum + kick(state.evaluation)
        if walls:
            position, momentum = reflected_drift(walls, state.position, momentum, move)
        else:
            position = state.position + strides(momentum, move)
        evaluation = path.evaluate(position)
        state = KernelState(position, momentum + kick(evaluation), evaluation)
    return state


def energy(state: KernelState, beta: Any) -> TensorVariable:
    """Potential plus kinetic energy of each row, shape (n,)."""
    return 0.5 * (state.momentum**2).sum(axis=1) - log_density(state.evaluation, beta)


def fraction_replaced(time: Any, half_life: float) -> Any:
    """Fraction of the momentum variance to replace over this time: half of it per half-life."""
    # Sohl-Dickstein & Culpepper (2012), section 2.3, with the half-life 1, however time is divided
    return 1.0 - 0.5 ** (time / half_life)


def check_refreshment(refreshment: float | None, half_life: float, default: float) -> None:
    """Raise a ValueError for a share or a half-life out of range, or for both of them given."""
    meaning = "it is the share of the momentum variance that is replaced"
    check_fraction(meaning, refreshment=refreshment)
    check_positive(half_life=half_life)
    if refreshment is not None and half_life != default:
        raise ValueError(
            f"half_life={half_life!r} says how fast momentum is replaced where refreshment is None,"
            f" but refreshment={refreshment!r} is given: leave out one of the two"
        )


def refreshed(momentum: Any, normal: Any, share: Any, sqrt: Callable[[Any], Any]) -> Any:
    """Momentum with a fraction of its variance replaced; the standard normal stays invariant."""
    # the paper's step 4 prints share * normal, where only the root leaves that as it is
    return sqrt(1.0 - share) * momentum + sqrt(share) * normal


def checked_walls(walls: Sequence[tuple[Any, Any]]) -> tuple[Wall, ...]:
    """Walls as tuples of numbers; a ValueError unless they are pairs of a vector and a number."""
    try:
        found = tuple((tuple(map(float, a)), float(b)) for a, b in walls)
    except (TypeError, ValueError):
        found = None
    right = found is not None and all(
        np.all(np.isfinite([*a, b])) and np.any(a) and len(a) == len(found[0][0]) for a, b in found
    )
    # each reflection looks at all of them, and each is another piece of the graph
    if found is None or not right or len(found) > 32:
        raise ValueError(
            f"walls={walls!r:.200} must be at most 32 pairs (a, b) for a'x <= b: a finite "
            "vector with an entry for each unconstrained dimension, not all of them zero, and a "
            "finite number"
        )
    return found


def walls_of(kernel: Any) -> Sequence[Wall]:
    """Walls of a kernel, of which those of most kinds have none."""
    return getattr(kernel, "walls", ())


def outside(walls: Sequence[Wall], rows: np.ndarray) -> np.ndarray:
    """Whether rows (n, d) are beyond one of the walls, shape (n,)."""
    normals, bounds = np.array([a for a, _ in walls]), np.array([b for _, b in walls])
    return np.asarray(np.any(rows @ normals.T > bounds, axis=1))


def reflected_drift(
    walls: Sequence[Wall], position: Any, momentum: Any, move: Move
) -> tuple[TensorVariable, TensorVariable]:
    """Position and whitened momentum after a drift of one step that no wall lets through."""
    # in whitened coordinates this is a ball between mirrors, which keeps volume and energy, and
    # runs backwards as it ran forwards; a row that needs too many reflections ends at NaN, where
    # its move is rejected, and so is the one back: Sohl-Dickstein & Culpepper (2012), section 2.4;
    # Afshar & Domke (2015), Reflection, refraction, and Hamiltonian Monte Carlo
    normals = np.array([a for a, _ in walls])
    bounds = np.array([b for _, b in walls])
    # of each wall, the normal in whitened coordinates, for each row
    whitened = [strides(pt.ones_like(position) * a, move, back=True) for a in normals]
    unit = pt.stack([n / pt.sqrt((n**2).sum(axis=1, keepdims=True)) for n in whitened], axis=1)
    every = np.arange(len(walls))
    left = pt.ones_like(position[:, 0])
    for _ in range(len(walls) + 5):
        velocity = strides(momentum, move)
        time, which = _first_hit(position, velocity, normals, bounds)
        hits = time < left
        gone = pt.minimum(time, left)
        position = position + gone[:, None] * velocity
        left = left - gone
        # one of the walls for each row, without an index that has a row's number in it
        normal = pt.switch(pt.eq(which[:, None], every)[:, :, None], unit, 0.0).sum(axis=1)
        turned = momentum - 2.0 * (momentum * normal).sum(axis=1, keepdims=True) * normal
        momentum = pt.switch(hits[:, None], turned, momentum)
    return pt.switch((left > 0)[:, None], np.nan, position), momentum


def _first_hit(
    position: Any, velocity: Any, normals: np.ndarray, bounds: np.ndarray
) -> tuple[TensorVariable, TensorVariable]:
    """When a row meets its first wall, in units of the drift (inf for never), and which it is."""
    speed = velocity @ normals.T
    # rounding may have left a row a little beyond the wall that it was reflected by
    distance = pt.maximum(bounds - position @ normals.T, 0.0)
    towards = speed > 0
    time = pt.switch(towards, distance / pt.switch(towards, speed, 1.0), np.inf)
    return time.min(axis=1), time.argmin(axis=1)
