"""A map by which entries that are nearly normal given a few others become standard normal."""

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
    m, n, inner, outer = len(parts.outer), len(parts.inner), parts.inner, parts.outer
    d, design, features = m + n, _design(m), Features.cubic(m)
    settings, start = peak.outer + design @ peak.factor.T, np.tile(peak.inner, (len(design), 1))
    found = parts.modes(settings, start, peak.scale)
    good = np.isfinite(found.log_marginal)
    if (len(features.one) + 1) * n**2 > max_numbers:
        return None
    known = np.column_stack([np.ones(len(design)), features.of(design)])[good]
    if not good[0] or len(known) < known.shape[1]:
        return None
    precision = parts.matrices.whole(found.precision[good])
    factors = np.array([_factor_of_inverse(one) for one in precision])
    widths = np.einsum("kii->ki", factors)
    solve = np.linalg.pinv(known)
    # a conditional covariance is that of a unit triangular matrix, the turn, times a diagonal one
    location, width, turn = (
        solve @ part.reshape(len(known), -1)
        for part in (found.inner[good], np.log(widths), factors / widths[:, None])
    )
    centre = np.empty(d)
    centre[outer], centre[inner] = peak.outer, location[0]
    lean, slope = np.zeros((2, d, len(location) - 1))
    lean[inner], slope[inner] = location[1:].T, width[1:].T
    whole = np.zeros((len(location), d, d))
    whole[:, inner[:, None], inner] = turn.reshape(len(location), n, n) * np.exp(width[0])
    whole[0][np.ix_(outer, outer)] = peak.factor
    whole[0] -= np.eye(d)
    turning = Features(*(np.vstack([np.eye(1, m + 1), one]) for one in features))
    volume = float(np.linalg.slogdet(peak.factor)[1] + width[0].sum())
    parents = np.eye(d)[outer]
    return Funnel(centre, parents, features, lean, slope, turning, whole, volume, reach)


def _factor_of_inverse(precision: np.ndarray) -> np.ndarray:
    """Cholesky factor of the inverse of a matrix (n, n), which is not formed."""
    backwards = np.linalg.cholesky(precision[::-1, ::-1])
    inverse = solve_triangular(backwards, np.eye(len(precision)), lower=True)
    return np.asarray(inverse.T[::-1, ::-1])


def _design(m: int) -> np.ndarray:
    """Settings of m outer entries in standard deviations, the centre first, shape (A, m)."""
    star = [sign * length * row for row in np.eye(m) for length in (1.3, 3.0) for sign in (1, -1)]
    corners = [
        2.0 * (a * np.eye(m)[i] + b * np.eye(m)[j])
        for i, j in combinations(range(m), 2)
        for a, b in ((1, 1), (-1, -1), (1, -1), (-1, 1))
    ]
    return np.array([np.zeros(m), *star, *corners])
