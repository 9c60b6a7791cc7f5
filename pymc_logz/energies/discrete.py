"""Models with free variables that are integers, whose sums can be written down."""

from collections.abc import Sequence

import numpy as np
import pymc as pm
from scipy import stats
from scipy.special import gammaln, logsumexp, softmax

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
