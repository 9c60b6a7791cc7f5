"""log Z from draws of the target and draws of a proposal: the iterative optimal bridge."""

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from pymc_logz.arguments import check_log_density
from pymc_logz.estimators.draws import ROUNDING, check_chains, effective_draws
from pymc_logz.estimators.result import LogZEstimate
from pymc_logz.weights import DEGENERATE_ESS, LOW_ESS, ess_of_sums


def bridge_log_z(
    target_at_posterior: np.ndarray,
    proposal_at_posterior: np.ndarray,
    target_at_proposal: np.ndarray,
    proposal_at_proposal: np.ndarray,
    *,
    log_z_reference: float = 0.0,
    method: str = "bridge",
) -> LogZEstimate:
    """Log Z of a target from chains of its draws and independent draws of a proposal.

    Solves the fixed point of the optimal bridge between target p = f / Z and proposal q ::

        Z = mean_q[ f / (s1 f + s2 Z q) ] / mean_p[ q / (s1 f + s2 Z q) ]

    with shares s1 and s2 of the effective number of posterior draws and of the proposal draws. Its
    two sides cross once, so the root is found by bracketing and cannot fail to converge where a
    crossing exists. Both means are of bounded quantities: tails that are too light or too heavy
    cost precision, not validity. The proposal must not be fitted to the same posterior draws.

    Parameters
    ----------
    target_at_posterior
        Log target density (unnormalised) at posterior draws, shape (chains, draws), or (draws,) for
        one chain; the order of draws is that of the chain, which the error needs.
    proposal_at_posterior
        Log proposal density at the same draws, same shape; -inf where the proposal is zero.
    target_at_proposal
        Log target density at independent proposal draws, any shape; -inf where it is zero. A failed
        proposal (one that came to no point) counts too: as -inf, never left out.
    proposal_at_proposal
        Log proposal density at those draws, same shape; for a failed one any finite number.
    log_z_reference
        Log Z of the proposal, 0 if its density is normalised.
    method
        Name that the estimate goes by.

    Returns
    -------
    LogZEstimate
        ``mcse`` is the relative error of Z, which knows about autocorrelation. ``weight_ess`` is
        the smaller of the effective numbers of posterior draws and of proposal draws in the
        overlap. With fewer than 10 draws of a kind in the overlap the status is
        ``"poor_overlap"`` and there is no number, with fewer than 50 it is ``"low_overlap"``;
        ``"short_run"`` says that the chains are worth fewer than 50 independent draws.
        ``details`` has ``overlap`` (integral of p q / (s1 p + s2 q), 1 where p = q),
        ``posterior_ess`` (of the bridged quantity), ``n_posterior``, ``n_proposal``,
        ``share_outside`` (proposal draws where the target is zero) and ``n_iterations``.

    Raises
    ------
    ValueError
        If shapes do not fit, a chain has fewer than 4 draws, or a value is NaN or +inf, or -inf
        where it cannot be.

    References
    ----------
    Meng & Wong (1996), Simulating ratios of normalizing constants via a simple identity, eq. 4.1;
    error: Fruehwirth-Schnatter (2004), doi 10.1111/j.1368-423X.2004.00125.x, eq. 10, as in Gronau
    et al. (2017), arXiv 1703.05984, eq. 16, and Gronau, Singmann & Wagenmakers (2020), doi
    10.18637/jss.v092.i10.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz.estimators import bridge_log_z
    >>> rng = np.random.default_rng(1)
    >>> posterior, proposal = rng.normal(0.5, 1.0, (4, 500)), rng.normal(0.0, 1.2, 2000)
    >>> log_f = lambda x: 3.0 - 0.5 * (x - 0.5) ** 2  # log Z = 3 + log(2 pi) / 2 = 3.919
    >>> log_q = lambda x: -0.5 * (x / 1.2) ** 2 - np.log(1.2 * np.sqrt(2 * np.pi))
    >>> print(bridge_log_z(log_f(posterior), log_q(posterior), log_f(proposal), log_q(proposal)))
    log Z = 3.914 ± 0.008 (bridge, ok)
    """
    posterior = _posterior_ratio(target_at_posterior, proposal_at_posterior)
    proposal = _proposal_ratio(target_at_proposal, proposal_at_proposal)
    outside = np.isneginf(proposal)
    details = {
        "n_posterior": float(posterior.size),
        "n_proposal": float(proposal.size),
        "share_outside": float(outside.mean()),
    }
    bridge = solve_bridge(posterior, proposal, posterior.size)
    if bridge is None:
        return LogZEstimate(method, np.nan, np.nan, 0.0, np.nan, "poor_overlap", details)
    ess = effective_draws(bridge.of_posterior, tails=True)
    # the shares that are optimal for chains: their draws count for as many as they are worth
    bridge = solve_bridge(posterior, proposal, ess) or bridge
    ess = effective_draws(bridge.of_posterior, tails=True)
    details |= {
        "overlap": bridge.overlap,
        "posterior_ess": ess,
        "n_iterations": float(bridge.n_iterations),
    }
    variance = _relative_variance(bridge.of_posterior, ess)
    variance += _relative_variance(bridge.of_proposal, proposal.size)
    carried = _concentration(bridge.of_posterior), _concentration(bridge.of_proposal)
    overlap_ess = min(carried[0] * ess, carried[1] * proposal.size)
    n_shared = min(carried[0] * posterior.size, carried[1] * proposal.size)
    status = _status(bridge.converged, n_shared, ess)
    if status in ("not_converged", "poor_overlap"):
        return LogZEstimate(method, np.nan, np.nan, overlap_ess, np.nan, status, details)
    log_z = log_z_reference + bridge.log_z
    return LogZEstimate(
        method, float(log_z), float(np.sqrt(variance)), overlap_ess, np.nan, status, details
    )


