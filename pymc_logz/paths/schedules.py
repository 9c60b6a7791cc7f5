"""Arrays of inverse temperatures: made, and placed one after another."""

import numpy as np
from scipy.optimize import brentq

from pymc_logz.weights import conditional_ess


def linear_betas(n_temperatures: int) -> np.ndarray:
    """The paper's ladder: ``n_temperatures`` equal steps from 0 to 1, shape (n_temperatures + 1,).

    Sohl-Dickstein & Culpepper (2012), below eq. 12, arXiv 1205.1925.
    """
    if n_temperatures < 1:
        raise ValueError(f"betas={n_temperatures} is not allowed: give at least 1 temperature")
    return np.linspace(0.0, 1.0, n_temperatures + 1)


def next_beta(log_ratio: np.ndarray, beta: float, target: float = 0.5) -> float:
    """The beta at which the conditional ESS has fallen to ``target``; 1 when it never does.

    It is where the rows are now if none of them is inside the support.

    Parameters
    ----------
    log_ratio
        Log ratio of equally weighted rows drawn at ``beta``, shape (n,); or of several groups of
        rows, shape (groups, n), whose mean effective share is then what falls to ``target``.
    beta
        Where the rows are now.
    target
        Share of the effective rows that a step may leave, in (0, 1). Rows of log ratio -inf die
        at any step, so the share is taken of the others.
    """
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
    step = np.exp(brentq(lambda log_step: excess(np.exp(log_step)), low, high, xtol=1e-6))
    return float(min(beta + step, 1.0))
