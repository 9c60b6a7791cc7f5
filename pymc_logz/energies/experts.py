"""Densities of papers with known log Z: products of experts, and Boltzmann machines."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.special import gammaln, logsumexp

from pymc_logz.energies.base import Draws, Energy, float64

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


def _experts(
    name: str,
    filters: np.ndarray,
    energy: Callable[[Any], Any],
    log_integral: float,
    draw: Callable[[np.random.Generator, int], np.ndarray],
) -> Energy:
    """Density exp(-energy(filters x)); ``log_integral`` and ``draw`` are those of filters x."""
    if filters.ndim != 2 or np.linalg.matrix_rank(filters) < filters.shape[1]:
        raise ValueError(
            f"filters of shape {np.shape(filters)} must be a matrix (L, d) of rank d: where a "
            "direction has no filter, Z is infinite"
        )
    n_filters, d = filters.shape
    with pm.Model() as model:
        x = pm.Normal("x", *float64(0, 1), shape=d)
        log_reference = -(x**2).sum() / 2 - d / 2 * np.log(2 * np.pi)
        pm.Potential("log_experts", -energy(filters @ x) - log_reference)
    if n_filters != d:
        return Energy(name, model, np.nan, None, SOURCE)

    def sample(rng: np.random.Generator, n: int) -> Draws:
        return {"x": np.linalg.solve(filters, draw(rng, n)).T}

    log_z = log_integral - float(np.linalg.slogdet(filters)[1])
    return Energy(name, model, log_z, sample, SOURCE)


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
    return _experts(
        "laplace_experts",
        filters,
        energy=lambda u: pt.abs(u).sum(),
        log_integral=float(len(filters) * np.log(2)),
        draw=lambda rng, n: rng.laplace(size=(len(filters), n)),
    )


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
    nu = 2 * exponents - 1
    if exponents.shape != (len(filters),) or not np.all(nu > 0):
        raise ValueError(
            f"exponents={exponents} must have shape ({len(filters)},), with every entry above 0.5: "
            "otherwise Z is infinite"
        )
    log_integrals = gammaln(exponents - 0.5) - gammaln(exponents) + np.log(np.pi) / 2
    return _experts(
        "student_t_experts",
        filters,
        energy=lambda u: (exponents * pt.log1p(u**2)).sum(),
        log_integral=float(log_integrals.sum()),
        draw=lambda rng, n: (rng.standard_t(nu, size=(n, len(nu))) / np.sqrt(nu)).T,
    )


MAX_HIDDEN = 16


def gaussian_rbm(
    weights: np.ndarray,
    visible_bias: np.ndarray,
    hidden_bias: np.ndarray,
    reference_sd: float = 3.0,
) -> Energy:
    """Restricted Boltzmann machine of d normal visible and J binary hidden units.

    With the hidden units summed out, the unnormalised density of the visible units v is
    ``f(v) = exp(-|v - b|**2 / 2) * prod over j of (1 + exp(c_j + (W' v)_j))``, a mixture of 2**J
    Gaussians: one with centre ``b + W h`` for each state h of the hidden units. Hence::

        log Z = d log(2 pi) / 2 + log sum over h of exp(c h + b W h + |W h|**2 / 2)

    In PyMC the reference is ``v ~ Normal(0, reference_sd)``, and a potential replaces it by f. The
    parameters are data containers of the model, to be changed by ``pm.set_data``.

    Parameters
    ----------
    weights : numpy.ndarray
        W, shape (d, J).
    visible_bias : numpy.ndarray
        b, shape (d,).
    hidden_bias : numpy.ndarray
        c, shape (J,).
    reference_sd : float
        Standard deviation of the reference.

    Returns
    -------
    Energy
        Free variable ``v``, shape (d,); data ``weights``, ``visible_bias``, ``hidden_bias``.

    Raises
    ------
    ValueError
        If shapes do not fit, or there are more than 16 hidden units.

    References
    ----------
    Hinton & Salakhutdinov (2006), doi 10.1126/science.1127647.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz import energies
    >>> independent = energies.gaussian_rbm(np.zeros((2, 3)), np.zeros(2), np.zeros(3))
    >>> round(float(independent.log_z - np.log(2 * np.pi) - 3 * np.log(2)), 12)
    0.0
    """
    parameters = {"weights": weights, "visible_bias": visible_bias, "hidden_bias": hidden_bias}
    d = len(visible_bias)
    [sd] = float64(reference_sd)
    with pm.Model() as model:
        w, b, c = (pm.Data(name, np.asarray(a, float)) for name, a in parameters.items())
        v = pm.Normal("v", np.float64(0), sd, shape=d)
        log_reference = -((v / sd) ** 2).sum() / 2 - d * np.log(sd * np.sqrt(2 * np.pi))
        log_density = -((v - b) ** 2).sum() / 2 + pt.softplus(c + v @ w).sum()
        pm.Potential("boltzmann", log_density - log_reference)

    log_mass, centres = _states(weights, visible_bias, hidden_bias)
    log_z = float(logsumexp(log_mass))

    def sample(rng: np.random.Generator, n: int) -> Draws:
        mass = np.exp(log_mass - log_z)
        chosen = rng.choice(mass.size, size=n, p=mass / mass.sum())
        return {"v": centres[chosen] + rng.standard_normal((n, d))}

    source = "Hinton and Salakhutdinov (2006), doi:10.1126/science.1127647"
    return Energy("gaussian_rbm", model, log_z, sample, source)


def gaussian_rbm_log_z(
    weights: np.ndarray, visible_bias: np.ndarray, hidden_bias: np.ndarray
) -> float:
    """Exact log Z of `gaussian_rbm`, a sum over the states of the hidden units.

    Parameters
    ----------
    weights, visible_bias, hidden_bias : numpy.ndarray
        As of `gaussian_rbm`.

    Returns
    -------
    float
        In nats.

    Raises
    ------
    ValueError
        If shapes do not fit, or there are more than 16 hidden units.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz import energies
    >>> round(energies.gaussian_rbm_log_z(np.eye(2), np.zeros(2), np.zeros(2)), 4)
    3.786
    """
    return float(logsumexp(_states(weights, visible_bias, hidden_bias)[0]))


def _states(w: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log mass (2**J,) and centre (2**J, d) of the Gaussian of each state of the hidden units."""
    n_hidden = len(c)
    if n_hidden > MAX_HIDDEN or np.shape(w) != (len(b), n_hidden):
        raise ValueError(
            f"weights have shape {np.shape(w)} for biases of length {len(b)} and {n_hidden}; they "
            f"must be (visible, hidden) with at most {MAX_HIDDEN} hidden units, whose 2**J states "
            "are summed over"
        )
    hidden = np.array(list(product((0.0, 1.0), repeat=n_hidden)))
    shift = hidden @ np.transpose(w)
    log_mass = hidden @ c + shift @ b + (shift**2).sum(axis=1) / 2
    return log_mass + len(b) * np.log(2 * np.pi) / 2, b + shift
