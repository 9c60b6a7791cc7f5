"""Normals and Student-t distributions fitted to draws, or to the curvature at a mode."""

from collections.abc import Callable

import numpy as np

from pymc_logz.errors import ModelError
from pymc_logz.paths.elliptical import INFLATION, STUDENT_DF, Elliptical
from pymc_logz.paths.shrinkage import noise_share, shrunk_to_variances, worth_its_cost


def fitted_normal(rows: np.ndarray) -> Elliptical:
    """Normal with the mean and the covariance of draws.

    With few draws for the number of dimensions the correlations are shrunk towards zero, by
    `noise_share`: noise in them would cost more overlap than they bring. As much of that is done as
    is `worth_its_cost`, so that a narrow direction stays narrow. Draws that do not vary in some
    direction are a ModelError.
    """
    centre, scale = rows.mean(axis=0), rows.std(axis=0, ddof=1)
    if not np.all(scale > 0):
        raise ModelError(
            f"{np.count_nonzero(~(scale > 0))} of {scale.size} unconstrained dimensions do not "
            "vary among the draws, so no proposal can be fitted; check that the chains have moved"
        )
    standard = (rows - centre) / scale
    correlation = np.atleast_2d(np.corrcoef(standard.T))
    share = worth_its_cost(correlation, len(rows), noise_share(standard, correlation))
    correlation = (1 - share) * correlation + share * np.eye(len(scale))
    try:
        factor = np.linalg.cholesky(correlation)
    except np.linalg.LinAlgError as error:
        raise ModelError(
            "the covariance of the draws is singular: some parameters are exact functions of "
            "others, or the chains have not moved"
        ) from error
    return Elliptical(centre, scale[:, None] * factor)


def check_enough(rows: np.ndarray, per_dimension: int = 10) -> None:
    """Raise a ValueError if draws (n, d) are too few to tell d scales and correlations."""
    n, d = rows.shape
    if n < per_dimension * d or not np.all(np.isfinite(rows)):
        raise ValueError(
            f"reference holds {n} draws, {np.sum(~np.isfinite(rows).all(axis=1))} of them not "
            f"finite; a fit in {d} dimensions needs at least {per_dimension * d} finite ones"
        )


def fitted_to_few(rows: np.ndarray, df: float) -> Elliptical:
    """Student-t with the mean of draws and a wider covariance, however few they are.

    ``df`` is above 2.
    """
    n, d = rows.shape
    covariance = np.atleast_2d(np.cov(rows.T)) if n > 1 else np.eye(d)
    covariance = shrunk_to_variances(covariance, n)
    # the covariance of a Student-t is its scale matrix times df / (df - 2)
    factor = np.linalg.cholesky(covariance * INFLATION * (df - 2.0) / df)
    return Elliptical(rows.mean(axis=0), factor, df)


def fitted_at_mode(
    value_and_gradient: Callable[[np.ndarray], tuple[float, np.ndarray]], starts: np.ndarray
) -> Elliptical:
    """Student-t at the highest mode found, with the curvature there.

    If none of the starts (n, d) leads to a proper maximum, it is a ModelError.
    """
    # takes a third of a second, and most who import this module never get here
    from scipy.optimize import minimize

    def descent(row: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = value_and_gradient(row)
        if not np.isfinite(value):
            return 1e300, np.zeros_like(row)  # where a line search must turn back
        return -value, -np.where(np.isfinite(gradient), gradient, 0.0)

    climbs = [minimize(descent, start, jac=True, method="L-BFGS-B") for start in starts]
    mode = min(climbs, key=lambda climb: climb.fun).x
    # the cube root of rounding, about, in units of the mode
    step = 1e-4 * np.maximum(np.abs(mode), 1.0)
    gradients = [(descent(mode + shift)[1], descent(mode - shift)[1]) for shift in np.diag(step)]
    hessian = np.array(
        [(up - down) / (2 * h) for (up, down), h in zip(gradients, step, strict=True)]
    )
    remedy = "the Laplace approximation; use reference='prior' or draws of the posterior"
    try:
        covariance = np.linalg.inv(0.5 * (hessian + hessian.T)) * INFLATION
    except np.linalg.LinAlgError as error:
        raise ModelError(
            f"the curvature at the mode is singular, which rules out {remedy}"
        ) from error
    return Elliptical(mode, _factor(covariance, remedy), STUDENT_DF)


def _factor(covariance: np.ndarray, what: str) -> np.ndarray:
    try:
        return np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError as error:
        raise ModelError(f"no positive definite covariance comes out of {what}") from error
