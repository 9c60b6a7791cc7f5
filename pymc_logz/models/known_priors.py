"""What is known of priors: which are normal, or of one normalised distribution in any case.

Of the latter nothing need be drawn: their own parameters, whatever they are, and PyMC's own
transform leave the mass at one. Each passes the check of `pymc_logz.models.prior_check` in tests.
"""

from collections.abc import Callable, Iterable
from types import FunctionType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions import continuous, multivariate, timeseries
from pymc.distributions.transforms import Ordered, _default_transform
from pymc.logprob.transforms import LogTransform
from pytensor.graph.basic import Constant, Variable, equal_computations
from pytensor.graph.traversal import ancestors
from pytensor.tensor.linalg import Cholesky, MatrixInverse, SolveBase
from pytensor.tensor.random import basic
from pytensor.tensor.random.op import RandomVariable
from scipy.special import gammaln

from pymc_logz.graphs.functions import cheaply_compiled
from pymc_logz.models.discrete import SUPPORTS
from pymc_logz.models.rows import starting_point

if TYPE_CHECKING:
    from pymc_logz.models.flat import FlatModel

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
        multivariate.StickBreakingWeightsRV,
        multivariate.ZeroSumNormalRV,
    }
)
"""Classes of continuous random variables; those that hold another distribution, as a walk, are
known if that is."""
NORMAL = frozenset(
    {basic.NormalRV, basic.MvNormalRV, multivariate.CARRV, multivariate.ZeroSumNormalRV}
)
"""Classes of random variables that are normal, whatever their parameters are."""


def is_known(model: pm.Model, rv: Any) -> bool:
    """Whether the prior of a free variable needs no check."""
    op = rv.owner.op
    # a subclass may have a density of its own; to discrete ones no transform applies
    if type(op) in SUPPORTS:
        return model.rvs_to_transforms[rv] is None
    if type(op) not in KNOWN and not _is_made_of_known(rv):
        return False
    own, default = model.rvs_to_transforms[rv], _default_transform(op, rv)
    # a change of variables of entries without bounds, to those of them that are in order
    if own is default or (default is None and type(own) is Ordered):
        return True
    return type(own) is type(default) and _same(vars(own), vars(default))


def _is_made_of_known(rv: Any) -> bool:
    """Whether a variable is built from others of the list in a way whose constant is known."""
    # a random walk is a sum of independent steps, a map of determinant one; the constant of an LKJ
    # prior has a closed form in any dimension (Lewandowski, Kurowicka & Joe 2009, eq. 16)
    op, parts = rv.owner.op, rv.owner.inputs
    if type(op) is timeseries.RandomWalkRV:
        return all(type(part.owner_op) in KNOWN for part in parts[:2])
    if type(op) is multivariate._LKJCholeskyCovRV:
        op_of_sd = parts[3].owner_op
        is_known = type(op_of_sd) in KNOWN
        return is_known and isinstance(_default_transform(op_of_sd, parts[3]), LogTransform)
    if type(op) is multivariate.CARRV:
        return not any(isinstance(one.owner_op, RandomVariable) for one in ancestors([parts[3]]))
    return False


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


def exact_transforms(model: pm.Model) -> dict[Any, Any]:
    """Transforms of all free variables, some of which draw, or sort, rather than take a draw."""
    found = dict(model.rvs_to_transforms)
    for rv, transform in found.items():
        op = rv.owner.op
        if type(op) in DRAWN and is_known(model, rv) and _may_round(rv):
            found[rv] = _drawing(transform, op)
        elif _is_sorted(model, rv):
            found[rv] = _sorting(transform)
    return found


def log_mass_in_order(model: pm.Model, shapes: Iterable[tuple[int, ...]]) -> float:
    """Log share of the prior that is in order, where a transform takes that alone of like entries.

    It is one of all orders. The shapes are those of the value variables.
    """
    pairs = zip(model.free_RVs, shapes, strict=True)
    own = [shape for rv, shape in pairs if _is_sorted(model, rv)]
    return -float(sum(np.prod(shape[:-1]) * gammaln(shape[-1] + 1) for shape in own))


