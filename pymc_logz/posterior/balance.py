"""Whether draws are of the posterior: what a bridge knows of them beyond its log Z."""

import numpy as np
from scipy.special import expit, ndtri

from pymc_logz.estimators.bridge import solve_bridge
from pymc_logz.estimators.draws import effective_draws
from pymc_logz.models.context import variable_of
from pymc_logz.models.density import RowDensity
from pymc_logz.paths.elliptical import Elliptical
from pymc_logz.trees.doubts import Doubt


def imbalance_of_draws(
    density: RowDensity,
    rows: np.ndarray,
    log_target: np.ndarray,
    proposed: np.ndarray,
    target_at_proposed: np.ndarray,
    proposal: Elliptical,
    *,
    false_alarms: float = 1e-4,
    rounding: float = 1e-9,
) -> list[Doubt]:
    """What a bridge between draws and those of a proposal says against the draws.

    Of a draw that is of the posterior p = f / Z or of the proposal q, the densities say which: the
    first has the probability P = s f / (s f + (1 - s) Z q). So for any function g ::

        s mean_p[(1 - P) g] = (1 - s) mean_q[P g]

    With g = 1 that is the equation of the bridge, which makes log Z of it and can check nothing.
    Looked at are the log ratio of f and q, the distance from the centre, and each coordinate. No
    density is computed for it, and it needs no weights, so it is of use where importance sampling
    is not. It knows only the places where both have draws: not a mode that the draws have missed.
    The proposal, a normal, was fitted to other draws than ``rows`` (chains, draws, d). Draws whose
    log target is not finite are not looked at. Draws of the posterior are accused with a
    probability of ``false_alarms``, by the normal distribution of means; ``rounding`` is the
    relative error of sums.
    """
    inside = np.isfinite(log_target)
    shape, n_dims = log_target.shape, rows.shape[-1]
    rows = np.where(inside[..., None], rows, proposal.centre).reshape(-1, n_dims)
    ratio = np.where(inside.ravel(), log_target.ravel() - proposal.log_density_of(rows), np.inf)
    at_proposed = target_at_proposed - proposal.log_density_of(proposed)
    bridge = solve_bridge(ratio.reshape(shape), at_proposed, ratio.size)
    if bridge is None:
        return []
    log_odds = bridge.log_z - np.log(ratio.size / at_proposed.size)
    terms = expit(log_odds - ratio), expit(at_proposed - log_odds)
    seen = (
        _seen(rows, ratio - log_odds, proposal),
        _seen(proposed, at_proposed - log_odds, proposal),
    )
    known = [term * (1 - term) for term in terms]
    total = known[0].sum() + known[1].sum()
    if not total > 0:
        return []
    centre = (known[0] @ seen[0] + known[1] @ seen[1]) / total
    posterior, other = (
        term[:, None] * (one - centre) for term, one in zip(terms, seen, strict=True)
    )
    # shares and means: sums over both kinds of draws, by their number
    difference = posterior.sum(axis=0) - other.sum(axis=0)
    variance = other.var(axis=0) * len(other)
    for i, column in enumerate(posterior.T):
        worth = effective_draws(column.reshape(shape), tails=True)
        variance[i] += column.var() * column.size**2 / worth
    floor = rounding * (np.abs(posterior).sum(axis=0) + np.abs(other).sum(axis=0))
    errors = np.abs(difference) / np.sqrt(variance + floor**2)
    limit = -ndtri(0.5 * false_alarms / errors.size)
    worst = int(np.argmax(errors))
    if not errors[worst] > limit:
        return []
    names = ["log density", "distance from the centre"]
    names += [repr(variable_of(density.flat, worst - 2))] if worst > 1 else []
    reason = (
        f"the draws and the proposal's, weighted by the density, disagree about the mean "
        f"{names[min(worst, 2)]} by {errors[worst]:.3g} errors"
    )
    return [Doubt("wrong_draws", reason)]


def _seen(rows: np.ndarray, ratio: np.ndarray, proposal: Elliptical) -> np.ndarray:
    """Log ratio, log of the squared distance, whitened coordinates, shape (n, d + 2)."""
    whitened = np.linalg.solve(proposal.factor, (rows - proposal.centre).T).T
    distance = np.log1p((whitened**2).sum(axis=1))
    # an infinite one has a term of zero
    return np.column_stack([np.where(np.isfinite(ratio), ratio, 0.0), distance, whitened])
