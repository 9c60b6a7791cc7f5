"""Targets with several modes, or one long curved one."""

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import digamma, gammaln

from pymc_logz.energies.base import Draws, Energy, float64
from pymc_logz.energies.one_integral import log_trapezoid, sample_density

MODES = np.array([0.1, 0.9]), np.array([0.5, -0.5]), 0.1
"""Weights, centres and standard deviation of `two_gaussians`."""


def _log_add(a: Any, b: Any) -> Any:
    """Log of exp(a) + exp(b), with a gradient that stays finite however far apart they are."""
    return a + pt.softplus(b - a)


def two_gaussians(d: int = 20) -> Energy:
    """Two narrow, unequal Gaussians in a wide box: the test problem of PyMC's own SMC.

    ``x ~ Uniform(-2, 2)**d`` with a potential that is the log density of
    ``0.1 Normal(0.5, 0.1**2 I) + 0.9 Normal(-0.5, 0.1**2 I)``. The mixture integrates to one (the
    box ends 15 standard deviations away, which leaves out less than 1e-49) and the prior density
    is 4**-d, hence ``log Z = -d log 4``. The larger mode holds 0.9 of the mass.

    Parameters
    ----------
    d : int
        Number of dimensions.

    Returns
    -------
    Energy
        Free variable ``x`` in (-2, 2), shape (d,).

    Examples
    --------
    >>> from pymc_logz import energies
    >>> round(energies.two_gaussians().log_z, 8)
    -27.72588722
    """
    weights, centres, sd = MODES
    log_constants = np.log(weights) - d * np.log(sd * np.sqrt(2 * np.pi))
    with pm.Model() as model:
        x = pm.Uniform("x", *float64(-2, 2), shape=d)
        first, second = (
            constant - ((x - centre) ** 2).sum() / (2 * sd**2)
            for constant, centre in zip(log_constants, centres, strict=True)
        )
        pm.Potential("log_mixture", _log_add(first, second))

    def sample(rng: np.random.Generator, n: int) -> Draws:
        centre = rng.choice(centres, size=(n, 1), p=weights)
        return {"x": centre + sd * rng.standard_normal((n, d))}

    log_z = float(-d * np.log(4.0))
    return Energy("two_gaussians", model, log_z, sample, "PyMC's tests of sample_smc")


def two_gaussians_log_z(betas: np.ndarray, d: int = 20) -> np.ndarray:
    """Exact log Z of `two_gaussians` at each inverse temperature, between its prior and itself.

    Where the mode at c is the nearer one, that is on one side of ``S = sum of x = 0``, the mixture
    is that mode times a factor, between one and a constant, that depends on S alone. Under the
    mode to the power of beta, truncated to the box, the coordinates are independent, so that the
    distribution of S is a convolution.

    Parameters
    ----------
    betas : numpy.ndarray
        Shape (K,).
    d : int
        Number of dimensions.

    Returns
    -------
    numpy.ndarray
        Shape (K,), within 1e-6.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_logz import energies
    >>> log_z = energies.two_gaussians_log_z(np.array([0.0, 1.0]))
    >>> bool(abs(log_z - [0, -20 * np.log(4)]).max() < 1e-6)
    True
    """
    return np.array([np.logaddexp.reduce(_log_modes(float(beta), d)) for beta in betas])


def _log_modes(beta: float, d: int, n_grid: int = 2**14) -> list[float]:
    """Log of what each side of S = 0 adds to Z at one inverse temperature."""
    width = 4 / n_grid
    x = -2 + (np.arange(n_grid) + 0.5) * width
    total = -2 * d + (np.arange(d * (n_grid - 1) + 1) + 0.5 * d) * width
    weights, centres, sd = MODES
    parts = []
    for k, centre in enumerate(centres):
        log_mode = -beta * ((x - centre) / sd) ** 2 / 2
        log_constant = float(np.logaddexp.reduce(log_mode) + np.log(width))
        mass = np.exp(log_mode - log_constant) * width
        length = next_fast_len(total.size)
        law = np.maximum(irfft(rfft(mass, length) ** d, length)[: total.size], 0.0)
        side = np.sign(centre) * total
        here = side > 0 if centre > 0 else side >= 0
        other = np.log1p(weights[1 - k] / weights[k] * np.exp(-side[here] / sd**2))
        log_peak = np.log(weights[k]) - d * np.log(sd * np.sqrt(2 * np.pi))
        share = float(law[here] @ np.exp(beta * other))
        parts.append(np.log(share) + beta * log_peak + d * (log_constant - np.log(4)))
    return parts


