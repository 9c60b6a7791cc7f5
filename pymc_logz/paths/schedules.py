"""Arrays of inverse temperatures: made, and placed one after another."""

import numpy as np

from pymc_logz.weights import conditional_ess


def linear_betas(n_temperatures: int) -> np.ndarray:
    """The paper's ladder: equal steps from 0 to 1, shape (n_temperatures + 1,); below eq. 12."""
    if n_temperatures < 1:
        raise ValueError(f"betas={n_temperatures} is not allowed: give at least 1 temperature")
    return np.linspace(0.0, 1.0, n_temperatures + 1)


def next_beta(log_ratio: np.ndarray, beta: float, target: float = 0.5) -> float:
    """The beta at which the conditional ESS has fallen to ``target``; 1 when it never does.

    Log ratios of rows drawn at ``beta`` have shape (n,), or of several groups (groups, n), whose
    mean effective fraction counts.
    """
    # rows of log ratio -inf die at any step, so the fraction is that of the others
    finite = [group[np.isfinite(group)] for group in np.atleast_2d(log_ratio)]
    alive = [group for group in finite if group.size]
    if not alive:
        return beta

    def excess(step: float) -> float:
        return float(np.mean([conditional_ess(step * group) for group in alive])) - target

    if excess(1.0 - beta) >= 0:
        return 1.0
    # log_ratio can span hundreds of orders of magnitude: find the step on the log scale
    spread = max(*(float(np.ptp(group)) for group in alive), 1e-300)
    low, high = np.log(min(1e-3 / spread, 1.0 - beta) * 1e-3), np.log(1.0 - beta)
    while high - low > 1e-6:  # far below what the rows leave open
        middle = 0.5 * (low + high)
        low, high = (middle, high) if excess(np.exp(middle)) > 0 else (low, middle)
    return float(min(beta + np.exp(low), 1.0))


def betas_between(betas: np.ndarray, coordinate: np.ndarray) -> np.ndarray:
    """A smooth rising curve through betas at 0, 1, ..., S, read at coordinates in [0, S]."""
    # piecewise cubic, slopes harmonic means of neighbouring ones: Fritsch & Butland (1984), doi
    # 10.1137/0905021
    rise = np.diff(betas)
    if rise.size == 1:
        return betas[0] + rise[0] * coordinate
    ends = np.maximum(1.5 * rise[[0, -1]] - 0.5 * rise[[1, -2]], 0.0)
    inner = 2.0 * rise[:-1] * rise[1:] / (rise[:-1] + rise[1:])
    slope = np.concatenate([ends[:1], inner, ends[1:]])
    first = np.minimum(np.floor(coordinate).astype(int), rise.size - 1)
    t = coordinate - first
    bend = (1.0 - t) * (slope[first] - rise[first]) - t * (slope[first + 1] - rise[first])
    return betas[first] + t * rise[first] + t * (1.0 - t) * bend
