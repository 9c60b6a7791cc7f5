"""log Z from two sets of draws: reverse annealing, Bennett's ratio, and bridges of posteriors."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from pymc_logz.arguments import check_log_density, check_log_weight
from pymc_logz.estimators.draws import ROUNDING, check_chains, effective_draws
from pymc_logz.estimators.importance import importance_log_z
from pymc_logz.estimators.result import LogZEstimate
from pymc_logz.weights import DEGENERATE_ESS, LOW_ESS, MIN_ROWS_FOR_KHAT, ess_of_sums, log_mean


def reverse_log_z(
    log_weight: np.ndarray, *, log_z_reference: float = 0.0, method: str = "hais_reverse"
) -> LogZEstimate:
    """Log Z from rows annealed from the target to the reference.

    The mean reverse weight is an unbiased estimate of Z_reference / Z, so this log Z is high on
    average where the forward one is low: the two enclose the truth (Grosse, Ghahramani & Adams
    2015, arXiv 1511.02543).

    Parameters
    ----------
    log_weight
        Log weights of reverse rows in nats, any shape: about minus log Z.
    log_z_reference, method
        As in `importance_log_z`.

    Returns
    -------
    LogZEstimate
        Its status, weight ESS and k-hat are those of the reverse weights.

    Raises
    ------
    ValueError
        If there are fewer than two weights, or one is NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz.estimators import reverse_log_z
    >>> reverse = np.random.default_rng(1).normal(-3.125, 0.5, size=1000)  # log Z = 3
    >>> print(reverse_log_z(reverse))
    log Z = 3.030 ± 0.017 (hais_reverse, ok)
    """
    inverse = importance_log_z(log_weight, method=method)
    return replace(inverse, log_z=log_z_reference - inverse.log_z)


def bar_log_z(
    forward: np.ndarray,
    reverse: np.ndarray,
    *,
    log_z_reference: float = 0.0,
    method: str = "bar",
) -> LogZEstimate:
    """Log Z from forward and reverse weights by Bennett's acceptance ratio.

    Solves Bennett's self-consistent equation, the estimate of least variance from the two sets of
    weights (the optimal bridge of Meng & Wong 1996 between the two path distributions). In terms of
    physics, work is minus the log weight and the free energy difference is minus log Z.

    Parameters
    ----------
    forward
        Log weights of rows annealed from the reference to the target, any shape.
    reverse
        Log weights of rows annealed from the target to the reference, any shape.
    log_z_reference, method
        As in `importance_log_z`.

    Returns
    -------
    LogZEstimate
        ``weight_ess`` is the effective number of rows in the overlap of the two sets; without
        overlap the status is ``"no_overlap"`` and there is no number.

    Raises
    ------
    ValueError
        If there are fewer than two weights of a kind, or one is NaN.

    References
    ----------
    Bennett (1976), doi 10.1016/0021-9991(76)90078-4, eq. 12; Shirts & Chodera (2008), doi
    10.1063/1.2978177, for the error.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz.estimators import bar_log_z
    >>> rng = np.random.default_rng(1)
    >>> forward, reverse = rng.normal([[2.875], [-3.125]], 0.5, size=(2, 1000))  # log Z = 3
    >>> print(bar_log_z(forward, reverse))
    log Z = 2.980 ± 0.011 (bar, ok)
    """
    forward, reverse = (np.asarray(one, dtype=float).ravel() for one in (forward, reverse))
    check_log_weight(forward=forward, reverse=reverse)
    bridge = solve_bridge(-reverse, forward, reverse.size)
    if bridge is None:
        return LogZEstimate(method, np.nan, np.nan, 0.0, np.nan, "no_overlap")
    parts = bridge.of_posterior, bridge.of_proposal
    details = {"overlap": bridge.overlap, "log_mean_forward": log_mean(forward)}
    if not bridge.overlap > 0.01:
        return LogZEstimate(method, np.nan, np.nan, 0.0, np.nan, "no_overlap", details)
    variance = sum(part.var(ddof=1) / part.mean() ** 2 / part.size for part in parts)
    ess = sum(ess_of_sums(part.sum(), (part**2).sum()) for part in parts)
    # measured: intervals cover from so many on
    status = "ok" if ess >= DEGENERATE_ESS else "low_weight_ess"
    if min(forward.size, reverse.size) < MIN_ROWS_FOR_KHAT:
        status = "few_rows"
    log_z, mcse = log_z_reference + bridge.log_z, float(np.sqrt(variance))
    return LogZEstimate(method, log_z, mcse, float(ess), np.nan, status, details)


def above_upper_end(forward: np.ndarray, reverse: np.ndarray, log_z: float) -> tuple[float, float]:
    """By how many nats Bennett's log Z is above that of reverse rows alone, and the error of it."""
    # reverse rows that started at draws of the target put log Z at its upper end: too few of them
    # make it higher still, never lower; both numbers have the reverse rows
    shares = _terms(-reverse, forward, -np.log(forward.size / reverse.size), log_z)
    slope = sum(float((one * (1 - one)).sum()) for one in shares)
    weight = np.exp(reverse - log_mean(reverse))
    of_reverse = weight / reverse.size - shares[0] / slope
    variance = forward.size * np.var(shares[1]) / slope**2 + reverse.size * np.var(of_reverse)
    return float(log_z + log_mean(reverse)), float(np.sqrt(variance))


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
    # effective fraction of values that carry their sum, 1 if all are equal
    carried = [
        float(ess_of_sums(values.mean(), np.mean(values**2)))
        for values in (bridge.of_posterior, bridge.of_proposal)
    ]
    overlap_ess = min(carried[0] * ess, carried[1] * proposal.size)
    n_shared = min(carried[0] * posterior.size, carried[1] * proposal.size)
    status = "low_overlap" if n_shared < LOW_ESS else "ok"
    if ess < LOW_ESS:
        status = "short_run"
    if not n_shared >= DEGENERATE_ESS:
        return LogZEstimate(method, np.nan, np.nan, overlap_ess, np.nan, "poor_overlap", details)
    log_z, mcse = float(log_z_reference + bridge.log_z), float(np.sqrt(variance))
    return LogZEstimate(method, log_z, mcse, overlap_ess, np.nan, status, details)


