"""What a path starts from (prior, curvature at the mode, a fit to draws), and a look at it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from pymc_logz.errors import ModelError, says_if_interrupted, warn
from pymc_logz.graphs.compiling import compile_function
from pymc_logz.graphs.kept import settings_key
from pymc_logz.models.flat import FlatModel, describe_row, model_path, unconstrain
from pymc_logz.models.preparation import Prepared
from pymc_logz.models.prior import PriorDraws
from pymc_logz.paths.elliptical import Elliptical
from pymc_logz.paths.fitting import fitted_at_mode, fitted_student
from pymc_logz.paths.geometric import AnnealingPath, gradients
from pymc_logz.runners.block import Block
from pymc_logz.trees.posterior import posterior_of

N_CLIMBS = 3
"""Prior draws from which a mode is looked for, those of the highest density."""


@says_if_interrupted("the reference was being made")
def path_from(
    prepared: Prepared,
    reference: str | xr.DataTree,
    rng: np.random.Generator,
    compile_kwargs: Mapping[str, Any] | None = None,
) -> AnnealingPath:
    """Path from the reference that a user asked for to the target.

    Parameters
    ----------
    prepared
        The model.
    reference
        ``"prior"``, ``"laplace"``, or a DataTree with a group ``posterior``.
    rng
        Generator of the starts of a search for the mode.
    compile_kwargs
        Keyword arguments of ``pytensor.function``.

    Raises
    ------
    ModelError, ValueError
        If there is no such reference for this model.
    """
    start_from = make_reference(prepared.flat, prepared.prior, reference, rng, compile_kwargs)
    return model_path(prepared.flat, start_from)


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
    outputs = [target, *gradients([target], flat.point)]
    inputs = [flat.point, *flat.inputs]
    compiled = flat.kept.get(
        ("value and gradient", settings_key(compile_kwargs)),
        lambda: compile_function(inputs, outputs, compile_kwargs, [starts[0], *flat.values]),
    )

    def value_and_gradient(row: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = compiled.call(row, *flat.values)
        return float(value), np.asarray(gradient, dtype=float)

    values = np.array([value_and_gradient(row)[0] for row in starts])
    best = np.argsort(np.where(np.isnan(values), -np.inf, values))[-N_CLIMBS:]
    return fitted_at_mode(value_and_gradient, starts[best])


@says_if_interrupted("rows of the reference were being looked at")
def check_start(prepared: Prepared, block: Block, start: np.ndarray) -> None:
    """Look at rows of the reference and their likelihood before anything is run on them."""
    prepared.prior.warn_of_share()
    log_ratio = block.evaluate(start)
    if np.any(log_ratio == np.inf):
        row = start[int(np.argmax(log_ratio))]
        raise ModelError(
            "the likelihood (or a potential) is infinite at the prior draw "
            f"{describe_row(prepared.flat, row)}, so log Z is infinite; bound it away from there"
        )
    if not np.any(np.isfinite(log_ratio)):
        raise ModelError(
            f"the log likelihood plus potentials is not finite at any of {len(start)} prior draws, "
            f"such as {describe_row(prepared.flat, start[0])}; check the observed data against the "
            "support of the likelihood, or use a prior that reaches it"
        )
    n_nan = int(np.isnan(log_ratio).sum())
    if n_nan:
        row = start[int(np.argmax(np.isnan(log_ratio)))]
        warn(
            f"the log likelihood plus potentials is NaN at {n_nan} of {len(start)} prior draws, "
            f"such as {describe_row(prepared.flat, row)}; NaN counts as a likelihood of zero. If "
            "that is not what is meant, guard the expression or restrict the prior"
        )
