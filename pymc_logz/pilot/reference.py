"""What a path starts from: the prior, the curvature at the mode, or a fit to draws."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import xarray as xr
from scipy.optimize import minimize

from pymc_logz.errors import ModelError
from pymc_logz.graphs.compiling import compile_function
from pymc_logz.models.flat import FlatModel, unconstrain
from pymc_logz.models.prior import PriorDraws
from pymc_logz.paths.elliptical import INFLATION, StudentReference, _factor
from pymc_logz.paths.geometric import gradient_of
from pymc_logz.trees.posterior import posterior_of

N_CLIMBS = 3


def make_reference(
    flat: FlatModel,
    prior: PriorDraws,
    reference: str | xr.DataTree,
    rng: np.random.Generator,
    compile_kwargs: Mapping[str, Any] | None,
) -> PriorDraws | StudentReference:
    """What the path starts from: the prior, the curvature at the mode, or a fit to draws."""
    if isinstance(reference, str) and reference == "prior":
        return prior
    if not isinstance(reference, xr.DataTree) and reference != "laplace":
        raise ValueError(
            f"reference={reference!r} must be 'prior', 'laplace', or a DataTree with a group "
            "'posterior'"
        )
    starts = prior(rng, 256)
    if prior.finite_share < 1.0:
        raise ValueError(
            "a transform restricts the prior of this model, whose constant only reference='prior' "
            "gets exactly; use that"
        )
    if isinstance(reference, xr.DataTree):
        return fitted_reference(unconstrain(flat, posterior_of(reference, "reference")))
    target = flat.log_prior + flat.log_ratio
    outputs = [target, gradient_of(target, flat.point)]
    compiled = compile_function([flat.point], outputs, compile_kwargs, [starts[0]])

    def value_and_gradient(row: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = compiled.call(row)
        return float(value), np.asarray(gradient, dtype=float)

    values = np.array([value_and_gradient(row)[0] for row in starts])
    best = np.argsort(np.where(np.isnan(values), -np.inf, values))[-N_CLIMBS:]
    return laplace_reference(value_and_gradient, starts[best])


def fitted_reference(rows: np.ndarray) -> StudentReference:
    """Reference fitted to draws of the target.

    Parameters
    ----------
    rows
        Unconstrained draws, shape (n, d).

    Raises
    ------
    ValueError
        If there are too few draws to tell d scales and correlations.
    """
    n, d = rows.shape
    if n < 10 * d or not np.all(np.isfinite(rows)):
        raise ValueError(
            f"reference holds {n} draws, {np.sum(~np.isfinite(rows).all(axis=1))} of them not "
            f"finite; a fit in {d} dimensions needs at least {10 * d} finite ones"
        )
    covariance = np.atleast_2d(np.cov(rows.T)) * INFLATION
    return StudentReference(rows.mean(axis=0), _factor(covariance, "the draws of reference"))


def laplace_reference(
    value_and_gradient: Callable[[np.ndarray], tuple[float, np.ndarray]], starts: np.ndarray
) -> StudentReference:
    """Reference at the highest mode found, with the curvature there.

    Parameters
    ----------
    value_and_gradient
        Log density of the target at a row of length d, and its gradient.
    starts
        Rows to climb from, shape (n, d).

    Raises
    ------
    ModelError
        If no start leads to a proper maximum.
    """

    def descent(row: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = value_and_gradient(row)
        if not np.isfinite(value):
            return 1e300, np.zeros_like(row)
        return -value, -np.where(np.isfinite(gradient), gradient, 0.0)

    climbs = [minimize(descent, start, jac=True, method="L-BFGS-B") for start in starts]
    best = min(climbs, key=lambda climb: climb.fun)
    mode, scale = best.x, np.maximum(np.abs(best.x), 1.0)
    step = 1e-4 * scale
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
    return StudentReference(mode, _factor(covariance, remedy))
