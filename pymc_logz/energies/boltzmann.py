"""A restricted Boltzmann machine with normal visible units: many modes, and parameters to learn."""

from itertools import product

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.special import logsumexp

from pymc_logz.energies.base import Draws, Energy, float64

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

    def sample(rng: np.random.Generator, n: int) -> Draws:
        log_mass, centres = _states(weights, visible_bias, hidden_bias)
        mass = np.exp(log_mass - logsumexp(log_mass))
        chosen = rng.choice(mass.size, size=n, p=mass / mass.sum())
        return {"v": centres[chosen] + rng.standard_normal((n, d))}

    log_z = gaussian_rbm_log_z(weights, visible_bias, hidden_bias)
    source = "Hinton and Salakhutdinov (2006), doi:10.1126/science.1127647"
    return Energy("gaussian_rbm", model, log_z, sample, source)


def gaussian_rbm_log_z(
    weights: np.ndarray, visible_bias: np.ndarray, hidden_bias: np.ndarray
) -> float:
    """Exact log Z of `gaussian_rbm`, a sum over the states of the hidden units.

    Parameters
    ----------
    weights : numpy.ndarray
        Shape (d, J).
    visible_bias : numpy.ndarray
        Shape (d,).
    hidden_bias : numpy.ndarray
        Shape (J,).

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
