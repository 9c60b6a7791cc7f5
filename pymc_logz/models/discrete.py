"""Discrete free variables of a model: which values they may have."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.discrete import DiscreteUniformRV, DiscreteWeibullRV
from pymc.distributions.multivariate import DirichletMultinomialRV
from pymc.pytensorf import constant_fold, rvs_in_graph
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.random import basic

from pymc_logz.graphs.functions import function_for
from pymc_logz.models.cache import KeptForModel, is_data
from pymc_logz.models.rows import is_discrete
from pymc_logz.paths.geometric import Site

SUPPORTS: dict[type, Callable[..., tuple[Any, Any]]] = {
    basic.BernoulliRV: lambda p: (0, 1),
    basic.BetaBinomialRV: lambda n, alpha, beta: (0, n),
    basic.BinomialRV: lambda n, p: (0, n),
    basic.CategoricalRV: lambda p: (0, p.shape[-1] - 1),
    basic.GeometricRV: lambda p: (1, None),
    basic.HyperGeometricRV: lambda good, bad, n: (pt.maximum(0, n - bad), pt.minimum(n, good)),
    basic.NegBinomialRV: lambda n, p: (0, None),
    basic.PoissonRV: lambda mu: (0, None),
    DiscreteUniformRV: lambda lower, upper: (lower, upper),
    DiscreteWeibullRV: lambda q, beta: (0, None),
    basic.MultinomialRV: lambda n, p: (0, pt.shape_padright(n)),
    DirichletMultinomialRV: lambda n, a: (0, pt.shape_padright(n)),
}
"""From a distribution's parameters to its smallest and largest value; None where there is none.

Of others, and of bounds that depend on free variables, nothing is assumed: the density says by
itself where it is zero."""
TIED = (basic.MultinomialRV, DirichletMultinomialRV)
"""Distributions whose entries along the last axis have a fixed sum."""


def discrete_names(model: pm.Model) -> list[str]:
    """Names of the discrete free variables."""
    return [rv.name for rv in model.free_RVs if is_discrete(rv)]


def sites_of(
    model: pm.Model, columns: Iterable[np.ndarray], kept: KeptForModel
) -> tuple[Site, ...]:
    """Discrete entries, by the columns of each variable; `kept` learns which data bounds are of."""
    sites: list[Site] = []
    for rv, own in zip(model.free_RVs, columns, strict=True):
        if is_discrete(rv):
            length = own.shape[-1] if isinstance(rv.owner.op, TIED) else None
            bounds = zip(own.ravel().tolist(), _bounds(rv, own.shape, kept), strict=True)
            for i, (column, ends) in enumerate(bounds):
                tied = None if length is None else column - i % length
                sites.append(Site(column, *ends, tied))
    return tuple(sites)


def _bounds(
    rv: Any, shape: tuple[int, ...], kept: KeptForModel
) -> list[tuple[int | None, int | None]]:
    """Smallest and largest value of each entry of a variable; None where that is not known."""
    support = SUPPORTS.get(type(rv.owner.op))
    found = (None, None) if support is None else support(*rv.owner.op.dist_params(rv.owner))
    bounds = []
    for bound in found:
        value = None if bound is None else _constant(bound, kept)
        entries = np.full(shape, None) if value is None else np.broadcast_to(value, shape)
        bounds.append([entry if value is None else int(entry) for entry in entries.ravel()])
    return list(zip(*bounds, strict=True))


def _constant(bound: Any, kept: KeptForModel) -> np.ndarray | None:
    """Value of an expression that depends on no free variable; None if it depends on one."""
    [folded] = constant_fold([pt.as_tensor(bound)], raise_not_constant=False)
    if not isinstance(folded, Variable):
        return np.asarray(folded)
    if rvs_in_graph([bound]):
        return None
    kept.bake_in(var for var in graph_inputs([bound]) if is_data(var))
    return np.asarray(function_for([], bound, mode="FAST_COMPILE")())


def colours(neighbours: Sequence[Sequence[int]]) -> np.ndarray:
    """A number for each of d entries, so that neighbours differ, shape (d,).

    Breadth first, each entry the least that its neighbours leave: two for any graph that two
    suffice for.
    """
    colour = np.full(len(neighbours), -1)
    for first in range(len(neighbours)):
        waiting = [first]
        while waiting:
            entry = waiting.pop(0)
            if colour[entry] < 0:
                taken = {colour[other] for other in neighbours[entry]}
                colour[entry] = next(c for c in range(len(neighbours)) if c not in taken)
                waiting += neighbours[entry]
    return colour
