"""Rows that need no path: the few entries that are not normal first, then the others given those.

Where entries of a row are normal in the prior given the others, they are nearly so in the
posterior, whose conditional mode and curvature are found for each row by Newton's method. That also
gives the density of the others alone, by Laplace's method, wherever it is asked for: at spreads
that go to zero too, where rows that move hardly get. So the others are explored in their own few
dimensions.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from typing import Protocol

import numpy as np
from scipy.special import gammaln, logsumexp

from pymc_logz.estimators import LogZEstimate, importance_log_z
from pymc_logz.models.normal_parts import is_centred_hierarchy, normal_columns
from pymc_logz.models.preparation import Prepared
from pymc_logz.paths.clusters import Clusters, fitted_clusters
from pymc_logz.paths.fitting import fitted_to_few
from pymc_logz.paths.shrinkage import RIDGE
from pymc_logz.pilot.conditional_modes import Conditionals
from pymc_logz.pilot.directions import independent_directions
from pymc_logz.pilot.reference import Reference, widened
from pymc_logz.runners.anneal import Annealed, Plan, merge
from pymc_logz.runners.block import Block
from pymc_logz.weights import resampled, weight_ess

MAX_INNER, MAX_OUTER = 64, 16
"""Normal entries, and others, at most: each row takes more gradients than there are of the first,
and weights of too many others tell nothing."""
INNER_INFLATION, INNER_DF = 1.02, 20.0
"""Factor in a conditional covariance, and degrees of freedom, two for each entry if that is more:
tails that bound the weights, and cost nothing where all directions together are nearly normal."""
N_ROUNDS, MODES_PER_ROUND, N_PLACES = 3, 2**14, (64, 512)
"""Rounds in which the others are explored, conditional modes times their dimensions in each, and
fewest and most of them."""
WIDE = (1.0, 2.0)
"""Factors in the widths of components of the others, lest their tails be too light."""
WIDE_SHARE = 0.15
PER_ENTRY = 10
"""Effective settings of the others for each of them that a fit takes."""
BESIDE = 0.1
"""Share of rows that come from what was fitted to rows: it costs a tenth, and has what conditional
normals may lack."""
N_TRIAL, HOPELESS, GOOD = (64, 512), 0.05, 0.5
"""Rows of a first look and of a second, effective share up to which there is none, and share from
which on no other way is tried."""
SLACK = 1.25
"""Factor by which rows that were looked at may flatter."""
ROUNDING = 1e-13
"""Least curvature, in units of the largest, that rounding leaves."""
MOST_TRIES, PORTION = 8, 1024
"""Rows to choose one from, at most, and rows whose curvatures are held at a time."""

Density = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""From rows (n, d) and their log prior (n,) to a log density (n,)."""


def _are_positive(matrices: np.ndarray) -> np.ndarray:
    """Which of some matrices (n, k, k) have a Cholesky factor in floating-point numbers."""
    whole = np.isfinite(matrices).all(axis=(1, 2))
    try:
        np.linalg.cholesky(matrices[whole])
    except np.linalg.LinAlgError:
        values = np.linalg.eigvalsh(matrices[whole])
        whole[whole] = values[:, 0] > ROUNDING * values[:, -1]
    return np.asarray(whole)


