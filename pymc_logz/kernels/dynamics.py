"""Hamiltonian dynamics for symbolic rows and for NumPy: refreshment, leapfrog, and walls."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_logz.arguments import SHARE_REPLACED, check_positive, check_share
from pymc_logz.kernels.base import Move, strides

HALF_LIFE = 0.5
"""Trajectory time, in units of the scales, in which half of the momentum variance is replaced.

The paper has 1; the log ratio, which is what weights are made of, forgets fastest at 0.35 to 0.7
(docs/theory/decisions.md).
"""


def share_replaced(time: Any, half_life: float) -> Any:
    """Fraction of the momentum variance to replace over this time: half of it per half-life."""
    # Sohl-Dickstein & Culpepper (2012), section 2.3, with the half-life 1, however time is divided
    return 1.0 - 0.5 ** (time / half_life)


def check_refreshment(refreshment: float | None, half_life: float, default: float) -> None:
    """Raise a ValueError for a share or a half-life out of range, or for both of them given."""
    check_share(SHARE_REPLACED, refreshment=refreshment)
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


def leapfrog_step(
    position: Any,
    momentum: Any,
    here: Any,
    kick: Callable[[Any], Any],
    drift: Callable[[Any, Any], tuple[Any, Any]],
    evaluate: Callable[[Any], Any],
) -> tuple[Any, Any, Any]:
    """Kick, drift, kick: position, momentum and what ``evaluate`` knows of the new position."""
    momentum = momentum + kick(here)
    position, momentum = drift(position, momentum)
    there = evaluate(position)
    return position, momentum + kick(there), there


type Wall = tuple[tuple[float, ...], float]
"""Coefficients a and bound b of a'x <= b."""


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
    walls: Sequence[Wall], position: Any, momentum: Any, move: Move, more_bounces: int = 4
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
    for _ in range(len(walls) + more_bounces):
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
    velocity = strides(momentum, move)
    time, _ = _first_hit(position, velocity, normals, bounds)
    end = position + left[:, None] * velocity
    return pt.switch((time < left)[:, None], np.nan, end), momentum


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
