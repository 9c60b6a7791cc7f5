"""A reference by nested Laplace approximations: normal entries of a row given the few others.

In a latent Gaussian model most entries are normal in the prior given a few others, such as spreads,
and nearly so in the posterior given those. Their conditional modes and curvatures at some settings
of the others make a map after which the posterior is close to a normal in hundreds of dimensions.
It takes a few thousand gradients, where draws take as many for each hundred that are independent.
"""

import numpy as np
from scipy.special import expit, logsumexp

from pymc_logz.models.preparation import Prepared
from pymc_logz.paths.elliptical import Clusters, Elliptical, fitted_clusters
from pymc_logz.paths.funnels import Funnel
from pymc_logz.references.blend import AT_ONCE, N_ROWS, Blend, Component, Prior, Target
from pymc_logz.references.conditional import (
    INNER_INFLATION,
    MAX_INNER,
    PER_ENTRY,
    ConditionalNormal,
    inner_df,
    n_places,
    with_tails,
)
from pymc_logz.references.conditional_modes import Conditionals
from pymc_logz.references.marginal_peaks import Known, Peak, Start
from pymc_logz.references.matrices import Bands
from pymc_logz.references.nested_map import fitted_map
from pymc_logz.references.reference import PRIOR_SHARE, Reference
from pymc_logz.runners.climb import towards_data
from pymc_logz.weights import NEGLIGIBLE, log_mean, resampled, weight_ess

OF_NESTED = "nested Laplace approximations"


def conditional_at_peak(
    prepared: Prepared, start: Start, rng: np.random.Generator, n_known: int = 64
) -> list[ConditionalNormal]:
    """Conditional normals, so that each row has its own mode of the normal entries.

    There are none where these are too many for whole matrices.
    """
    parts, peak = start.parts, start.peaks[0]
    if parts.inner.size > MAX_INNER and not isinstance(parts.matrices, Bands):
        return []
    m = parts.outer.size
    if not m:
        known = Known(peak.outer[None], peak.inner[None])
        return [ConditionalNormal(parts, None, known, peak.scale)]
    noise = rng.standard_normal((n_known, prepared.n_dims))
    outer = peak.outer + noise[:, :m] @ peak.factor.T
    inner = peak.inner + parts.matrices.factors(peak.precision[None]).drawn(noise[:, m:])
    fresh, n = start.prior[:, parts.outer], n_places(m, prepared.flat, parts.matrices.groups.n)
    found = ConditionalNormal.explored(parts, outer, inner, fresh, rng, n, start.peaks)
    return [] if found is None else [found]


def has_one_mode(
    start: Start, rng: np.random.Generator, n_halves: int = 16, *, far: bool = True
) -> bool:
    """Whether normal entries have one mode given the others, as far as lines tell.

    The slope of a concave log density falls along each. They lead to the mode from draws of the
    prior, and from where these fit the data, which may be ``far`` from it, the others near the
    peak, or as they begin. Places on them lie evenly, and at halves of the way that is left: a
    second mode shows at places that are closer together than the modes.
    """
    parts, peak, prior = start.parts, start.peaks[0], start.prior
    fitting = towards_data(parts.block, prior[1::2], far=far)
    prior = rng.permutation(np.concatenate([prior[::2], fitting]))
    n_near, inner = len(prior) // 2, prior[:, parts.inner]
    outer, end = prior[:, parts.outer], np.tile(peak.inner, (len(prior), 1))
    outer[:n_near] = peak.outer + rng.standard_normal((n_near, parts.outer.size)) @ peak.factor.T
    end[:n_near] = parts.modes(outer[:n_near], end[:n_near], peak.scale).inner
    way = end - inner
    places = np.union1d(np.linspace(0, 1, 9), 1 - 0.5 ** np.arange(n_halves))
    there = inner[:, None] + places[:, None] * way[:, None]
    rows = parts.rows(np.repeat(outer, len(places), axis=0), there.reshape(-1, inner.shape[1]))
    slopes = parts.at(rows)[1][:, parts.inner].reshape(there.shape)
    with np.errstate(invalid="ignore"):
        slope = np.einsum("kpn,kn->kp", slopes, way)
        small = 1e-6 * np.maximum(np.abs(slope[:, 1:]), np.abs(slope[:, :-1]))
        return not np.any(np.diff(slope, axis=1) > small)


