"""A reference by nested Laplace approximations: normal entries of a row given the few others.

In a latent Gaussian model most entries are normal in the prior given a few others, such as spreads,
and nearly so in the posterior given those. Their conditional modes and curvatures at some settings
of the others make a map after which the posterior is close to a normal in hundreds of dimensions.
It takes a few thousand gradients, where draws take as many for each hundred that are independent.
"""

from dataclasses import replace
from itertools import combinations, product
from typing import NamedTuple

import numpy as np

from pymc_logz.models.normal_parts import normal_columns
from pymc_logz.models.preparation import Prepared
from pymc_logz.paths.clusters import Clusters, fitted_clusters
from pymc_logz.paths.elliptical import Elliptical
from pymc_logz.paths.funnels import Features, Funnel
from pymc_logz.paths.mixture import Mixture
from pymc_logz.pilot.conditional_modes import Conditionals, Modes
from pymc_logz.pilot.reference import (
    MAX_SHARE_ERROR,
    PRIOR_SHARE,
    Reference,
    evened_draws,
    widened,
)
from pymc_logz.runners.block import Block
from pymc_logz.weights import log_mean, resampled, weight_ess

MANY_DIMENSIONS = 16
"""Dimensions up to which a pilot from the prior costs no more, and sees other modes."""
MAX_OTHERS = 6
"""Entries that are not normal, at most: products of them grow with the square."""
N_PRIOR = 8
"""Draws of the prior among which the search starts, and which the fit is held against."""
N_CLIMBS = 32
"""Draws of the prior from which other conditional modes are looked for."""
MAX_SEARCH = 15
FIRST_SCALE = (0.05, 1.0)
"""Bounds of the first guess at a standard deviation of an outer entry."""
FAR = 1.5
"""Longest step of the search: a factor of 4.5 in a spread."""
STAR, CORNER = (1.3, 3.0), 2.0
"""Where modes are computed, in standard deviations along one principal axis, and two."""
MAX_NUMBERS = 2**24
"""Numbers in the map, at most: each evaluation takes as many products."""
REACH = 4.0
"""Standard deviations of an outer entry up to which the map follows it."""
OTHER_MODE = 10.0
"""Nats below the highest conditional mode down to which another one counts."""
APART = 3.0
"""Standard deviations between two conditional modes that are not the same."""
ABOVE = 3.0
"""Nats by which a draw of the prior may be more likely than the fit says, relative to its peak."""
LIKELY = 8.0
"""Nats below the peak down to which that matters."""
N_OUTER = 1024
"""Values of the outer entries to fit their density to."""
OUTER_WIDTH, OUTER_DF = 1.4, 5.0
"""Of the Student-t that they are drawn from."""
ROWS_OF_OUTER = 10
"""Weight ESS of them for each outer entry, at least."""
N_TRIAL = 512
COVERED = 0.05
"""Weight ESS of draws, as a share, below which the reference is refused."""
DF, DF_PER_DIMENSION = 20.0, 2.0
"""Degrees of freedom of components: tails that bound the weights, and cost nothing where all
directions together are nearly normal."""
WIDE, WIDE_SHARE = 2.0, 0.15
"""Factor in the widths of outer entries, and share, of components that stand for their tails."""
INNER_INFLATION = 1.02
"""Factor in a conditional covariance."""


class Peak(NamedTuple):
    """Where the marginal density of the outer entries is highest."""

    outer: np.ndarray
    """Shape (m,)."""
    factor: np.ndarray
    """Columns are principal axes, one standard deviation long, shape (m, m)."""
    inner: np.ndarray
    """The mode of the others given those, shape (n,)."""
    precision: np.ndarray
    """Shape (n, n)."""


