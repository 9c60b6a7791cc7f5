"""A map by which entries that are nearly normal given a few others become standard normal."""

from dataclasses import replace
from itertools import combinations

import numpy as np
from scipy.linalg import solve_triangular

from pymc_logz.paths.funnels import Features, Funnel
from pymc_logz.references.conditional_modes import Conditionals
from pymc_logz.references.marginal_peaks import Peak


def fitted_map(
    parts: Conditionals, peak: Peak, reach: float = 4.0, max_numbers: int = 2**24
) -> Funnel | None:
    """Locations and spreads of the inner entries as cubic functions of the outer ones.

    The map follows these up to ``reach`` standard deviations. It is None if it would have more than
    ``max_numbers``: each evaluation takes as many products.
    """
    m = len(parts.outer)
    design = _design(m)
    outer = peak.outer + design @ peak.factor.T
    found = parts.modes(
        outer, np.tile(peak.inner, (len(design), 1)), parts.scale_of(peak.precision)
    )
    whole = np.isfinite(found.log_marginal)
    features = Features.cubic(m)
    if (len(features.one) + 1) * found.inner.shape[1] ** 2 > max_numbers:
        return None
    known = np.column_stack([np.ones(len(design)), features.of(design)])[whole]
    if not whole[0] or len(known) < known.shape[1]:
        return None
    precision = parts.matrices.whole(found.precision[whole])
    factors = np.array([_factor_of_inverse(one) for one in precision])
    widths = np.einsum("kii->ki", factors)
    solve = np.linalg.pinv(known)
    location, width, turn = (
        solve @ part.reshape(len(known), -1)
        for part in (found.inner[whole], np.log(widths), factors / widths[:, None])
    )
    funnel = _put_together(parts, peak, features, location, width, turn)
    return replace(funnel, reach=reach)


def _factor_of_inverse(precision: np.ndarray) -> np.ndarray:
    """Cholesky factor of the inverse of a matrix (n, n), which is not formed."""
    backwards = np.linalg.cholesky(precision[::-1, ::-1])
    inverse = solve_triangular(backwards, np.eye(len(precision)), lower=True)
    return np.asarray(inverse.T[::-1, ::-1])


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
    return Funnel(centre, parents, features, lean, slope, turning, whole, volume)


def _design(m: int) -> np.ndarray:
    """Settings of m outer entries in standard deviations, the centre first, shape (A, m)."""
    star = [sign * length * row for row in np.eye(m) for length in (1.3, 3.0) for sign in (1, -1)]
    corners = [
        2.0 * (a * np.eye(m)[i] + b * np.eye(m)[j])
        for i, j in combinations(range(m), 2)
        for a, b in ((1, 1), (-1, -1), (1, -1), (-1, 1))
    ]
    return np.array([np.zeros(m), *star, *corners])
