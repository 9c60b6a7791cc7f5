"""Models of natural image patches: generative ones of one datum, and an analysis model.

A generative model has latent variables behind each datum x, and ``log Z`` is log p(x), for
`pymc_logz.marginal_log_likelihood` to find for many. An analysis model scores x itself, as the
products of experts do, and has one log Z for all data: `pymc_logz.log_density`.
"""

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import stats

from pymc_logz.energies.base import Draws, Energy, float64
from pymc_logz.energies.experts import MAX_HIDDEN, gaussian_rbm_log_z

SOURCE = "Sohl-Dickstein and Culpepper (2012), arXiv:1205.1925, equations 30 to 40"


def linear_generative(
    bases: np.ndarray, x: np.ndarray, prior: str = "normal", noise: float = 0.1
) -> Energy:
    """Linear generative model of one datum, ``x = Phi a + noise``, with a normal or Laplace prior.

    With the normal prior x is normal, and ``log Z = log N(x; 0, Phi Phi' + noise**2 I)``. The
    Laplace prior ``exp(-|a|_1) / 2**L`` has no closed form; the paper prints 2 for ``2**L``.

    Parameters
    ----------
    bases : numpy.ndarray
        Phi, shape (M, L); L may be larger than M.
    x : numpy.ndarray
        Datum, shape (M,).
    prior : str
        ``"normal"`` or ``"laplace"``, of each coefficient.
    noise : float
        Standard deviation of the noise.

    Returns
    -------
    Energy
        Free variable ``a``, shape (L,); data ``x`` and ``bases``, which ``pm.set_data`` exchanges
        (log Z is that of the first). Log Z is NaN where it is not known.

    Raises
    ------
    ValueError
        If shapes do not fit, the noise is not positive, or the prior has another name.

    References
    ----------
    Sohl-Dickstein & Culpepper (2012), arXiv 1205.1925, eq. 30 to 32; Olshausen & Field (1997),
    doi 10.1016/S0042-6989(97)00169-7.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz import energies
    >>> round(energies.linear_generative(np.eye(2), np.zeros(2), noise=1.0).log_z, 4)
    -2.531
    """
    bases, x = _checked(bases, x)
    priors = {"normal": pm.Normal, "laplace": pm.Laplace}
    if prior not in priors or not noise > 0:
        raise ValueError(
            f"prior={prior!r} must be one of {tuple(priors)}, and noise={noise} must be positive"
        )
    n_pixels, n_causes = bases.shape
    with pm.Model() as model:
        a = priors[prior]("a", *float64(0, 1), shape=n_causes)
        mean = pm.Data("bases", bases) @ a
        pm.Normal("image", mean, *float64(noise), observed=pm.Data("x", x))
    if prior == "laplace":
        return Energy("linear_generative_laplace", model, np.nan, None, SOURCE)
    covariance = bases @ bases.T + noise**2 * np.eye(n_pixels)
    log_z = float(stats.multivariate_normal(np.zeros(n_pixels), covariance).logpdf(x))
    of_posterior = np.linalg.inv(np.eye(n_causes) + bases.T @ bases / noise**2)

    def sample(rng: np.random.Generator, n: int) -> Draws:
        mean = of_posterior @ bases.T @ x / noise**2
        return {"a": rng.multivariate_normal(mean, of_posterior, size=n)}

    return Energy("linear_generative", model, log_z, sample, SOURCE)