def nested_laplace(
    prepared: Prepared, block: Block, rng: np.random.Generator
) -> tuple[Reference, np.ndarray] | None:
    """A reference for a latent Gaussian model, and draws of the posterior as it has it.

    Parameters
    ----------
    prepared
        The model.
    block
        Moves on the path from the prior, where gradients are counted.
    rng
        Generator of prior draws and of the fit.

    Returns
    -------
    tuple or None
        None where the model has too few normal entries, or too many others, where other conditional
        modes show, or weights of draws are not even enough.

    References
    ----------
    Rue, Martino & Chopin (2009), Approximate Bayesian inference for latent Gaussian models by using
    integrated nested Laplace approximations, doi 10.1111/j.1467-9868.2008.00700.x: sections 3.1 and
    3.2 for the density of the outer entries. Here it is no approximation of the posterior but a
    proposal, which weights correct.
    """
    parts = _parts(prepared, block)
    log_mass, error = prepared.prior.log_share(rng)
    if parts is None or error > MAX_SHARE_ERROR:
        return None
    prior = prepared.prior(rng, N_PRIOR + N_CLIMBS)
    scale = np.clip(prior[:, parts.inner].std(axis=0), *FIRST_SCALE)
    first, others = prior[:N_PRIOR], prior[N_PRIOR:, parts.inner]
    seen = parts.modes(first[:, parts.outer], first[:, parts.inner], scale)
    peak = _highest(parts, first[:, parts.outer], seen, scale)
    if peak is None or _has_other_modes(parts, peak, others):
        return None
    found = _followed(parts, peak, rng)
    if found is None:
        return None
    centre, funnel, marginal = found
    fit = _fitted(marginal.rows, rng)
    if fit is not None and _is_missed(centre, first[:, parts.outer], seen, fit, marginal.log_z):
        return None
    fit = _with_inner(parts, fit)
    draw = evened_draws(prepared.prior, funnel)
    mixture = Mixture(fit.components, fit.shares * (1 - PRIOR_SHARE), PRIOR_SHARE, draw, log_mass)
    return _tried(
        Reference("nested_laplace", "", mixture, error, funnel), block, len(parts.inner), rng
    )


def _parts(prepared: Prepared, block: Block) -> Conditionals | None:
    """Normal entries and the others, if there are many of the one and few of the other kind."""
    flat = prepared.flat
    if flat.sites or prepared.n_dims <= MANY_DIMENSIONS or not block.kernel.needs_gradient:
        return None
    inner = normal_columns(flat)
    outer = np.setdiff1d(np.arange(prepared.n_dims), inner)
    return Conditionals(block, inner, outer) if inner.size and outer.size <= MAX_OTHERS else None


def _highest(parts: Conditionals, outer: np.ndarray, seen: Modes, scale: np.ndarray) -> Peak | None:
    """Climb to the peak of the marginal density from the best of some settings, by differences."""
    best = int(np.argmax(seen.log_marginal))
    if not np.isfinite(seen.log_marginal[best]):
        return None
    m = len(parts.outer)
    centre, inner, precision = outer[best], seen.inner[best], seen.precision[best]
    spread = np.clip(outer.std(axis=0), *FIRST_SCALE)
    axes = np.eye(m)
    for _ in range(MAX_SEARCH if m else 0):
        points = centre + np.concatenate([np.zeros((1, m)), spread * axes, -spread * axes])
        found = parts.modes(points, np.tile(inner, (len(points), 1)), _scale_of(precision))
        value = found.log_marginal
        if not np.all(np.isfinite(value)):
            spread = spread / 3
            continue
        up, down = value[1 : m + 1], value[m + 1 :]
        slope, curvature = (up - down) / 2, 2 * value[0] - up - down
        convex = curvature <= 0
        step = np.where(convex, np.sign(slope) * np.inf, slope / np.where(convex, 1.0, curvature))
        wide = np.where(convex, spread, spread / np.sqrt(np.where(convex, 1.0, curvature)))
        step = np.clip(np.clip(step, -2.0, 2.0) * spread, -FAR, FAR)
        precision, inner = found.precision[0], found.inner[0]
        small = np.all(np.abs(step) < 0.3 * wide) and not np.any(convex)
        centre, spread = centre + step, np.clip(wide, spread / 3, 3 * spread)
        if small:
            break
    else:
        if m:
            return None
    at = parts.modes(centre[None], inner[None], _scale_of(precision))
    if not np.isfinite(at.log_marginal[0]):
        return None
    return Peak(centre, np.diag(spread), at.inner[0], at.precision[0])


def _has_other_modes(parts: Conditionals, peak: Peak, starts: np.ndarray) -> bool:
    """Whether rows that climb from draws of the prior, outer entries given, end elsewhere."""
    ends = parts.climbed(peak.outer, starts, peak.precision)
    ends = ends[np.isfinite(ends).all(axis=1)]
    if not len(ends):
        return False
    apart = ends - peak.inner
    distance = np.sqrt(np.einsum("ki,ij,kj->k", apart, peak.precision, apart))
    rows = parts.rows(np.tile(peak.outer, (len(ends) + 1, 1)), np.vstack([peak.inner, ends]))
    value, _ = parts.at(rows)
    return bool(np.any((distance > APART) & (value[1:] > value[0] - OTHER_MODE)))


