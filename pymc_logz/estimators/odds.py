"""The equations that MBAR, and RTS over several segments, solve."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class LevelOdds(NamedTuple):
    """Log odds of K levels at which the mean shares meet their target."""

    log_odds: np.ndarray
    """Solution, the first entry as it was at the start, -inf where the target is 0; shape (K,)."""
    share: np.ndarray
    """Mean probability of each level, shape (K,)."""
    gram: np.ndarray
    """Mean of the products of two levels' shares, shape (K, K)."""
    converged: bool
    """Whether the last Newton step was small: its square is what is left of the error."""


def solve_odds(
    target: np.ndarray,
    mean_shares: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    start: np.ndarray,
    *,
    tolerance: float = 1e-6,
    max_iterations: int = 200,
) -> LevelOdds:
    """Log odds a of K levels such that ``mean_i softmax_k(a_k + offset_ik) = target_k``.

    The minimum of a convex function, by Newton steps; where one does not bring the shares nearer to
    the target, by a self-consistent step, which always does. ``target`` sums to 1, its first entry
    positive; ``mean_shares`` maps a (K,) to the means of the shares (K,) and of their products (K,
    K). The first entry of ``start`` stays fixed. What is left of the error is the square of
    ``tolerance``, the largest last step.
    """
    seen = np.flatnonzero(target > 0)
    odds = np.full(target.size, -np.inf)
    odds[seen] = start[seen]
    share, gram = mean_shares(odds)
    for _ in range(max_iterations):
        step = _newton_step(target, share, gram, seen)
        if np.all(np.abs(step) < tolerance):
            odds[seen] += step
            return LevelOdds(odds, share, gram, converged=True)
        moved = odds.copy()
        moved[seen] += step
        moved_share, moved_gram = mean_shares(moved)
        if not _misfit(target, moved_share, seen) < _misfit(target, share, seen):
            moved[seen] = odds[seen] + _self_consistent_step(target, share, seen)
            moved_share, moved_gram = mean_shares(moved)
        odds, share, gram = moved, moved_share, moved_gram
    return LevelOdds(odds, share, gram, converged=False)


def _newton_step(
    target: np.ndarray, share: np.ndarray, gram: np.ndarray, seen: np.ndarray
) -> np.ndarray:
    free = seen[1:]
    hessian = (np.diag(share) - gram)[np.ix_(free, free)]
    try:
        step = np.linalg.solve(hessian, (target - share)[free])
    except np.linalg.LinAlgError:
        step = np.full(free.size, np.nan)
    return np.append(0.0, step)


def _self_consistent_step(target: np.ndarray, share: np.ndarray, seen: np.ndarray) -> np.ndarray:
    step = np.log(target[seen]) - np.log(np.maximum(share[seen], np.finfo(float).tiny))
    return step - step[0]


def _misfit(target: np.ndarray, share: np.ndarray, seen: np.ndarray) -> float:
    """Largest log ratio of a share to its target."""
    with np.errstate(divide="ignore"):
        return float(np.max(np.abs(np.log(share[seen] / target[seen]))))
