"""Observations that are met exactly: curves, surfaces, sheets, crossings."""

from collections.abc import Callable

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import stats
from scipy.special import k0

import pymc_logz as lz
from adversary.cases import case
from adversary.integrals import interval, log_integral


def _observed(
    d: int, output: Callable[[pt.TensorVariable], pt.TensorVariable], y: float
) -> pm.Model:
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=d)
        lz.ExactObservation("y", output(x), y)
    return model


@case(lambda: float(stats.norm.logpdf(1.0, 0, np.sqrt(5))))
def exact_line() -> pm.Model:
    """A straight line."""
    return _observed(2, lambda x: x[0] + 2 * x[1], 1.0)


@case(lambda: float(stats.chi2.logpdf(1.0, 2)))
def exact_circle() -> pm.Model:
    """A circle."""
    return _observed(2, lambda x: (x**2).sum(), 1.0)


@case(lambda: float(stats.chi2.logpdf(3.0, 5)))
def exact_sphere() -> pm.Model:
    """A sphere in five dimensions."""
    return _observed(5, lambda x: (x**2).sum(), 3.0)


@case(lambda: float(np.log(k0(1.0) / np.pi)))
def exact_product() -> pm.Model:
    """Two hyperbolas."""
    return _observed(2, lambda x: x[0] * x[1], 1.0)


@case(lambda: float(np.log(k0(1e-3) / np.pi)))
def exact_product_near_zero() -> pm.Model:
    """Two hyperbolas that almost touch."""
    return _observed(2, lambda x: x[0] * x[1], 1e-3)


@case(lambda: np.inf)
def exact_crossing() -> pm.Model:
    """Two lines that cross, where the density is infinite."""
    return _observed(2, lambda x: x[0] * x[1], 0.0)


@case(lambda: float(np.log(k0(0.5) / (2 * np.pi))))
def exact_two_branches() -> pm.Model:
    """A hyperbola of two branches."""
    return _observed(2, lambda x: x[1] ** 2 - x[0] ** 2, 1.0)


def _sheets_exact(y: float) -> float:
    def log_f(x: np.ndarray) -> np.ndarray:
        return stats.norm.logpdf(x) + stats.norm.logpdf(y, 2 * (x**3 - 2 * x), 0.1)

    return log_integral(log_f, interval(-9, -3, 0, 3, 9))


@case(lambda: _sheets_exact(0.5))
def exact_three_sheets() -> pm.Model:
    """A cubic with a little noise: three sheets of different mass."""
    return _observed(2, lambda x: 2 * (x[0] ** 3 - 2 * x[0]) + 0.1 * x[1], 0.5)


@case(lambda: _sheets_exact(2.1))
def exact_minor_sheet() -> pm.Model:
    """The same cubic where it turns: two sheets close together, and one far away."""
    return _observed(2, lambda x: 2 * (x[0] ** 3 - 2 * x[0]) + 0.1 * x[1], 2.1)


@case(lambda: float(stats.chi2.logpdf(4.0, 1)))
def exact_points() -> pm.Model:
    """Two points: nothing is left to move."""
    return _observed(1, lambda x: x[0] ** 2, 4.0)
