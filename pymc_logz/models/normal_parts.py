"""Which entries of a row are normal in the prior, given the others."""

from typing import Any

import numpy as np
import pymc as pm
from pymc.distributions import multivariate, timeseries
from pytensor.tensor.random import basic

from pymc_logz.models.flat import FlatModel

NORMAL = frozenset({basic.NormalRV, basic.MvNormalRV, multivariate.ZeroSumNormalRV})
"""Classes of random variables that are normal, whatever their parameters are."""


def normal_columns(flat: FlatModel) -> np.ndarray:
    """Entries of a row that belong to a normal variable, or to a walk of normal steps, shape (k,).

    Their transform, if they have one, is PyMC's own of a sum that is zero, which is linear.
    """
    model = flat.model
    normal = {rv.name for rv in model.free_RVs if _is_normal(model, rv)}
    return np.array([j for j, owner in enumerate(flat.owners) if owner in normal], dtype=int)


def _is_normal(model: pm.Model, rv: Any) -> bool:
    op = rv.owner.op
    if type(op) is multivariate.ZeroSumNormalRV:
        return True
    if model.rvs_to_transforms[rv] is not None:
        return False
    if type(op) in (timeseries.RandomWalkRV, timeseries.AutoRegressiveRV):
        parts = rv.owner.inputs
        laws = [
            part for part in parts if part.owner and isinstance(part.owner.op, basic.RandomVariable)
        ]
        return bool(laws) and all(type(part.owner.op) in NORMAL for part in laws)
    return type(op) in NORMAL