def log_constant_of_fields(model: pm.Model, observed: bool = False) -> float:
    """Log of what PyMC's densities of conditional autoregressions integrate to.

    They are those of normals whose precision has the numbers of neighbours on its diagonal, up to a
    constant. Those of the prior, or those that are ``observed``.
    """
    total = 0.0
    for rv in model.observed_RVs if observed else model.free_RVs:
        if type(rv.owner.op) is multivariate.CARRV and (observed or is_known(model, rv)):
            weights = cheaply_compiled([], rv.owner.inputs[3])()
            neighbours = np.asarray(weights.sum(axis=-2)).ravel()
            value = model.rvs_to_values[rv]
            field = value.eval() if observed else starting_point(model)[value.name]
            n_fields = field.size / neighbours.size
            total += 0.5 * n_fields * (np.log(2 * np.pi) - np.log(neighbours)).sum()
    return float(total)


def _is_sorted(model: pm.Model, rv: Any) -> bool:
    """Whether entries of one distribution are to be in order."""
    if type(model.rvs_to_transforms[rv]) is not Ordered or not is_known(model, rv):
        return False
    op = rv.owner.op
    return op.ndim_supp == 0 and all(map(_is_alike, op.dist_params(rv.owner)))


def _is_alike(parameter: Any) -> bool:
    """Whether a parameter is the same for all entries in a row."""
    if parameter.type.ndim == 0 or parameter.type.shape[-1] == 1:
        return True
    return isinstance(parameter, Constant) and not np.any(np.diff(parameter.data))


def _may_round(rv: Any) -> bool:
    """Whether draws may round, as they do not where all shapes are constants that are not small."""
    if isinstance(rv.owner.op, multivariate.StickBreakingWeightsRV):
        return True  # the last weight is a product of many
    # of a Beta with shapes of at least a half, fewer than 1 in 1e7 draws round; of others, none
    n_shapes = 2 if isinstance(rv.owner.op, basic.BetaRV) else 1
    shapes = rv.owner.inputs[2 : 2 + n_shapes]
    return not all(isinstance(shape, Constant) and np.all(shape.data >= 0.5) for shape in shapes)


def _drawing(transform: Any, op: Any, farthest: float = 600.0) -> Any:
    """A transform whose way forward is a draw from the variable's own parameters.

    Others are drawn given scales from 1e-260 to 1e260, ``farthest`` in the unconstrained space: of
    a precision of zero PyMC makes a spread that is no number.
    """

    def forward(value: Any, rng: Any, size: Any, *parameters: Any) -> Any:
        if hasattr(size.type, "ndim"):  # batch lengths that the random variable was given
            sizes = [size[i] for i in range(size.type.shape[0])]
            parameters = tuple(
                pt.broadcast_to(part, (*sizes, *(part.shape[-n:] if n else ())))
                for part, n in zip(parameters, op.ndims_params, strict=True)
            )
        elif len(parameters) > 1:
            parameters = tuple(pt.broadcast_arrays(*parameters))
        return DRAWN[type(op)](*parameters)

    def backward(value: Any, *parameters: Any) -> Any:
        # entries of a simplex are given by their differences
        value = value if op.ndim_supp else pt.clip(value, -farthest, farthest)
        return transform.backward(value, *parameters)

    return SimpleNamespace(forward=forward, backward=backward)


def _sorting(transform: Ordered) -> Any:
    """A transform of what is in order, of draws that are put in order."""

    def forward(value: Any, *_: Any) -> Any:
        value = pt.sort(value, axis=-1)
        return transform.forward(value if transform.ascending else value[..., ::-1])

    return SimpleNamespace(forward=forward, backward=transform.backward)


def _log_gamma(shape: Any) -> Any:
    """Logarithm of Gamma draws of scale 1: one of shape + 1 times a power of a uniform."""
    return pt.log(pm.Gamma.dist(shape + 1.0, 1.0)) - pm.Exponential.dist(shape)