def _fitted_map(parts: Conditionals, peak: Peak) -> Funnel | None:
    """Locations and spreads of the inner entries as quadratic functions of the outer ones."""
    m = len(parts.outer)
    design = _design(m)
    outer = peak.outer + design @ peak.factor.T
    found = parts.modes(outer, np.tile(peak.inner, (len(design), 1)), _scale_of(peak.precision))
    whole = np.isfinite(found.log_marginal)
    features = Features.cubic(m)
    if (len(features.one) + 1) * found.inner.shape[1] ** 2 > MAX_NUMBERS:
        return None
    known = np.column_stack([np.ones(len(design)), features.of(design)])[whole]
    if not whole[0] or len(known) < known.shape[1]:
        return None
    factors = np.linalg.cholesky(np.linalg.inv(found.precision[whole]))
    widths = np.einsum("kii->ki", factors)
    location, width, turn = (
        np.linalg.lstsq(known, part.reshape(len(known), -1), rcond=None)[0]
        for part in (found.inner[whole], np.log(widths), factors / widths[:, None])
    )
    return _put_together(parts, peak, features, location, width, turn)


def _put_together(
    parts: Conditionals,
    peak: Peak,
    features: Features,
    location: np.ndarray,
    width: np.ndarray,
    turn: np.ndarray,
) -> Funnel:
    """The map of whole rows, from coefficients of 1 and the features for the inner entries.

    A conditional covariance is that of a unit triangular matrix, ``turn``, times a diagonal one.
    """
    m, n, n_known = len(parts.outer), len(parts.inner), len(location)
    d, inner, outer = m + n, parts.inner, parts.outer
    centre = np.empty(d)
    centre[outer], centre[inner] = peak.outer, location[0]
    lean, slope = np.zeros((2, d, n_known - 1))
    lean[inner], slope[inner] = location[1:].T, width[1:].T
    whole = np.zeros((n_known, d, d))
    whole[:, inner[:, None], inner] = turn.reshape(n_known, n, n) * np.exp(width[0])
    whole[0][np.ix_(outer, outer)] = peak.factor
    whole[0] -= np.eye(d)
    turning = Features(
        *(np.vstack(both) for both in zip(Features.constant(m), features, strict=True))
    )
    volume = float(np.linalg.slogdet(peak.factor)[1] + width[0].sum())
    parents = np.eye(d)[outer]
    return Funnel(centre, parents, features, lean, slope, turning, whole, volume, REACH)


def _design(m: int) -> np.ndarray:
    """Settings of m outer entries in standard deviations, the centre first, shape (A, m)."""
    star = [sign * length * row for row in np.eye(m) for length in STAR for sign in (1, -1)]
    corners = [
        CORNER * (a * np.eye(m)[i] + b * np.eye(m)[j])
        for i, j in combinations(range(m), 2)
        for a, b in ((1, 1), (-1, -1), (1, -1), (-1, 1))
    ]
    return np.array([np.zeros(m), *star, *corners])


class _Marginal(NamedTuple):
    """Draws of the outer entries, in units of the map."""

    rows: np.ndarray
    """Shape (n, m)."""
    log_z: float
    """Log of the integral of their density."""


def _outer_draws(parts: Conditionals, funnel: Funnel, rng: np.random.Generator) -> _Marginal | None:
    """Weighted draws of the outer entries, the inner ones integrated out by Laplace's method."""
    m, n = len(parts.outer), len(parts.inner)
    proposal = Elliptical(np.zeros(m), OUTER_WIDTH * np.eye(m), OUTER_DF)
    rows = proposal(rng, N_OUTER if m else 1)
    evened = np.zeros((len(rows), m + n))
    evened[:, parts.outer] = rows
    value, _ = parts.at(funnel.restored(evened))
    log_weight = value + funnel.log_volume(evened) + 0.5 * n * np.log(2 * np.pi)
    log_weight -= proposal.log_density_of(rows)
    # beyond its reach the map is none of modes and widths
    log_weight[np.any(np.abs(rows) > funnel.reach, axis=1)] = -np.inf
    if weight_ess(log_weight) < ROWS_OF_OUTER * m:
        return None
    return _Marginal(rows[resampled(log_weight, rng)], log_mean(log_weight))


