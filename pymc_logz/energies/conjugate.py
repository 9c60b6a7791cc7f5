"""Count models whose conjugate prior gives log Z in closed form."""

from collections.abc import Sequence

import numpy as np
import pymc as pm
from scipy.special import betaln, gammaln, logsumexp, softmax

from pymc_logz.energies.base import Draws, Energy, float64


def beta_bernoulli(
    n: int = 100,
    successes: int = 50,
    a: float = 1.0,
    b: float = 1.0,
    initval: float | None = None,
) -> Energy:
    """Probability of success of a coin: Beta prior, a sequence of Bernoulli observations.

    With k successes in n observations Z is the integral of ``p**k (1 - p)**(n - k)`` under
    Beta(a, b), that is ``B(a + k, b + n - k) / B(a, b)``. There is no binomial coefficient, since
    the order of the observations is part of the data.

    Parameters
    ----------
    n : int
        Number of observations.
    successes : int
        How many of them are 1, in [0, n].
    a, b : float
        Parameters of the Beta prior.
    initval : float, optional
        Initial value of p in the PyMC model.

    Returns
    -------
    Energy
        Free variable ``p`` in (0, 1).

    Raises
    ------
    ValueError
        If there are more successes than observations, or fewer than none.

    References
    ----------
    Gelman et al. (2013), Bayesian Data Analysis, section 2.4.

    Examples
    --------
    >>> from pymc_logz import energies
    >>> round(energies.beta_bernoulli().log_z, 2)
    -71.4
    """
    if not 0 <= successes <= n:
        raise ValueError(f"successes={successes} must lie in [0, n={n}]")
    with pm.Model() as model:
        p = pm.Beta("p", *float64(a, b), initval=initval)
        pm.Bernoulli("y", p, observed=np.repeat([1, 0], [successes, n - successes]))

    def sample(rng: np.random.Generator, size: int) -> Draws:
        return {"p": rng.beta(a + successes, b + n - successes, size)}

    log_z = float(betaln(a + successes, b + n - successes) - betaln(a, b))
    return Energy("beta_bernoulli", model, log_z, sample, "textbook conjugate model")


def _log_poisson_gamma(
    counts: np.ndarray, shape: np.ndarray | float, rate: np.ndarray | float
) -> np.ndarray:
    """Log marginal probability of Poisson counts whose rate is Gamma(shape, rate)."""
    total, n = counts.sum(), counts.size
    log_prior_constant = shape * np.log(rate) - gammaln(shape)
    log_posterior_constant = (shape + total) * np.log(rate + n) - gammaln(shape + total)
    return np.asarray(log_prior_constant - log_posterior_constant - gammaln(counts + 1).sum())


def poisson_gamma(
    counts: Sequence[int] = (0, 1, 0, 2, 0), shape: float = 0.5, rate: float = 0.2
) -> Energy:
    """Rate of rare events: Gamma prior, Poisson counts; the posterior is strongly skewed.

    With s the sum of n counts y, multiply the densities and recognise Gamma(shape + s, rate + n)::

        Z = rate**shape / Gamma(shape) * Gamma(shape + s) / (rate + n)**(shape + s) / prod(y!)

    Parameters
    ----------
    counts : sequence of int
        Observed counts.
    shape, rate : float
        Parameters of the Gamma prior, mean ``shape / rate``.

    Returns
    -------
    Energy
        Free variable ``rate`` > 0.

    References
    ----------
    Gelman et al. (2013), Bayesian Data Analysis, section 2.6.

    Examples
    --------
    >>> from pymc_logz import energies
    >>> round(energies.poisson_gamma().log_z, 4)
    -6.6396
    """
    y = np.asarray(counts, dtype=int)
    with pm.Model() as model:
        events = pm.Gamma("rate", *float64(shape, rate))
        pm.Poisson("y", events, observed=y)

    def sample(rng: np.random.Generator, size: int) -> Draws:
        return {"rate": rng.gamma(shape + y.sum(), 1 / (rate + y.size), size)}

    log_z = float(_log_poisson_gamma(y, shape, rate))
    return Energy("poisson_gamma", model, log_z, sample, "textbook conjugate model")


def skewed_bimodal(count: int = 3) -> Energy:
    """Rate of events when one count cannot tell a quiet process from a busy one.

    The prior is an equal mixture of Gamma(2, 2) and Gamma(40, 4), means 1 and 10, and one Poisson
    count is observed. Each part is conjugate: Z is the mean of the two negative binomial
    probabilities, and the posterior mixes Gamma(2 + count, 3) and Gamma(40 + count, 5). For the
    default the weights are 0.84 and 0.16, and both modes are skewed.

    Parameters
    ----------
    count : int
        The observed count.

    Returns
    -------
    Energy
        Free variable ``rate`` > 0.

    References
    ----------
    Gelman et al. (2013), Bayesian Data Analysis, section 2.6, for each part.

    Examples
    --------
    >>> from pymc_logz import energies
    >>> round(energies.skewed_bimodal().log_z, 4)
    -3.2435
    """
    shapes, rates, weights = np.array([2.0, 40.0]), np.array([2.0, 4.0]), np.array([0.5, 0.5])
    with pm.Model() as model:
        rate = pm.Mixture("rate", w=weights, comp_dists=pm.Gamma.dist(alpha=shapes, beta=rates))
        pm.Poisson("y", rate, observed=count)
    log_parts = np.log(weights) + _log_poisson_gamma(np.array([count]), shapes, rates)
    posterior_weights = softmax(log_parts)

    def sample(rng: np.random.Generator, size: int) -> Draws:
        part = rng.choice(2, size=size, p=posterior_weights)
        return {"rate": rng.gamma((shapes + count)[part], 1 / (rates + 1)[part])}

    log_z = float(logsumexp(log_parts))
    return Energy("skewed_bimodal", model, log_z, sample, "mixture of conjugate priors")
