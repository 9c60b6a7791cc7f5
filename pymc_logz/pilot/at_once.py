"""Rows that need no path: drawn from a density so close to the posterior that one weight will do.

Where entries of a row are normal in the prior given the others, they are nearly so in the
posterior, whose conditional mode and curvature are found for each row by Newton's method. What is
left are the others: each is made normal by itself by its quantiles in draws of the posterior, and a
mixture of Student-t components is fitted to how they go together.
"""

from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
from scipy.special import logsumexp

from pymc_logz.estimators import LogZEstimate, importance_log_z
from pymc_logz.models.preparation import Prepared
from pymc_logz.paths.clusters import fitted_clusters
from pymc_logz.paths.mixture import Mixture
from pymc_logz.paths.shrinkage import RIDGE
from pymc_logz.pilot.conditional_modes import Conditionals
from pymc_logz.pilot.marginals import Marginals
from pymc_logz.pilot.reference import Reference, widened
from pymc_logz.runners.anneal import Annealed, Plan, merge
from pymc_logz.runners.block import Block
from pymc_logz.weights import weight_ess

MAX_INNER = 64
"""Normal entries, at most: each row takes more gradients than there are of them."""
INNER_INFLATION = 1.02
"""Factor in a conditional covariance."""
N_FIRST, N_TRIAL = 64, 512
"""Rows of a first look, and of one by which it is decided."""
HOPELESS = 0.05
"""Effective share of the first look up to which there is no second one."""
SLACK = 1.25
"""Factor by which rows that were looked at may flatter."""
N_DRAWS, HEAVIER, MISSED = 256, 3.0, 0.02
"""Draws of the posterior that are held against it, factor by which they may weigh more than any
trial row, and share of them that may weigh more."""
MOST_TRIES = 8
"""Rows to choose one from, at most."""
PORTION = 1024
"""Rows whose conditional curvatures are held at a time."""