@dataclass(frozen=True)
class ConditionalNormal:
    """A density of rows: Student-t components of the others, nearly normal entries given them."""

    parts: Conditionals
    """Normal entries, and the others."""
    fit: Clusters | None
    """Of the others; None where there are none."""
    start: np.ndarray
    """Where the search for a conditional mode begins, shape (n,)."""
    scale: np.ndarray
    """Rough standard deviations of the normal entries, shape (n,)."""

    def __call__(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows (n, d), and their log density (n,)."""
        outer = np.empty((n, 0)) if self.fit is None else drawn(self.fit, rng, n)
        mode, factor = self._conditional(outer)
        noise = rng.standard_normal(mode.shape)
        noise *= np.sqrt(self._df / rng.chisquare(self._df, size=(n, 1)))
        inner = mode + np.linalg.solve(factor.transpose(0, 2, 1), noise[..., None])[..., 0]
        log_density = self._of_outer(outer) + self._of_inner(noise, factor)
        return self.parts.rows(outer, inner), log_density

    def log_density_of(self, rows: np.ndarray) -> np.ndarray:
        """Log density of rows (n, d), shape (n,)."""
        outer = rows[:, self.parts.outer]
        mode, factor = self._conditional(outer)
        apart = (rows[:, self.parts.inner] - mode)[:, None]
        return self._of_outer(outer) + self._of_inner((apart @ factor)[:, 0], factor)

    def in_words(self) -> str:
        """What it is, for a reason."""
        n_inner, n_outer = self.parts.inner.size, self.parts.outer.size
        return f"{n_inner} of {n_inner + n_outer} entries are drawn as normal given the others"

    @property
    def _df(self) -> float:
        return max(INNER_DF, 2.0 * len(self.start))

    def _of_outer(self, outer: np.ndarray) -> np.ndarray:
        return np.zeros(len(outer)) if self.fit is None else log_density_by(self.fit, outer)

    def _of_inner(self, noise: np.ndarray, factor: np.ndarray) -> np.ndarray:
        """Log density of entries that are noise (n, k) from their modes, in units of a factor."""
        k, df = noise.shape[1], self._df
        constant = gammaln(0.5 * (df + k)) - gammaln(0.5 * df) - 0.5 * k * np.log(df * np.pi)
        log_root = np.log(np.einsum("kii->ki", factor)).sum(axis=1)
        return constant + log_root - 0.5 * (df + k) * np.log1p((noise**2).sum(axis=1) / df)

    def _conditional(self, outer: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Modes of the normal entries, and Cholesky factors of their precisions, shape (n, k, k).

        They depend on the other entries alone, each row for itself.
        """
        found = self.parts.modes(outer, np.tile(self.start, (len(outer), 1)), self.scale)
        # any density will do that the others determine
        lost = ~np.isfinite(found.log_marginal) | ~_are_positive(found.precision)
        mode = np.where(lost[:, None], self.start, found.inner)
        precision = np.where(lost[:, None, None], np.diag(self.scale**-2.0), found.precision)
        return mode, np.linalg.cholesky(precision / INNER_INFLATION)


class Part(Protocol):
    """A normalised density that can be drawn from and evaluated anywhere."""

    def __call__(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows (n, d), and their log density (n,)."""
        ...

    def log_density_of(self, rows: np.ndarray) -> np.ndarray:
        """Log density of rows (n, d), shape (n,)."""
        ...

    def in_words(self) -> str:
        """What it is, for a reason."""
        ...


@dataclass(frozen=True)
class Proposal:
    """A part with a share of what was fitted to rows; draws are weighted at once."""

    own: Part
    block: Block
    """On the path from the prior, whose target is evaluated."""
    beside: Callable[[np.random.Generator, int], np.ndarray]
    """Draws rows of the model (n, d) from what was fitted to rows."""
    beside_density: Density
    log_prior_mass: float
    """Log of the integral of the prior: below 0 where a transform cuts part of it off."""
    tries: int = 1
    """Rows that each one is chosen from, in proportion to their weights."""

    def weighted(self, rng: np.random.Generator, n: int) -> Annealed:
        """Rows as they are at the end of a path of one temperature, with their weights.

        Each is one of ``tries`` rows, drawn by their weights, and has their mean weight: which
        leaves means over weighted rows as they are, for any function of a row, 1 among them.
        """
        size = max(1, PORTION // self.tries)
        parts = (self._portion(rng, min(size, n - first)) for first in range(0, n, size))
        return reduce(merge, parts)

    def _drawn(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows (n, d) of both parts in random order, and their density by the conditional one."""
        n_beside = int(rng.binomial(n, BESIDE))
        own, log_own = self.own(rng, n - n_beside)
        beside = self.beside(rng, n_beside)
        order = rng.permutation(n)
        log_both = np.concatenate([log_own, self.own.log_density_of(beside)])
        return np.concatenate([own, beside])[order], log_both[order]

    def _portion(self, rng: np.random.Generator, n: int) -> Annealed:
        rows, log_own = self._drawn(rng, n * self.tries)
        found = self.block.looked_at(rows)[0].evaluation
        log_prior = found.log_reference - self.log_prior_mass
        beside = self.beside_density(rows, np.asarray(found.log_reference))
        log_q = np.logaddexp(np.log1p(-BESIDE) + log_own, np.log(BESIDE) + beside)
        with np.errstate(invalid="ignore"):
            log_ratio = log_prior + found.log_ratio - log_q
        is_nan = np.isnan(log_ratio)
        each = np.where(is_nan, -np.inf, log_ratio).reshape(n, self.tries)
        noise = rng.gumbel(size=each.shape)
        chosen = np.arange(n) * self.tries + np.argmax(each + noise, axis=1)
        log_weight = logsumexp(each, axis=1) - np.log(self.tries)
        return Annealed(
            position=rows[chosen],
            log_reference=log_q[chosen],
            log_ratio=each.ravel()[chosen],
            log_weight=log_weight,
            acceptance_rate=np.ones(n),
            n_nan=int(is_nan.sum()),
            stage_acceptance_rate=np.full(2, np.nan),
            stage_mean_log_ratio=np.array([each.mean(), np.nan]),
            stage_weight_ess=np.array([n, weight_ess(log_weight)]),
            score=(found.grad_log_reference + found.grad_log_ratio)[chosen],
        )


def has_conditional_normals(prepared: Prepared) -> bool:
    """Whether a model has normal entries, and of these and of others no more than are drawn."""
    n_inner = normal_columns(prepared.flat).size
    return 0 < n_inner <= MAX_INNER and prepared.n_dims - n_inner <= MAX_OUTER


def conditional_normal(
    prepared: Prepared, block: Block, rows: np.ndarray, rng: np.random.Generator
) -> ConditionalNormal | None:
    """Conditional normals of a model, the other entries explored from rows (n, d) that are known.

    None where the model has no normal entries, too many, or the others are not found.

    References
    ----------
    Rue, Martino & Chopin (2009), doi 10.1111/j.1467-9868.2008.00700.x, sections 3.1 and 3.2, for
    the density of the others; Cornuet, Marin, Mira & Robert (2012), arXiv 0907.1254, for weights of
    all rounds together.
    """
    parts = Conditionals.of_normal_entries(prepared.flat, block)
    if parts is None or not has_conditional_normals(prepared):
        return None
    outer, inner = rows[:, parts.outer], rows[:, parts.inner]
    start, scale = np.median(inner, axis=0), np.maximum(inner.std(axis=0), 1e-300)
    if not parts.outer.size:
        return ConditionalNormal(parts, None, start, scale)
    prior = prepared.prior(rng, block.n_rows)
    places, log_weight = _explored(parts, outer, inner, prior[:, parts.outer], rng)
    ess = float(weight_ess(log_weight))
    if not ess > PER_ENTRY * parts.outer.size:
        return None
    chosen = places[resampled(log_weight, rng, len(places))]
    return ConditionalNormal(parts, _with_tails(fitted_clusters(chosen, ess, rng)), start, scale)


def _explored(
    parts: Conditionals,
    outer: np.ndarray,
    inner: np.ndarray,
    prior: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Settings of the other entries (k, m), and log weights that make them draws of the posterior.

    Parameters
    ----------
    parts
        Has their density by Laplace's method.
    outer, inner
        Entries of rows that are known, shapes (n, m) and (n, d - m).
    prior
        Draws of the prior, shape (k, m).
    rng
        Generator of the settings.
    """
    scale = np.maximum(inner.std(axis=0), 1e-300)
    n_places = int(np.clip(MODES_PER_ROUND // inner.shape[1], *N_PLACES))
    near, known = outer, inner
    first = fitted_clusters(outer, len(outer), rng)
    wide = fitted_to_few(prior[np.all(np.isfinite(prior), axis=1)], 5.0)
    fits = [
        Clusters(
            (*(one.wider(4.0) for one in first.components), wide),
            np.append(0.7 * first.shares, 0.3),
            np.nan,
        )
    ]
    places, log_marginal = np.empty((0, outer.shape[1])), np.empty(0)
    for _ in range(N_ROUNDS):
        new = drawn(fits[-1], rng, n_places)
        spread = np.maximum(near.std(axis=0), 1e-300)
        nearest = [int(np.argmin((((near - one) / spread) ** 2).sum(axis=1))) for one in new]
        found = parts.modes(new, known[nearest], scale)
        places = np.concatenate([places, new])
        log_marginal = np.concatenate([log_marginal, found.log_marginal])
        log_q = logsumexp([log_density_by(fit, places) for fit in fits], axis=0) - np.log(len(fits))
        log_weight = log_marginal - log_q
        alive = np.isfinite(found.log_marginal)
        if not np.any(np.isfinite(log_weight)):
            break
        near = np.concatenate([near, new[alive]])
        known = np.concatenate([known, found.inner[alive]])
        chosen = places[resampled(log_weight, rng, len(places))]
        ess = max(float(weight_ess(log_weight)), 2.0)
        fits.append(_with_tails(fitted_clusters(chosen, ess, rng)))
    return places, log_weight


def _with_tails(fit: Clusters) -> Clusters:
    """Each component twice, once wider."""
    both = list(product(widened(fit).components, WIDE))
    shares = np.outer(fit.shares, [1 - WIDE_SHARE, WIDE_SHARE]).ravel()
    return Clusters(tuple(one.wider(w**2) for one, w in both), shares, fit.log_likelihood)


def drawn(fit: Clusters, rng: np.random.Generator, n: int) -> np.ndarray:
    """Rows (n, m) of components."""
    origin = rng.choice(len(fit.shares), size=n, p=fit.shares / fit.shares.sum())
    rows = np.empty((n, len(fit.components[0].centre)))
    for k, component in enumerate(fit.components):
        rows[origin == k] = component(rng, int((origin == k).sum()))
    return rows


def log_density_by(fit: Clusters, rows: np.ndarray) -> np.ndarray:
    """Log density of rows (n, m) by components, shape (n,)."""
    pairs = zip(fit.components, fit.shares, strict=True)
    parts = [one.log_density_of(rows) + np.log(share) for one, share in pairs]
    return np.asarray(logsumexp(parts, axis=0))


def weighted_at_once(
    prepared: Prepared,
    block: Block,
    known: np.ndarray,
    beside: Reference,
    n_rows: int,
    mcse: float,
    rng: np.random.Generator,
) -> tuple[Proposal, LogZEstimate, str] | None:
    """A proposal, log Z of trial rows, and what it is in words.

    Parameters
    ----------
    prepared
        The model.
    block
        Moves on the path from the prior, where gradients are taken and counted.
    known
        Rows of the posterior, as far as it is known, shape (n, d).
    beside
        What was fitted to such rows.
    n_rows
        Rows of the run.
    mcse
        Error that they are to have, in nats.
    rng
        Generator of the fit and of trial rows.

    Returns
    -------
    tuple or None
        None where weights of trial rows are too uneven for this error.
    """
    log_mass, _ = prepared.prior.log_share(rng)
    found: list[tuple[float, Proposal]] = []
    ways: list[Callable[[], Part | None]] = [
        lambda: conditional_normal(prepared, block, known, rng),
        lambda: independent_directions(block, known, rng),
    ]
    # what is fitted at a mode says nothing of the narrow end of a funnel
    for make in ways if is_centred_hierarchy(prepared.flat) else ways[::-1]:
        if (own := make()) is None:
            continue
        proposal = Proposal(own, block, *beside.as_density(prepared), log_mass)
        log_weight = proposal.weighted(rng, N_TRIAL[0]).log_weight
        found.append((float(weight_ess(log_weight)) / N_TRIAL[0], proposal))
        if found[-1][0] > GOOD:
            break
    if not found or max(share for share, _ in found) <= HOPELESS:
        return None
    _, proposal = max(found, key=lambda one: one[0])
    estimate = importance_log_z(proposal.weighted(rng, N_TRIAL[1]).log_weight, method="hais")
    share = estimate.weight_ess / N_TRIAL[1]
    if estimate.status != "ok" or not share > HOPELESS:
        return None
    tries = int(np.ceil((1 / share - 1) / (n_rows * (mcse / SLACK) ** 2)))
    if tries > MOST_TRIES:
        return None
    reason = f"{proposal.own.in_words()}, and weights have an effective share of {share:.2g}"
    reason += f"; each row is one of {tries}" if tries > 1 else ""
    return replace(proposal, tries=max(tries, 1)), estimate, reason


def plan_of_one_step(block: Block, rows: np.ndarray) -> Plan:
    """From 0 to 1 in one step; moves at its end, if there are any, are as wide as rows (n, d)."""
    ends, d = np.array([0.0, 1.0]), rows.shape[1]
    scale = np.broadcast_to(np.maximum(rows.std(axis=0), 1e-300), (2, d))
    dense: list[np.ndarray] = []
    if len(block.scale_shape) == 2:
        correlation = np.corrcoef(rows.T) + RIDGE * np.eye(d)
        dense = [np.tile(np.linalg.cholesky(correlation), (2, 1, 1)), ends]
    return Plan(ends, np.full(2, d**-0.25), scale, *dense)
