"""Which entries of a row are normal in the prior, given the others."""

from typing import Any

import numpy as np
import pymc as pm
from pymc.distributions import multivariate, timeseries
from pytensor.graph.traversal import ancestors
from pytensor.tensor.linalg import Cholesky, MatrixInverse, SolveBase
from pytensor.tensor.random import basic

from pymc_logz.models.flat import FlatModel

NORMAL = frozenset({basic.NormalRV, basic.MvNormalRV, multivariate.ZeroSumNormalRV})
"""Classes of random variables that are normal, whatever their parameters are."""


def normal_columns(flat: FlatModel) -> np.ndarray:
    """Entries of a row of a normal variable, or of a walk of normal steps, shape (k,)."""
    # a normal variable that is more than part of another one's mean is not normal given that one
    normal = _normal_names(flat.model)
    return np.array([j for j, owner in enumerate(flat.owners) if owner in normal], dtype=int)


def is_centred_hierarchy(flat: FlatModel) -> bool:
    """Whether the spread of some normal variable depends on another free variable."""
    model = flat.model
    normal = _normal_names(model)
    spreads = [part for rv in model.free_RVs if rv.name in normal for part in _beside_mean(rv)]
    return not set(model.free_RVs).isdisjoint(ancestors(spreads, blockers=model.free_RVs))


def factors_matrices(model: pm.Model) -> bool:
    """Whether free variables decide a matrix that each evaluation factors, at cubic cost."""
    free = set(model.free_RVs)
    for node in {var.owner for var in ancestors(model.basic_RVs) if var.owner is not None}:
        core = getattr(node.op, "core_op", node.op)
        if isinstance(core, basic.MvNormalRV):
            matrices = list(core.dist_params(node)[1:])
        elif isinstance(core, Cholesky | SolveBase | MatrixInverse):
            matrices = [node.inputs[0]]
        else:
            continue
        if not free.isdisjoint(ancestors(matrices)):
            return True
    return False


def _normal_names(model: pm.Model) -> set[str]:
    """Free variables that are normal given the others."""
    normal = {rv.name for rv in model.free_RVs if _is_normal(model, rv)}
    for rv in model.free_RVs:
        parts = _beside_mean(rv) if rv.name in normal else rv.owner.inputs
        normal -= {one.name for one in ancestors(parts, blockers=model.free_RVs)}
    return normal


def _is_normal(model: pm.Model, rv: Any) -> bool:
    op = rv.owner.op
    if type(op) is multivariate.ZeroSumNormalRV:
        return True
    if model.rvs_to_transforms[rv] is not None:
        return False
    if type(op) in (timeseries.RandomWalkRV, timeseries.AutoRegressiveRV):
        steps = [part for part in rv.owner.inputs if _is_distribution(part)]
        return bool(steps) and all(type(part.owner.op) in NORMAL for part in steps)
    return type(op) in NORMAL


def _beside_mean(rv: Any) -> list[Any]:
    """All parameters of a normal variable but its mean."""
    op, node = rv.owner.op, rv.owner
    if type(op) not in (timeseries.RandomWalkRV, timeseries.AutoRegressiveRV):
        return list(op.dist_params(node)[1:])
    others = [part for part in node.inputs if not _is_distribution(part)]
    steps = [part.owner for part in node.inputs if _is_distribution(part)]
    return others + [one for step in steps for one in step.op.dist_params(step)[1:]]


def _is_distribution(part: Any) -> bool:
    """Whether a parameter is a distribution of its own."""
    return bool(part.owner) and isinstance(part.owner.op, basic.RandomVariable)
