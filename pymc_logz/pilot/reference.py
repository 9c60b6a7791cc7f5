"""What a path starts from: the prior, the curvature at the mode, or a fit to draws."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from pymc_logz.graphs.compiling import compile_function
from pymc_logz.models.flat import FlatModel, unconstrain
from pymc_logz.models.prior import PriorDraws
from pymc_logz.paths.elliptical import Elliptical
from pymc_logz.paths.fitting import fitted_at_mode, fitted_student
from pymc_logz.paths.geometric import gradient_of
from pymc_logz.trees.posterior import posterior_of

N_CLIMBS = 3
"""Prior draws from which a mode is looked for, those of the highest density."""


def make_reference(
    flat: FlatModel,
    prior: PriorDraws,
    reference: str | xr.DataTree,
    rng: np.random.Generator,
    compile_kwargs: Mapping[str, Any] | None,
) -> PriorDraws | Elliptical:
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
        return fitted_student(unconstrain(flat, posterior_of(reference, "reference")))
    target = flat.log_prior + flat.log_ratio
    outputs = [target, gradient_of(target, flat.point)]
    compiled = compile_function([flat.point], outputs, compile_kwargs, [starts[0]])

    def value_and_gradient(row: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = compiled.call(row)
        return float(value), np.asarray(gradient, dtype=float)

    values = np.array([value_and_gradient(row)[0] for row in starts])
    best = np.argsort(np.where(np.isnan(values), -np.inf, values))[-N_CLIMBS:]
    return fitted_at_mode(value_and_gradient, starts[best])
