"""Priors of standard deviations: as variables of PyMC, and as densities of their logarithm."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pymc as pm
from pytensor.tensor import TensorVariable
from scipy.special import gammaln

from generated.cases import one_of
from generated.quadrature import Bounds

LOWEST, HIGHEST = -25.0, 25.0


@dataclass(frozen=True)
class ScalePrior:
    """A prior of a standard deviation.

    Parameters
    ----------
    about
        What it is, for the record.
    add
        Adds a variable of this name to the model on the stack; the standard deviation.
    log_density
        Of the log of the standard deviation.
    bounds
        Of that log.
    """

    about: str
    add: Callable[[str], TensorVariable]
    log_density: Callable[[np.ndarray], np.ndarray]
    bounds: Bounds = (LOWEST, HIGHEST)


def half_normal(sd: float) -> ScalePrior:
    """``HalfNormal(sd)``."""
    constant = 0.5 * np.log(2 / np.pi) - np.log(sd)
    return ScalePrior(
        f"HalfNormal({sd})",
        lambda name: pm.HalfNormal(name, sd),
        lambda t: constant - 0.5 * np.exp(2 * t) / sd**2 + t,
    )


def half_cauchy(scale: float) -> ScalePrior:
    """``HalfCauchy(scale)``."""
    constant = np.log(2 / (np.pi * scale))
    return ScalePrior(
        f"HalfCauchy({scale})",
        lambda name: pm.HalfCauchy(name, scale),
        lambda t: constant - np.log1p(np.exp(2 * t) / scale**2) + t,
    )


def exponential(mean: float) -> ScalePrior:
    """``Exponential`` with a mean."""
    return ScalePrior(
        f"Exponential(1 / {mean})",
        lambda name: pm.Exponential(name, 1 / mean),
        lambda t: -np.log(mean) - np.exp(t) / mean + t,
    )


def uniform(upper: float) -> ScalePrior:
    """``Uniform(0, upper)``."""
    return ScalePrior(
        f"Uniform(0, {upper})",
        lambda name: pm.Uniform(name, 0, upper),
        lambda t: t - np.log(upper),
        (LOWEST, float(np.log(upper))),
    )


def gamma_precision(a: float, b: float) -> ScalePrior:
    """``Gamma(a, b)`` on the precision, as BUGS had it."""
    constant = a * np.log(b) - gammaln(a) + np.log(2)
    return ScalePrior(
        f"Gamma({a}, {b}) on the precision",
        lambda name: pm.Gamma(f"{name}_precision", a, b) ** -0.5,
        lambda t: constant - 2 * a * t - b * np.exp(-2 * t),
    )


def inverse_gamma_variance(a: float, b: float) -> ScalePrior:
    """``InverseGamma(a, b)`` on the variance: the same law of the standard deviation."""
    same = gamma_precision(a, b)
    return ScalePrior(
        f"InverseGamma({a}, {b}) on the variance",
        lambda name: pm.InverseGamma(f"{name}_variance", a, b) ** 0.5,
        same.log_density,
    )


def proper(rng: np.random.Generator, size: float = 1.0) -> ScalePrior:
    """A prior as one would choose it for a scale of about this size."""
    return one_of(rng, half_normal, half_cauchy, exponential)(round(2 * size, 3))


def vague(rng: np.random.Generator) -> ScalePrior:
    """A prior of the BUGS age."""
    kind = one_of(rng, uniform, gamma_precision, inverse_gamma_variance)
    if kind is uniform:
        return uniform(100.0)
    small = one_of(rng, 0.001, 0.01, 0.1)
    return kind(small, small)