def _moved(parts: Conditionals, peak: Peak, funnel: Funnel, rows: np.ndarray) -> Peak:
    """The middle of draws of the outer entries, with their principal axes."""
    m = len(parts.outer)
    middle = np.zeros((1, m + len(parts.inner)))
    middle[0, parts.outer] = rows.mean(axis=0)
    [row] = funnel.restored(middle)
    if not m:
        return peak
    spread = peak.factor @ np.atleast_2d(np.cov(rows.T)) @ peak.factor.T
    values, vectors = np.linalg.eigh(spread)
    factor = vectors * np.sqrt(values)
    return Peak(row[parts.outer], factor, row[parts.inner], peak.precision)


def _followed(
    parts: Conditionals, peak: Peak, rng: np.random.Generator
) -> tuple[Peak, Funnel, _Marginal] | None:
    """The map, what it is centred at, and draws of the outer entries by it."""
    for _ in range(2):  # the second map is about the middle of what the first has found
        funnel = _fitted_map(parts, peak)
        marginal = None if funnel is None else _outer_draws(parts, funnel, rng)
        if funnel is None or marginal is None:
            return None
        found = peak, funnel, marginal
        peak = _moved(parts, peak, funnel, marginal.rows)
    return found


def _fitted(rows: np.ndarray, rng: np.random.Generator) -> Clusters | None:
    """Components fitted to draws of the outer entries (n, m), if there are any such entries."""
    return widened(fitted_clusters(rows, len(rows), rng)) if rows.shape[1] else None


def _is_missed(peak: Peak, outer: np.ndarray, seen: Modes, fit: Clusters, log_z: float) -> bool:
    """Whether some settings of the outer entries are much more likely than a fit says."""
    apart = np.linalg.solve(peak.factor, (outer - peak.outer).T).T
    with np.errstate(divide="ignore"):
        parts = [
            one.log_density_of(apart) + np.log(s)
            for one, s in zip(fit.components, fit.shares, strict=True)
        ]
    own = log_z + np.logaddexp.reduce(parts, axis=0)
    there = seen.log_marginal + np.linalg.slogdet(peak.factor)[1]
    return bool(np.any((there > own + ABOVE) & (there > log_z - LIKELY)))


def _with_inner(parts: Conditionals, fit: Clusters | None) -> Clusters:
    """Components of all entries: those of the outer ones, each twice, and nearly a standard normal.

    One distribution of all entries has the tails of a normal in many dimensions; that of the outer
    ones has heavier tails by a second component, which is wider there.
    """
    d = len(parts.inner) + len(parts.outer)
    df = max(DF, DF_PER_DIMENSION * d)
    factor = np.sqrt(INNER_INFLATION) * np.eye(d)
    if fit is None:
        return Clusters((Elliptical(np.zeros(d), factor, df),), np.ones(1), np.nan)
    components = []
    for part, width in product(fit.components, (1.0, WIDE)):
        centre, factor = np.zeros(d), factor.copy()
        centre[parts.outer] = part.centre
        factor[np.ix_(parts.outer, parts.outer)] = width * part.factor
        components.append(Elliptical(centre, factor, df))
    shares = np.outer(fit.shares, [1 - WIDE_SHARE, WIDE_SHARE]).ravel()
    return Clusters(tuple(components), shares, np.nan)


def _tried(
    reference: Reference, block: Block, n_inner: int, rng: np.random.Generator
) -> tuple[Reference, np.ndarray] | None:
    """The reference if its draws have even weights, and resampled draws as they move."""
    moved = reference.start(block)
    rows = moved.path.sample_reference(rng, N_TRIAL)
    log_weight = moved.evaluate(rows)
    log_weight = np.where(np.isnan(log_weight), -np.inf, log_weight)
    if not np.any(np.isfinite(log_weight)):
        return None
    # one row far out among so few says less than it weighs
    capped = np.minimum(log_weight, log_mean(log_weight) + 0.5 * np.log(N_TRIAL))
    share = float(weight_ess(capped)) / N_TRIAL
    if share < COVERED:
        return None
    reason = (
        f"{n_inner} of {rows.shape[1]} entries are normal given the others, and draws of their "
        f"nested Laplace approximations have weights with an effective share of {share:.2f}"
    )
    return replace(reference, reason=reason), rows[resampled(log_weight, rng)]


def _scale_of(precision: np.ndarray) -> np.ndarray:
    """Standard deviations of entries, each given all the rest."""
    return np.asarray(1 / np.sqrt(np.diag(precision)))
