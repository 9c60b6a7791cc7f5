"""Priors whose density and draws are known to be of one normalised distribution.

Of these nothing need be drawn: their own parameters, whatever they are, and PyMC's own transform
leave the mass at one. Each entry passes the check of `pymc_logz.models.prior_check` in the tests.
"""

from types import FunctionType
from typing import Any

import pymc as pm
from pymc.distributions import continuous, discrete, multivariate, timeseries
from pymc.distributions.transforms import Ordered, _default_transform
from pymc.logprob.transforms import LogTransform, Transform
from pytensor.graph.basic import Variable, equal_computations
from pytensor.tensor.random import basic

KNOWN = frozenset(
    {
        basic.BetaRV,
        basic.CauchyRV,
        basic.DirichletRV,
        basic.ExponentialRV,
        basic.GammaRV,
        basic.GumbelRV,
        basic.HalfNormalRV,
        basic.InvGammaRV,
        basic.LaplaceRV,
        basic.LogNormalRV,
        basic.LogisticRV,
        basic.MvNormalRV,
        basic.NormalRV,
        basic.ParetoRV,
        basic.StudentTRV,
        basic.TriangularRV,
        basic.UniformRV,
        continuous.AsymmetricLaplaceRV,
        continuous.ExGaussianRV,
        continuous.HalfCauchyRV,
        continuous.HalfStudentTRV,
        continuous.KumaraswamyRV,
        continuous.MoyalRV,
        continuous.RiceRV,
        continuous.SkewNormalRV,
        continuous.SkewStudentTRV,
        continuous.TruncatedNormalRV,
        continuous.WaldRV,
        continuous.WeibullBetaRV,
        multivariate.MvStudentTRV,
        multivariate.ZeroSumNormalRV,
    }
)
"""Classes of continuous random variables; those that hold another distribution, as a walk, are
known if that is."""

KNOWN_DISCRETE = frozenset(
    {
        basic.BernoulliRV,
        basic.BetaBinomialRV,
        basic.BinomialRV,
        basic.CategoricalRV,
        basic.GeometricRV,
        basic.HyperGeometricRV,
        basic.NegBinomialRV,
        basic.PoissonRV,
        discrete.DiscreteUniformRV,
        discrete.DiscreteWeibullRV,
        basic.MultinomialRV,
        multivariate.DirichletMultinomialRV,
    }
)
"""Classes of random variables that are discrete; no transform applies to them."""


def is_known(model: pm.Model, rv: Any) -> bool:
    """Whether the prior of a free variable needs no check."""
    op = rv.owner.op
    # a subclass may have a density of its own
    if type(op) in KNOWN_DISCRETE:
        return model.rvs_to_transforms[rv] is None
    if type(op) not in KNOWN and not _is_made_of_known(rv):
        return False
    own, default = model.rvs_to_transforms[rv], _default_transform(op, rv)
    # a change of variables of entries without bounds, to those of them that are in order
    return _alike(own, default) or (default is None and type(own) is Ordered)


def _is_made_of_known(rv: Any) -> bool:
    """Whether a variable is built from others of the list in a way whose constant is known.

    A random walk is a sum of independent steps, a map of determinant one. The constant of an LKJ
    prior is one of closed form in any dimension (Lewandowski, Kurowicka & Joe 2009, eq. 16), and
    its standard deviations have any distribution on the positive numbers.
    """
    op, parts = rv.owner.op, rv.owner.inputs
    if type(op) is timeseries.RandomWalkRV:
        return all(_is_listed(part) for part in parts[:2])
    if type(op) is multivariate._LKJCholeskyCovRV:
        of_sd = parts[3]
        if not _is_listed(of_sd):
            return False
        return isinstance(_default_transform(of_sd.owner.op, of_sd), LogTransform)
    return False


def _is_listed(part: Any) -> bool:
    return part.owner is not None and type(part.owner.op) in KNOWN


def _alike(one: Transform | None, other: Transform | None) -> bool:
    """Whether two transforms do the same, as far as can be told for sure."""
    if one is other:
        return True
    return type(one) is type(other) and _same(vars(one), vars(other))


def _same(one: Any, other: Any) -> bool:
    """Whether two settings of transforms are the same; functions by what they were made of."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, FunctionType) and isinstance(other, FunctionType):
        cells = [[cell.cell_contents for cell in f.__closure__ or ()] for f in (one, other)]
        return one.__code__ is other.__code__ and cells[0] == cells[1]
    if isinstance(one, Variable) and isinstance(other, Variable):
        return bool(equal_computations([one], [other]))
    return type(one) is type(other) and bool(one == other)