@dataclass(frozen=True)
class Proposal:
    """A density of rows that is close to the posterior, and whose draws are weighted at once."""

    parts: Conditionals
    """Normal entries, and the others."""
    marginals: Marginals
    """Of the others."""
    fit: Mixture
    """Of their scores, without a prior."""
    start: np.ndarray
    """Where the search for a conditional mode begins, shape (n,)."""
    scale: np.ndarray
    """Standard deviations of the normal entries in draws of the posterior, shape (n,)."""
    log_prior_mass: float
    """Log of the integral of the prior: below 0 where a transform cuts part of it off."""
    tries: int = 1
    """Rows that each one is chosen from, in proportion to their weights."""

    def __call__(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows (n, d), and their log density (n,)."""
        scores = self.fit(rng, n)
        outer, log_density = self._outer(scores)
        mode, factor = self._conditional(outer)
        noise = rng.standard_normal(mode.shape)
        inner = mode + np.linalg.solve(factor.transpose(0, 2, 1), noise[..., None])[..., 0]
        return self.parts.rows(outer, inner), log_density + _of_normal(noise, factor)

    def log_density_of(self, rows: np.ndarray) -> np.ndarray:
        """Log density of rows (n, d), to a thousandth, shape (n,)."""
        _, log_density = self._outer(self.marginals.scores(rows[:, self.parts.outer]))
        mode, factor = self._conditional(rows[:, self.parts.outer])
        apart = (rows[:, self.parts.inner] - mode)[:, None]
        return log_density + _of_normal((apart @ factor)[:, 0], factor)

    def _outer(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Other entries, and their log density, from scores (n, m)."""
        outer, log_volume = self.marginals.entries(scores)
        nothing = np.full(len(scores), -np.inf)  # of the prior, which has no share
        return outer, self.fit.log_density_of(scores, nothing) - log_volume

    def _conditional(self, outer: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means of the normal entries, and Cholesky factors of their precisions, shape (n, k, k).

        They depend on the other entries alone.
        """
        n, k = len(outer), len(self.start)
        if not k:
            return np.empty((n, 0)), np.empty((n, 0, 0))
        found = self.parts.modes(outer, np.tile(self.start, (n, 1)), self.scale)
        lost = ~np.isfinite(found.log_marginal)  # any density will do that the others determine
        mode = np.where(lost[:, None], self.start, found.inner)
        precision = np.where(lost[:, None, None], np.diag(self.scale**-2.0), found.precision)
        return mode, np.linalg.cholesky(precision / INNER_INFLATION)

    def weighted(self, rng: np.random.Generator, n: int) -> Annealed:
        """Rows as they are at the end of a path of one temperature, with their weights.

        Each is one of ``tries`` rows, drawn by their weights, and has their mean weight: which
        leaves means over weighted rows as they are, for any function of a row, 1 among them.
        """
        size = max(1, PORTION // self.tries)
        return reduce(
            merge, (self._portion(rng, min(size, n - first)) for first in range(0, n, size))
        )

    def _portion(self, rng: np.random.Generator, n: int) -> Annealed:
        rows, log_density = self(rng, n * self.tries)
        found = self.parts.block.looked_at(rows)[0].evaluation
        log_ratio = found.log_reference - self.log_prior_mass + found.log_ratio - log_density
        is_nan = np.isnan(log_ratio)
        each = np.where(is_nan, -np.inf, log_ratio).reshape(n, self.tries)
        noise = rng.gumbel(size=each.shape)
        chosen = np.arange(n) * self.tries + np.argmax(each + noise, axis=1)
        log_weight = logsumexp(each, axis=1) - np.log(self.tries)
        return Annealed(
            position=rows[chosen],
            log_reference=log_density[chosen],
            log_ratio=each.ravel()[chosen],
            log_weight=log_weight,
            acceptance_rate=np.ones(n),
            n_nan=int(is_nan.sum()),
            stage_acceptance_rate=np.full(2, np.nan),
            stage_mean_log_ratio=np.array([each.mean(), np.nan]),
            stage_weight_ess=np.array([n, weight_ess(log_weight)]),
            score=(found.grad_log_reference + found.grad_log_ratio)[chosen],
        )


def _of_normal(noise: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Log density of rows that are noise (n, k) apart from their means in units of a factor."""
    log_root = np.log(np.einsum("kii->ki", factor)).sum(axis=1)
    return log_root - 0.5 * (noise**2).sum(axis=1) - 0.5 * noise.shape[1] * np.log(2 * np.pi)


def weighed_at_once(
    prepared: Prepared,
    block: Block,
    sampled: Reference,
    n_rows: int,
    mcse: float,
    rng: np.random.Generator,
) -> tuple[Proposal, LogZEstimate, str] | None:
    """A proposal fitted to draws, log Z of trial rows, and what it is in words.

    Parameters
    ----------
    prepared
        The model.
    block
        Moves on the path from the prior, where gradients are taken and counted.
    sampled
        A reference that was fitted to draws of ``pm.sample``.
    n_rows
        Rows of the run.
    mcse
        Error that they are to have, in nats.
    rng
        Generator of the fit and of trial rows.

    Returns
    -------
    tuple or None
        None where there are too many normal entries, or nothing else, too few draws, or weights of
        trial rows that are too uneven for this error.
    """
    parts = Conditionals.of_normal_entries(prepared.flat, block)
    if parts is None or sampled.draws is None or not parts.outer.size:
        return None
    if parts.inner.size > MAX_INNER:
        return None
    outer, inner = sampled.draws[:, parts.outer], sampled.draws[:, parts.inner]
    marginals = Marginals.of_draws(outer)
    if marginals is None or not inner.std(axis=0).all():
        return None
    assert sampled.mixture is not None
    fit = widened(fitted_clusters(marginals.scores(outer), len(outer), rng))
    proposal = Proposal(
        parts,
        marginals,
        Mixture(fit.components, fit.shares, 0.0, None),
        inner.mean(axis=0),
        inner.std(axis=0),
        sampled.mixture.log_prior_mass,
    )
    for n in (N_FIRST, N_TRIAL):
        log_weight = proposal.weighted(rng, n).log_weight
        estimate = importance_log_z(log_weight, method="hais")
        share = estimate.weight_ess / n
        if not share > HOPELESS:
            return None
    tries = int(np.ceil((1 / share - 1) / (n_rows * (mcse / SLACK) ** 2)))
    if estimate.status != "ok" or tries > MOST_TRIES:
        return None
    if _missed(proposal, sampled.draws, log_weight.max()) > MISSED:
        return None
    reason = (
        f"entries are taken from a fit to {len(outer)} draws of pm.sample, {inner.shape[1]} of "
        f"{block.path.n_dims} as normal given the others, and weights have an effective share of "
        f"{share:.2g}"
    )
    reason += f"; each row is one of {tries}" if tries > 1 else ""
    return replace(proposal, tries=max(tries, 1)), estimate, reason


def _missed(proposal: Proposal, draws: np.ndarray, heaviest: float) -> float:
    """Share of draws that weigh much more than any trial row: where it has too little density."""
    chosen = draws[np.linspace(0, len(draws) - 1, N_DRAWS).astype(int)]
    log_target = proposal.parts.at(chosen)[0] - proposal.log_prior_mass
    log_weight = log_target - proposal.log_density_of(chosen)
    return float(np.mean(log_weight > heaviest + np.log(HEAVIER)))


def plan_of_one_step(block: Block, rows: np.ndarray) -> Plan:
    """From 0 to 1 in one step; moves at its end, if there are any, are as wide as rows (n, d)."""
    ends, d = np.array([0.0, 1.0]), rows.shape[1]
    scale = np.broadcast_to(rows.std(axis=0), (2, d))
    dense: list[np.ndarray] = []
    if len(block.scale_shape) == 2:
        correlation = np.corrcoef(rows.T) + RIDGE * np.eye(d)
        dense = [np.tile(np.linalg.cholesky(correlation), (2, 1, 1)), ends]
    return Plan(ends, np.full(2, d**-0.25), scale, *dense)
