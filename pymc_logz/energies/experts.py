"""Products of experts.

The energy of a point x in d dimensions is a sum over the rows of a matrix F (the filters) of a
function of one number each, u = F x::

    E(x) = sum over l of e(u_l),   p(x) = exp(-E(x)) / Z

With as many filters as dimensions, u is only a change of variables, so the u_l are independent
and log Z is the sum of one-dimensional integrals minus log|det F|. With more it is not known. See
equations 36 to 38 of J. Sohl-Dickstein, B. Culpepper (2012), Hamiltonian annealed importance
sampling for partition function estimation, arXiv:1205.1925.

In PyMC the reference is ``x ~ Normal(0, 1)``, and a potential replaces it by exp(-E).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable
from scipy.special import gammaln

from pymc_logz.energies.base import Draws, Energy, float64

type Tensor = TensorVariable[Any, Any]
SOURCE = "Sohl-Dickstein and Culpepper (2012), equations 36 to 38"


def random_filters(random_seed: int | np.random.Generator, d: int) -> np.ndarray:
    """Square matrix of independent normal filters whose rows have length 1 on average.

    Parameters
    ----------
    random_seed : int or numpy.random.Generator
        Seed.
    d : int
        Number of filters and of dimensions.

    Returns
    -------
    numpy.ndarray
        Filters, shape (d, d), one per row; invertible with probability one.

    Examples
    --------
    >>> from pymc_logz import energies
    >>> energies.random_filters(1, 3).shape
    (3, 3)
    """
    rng = np.random.default_rng(random_seed)
    return np.asarray(rng.standard_normal((d, d)) / np.sqrt(d))


def _log_abs_det(filters: np.ndarray) -> float:
    """Log absolute determinant of filters (L, d) if L = d, NaN if there are more."""
    if filters.ndim != 2 or np.linalg.matrix_rank(filters) < filters.shape[1]:
        raise ValueError(
            f"filters of shape {np.shape(filters)} must be a matrix (L, d) of rank d: where a "
            "direction has no filter, Z is infinite"
        )
    square = filters.shape[0] == filters.shape[1]
    return float(np.linalg.slogdet(filters)[1]) if square else np.nan


def _build_model(filters: np.ndarray, energy: Callable[[Tensor], Tensor]) -> pm.Model:
    """PyMC model whose log density is -energy(filters x) exactly."""
    d = filters.shape[1]
    with pm.Model() as model:
        x = pm.Normal("x", *float64(0, 1), shape=d)
        log_reference = -(x**2).sum() / 2 - d / 2 * np.log(2 * np.pi)
        pm.Potential("log_experts", -energy(filters @ x) - log_reference)
    return model


def laplace_experts(filters: np.ndarray) -> Energy:
    """Laplace experts, ``e(u) = |u|``; the energy has kinks where a filter response is zero.

    Each integral of ``exp(-|u|)`` is 2, so ``log Z = d log 2 - log|det F|``. Draws solve F x = u
    for independent Laplace u. The length of a filter plays the role of the paper's lambda.

    Parameters
    ----------
    filters : numpy.ndarray
        Filters, shape (L, d), one per row, L at least d.

    Returns
    -------
    Energy
        Free variable ``x``, shape (d,). With more than d filters there is no exact log Z (NaN), and
        there are no exact draws.

    Raises
    ------
    ValueError
        If the filters are no matrix of rank d.

    References
    ----------
    Sohl-Dickstein & Culpepper (2012), arXiv 1205.1925, eq. 36 to 38.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz import energies
    >>> round(energies.laplace_experts(np.diag([1.0, 4.0])).log_z, 12)
    0.0
    """
    log_det, d = _log_abs_det(filters), len(filters)
    exact = np.isfinite(log_det)

    def sample(rng: np.random.Generator, n: int) -> Draws:
        return {"x": np.linalg.solve(filters, rng.laplace(size=(d, n))).T}

    model = _build_model(filters, lambda u: pt.abs(u).sum())
    log_z = float(d * np.log(2)) - log_det
    return Energy("laplace_experts", model, log_z, sample if exact else None, SOURCE)


def student_t_experts(filters: np.ndarray, exponents: np.ndarray) -> Energy:
    """Student-t experts, ``e(u) = lambda log(1 + u**2)`` with one exponent lambda per filter.

    The integral of (1 + u**2)**-lambda is ``sqrt(pi) Gamma(lambda - 1/2) / Gamma(lambda)``, so::

        log Z = sum(log Gamma(lambda - 1/2) - log Gamma(lambda) + log(pi) / 2) - log|det F|

    and ``u sqrt(nu)`` is Student-t with ``nu = 2 lambda - 1`` degrees of freedom.

    Parameters
    ----------
    filters : numpy.ndarray
        Filters, shape (L, d), one per row, L at least d.
    exponents : numpy.ndarray
        Exponents lambda, shape (L,), each above 1/2; variances exist above 3/2.

    Returns
    -------
    Energy
        Free variable ``x``, shape (d,). With more than d filters there is no exact log Z (NaN), and
        there are no exact draws.

    Raises
    ------
    ValueError
        If the filters are no matrix of rank d, or an exponent is not above 1/2.

    References
    ----------
    Sohl-Dickstein & Culpepper (2012), arXiv 1205.1925, eq. 36 to 38.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz import energies
    >>> round(energies.student_t_experts(np.eye(2), np.array([1.0, 2.0])).log_z, 4)
    1.5963
    """
    exponents = np.asarray(exponents, dtype=float)
    log_det, nu = _log_abs_det(filters), 2 * exponents - 1
    exact = np.isfinite(log_det)
    if exponents.shape != (len(filters),) or not np.all(nu > 0):
        raise ValueError(
            f"exponents={exponents} must have shape ({len(filters)},), with every entry above 0.5: "
            "otherwise Z is infinite"
        )

    def sample(rng: np.random.Generator, n: int) -> Draws:
        u = rng.standard_t(nu, size=(n, len(nu))) / np.sqrt(nu)
        return {"x": np.linalg.solve(filters, u.T).T}

    model = _build_model(filters, lambda u: (exponents * pt.log1p(u**2)).sum())
    log_integrals = gammaln(exponents - 0.5) - gammaln(exponents) + np.log(np.pi) / 2
    log_z = float(log_integrals.sum()) - log_det
    return Energy("student_t_experts", model, log_z, sample if exact else None, SOURCE)