def bilinear_generative(
    bases: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    x: np.ndarray,
    noise: float = 0.1,
    centred: bool = False,
) -> Energy:
    """Bilinear generative model of one datum, ``x = Phi ((Theta c) * (Psi d)) + noise``.

    ``c`` has independent Laplace priors, ``d`` is not negative and has exponential ones: PyMC moves
    log d. Its density is not known in closed form.

    Data say with a precision of the noise what ``a = (Theta c) * s`` is, ``s = Psi d``, and so how
    far c may go depends on d by orders of magnitude. Centred, the model has
    ``b = (Theta c) * sqrt(1 + (s / noise)**2)`` in the place of c: that is c where s is lost in the
    noise, a in units of the noise where it is not, and moves with one step size. The density of x
    is the same.

    Parameters
    ----------
    bases : numpy.ndarray
        Phi, shape (M, L).
    first : numpy.ndarray
        Theta, shape (L, K_c).
    second : numpy.ndarray
        Psi, shape (L, K_d).
    x : numpy.ndarray
        Datum, shape (M,).
    noise : float
        Standard deviation of the noise.
    centred : bool
        Whether the free variables are b and d. Theta must be square then, with an inverse, and Psi
        not negative.

    Returns
    -------
    Energy
        Free variables ``c``, shape (K_c,), or ``b``, shape (L,), and ``d``, shape (K_d,); data
        ``x``, ``bases``, ``second``, and ``first`` or its inverse ``unmixing`` and ``log_det``,
        which ``pm.set_data`` exchanges. Log Z is NaN.

    Raises
    ------
    ValueError
        If shapes do not fit, the noise is not positive, or the matrices cannot be centred.

    References
    ----------
    Sohl-Dickstein & Culpepper (2012), arXiv 1205.1925, eq. 33 to 35, of which eq. 34 prints 2 for
    ``2**K_c``; Culpepper, Sohl-Dickstein & Olshausen (2011), Building a better probabilistic model
    of images by factorization, doi 10.1109/ICCV.2011.6126473.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz import energies
    >>> energy = energies.bilinear_generative(np.eye(3), np.ones((3, 2)), np.eye(3), np.zeros(3))
    >>> [variable.name for variable in energy.model.free_RVs]
    ['c', 'd']
    """
    bases, x = _checked(bases, x)
    first, second = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    n_causes = bases.shape[1]
    if first.ndim != 2 or second.ndim != 2 or {len(first), len(second)} != {n_causes}:
        raise ValueError(
            f"first of shape {first.shape} and second of shape {second.shape} must have a row for "
            f"each of the {n_causes} columns of bases"
        )
    if not noise > 0:
        raise ValueError(f"noise={noise} must be positive")
    square = first.shape[0] == first.shape[1] == np.linalg.matrix_rank(first)
    if centred and (not square or np.any(second < 0) or not np.all(second.any(axis=1))):
        raise ValueError(
            f"first, of shape {first.shape}, must be square with an inverse, and second, with "
            f"smallest entry {second.min()}, must not be negative nor have rows of zeros, where "
            "centred=True"
        )
    with pm.Model() as model:
        psi = pm.Data("second", second)
        c = None if centred else pm.Laplace("c", *float64(0, 1), shape=first.shape[1])
        strength = psi @ pm.Exponential("d", *float64(1), shape=second.shape[1])
        if c is None:
            wide = pt.sqrt(1 + (strength / noise) ** 2)
            unmixing = pm.Data("unmixing", np.linalg.inv(first))
            constant = pm.Data("log_det", np.linalg.slogdet(first)[1])
            given = (unmixing, constant, wide)
            b = pm.CustomDist("b", *given, logp=_logp_of_b, dist=_b, shape=n_causes)
            a = b * strength / wide
        else:
            a = (pm.Data("first", first) @ c) * strength
        mean = pm.Data("bases", bases) @ a
        pm.Normal("image", mean, *float64(noise), observed=pm.Data("x", x))
    return Energy("bilinear_generative", model, np.nan, None, SOURCE)


def _b(unmixing: Any, log_det: Any, wide: Any, size: Any) -> Any:
    """Draws of ``b = (Theta c) * wide`` for Laplace c, by the inverse of Theta."""
    c = pm.Laplace.dist(*float64(0, 1), shape=(unmixing.shape[0],))
    return pt.linalg.solve(unmixing, c) * wide


def _logp_of_b(b: Any, unmixing: Any, log_det: Any, wide: Any) -> Any:
    """Their joint log density."""
    c = unmixing @ (b / wide)
    return -pt.abs(c).sum() - pt.log(wide).sum() - log_det - unmixing.shape[0] * np.log(2)