def nested_laplace(
    target: Target, start: Start, rng: np.random.Generator
) -> tuple[Reference, Component, np.ndarray | None] | None:
    """A reference for a latent Gaussian model, and draws of the posterior if it is close to it.

    It is a part of a blend too, which may need no path.

    None where no map holds, or weights of draws are not even enough.

    References
    ----------
    Rue, Martino & Chopin (2009), Approximate Bayesian inference for latent Gaussian models by using
    integrated nested Laplace approximations, doi 10.1111/j.1467-9868.2008.00700.x: sections 3.1 and
    3.2 for the density of the outer entries. Here it is no approximation of the posterior but a
    proposal, which weights correct.
    """
    parts = start.parts
    found = _followed(parts, start.peaks[0], rng)
    if found is None:
        return None
    centre, funnel, rows, log_z = found
    if _mass_outside_map(parts, centre, funnel, log_z, rng) > NEGLIGIBLE:
        return None
    # there may be no outer entries
    fit = with_tails(fitted_clusters(rows, len(rows), rng)) if rows.shape[1] else None
    fit = _with_inner(parts, fit)
    part = Component(fit, funnel, OF_NESTED)
    blend = Blend((Prior(), part), np.array([PRIOR_SHARE, 1 - PRIOR_SHARE]))
    drawn = blend.weighted(target, rng, N_ROWS[0])
    verdict = _verdict(drawn.log_weight, len(parts.inner))
    if verdict is None:
        return None
    reason, even = verdict
    fit = fit._replace(shares=fit.shares * (1 - PRIOR_SHARE))
    of = target.prepared.prior, fit, PRIOR_SHARE, funnel
    reference = Reference.of_components("nested_laplace", reason, *of)
    chosen = drawn.position[resampled(drawn.log_weight, rng)]
    return reference, part, funnel.whitened(chosen) if even else None


def _mass_outside_map(
    parts: Conditionals,
    peak: Peak,
    funnel: Funnel,
    log_z: float,
    rng: np.random.Generator,
    n_far: int = 128,
) -> float:
    """Share of the marginal density that is beyond the reach of the map, by weights.

    Of a ridge that is no axis of the peak too, as where one of two spreads may vanish. Settings
    without a conditional mode are taken to be as others; it is all of it where none has one.
    """
    if not (m := len(parts.outer)):
        return 0.0
    proposal, n = _wide(m), 8 * AT_ONCE
    rows = proposal(rng, n)
    rows = rows[np.any(np.abs(rows) > funnel.reach, axis=1)]
    n_drawn, rows = n * min(1.0, n_far / max(len(rows), 1)), rows[:n_far]
    start = funnel.restored(_of_outer(parts, rows))[:, parts.inner]
    outer = rows @ peak.factor.T + peak.outer
    found = parts.modes(outer, start, peak.scale)
    whole = np.isfinite(found.log_marginal)
    if not whole.any():
        return float(len(rows) > 0)
    log_weight = found.log_marginal[whole] + np.linalg.slogdet(peak.factor)[1]
    log_weight -= proposal.log_density_of(rows[whole]) + np.log(whole.mean())
    return float(expit(logsumexp(log_weight) - np.log(n_drawn) - log_z))


def _wide(m: int) -> Elliptical:
    """What m outer entries are proposed by, in units of the map."""
    return Elliptical(np.zeros(m), 1.4 * np.eye(m), 5.0)