class Bridge(NamedTuple):
    """Root of the bridge equation and the terms whose means it balances."""

    log_z: float
    of_posterior: np.ndarray
    """s2 Z q / (s1 f + s2 Z q) of posterior draws, shape (chains, draws)."""
    of_proposal: np.ndarray
    """s1 f / (s1 f + s2 Z q) of proposal draws, shape (n,)."""
    n_iterations: int

    @property
    def overlap(self) -> float:
        """Integral of p q / (s1 p + s2 q): what each mean is at the root, over its own share."""
        return float(self.of_posterior.mean() + self.of_proposal.mean())


def solve_bridge(posterior: np.ndarray, proposal: np.ndarray, n_effective: float) -> Bridge | None:
    """Root of the bridge equation of log ratios (chains, draws) and (n,); None without overlap."""
    values = np.concatenate([part[np.isfinite(part)] for part in (posterior, proposal)])
    if not values.size:
        return None
    share = n_effective / (n_effective + proposal.size)
    log_odds = np.log(n_effective / proposal.size)

    def imbalance(log_z: float) -> float:
        of_posterior, of_proposal = _terms(posterior, proposal, log_odds, log_z)
        return float(share * of_posterior.mean() - (1.0 - share) * of_proposal.mean())

    # far outside the values one of the means is its limit 1 and the other is below e**-60
    beyond = abs(log_odds) + 60.0
    low, high = values.min() - beyond, values.max() + beyond
    if not imbalance(low) < 0 < imbalance(high):
        return None
    # takes a third of a second, and most who import this module never get here
    from scipy.optimize import brentq

    # log ratios of 1e300 take a thousand halvings
    log_z, result = brentq(imbalance, low, high, xtol=1e-12, maxiter=4000, full_output=True)
    return Bridge(log_z, *_terms(posterior, proposal, log_odds, log_z), result.iterations)


def _terms(
    posterior: np.ndarray, proposal: np.ndarray, log_odds: float, log_z: float
) -> tuple[np.ndarray, np.ndarray]:
    """Probability that a draw of one kind could as well be of the other, by their log ratios."""
    return expit(log_z - posterior - log_odds), expit(proposal - log_z + log_odds)


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