def mean_covariance_rbm(
    covariance_filters: np.ndarray,
    pooling: np.ndarray,
    covariance_bias: np.ndarray,
    mean_filters: np.ndarray,
    mean_bias: np.ndarray,
    visible_bias: np.ndarray,
    sigma: float = 1.0,
    mean_square: bool = False,
) -> Energy:
    """Mean-covariance restricted Boltzmann machine of M real numbers x, hidden units summed out.

    Its energy, with the rows C_l and W_j of the filters::

        E(x) = - sum_k log(1 + exp(sum_l P_lk (C_l x)**2 / (|x|**2 + 1/2) / 2 + bc_k))
               - sum_j log(1 + exp(W_j x + bm_j)) + |x|**2 / (2 sigma**2) - x bv

    Released code has ``|x|**2 / M + 1/2`` in the denominator, by which units see how long x is as
    long as its mean square is not much above 1/2, and entries of P that are not positive, so that a
    covariance unit which is on forbids what its filters see. Log Z is known where P is zero: a
    mixture of 2**J normals.

    Parameters
    ----------
    covariance_filters : numpy.ndarray
        C, shape (L, M).
    pooling : numpy.ndarray
        P, shape (L, K).
    covariance_bias : numpy.ndarray
        bc, shape (K,).
    mean_filters : numpy.ndarray
        W, shape (J, M).
    mean_bias : numpy.ndarray
        bm, shape (J,).
    visible_bias : numpy.ndarray
        bv, shape (M,); the paper's "b^v in R^K" is a misprint.
    sigma : float
        Standard deviation of x where nothing else holds it.
    mean_square : bool
        Whether the denominator has the mean square of x, as Ranzato and Hinton's code, and not the
        sum of squares, as Sohl-Dickstein and Culpepper's equation.

    Returns
    -------
    Energy
        Free variable ``x``, shape (M,). Log Z is NaN unless P is zero and J is at most 16.

    Raises
    ------
    ValueError
        If shapes do not fit, or sigma is not positive.

    References
    ----------
    Sohl-Dickstein & Culpepper (2012), arXiv 1205.1925, eq. 39 and 40; Ranzato & Hinton (2010),
    doi 10.1109/CVPR.2010.5539962.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz import energies
    >>> nothing = energies.mean_covariance_rbm(
    ...     np.eye(2), np.zeros((2, 1)), np.zeros(1), np.zeros((1, 2)), np.zeros(1), np.zeros(2)
    ... )
    >>> round(float(nothing.log_z - np.log(2 * np.pi) - 2 * np.log(2)), 12)
    0.0
    """
    given = (covariance_filters, pooling, covariance_bias, mean_filters, mean_bias, visible_bias)
    c, p, bc, w, bm, bv = (np.asarray(one, dtype=float) for one in given)
    m = bv.size
    fits = (
        c.shape == (len(p), m) and p.shape == (len(c), bc.size) and w.shape == (bm.size, m)
    ) and sigma > 0
    if not fits:
        raise ValueError(
            f"covariance_filters {c.shape}, pooling {p.shape}, covariance_bias {bc.shape}, "
            f"mean_filters {w.shape}, mean_bias {bm.shape}, visible_bias {bv.shape} must have the "
            f"shapes (L, M), (L, K), (K,), (J, M), (J,), (M,), and sigma={sigma} must be positive"
        )
    [sd] = float64(sigma)
    with pm.Model() as model:
        x = pm.Normal("x", np.float64(0), sd, shape=m)
        square = (x**2).sum()
        length = square / m if mean_square else square
        seen = 0.5 * ((c @ x) ** 2 / (length + 0.5)) @ p + bc
        energy = -pt.softplus(seen).sum() - pt.softplus(w @ x + bm).sum() - x @ bv
        # what the prior has is the energy's own quadratic term, and a constant
        pm.Potential("boltzmann", -energy + m * np.log(sd * np.sqrt(2 * np.pi)))
    log_z = np.nan
    if not p.any() and bm.size <= MAX_HIDDEN:
        constant = m * np.log(sigma) + 0.5 * sigma**2 * (bv @ bv) + np.logaddexp(0, bc).sum()
        log_z = float(constant + gaussian_rbm_log_z(sigma * w.T, sigma * bv, bm))
    return Energy("mean_covariance_rbm", model, log_z, None, SOURCE)


def _checked(bases: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    bases, x = np.asarray(bases, dtype=float), np.asarray(x, dtype=float)
    if bases.ndim != 2 or x.shape != (len(bases),):
        raise ValueError(
            f"bases of shape {bases.shape} and x of shape {x.shape} must have the shapes (M, L) "
            "and (M,)"
        )
    return bases, x
