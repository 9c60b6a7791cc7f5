"""How well a tempered run has mixed: plain functions of levels and log ratios."""

from itertools import pairwise

import numpy as np
from scipy.special import logsumexp

from pymc_logz.estimators.draws import TemperedDraws
from pymc_logz.trees.chains import split_rhat
from pymc_logz.trees.doubts import Doubt


def round_trips(level: np.ndarray, n_levels: int) -> np.ndarray:
    """How often each walker went from one end of the ladder to the other and back, shape (W,).

    ``level`` has shape (W, N).
    """
    top = n_levels - 1
    ends = [row[(row == 0) | (row == top)] for row in level]
    return np.array([np.count_nonzero(np.diff(row)) // 2 for row in ends])


def rejection_rates(draws: TemperedDraws) -> np.ndarray:
    """Probability that a swap between each level and the next is rejected, shape (K - 1,).

    Of independent draws of both levels, taken from all pairs of up to 512 each; NaN where a level
    has none. The sum over levels is close to the global barrier, which hardly depends on the ladder
    and tells how far apart its two ends are: Syed et al. (2022), arXiv 1905.02939.
    """
    ratios = [_spread(draws.log_ratio[draws.level == k]) for k in range(draws.n_levels)]
    rates = np.full(draws.n_levels - 1, np.nan)
    for k, (here, above) in enumerate(pairwise(ratios)):
        if here.size and above.size:
            step = draws.betas[k + 1] - draws.betas[k]
            log_accept = step * (here[:, None] - above)
            rates[k] = -np.expm1(np.minimum(log_accept, 0.0)).mean()
    return rates


def _spread(values: np.ndarray, most: int = 512) -> np.ndarray:
    """At most so many of some values, taken at even distances."""
    return values[:: -(-values.size // most)] if values.size else values


def level_overlap(draws: TemperedDraws) -> np.ndarray:
    """Mean probability of each level given the position, over draws at each level, shape (K, K).

    Rows sum to one; the diagonal says how much a level has to itself. As the overlap matrix of
    MBAR, with the run's own prior and rough log Z in place of visits and log Z; from draws at even
    distances. NaN in the row of a level without draws.

    References
    ----------
    Klimovich, Shirts & Mobley (2015), doi 10.1007/s10822-015-9840-9.
    """
    every = -(-draws.n_draws // 2**15)
    level, log_ratio, segment = (
        part.ravel()[::every] for part in (draws.level, draws.log_ratio, draws.segment)
    )
    q, here = draws.level_given(log_ratio, segment), np.eye(draws.n_levels)[level]
    with np.errstate(invalid="ignore"):
        return np.asarray((here.T @ q) / here.sum(axis=0)[:, None])


def level_mixing(draws: TemperedDraws) -> tuple[np.ndarray, np.ndarray]:
    """Effective number of draws and R-hat of the share of each level, both of shape (K,).

    Taken of q(level | x), the probability of the level given the position, with each walker as a
    chain. At the last level that is the weight by which a draw counts for the target. A share lies
    between 0 and 1, and its mean is what log Z is made of, so that R-hat needs no ranks, whose
    sorting took most of the time. NaN for walkers too short to tell.
    """
    # ArviZ takes seconds to import, and few who import this module have chains
    from arviz_stats.base import array_stats

    n_walkers, n = draws.level.shape
    log_norm = np.empty((n_walkers, n))
    for rows, columns in draws.chunks(draws.n_levels):
        weight = draws.log_level_weight(*draws.flat(rows, columns))
        log_norm[rows, columns] = logsumexp(weight, axis=1).reshape(log_norm[rows, columns].shape)
    log_pseudo_prior = draws.log_prior - draws.log_z_hat[0]
    ess, rhat = np.full((2, draws.n_levels), np.nan)
    if n >= 4:
        for k, beta in enumerate(draws.betas):
            tilt = beta * draws.log_ratio if beta > 0 else 0.0
            share = np.exp(tilt + log_pseudo_prior[k] - log_norm)
            ess[k] = array_stats.ess(share, method="mean")
            if n_walkers > 1:
                rhat[k] = split_rhat(share[..., None])[0]
    return ess, rhat


def walker_doubts(rhat: np.ndarray, max_rhat: float = 1.15) -> list[Doubt]:
    """Whether walkers stay where they are for as long as the run, by R-hat of each level (K,).

    Then hardly any came upon a part of the target that is hard to find, such as a narrow spike, and
    log Z has the fraction of it that walkers started with; the error cannot tell. Runs off by up to
    30 of their errors had an R-hat of 1.18 and more, and the slowest that were right 1.10
    (docs/theory/decisions.md).
    """
    worst = float(np.nanmax(rhat, initial=-np.inf))
    if not worst > max_rhat:
        return []
    reason = (
        f"walkers stay in one part of the target for as long as the run: R-hat of the share of "
        f"level {int(np.nanargmax(rhat))} is {worst:.2f}"
    )
    return [Doubt("chains_disagree", reason)]
