"""Hamiltonian dynamics, written once for symbolic rows and for NumPy: refreshment and leapfrog."""

from collections.abc import Callable
from typing import Any

from pymc_logz.arguments import SHARE_REPLACED, check_positive, check_share

HALF_LIFE = 0.5
"""Trajectory time, in units of the scales, in which half of the momentum variance is replaced.

The paper has 1; the log ratio, which is what weights are made of, forgets fastest at 0.35 to 0.7
(docs/theory/decisions.md).
"""


def share_replaced(time: Any, half_life: float) -> Any:
    """Fraction of the momentum variance to replace over a trajectory of this time: the refreshment.

    Half of the variance goes per half-life, however the time is divided into trajectories:
    Sohl-Dickstein & Culpepper (2012), section 2.3, arXiv 1205.1925, with the half-life 1.
    """
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
    """Momentum with a fraction of its variance replaced; the standard normal stays invariant.

    The paper's step 4 prints ``share * normal``, where only the root leaves that as it is.
    """
    return sqrt(1.0 - share) * momentum + sqrt(share) * normal


def leapfrog_step(
    position: Any,
    momentum: Any,
    here: Any,
    *,
    kick: Callable[[Any], Any],
    drift: Callable[[Any, Any], tuple[Any, Any]],
    evaluate: Callable[[Any], Any],
) -> tuple[Any, Any, Any]:
    """Kick, drift, kick: position, momentum and what is known of the new position.

    ``here`` is what ``evaluate`` returned at ``position``, from which ``kick`` makes the change of
    the momentum over half a step. ``drift`` makes both after a step without force. The density is
    evaluated once.
    """
    momentum = momentum + kick(here)
    position, momentum = drift(position, momentum)
    there = evaluate(position)
    return position, momentum + kick(there), there
