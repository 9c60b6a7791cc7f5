"""Student-t distributions fitted to rows and to the gradients of the log density there."""

import numpy as np

from pymc_logz.errors import ModelError
from pymc_logz.paths.elliptical import Elliptical

ROWS_PER_DIMENSION = 2
"""Fewest rows: below, the covariance of so few is singular, or nearly so."""
DEGREES = (5.0, 20.0, 100.0)
"""Degrees of freedom to choose from. The last is nearly normal in a hundred dimensions too."""
UNLIKE = 3.0
"""Factor by which a variance of the rows may be other than that of the fit, in any direction and
beyond what noise makes of it: at most 1.2 where the target is nearly normal, 5 to 20 where it has a
funnel."""


def fitted_to_scores(rows: np.ndarray, gradients: np.ndarray) -> Elliptical | None:
    """The elliptical density whose gradients are nearest to those of the target.

    Of all normals it has the least mean square difference between its own gradients and these,
    relative to its scale: its scale matrix S is the geometric mean of the covariance of the rows
    and the inverse of that of the gradients, ``S cov(g) S = cov(x)``. For a normal target it is
    exact from few more rows than dimensions, since the noise of both covariances is the same, where
    the covariance of rows alone needs many for each dimension.

    Parameters
    ----------
    rows
        Rows of the target, shape (n, d).
    gradients
        Of its log density there, shape (n, d).

    Returns
    -------
    Elliptical or None
        None where rows are too few, do not vary in some direction, have no gradients, or are spread
        otherwise than gradients say: the target is nothing like a normal then.

    References
    ----------
    Hyvarinen (2005), Estimation of non-normalized statistical models by score matching, J. Mach.
    Learn. Res. 6, 695; Marchenko & Pastur (1967), Distribution of eigenvalues for some sets of
    random matrices, doi 10.1070/SM1967v001n04ABEH001994.
    """
    alive = np.isfinite(rows).all(axis=1) & np.isfinite(gradients).all(axis=1)
    rows, gradients = rows[alive], gradients[alive]
    n, d = rows.shape
    if n < max(ROWS_PER_DIMENSION * d, d + 2):
        return None
    scale, steepness = rows.std(axis=0), gradients.std(axis=0)
    if not (np.all(scale > 0) and np.all(steepness > 0)):
        return None
    centre, slope = rows.mean(axis=0), gradients.mean(axis=0)
    standard, steep = (rows - centre) / scale, (gradients - slope) * scale
    try:
        root = np.linalg.cholesky(standard.T @ standard / n)
    except np.linalg.LinAlgError:
        return None
    values, vectors = np.linalg.eigh(root.T @ (steep.T @ steep / n) @ root)
    # roots are variances of the rows in units of the fit, which noise spreads between these bounds
    low, high = (1.0 - np.sqrt(d / n)) ** 2 / UNLIKE, (1.0 + np.sqrt(d / n)) ** 2 * UNLIKE
    if not (values[0] > low**2 and values[-1] < high**2):
        return None
    half = root @ vectors * values**-0.25
    matrix = half @ half.T
    centre = centre + scale * (matrix @ (slope * scale))
    try:
        factor = scale[:, None] * np.linalg.cholesky(matrix)
        fits = [Elliptical(centre, factor, df) for df in DEGREES]
        return max(fits, key=lambda fit: float(fit.log_density_of(rows).mean()))
    except (np.linalg.LinAlgError, ModelError):
        return None