def _simplex(logs: Any) -> Any:
    """Unconstrained simplex of which all logarithms are known up to a constant."""
    return logs[..., :-1] - logs.mean(axis=-1, keepdims=True)


def _broken_stick(concentration: Any, n_sticks: Any) -> Any:
    rate = pt.repeat(concentration[..., None], pt.max(n_sticks), axis=-1)
    log_rest = -pm.Exponential.dist(rate)  # of a Beta(1, concentration), one minus it
    log_left = pt.cumsum(log_rest, axis=-1)
    log_weights = log_left - log_rest + pt.log1mexp(log_rest)
    return _simplex(pt.concatenate([log_weights, log_left[..., -1:]], axis=-1))


DRAWN: dict[type, Callable[..., Any]] = {
    basic.BetaRV: lambda one, other: _log_gamma(one) - _log_gamma(other),
    basic.GammaRV: lambda shape, scale: _log_gamma(shape) + pt.log(scale),
    basic.InvGammaRV: lambda shape, scale: pt.log(scale) - _log_gamma(shape),
    basic.DirichletRV: lambda shape: _simplex(_log_gamma(shape)),
    multivariate.StickBreakingWeightsRV: _broken_stick,
    continuous.WeibullBetaRV: lambda alpha, beta: (
        pt.log(beta) + pt.log(alpha * pm.Exponential.dist(alpha)) / alpha
    ),
}
"""From parameters to a draw in the unconstrained space of PyMC's own transform."""


def normal_columns(flat: "FlatModel") -> np.ndarray:
    """Entries of a row of a normal variable, or of a walk of normal steps, shape (k,)."""
    free = flat.model.free_RVs
    beside = {rv.name: _parameters_except_mean(flat.model, rv) for rv in free}
    normal = {name for name, parts in beside.items() if parts is not None}
    # a normal variable that is more than part of another one's mean is not normal given that one
    for rv in free:
        parts: Any = beside[rv.name] if rv.name in normal else rv.owner.inputs
        normal -= {one.name for one in ancestors(parts, blockers=free)}
    return np.array([j for j, owner in enumerate(flat.owners) if owner in normal], dtype=int)


def n_factored(model: pm.Model) -> int:
    """Rows of the largest matrix that free variables decide and each evaluation factors, or 0."""
    free, most = set(model.free_RVs), 0
    for node in {var.owner for var in ancestors(model.basic_RVs) if var.owner is not None}:
        core = getattr(node.op, "core_op", node.op)
        if isinstance(core, basic.MvNormalRV):
            matrices = list(core.dist_params(node)[1:])
        elif isinstance(core, Cholesky | SolveBase | MatrixInverse):
            matrices = [node.inputs[0]]
        else:
            continue
        if not free.isdisjoint(ancestors(matrices)):
            most = max(most, 1, *(one.type.shape[-1] or 1 for one in matrices))
    return most


def _parameters_except_mean(model: pm.Model, rv: Any) -> list[Any] | None:
    """All parameters but the mean of a variable that is normal given them; None if it is not."""
    op, node = rv.owner.op, rv.owner
    if type(op) is not multivariate.ZeroSumNormalRV and model.rvs_to_transforms[rv] is not None:
        return None
    if type(op) in NORMAL:
        return list(op.dist_params(node)[1:])
    if type(op) not in (timeseries.RandomWalkRV, timeseries.AutoRegressiveRV):
        return None
    # distributions of its own; others are free variables that decide it
    own = [part for part in node.inputs if part not in model.free_RVs]
    random = [part for part in own if isinstance(part.owner_op, basic.RandomVariable)]
    if not random or any(type(part.owner_op) not in NORMAL for part in random):
        return None
    others, steps = [part for part in node.inputs if part not in random], (r.owner for r in random)
    return others + [one for step in steps for one in step.op.dist_params(step)[1:]]