class Bridge(NamedTuple):
    """Root of the bridge equation and the terms whose means it balances."""

    log_z: float
    of_posterior: np.ndarray
    """s2 Z q / (s1 f + s2 Z q) of posterior draws, shape (chains, draws)."""
    of_proposal: np.ndarray
    """s1 f / (s1 f + s2 Z q) of proposal draws, shape (n,)."""
    overlap: float
    n_iterations: int
    converged: bool


def solve_bridge(posterior: np.ndarray, proposal: np.ndarray, n_effective: float) -> Bridge | None:
    """Root of the bridge equation of log ratios (chains, draws) and (n,); None without overlap."""
    share = n_effective / (n_effective + proposal.size)
    log_odds = np.log(n_effective / proposal.size)

    def terms(log_z: float) -> tuple[np.ndarray, np.ndarray]:
        return expit(log_z - posterior - log_odds), expit(proposal - log_z + log_odds)

    def imbalance(log_z: float) -> float:
        # rises with log_z from negative to positive
        of_posterior, of_proposal = terms(log_z)
        return float(share * of_posterior.mean() - (1.0 - share) * of_proposal.mean())

    finite = np.concatenate([posterior[np.isfinite(posterior)], proposal[np.isfinite(proposal)]])
    if not finite.size:
        return None
    # far outside the values one of the means is its limit 1 and the other is below e**-60
    low, high = finite.min() - abs(log_odds) - 60.0, finite.max() + abs(log_odds) + 60.0
    if not imbalance(low) < 0.0 < imbalance(high):
        return None
    # takes a third of a second, and most who import this module never get here
    from scipy.optimize import brentq

    log_z, result = brentq(
        imbalance, low, high, xtol=1e-10, maxiter=200, full_output=True, disp=False
    )
    of_posterior, of_proposal = terms(log_z)
    # each mean divided by its own factor is the same integral at the root
    overlap = of_proposal.mean() / share
    return Bridge(
        log_z, of_posterior, of_proposal, float(overlap), result.iterations, result.converged
    )


def _posterior_ratio(target: np.ndarray, proposal: np.ndarray) -> np.ndarray:
    """Log target minus log proposal at posterior draws, shape (chains, draws)."""
    target, proposal = np.asarray(target, dtype=float), np.asarray(proposal, dtype=float)
    if target.shape != proposal.shape or target.ndim not in (1, 2):
        raise ValueError(
            f"target_at_posterior has shape {target.shape} and proposal_at_posterior "
            f"{proposal.shape}; both must be (chains, draws)"
        )
    check_chains(target_at_posterior=target)
    bad = np.count_nonzero(~np.isfinite(target))
    if bad:
        raise ValueError(
            f"{bad} of {target.size} entries of target_at_posterior are not finite; draws of the "
            "target have a positive density: look for draws of another model, or on a boundary"
        )
    check_log_density(may_be_zero=True, proposal_at_posterior=proposal)
    return np.atleast_2d(target - proposal)


def _proposal_ratio(target: np.ndarray, proposal: np.ndarray) -> np.ndarray:
    """Log target minus log proposal at proposal draws, shape (n,)."""
    target, proposal = np.asarray(target, dtype=float), np.asarray(proposal, dtype=float)
    if target.shape != proposal.shape or target.size < 2:
        raise ValueError(
            f"target_at_proposal has shape {target.shape} and proposal_at_proposal "
            f"{proposal.shape}; both need one entry for each of at least 2 proposal draws"
        )
    check_log_density(may_be_zero=True, target_at_proposal=target)
    check_log_density(may_be_zero=False, proposal_at_proposal=proposal)
    return (target - proposal).ravel()


def _relative_variance(values: np.ndarray, n_effective: float) -> float:
    """Variance of the mean divided by its square, with one standard error of its own on top."""
    # where a few values far out make up the variance, the draws that hold none of them are off
    square = (values / values.mean() - 1.0) ** 2
    variance = float(square.mean())
    if variance < ROUNDING**2:
        return 0.0
    excess = max(float(np.mean(square**2)) / variance**2 - 1.0, 0.0)
    return variance * (1.0 + float(np.sqrt(excess / n_effective))) / n_effective


def _concentration(values: np.ndarray) -> float:
    """Effective fraction of values that carry their sum, 1 if all are equal."""
    return float(ess_of_sums(values.mean(), np.mean(values**2)))


def _status(converged: bool, n_shared: float, posterior_ess: float) -> str:
    """Verdict from the number of draws in the overlap, and of independent posterior draws."""
    if not converged:
        return "not_converged"
    if not n_shared >= DEGENERATE_ESS:
        return "poor_overlap"
    if posterior_ess < LOW_ESS:
        return "short_run"
    return "low_overlap" if n_shared < LOW_ESS else "ok"
