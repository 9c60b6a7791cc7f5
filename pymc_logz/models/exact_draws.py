"""Draws of priors in the unconstrained space itself, where those in the constrained one round.

A Beta(0.01, 0.01) has a third of its mass within 1e-16 of 1, where its draws are 1 and their logit
is infinite. What rounds is drawn from its logarithm here; the density has no such trouble.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions import continuous
from pytensor.graph.basic import Constant
from pytensor.tensor.random import basic

from pymc_logz.models.known_priors import is_known


def exact_transforms(model: pm.Model) -> dict[Any, Any]:
    """Transforms of all free variables, some of which draw rather than transform a draw."""
    return {
        rv: _Drawing(transform, DRAWN[type(rv.owner.op)])
        if type(rv.owner.op) in DRAWN and is_known(model, rv) and _may_round(rv)
        else transform
        for rv, transform in model.rvs_to_transforms.items()
    }


def _may_round(rv: Any) -> bool:
    """Whether draws may round, as they do not where all shapes are constants that are not small.

    Of a Beta with shapes of at least a half, fewer than 1 in 1e7 draws round; of others, none.
    """
    n_shapes = 2 if isinstance(rv.owner.op, basic.BetaRV) else 1
    shapes = rv.owner.inputs[2 : 2 + n_shapes]
    return not all(isinstance(shape, Constant) and np.all(shape.data >= 0.5) for shape in shapes)


@dataclass(frozen=True)
class _Drawing:
    """A transform whose way forward is a draw from the variable's own parameters."""

    transform: Any
    draw: Callable[..., Any]

    def forward(self, value: Any, rng: Any, size: Any, *parameters: Any) -> Any:
        """A draw in the unconstrained space, of the shape that ``value`` has there."""
        sizes = _sizes(size)
        n_event = value.type.ndim if sizes is None else value.type.ndim - len(sizes)
        if sizes is not None:
            parameters = tuple(
                pt.broadcast_to(part, (*sizes, *(part.shape[-1:] if n_event else ())))
                for part in parameters
            )
        elif len(parameters) > 1:
            parameters = tuple(pt.broadcast_arrays(*parameters))
        return self.draw(*parameters)

    def backward(self, value: Any, *inputs: Any) -> Any:
        """What the transform makes of it."""
        return self.transform.backward(value, *inputs)


def _sizes(size: Any) -> list[Any] | None:
    """Batch lengths that a random variable was given, if any."""
    if not hasattr(size.type, "ndim"):
        return None
    return [size[i] for i in range(size.type.shape[0])]


def _log_gamma(shape: Any) -> Any:
    """Logarithm of Gamma draws of scale 1: one of shape + 1 times a power of a uniform."""
    return pt.log(pm.Gamma.dist(shape + 1.0, 1.0)) - pm.Exponential.dist(shape)


def _log_simplex(shape: Any) -> Any:
    logs = _log_gamma(shape)
    return logs[..., :-1] - logs.mean(axis=-1, keepdims=True)


DRAWN: dict[type, Callable[..., Any]] = {
    basic.BetaRV: lambda one, other: _log_gamma(one) - _log_gamma(other),
    basic.GammaRV: lambda shape, scale: _log_gamma(shape) + pt.log(scale),
    basic.InvGammaRV: lambda shape, scale: pt.log(scale) - _log_gamma(shape),
    basic.DirichletRV: _log_simplex,
    continuous.WeibullBetaRV: lambda alpha, beta: (
        pt.log(beta) + pt.log(alpha * pm.Exponential.dist(alpha)) / alpha
    ),
}
"""From parameters to a draw in the unconstrained space of PyMC's own transform."""