def ridge(n: int = 100, y: int = 50) -> Energy:
    """Two probabilities of which only the product is identified: the posterior is a curved ridge.

    ``p1, p2 ~ Uniform(0, 1)`` and ``y ~ Binomial(n, p1 p2)``. The product w has density -log w, so
    with the Beta function B and its derivative in the first argument::

        Z = C(n, y) * integral of -log(w) w**y (1 - w)**(n - y)
          = C(n, y) B(y + 1, n - y + 1) (digamma(n + 2) - digamma(y + 1))
          = (digamma(n + 2) - digamma(y + 1)) / (n + 1)

    Draws: w is proposed from Beta(y, n - y + 1) and kept with probability ``-e w log w``; given w,
    log p1 is uniform on (log w, 0).

    Parameters
    ----------
    n : int
        Number of trials.
    y : int
        Number of successes, in [1, n].

    Returns
    -------
    Energy
        Free variables ``p1`` and ``p2`` in (0, 1).

    Raises
    ------
    ValueError
        If y is not in [1, n].

    Examples
    --------
    >>> from pymc_logz import energies
    >>> round(energies.ridge().log_z, 8)
    -4.97455187
    """
    if not 1 <= y <= n:
        raise ValueError(f"y={y} must lie in [1, n={n}]: with y=0 there is no exact sampler")
    with pm.Model() as model:
        p1, p2 = pm.Uniform("p1", 0, 1), pm.Uniform("p2", 0, 1)
        pm.Binomial("y", n=n, p=p1 * p2, observed=y)

    def sample(rng: np.random.Generator, size: int) -> Draws:
        log_w = np.empty(0)
        while len(log_w) < size:
            w = rng.beta(y, n - y + 1, 2 * size)
            log_w = np.append(log_w, np.log(w[rng.random(len(w)) < -np.e * w * np.log(w)]))
        log_p1 = rng.random(size) * log_w[:size]
        return {"p1": np.exp(log_p1), "p2": np.exp(log_w[:size] - log_p1)}

    log_z = float(np.log((digamma(n + 2) - digamma(y + 1)) / (n + 1)))
    return Energy("ridge", model, log_z, sample, "product of two probabilities")


def _log_shell(r: Any) -> Any:
    """Log density of Normal(2, 0.1) at r, an array or a tensor."""
    return -np.log(0.1 * np.sqrt(2 * np.pi)) - ((r - 2.0) / 0.1) ** 2 / 2


def gaussian_shells(d: int = 10, weights: tuple[float, float] = (0.5, 1.5)) -> Energy:
    """Two thin spherical shells of unequal mass in a box.

    ``x ~ Uniform(-6, 6)**d`` and a potential that is the log of the weighted sum of
    ``Normal(|x - c|; radius 2, sd 0.1)`` for the centres c = (-3.5, 0, ...) and (3.5, 0, ...).
    In spherical coordinates, with the area of the unit sphere in d dimensions::

        Z = 12**-d (sum of weights) 2 pi**(d/2) / Gamma(d/2)
            * integral over r of r**(d - 1) Normal(r; 2, 0.1)

    integrated by the trapezoidal rule. The shells pass the walls at a distance of 5 standard
    deviations; what lies outside is 1.2e-8 of Z for d = 2, and 7e-14 for d = 10. Weights that sum
    to 2 give the value -14.59 published for two shells of weight 1 and d = 10.

    Parameters
    ----------
    d : int
        Number of dimensions, at least 2.
    weights : tuple of float
        Weights of the left and of the right shell.

    Returns
    -------
    Energy
        Free variable ``x`` in (-6, 6), shape (d,).

    Raises
    ------
    ValueError
        If d is below 2.

    References
    ----------
    Feroz, Hobson & Bridges (2009), doi 10.1111/j.1365-2966.2009.14548.x, table 2.

    Examples
    --------
    >>> from pymc_logz import energies
    >>> round(energies.gaussian_shells().log_z, 2)
    -14.59
    """
    if d < 2:
        raise ValueError(f"d={d} must be at least 2: a shell in one dimension is two points")
    centre = 3.5 * np.eye(d)[0]
    with pm.Model() as model:
        x = pm.Uniform("x", *float64(-6, 6), shape=d)
        left, right = (
            np.log(weight) + _log_shell(pt.sqrt(((x - c) ** 2).sum()))
            for weight, c in zip(weights, (-centre, centre), strict=True)
        )
        pm.Potential("log_shells", _log_add(left, right))

    def log_radial(r: np.ndarray) -> Any:
        """Log of the integrand of the radius."""
        return (d - 1) * np.log(r) + _log_shell(r)

    def sample(rng: np.random.Generator, n: int) -> Draws:
        direction = rng.standard_normal((n, d))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        r = sample_density(rng, n, log_radial, *bounds)
        sign = rng.choice([-1, 1], size=(n, 1), p=np.array(weights) / sum(weights))
        return {"x": sign * centre + r[:, None] * direction}

    # ten standard deviations inwards, and 20 + d outwards
    bounds = (1.0, 2.0 + (20 + d) * 0.1)
    log_area = np.log(2) + d / 2 * np.log(np.pi) - gammaln(d / 2)
    log_z = log_area + log_trapezoid(log_radial, *bounds) + np.log(sum(weights)) - d * np.log(12)
    return Energy("gaussian_shells", model, float(log_z), sample, "Feroz, Hobson, Bridges (2009)")
