"""The Bayes factor of two models from the same rows, and whether that is what was asked for."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import xarray as xr

from pymc_logz.estimators import LogZEstimate, importance_log_z
from pymc_logz.models.context import is_model
from pymc_logz.paths.foreign import ForeignModel
from pymc_logz.runners.anneal import Annealed
from pymc_logz.wings import from_wing

if TYPE_CHECKING:
    import pymc as pm


def as_other_model(reference: Any, direction: str, sum_out: bool | None) -> "pm.Model | None":
    """The reference, if it is a model and the other arguments allow for it; None if it is none.

    Raises
    ------
    ValueError
        If an argument would be ignored beside it.
    """
    if not is_model(reference):
        return None
    if direction != "forward":
        raise ValueError(
            f"direction={direction!r} does not apply where reference is a model: swap the two "
            "models to go the other way"
        )
    if sum_out:
        raise ValueError(
            f"sum_out={sum_out!r} does not apply where reference is a model: its whole numbers move"
        )
    return cast("pm.Model", reference)


def bayes_factor(before: Sequence[Annealed], after: Sequence[Annealed]) -> LogZEstimate:
    """Log of the ratio of the mean weights of the same rows at two models.

    The error is that of a ratio of two means of the same rows (delta method).

    ``before`` are rows at the model that they came to first, ``after`` the same at the other one.
    """
    log_weights = [np.concatenate([run.log_weight for run in runs]) for runs in (before, after)]
    first, second = (importance_log_z(weights, method="hais") for weights in log_weights)
    worse = second if second.status != "ok" else first
    if not (first.usable and second.usable):
        return replace(worse, log_z=np.nan, mcse=np.nan)
    relative = [
        np.exp(weights - estimate.log_z)
        for weights, estimate in zip(log_weights, (first, second), strict=True)
    ]
    mcse = float((relative[1] - relative[0]).std(ddof=1) / np.sqrt(relative[0].size))
    return replace(second, log_z=second.log_z - first.log_z, mcse=mcse, status=worse.status)


def factor_dataset(factor: LogZEstimate, other: LogZEstimate) -> xr.Dataset:
    """Group ``bayes_factor``: log of the ratio, and log Z of what the path starts at."""
    return xr.Dataset(
        {
            "log_bayes_factor": factor.log_z,
            "log_bayes_factor_mcse": factor.mcse,
            "status": factor.status,
            "log_z_other": other.log_z,
            "mcse_other": other.mcse,
        }
    )


def onward_run(
    target: ForeignModel | None, reference: Any, direction: str, sum_out: bool | None
) -> Callable[..., xr.DataTree] | None:
    """What runs a target from another one; None if the reference is something else.

    ``target`` is what the path leads to, if that is no PyMC model.
    """
    if target is not None:
        return target.runs.between(target, reference, direction)
    other = as_other_model(reference, direction, sum_out)
    return None if other is None else partial(from_wing("run_between"), other=other)