def _outer_draws(
    parts: Conditionals, funnel: Funnel, rng: np.random.Generator
) -> tuple[np.ndarray, float] | None:
    """Draws (n, m) of the outer entries, in units of the map, and log Z, by Laplace's method."""
    m, n = len(parts.outer), len(parts.inner)
    proposal = _wide(m)
    rows = proposal(rng, AT_ONCE if m else 1)
    whitened = _of_outer(parts, rows)
    value, _ = parts.at(funnel.restored(whitened))
    log_weight = value + funnel.log_volume(whitened) + 0.5 * n * np.log(2 * np.pi)
    log_weight -= proposal.log_density_of(rows)
    # beyond its reach the map is none of modes and widths
    log_weight[np.any(np.abs(rows) > funnel.reach, axis=1)] = -np.inf
    if weight_ess(log_weight) < PER_ENTRY * m:
        return None
    return rows[resampled(log_weight, rng)], log_mean(log_weight)


def _followed(
    parts: Conditionals, peak: Peak, rng: np.random.Generator
) -> tuple[Peak, Funnel, np.ndarray, float] | None:
    """The map, what it is centred at, and draws of the outer entries by it."""
    for _ in range(2):  # the second map is about the middle of what the first has found
        funnel = fitted_map(parts, peak)
        if funnel is None or (drawn := _outer_draws(parts, funnel, rng)) is None:
            return None
        rows, log_z = drawn
        found = peak, funnel, rows, log_z
        if len(parts.outer):
            [row] = funnel.restored(_of_outer(parts, rows.mean(axis=0)[None]))
            covariance = peak.factor @ np.atleast_2d(np.cov(rows.T)) @ peak.factor.T
            factor = np.linalg.cholesky(covariance)
            peak = peak._replace(outer=row[parts.outer], factor=factor, inner=row[parts.inner])
    return found


def _of_outer(parts: Conditionals, outer: np.ndarray) -> np.ndarray:
    """Rows in units of the map, of these outer entries, at the conditional modes."""
    return parts.rows(outer, np.zeros((len(outer), len(parts.inner))))


def _with_inner(parts: Conditionals, fit: Clusters | None) -> Clusters:
    """Components of all entries: those of the outer ones, and nearly a standard normal of the rest.

    One distribution of all entries has the tails of a normal in many dimensions; that of the outer
    ones has heavier tails by components that are wider there.
    """
    d = len(parts.inner) + len(parts.outer)
    df = inner_df(d)
    of_inner = np.sqrt(INNER_INFLATION) * np.eye(d)
    if fit is None:
        fit = Clusters((Elliptical(np.zeros(0), np.eye(0)),), np.ones(1))
    components = []
    for part in fit.components:
        centre, factor = np.zeros(d), of_inner.copy()
        centre[parts.outer] = part.centre
        factor[np.ix_(parts.outer, parts.outer)] = part.factor
        components.append(Elliptical(centre, factor, df))
    return Clusters(tuple(components), fit.shares)


def _verdict(log_weight: np.ndarray, n_inner: int, least: float = 0.05) -> tuple[str, bool] | None:
    """What weights of draws say for a reference, and whether they are even; None if against it.

    Their weight ESS, as a share, is ``least``, or they are uneven in a way that a path takes care
    of.
    """
    if not np.any(np.isfinite(log_weight)):
        return None
    # one row far out among so few says less than it weighs
    capped = np.minimum(log_weight, log_mean(log_weight) + 0.5 * np.log(len(log_weight)))
    share = float(weight_ess(capped)) / len(log_weight)
    if share < least and not _adds_up(log_weight, n_inner):
        return None
    reason = (
        f"{n_inner} entries are normal given the others, and draws of their nested Laplace "
        f"approximations have weights with an effective share of {share:.2g}"
    )
    return reason, share >= least


def _adds_up(log_weight: np.ndarray, n_inner: int, many: int = 100, each: float = 0.1) -> bool:
    """Whether log weights are as uneven as sums of many small differences, nearly normal, are.

    ``many`` entries, of which each is nearly normal given the few others and adds a variance of up
    to ``each``, have such weights, and temperatures in proportion to their variance even them out.
    What the reference misses, such as a tail, has a few weights far above the rest: by more than
    4.5 standard deviations.
    """
    low, middle, high = np.quantile(log_weight, [0.1587, 0.5, 0.8413])
    if n_inner < many or not np.isfinite(low):
        return False
    spread = (high - low) / 2
    return bool(spread**2 <= each * n_inner and log_weight.max() <= middle + 4.5 * spread)
