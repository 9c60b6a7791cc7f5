"""Models whose integrals, or sums over integers, can be written down."""

from collections.abc import Sequence

import numpy as np
import pymc as pm
from scipy import stats
from scipy.special import betaln, gammaln, logsumexp, softmax

from pymc_logz.energies.base import Draws, Energy, float64

COAL_MINING = (
    *(4, 5, 4, 1, 0, 4, 3, 4, 0, 6, 3, 3, 4, 0, 2, 6, 3, 3, 5, 4, 5, 3, 1, 4, 4, 1, 5, 5, 3, 4),
    *(2, 5, 2, 2, 3, 4, 2, 1, 3, 2, 2, 1, 1, 1, 1, 3, 0, 0, 1, 0, 1, 1, 0, 0, 3, 1, 0, 3, 2, 2),
    *(0, 1, 1, 1, 0, 1, 0, 1, 0, 0, 0, 2, 1, 0, 0, 0, 1, 1, 0, 2, 3, 3, 1, 1, 2, 1, 1, 1, 1, 2),
    *(3, 3, 0, 0, 0, 1, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 1),
)
"""Explosions in British coal mines with ten or more deaths, of each year from 1851 to 1962: 191 in
all, counted from the dates in Jarrett (1979), A note on the intervals between coal-mining
disasters, Biometrika 66, 191, doi 10.1093/biomet/66.1.191."""


def coal_mining(counts: Sequence[int] = COAL_MINING, rate: float = 1.0) -> Energy:
    """Year of a change between two rates of accidents: one integer, two continuous variables.

    Yearly counts are Poisson with one rate up to the year of the change, and with another after it.
    The year is uniform, and each rate exponential. Given the year both rates integrate out, which
    leaves a sum over years ::

        Z = 1 / n  sum_t  g(y_1 .. y_t) g(y_t+1 .. y_n),
        g(y) = b Gamma(1 + sum y) / (b + len y)**(1 + sum y) / prod y!

    Parameters
    ----------
    counts : sequence of int
        Counts of the years.
    rate : float
        Rate b of the exponential priors.

    Returns
    -------
    Energy
        Free variables ``change`` in 0 .. n - 1, the index of the last year at the first rate, and
        ``early`` and ``late``, the two rates per year.

    References
    ----------
    Carlin, Gelfand & Smith (1992), Hierarchical Bayesian analysis of changepoint problems, Applied
    Statistics 41, 389, doi 10.2307/2347570.

    Examples
    --------
    >>> from pymc_logz import energies
    >>> round(energies.coal_mining().log_z, 2)
    -177.52
    """
    y = np.asarray(counts)
    n, years = y.size, np.arange(y.size)
    with pm.Model() as model:
        change = pm.DiscreteUniform("change", 0, n - 1)
        early, late = (pm.Exponential(name, np.float64(rate)) for name in ("early", "late"))
        pm.Poisson("y", pm.math.switch(years <= change, early, late), observed=y)
    total = np.cumsum(y)
    shapes = 1.0 + np.stack([total, total[-1] - total])
    rates = rate + np.stack([years + 1, n - 1 - years])
    log_g = np.log(rate) + gammaln(shapes) - shapes * np.log(rates)
    log_terms = log_g.sum(axis=0) - gammaln(y + 1).sum() - np.log(n)

    def sample(rng: np.random.Generator, size: int) -> Draws:
        change = rng.choice(n, size, p=softmax(log_terms))
        early, late = rng.gamma(shapes[:, change]) / rates[:, change]
        return {"change": change, "early": early, "late": late}

    log_z = float(logsumexp(log_terms))
    return Energy("coal_mining", model, log_z, sample, "Carlin, Gelfand & Smith (1992)")


def thinned_poisson(seen: int = 7, rate: float = 20.0, share: float = 0.3) -> Energy:
    """How many there are of which each is seen with a known probability: an integer alone.

    The number N is Poisson, and what is seen of it binomial. So what is seen is Poisson too, with
    the rate times the share, and what is not seen is Poisson by itself.

    Parameters
    ----------
    seen : int
        How many are seen.
    rate : float
        Mean of N.
    share : float
        Probability that one of them is seen.

    Returns
    -------
    Energy
        Free variable ``n``, an integer without an upper end.

    Examples
    --------
    >>> from pymc_logz import energies
    >>> round(energies.thinned_poisson().log_z, 4)
    -1.9828
    """
    with pm.Model() as model:
        n = pm.Poisson("n", *float64(rate))
        pm.Binomial("y", n=n, p=np.float64(share), observed=seen)

    def sample(rng: np.random.Generator, size: int) -> Draws:
        return {"n": seen + rng.poisson(rate * (1.0 - share), size)}

    log_z = float(stats.poisson.logpmf(seen, rate * share))
    return Energy("thinned_poisson", model, log_z, sample, "thinning of a Poisson distribution")


def labelled_mixture(
    values: Sequence[float] = (-2.1, -1.4, -2.6, -1.9, 1.2, 2.4, 1.7, 2.9, 0.2, 2.0),
    spread: float = 3.0,
    sd: float = 1.0,
    n_nodes: int = 801,
) -> Energy:
    """Two normal groups with unknown means, and a free label for each observation.

    Labels are fair coins. Summed out one by one they leave a mixture of two normals for each
    observation, whose product is integrated over both means by the trapezoidal rule.

    Parameters
    ----------
    values : sequence of float
        Observations; those given are made up, two groups and one in the middle.
    spread : float
        Standard deviation of the prior of both means.
    sd : float
        Standard deviation of an observation around the mean of its group.
    n_nodes : int
        Nodes of the rule in each direction.

    Returns
    -------
    Energy
        Free variables ``mean``, shape (2,), and ``label``, one 0 or 1 for each observation. Names
        of groups are arbitrary, so that the posterior has two modes of equal mass.

    Examples
    --------
    >>> from pymc_logz import energies
    >>> round(energies.labelled_mixture().log_z, 3)
    -21.704
    """
    x = np.asarray(values, dtype=float)
    with pm.Model() as model:
        mean = pm.Normal("mean", *float64(0.0, spread), shape=2)
        label = pm.Bernoulli("label", np.float64(0.5), shape=x.size)
        pm.Normal("y", mean[label], np.float64(sd), observed=x)
    nodes = np.linspace(-8.0 * spread, 8.0 * spread, n_nodes)
    one, other = np.meshgrid(nodes, nodes, indexing="ij")
    log_density = stats.norm.logpdf(one, 0, spread) + stats.norm.logpdf(other, 0, spread)
    for value in x:
        log_density += np.log(0.5) + np.logaddexp(
            stats.norm.logpdf(value, one, sd), stats.norm.logpdf(value, other, sd)
        )
    log_z = float(logsumexp(log_density) + 2.0 * np.log(nodes[1] - nodes[0]))
    return Energy("labelled_mixture", model, log_z, None, "labels summed out, means by quadrature")


def beta_bernoulli(
    n: int = 100, successes: int = 50, a: float = 1.0, b: float = 1.0, initval: float | None = None
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
