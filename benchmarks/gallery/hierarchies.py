"""Groups that share a spread."""

import numpy as np
import pymc as pm
from scipy import stats

from gallery.entries import ordinary
from gallery.quadrature import NormalLinear, grid_log_z, model_log_z
from pymc_logz import energies

EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def _schools_exact() -> float:
    def log_f(u: np.ndarray) -> float:
        """Log density with the effects of the schools integrated out."""
        mu, tau = u[0], np.exp(u[1])
        log_p = stats.norm.logpdf(EFFECTS, mu, np.hypot(ERRORS, tau)).sum()
        prior = stats.norm.logpdf(mu, 0, 5) + stats.halfcauchy.logpdf(tau, scale=5) + u[1]
        return float(log_p + prior)

    return grid_log_z(log_f, np.zeros(2), 0.3)


@ordinary(exact=_schools_exact)
def eight_schools_centred() -> pm.Model:
    """Eight schools, effects around their mean: 10 parameters, a funnel."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        theta = pm.Normal("theta", mu, tau, shape=8)
        pm.Normal("y", theta, ERRORS, observed=EFFECTS)
    return model


@ordinary(exact=_schools_exact)
def eight_schools() -> pm.Model:
    """Eight schools, effects in units of their spread: 10 parameters."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        z = pm.Normal("z", 0, 1, shape=8)
        pm.Normal("y", mu + tau * z, ERRORS, observed=EFFECTS)
    return model


@ordinary(exact=lambda: energies.hierarchical_normal().log_z)
def funnel() -> pm.Model:
    """Effects of 20 groups around their mean, 22 parameters, a funnel."""
    return energies.hierarchical_normal().model


def _radon() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Group, floor, uranium of the groups, and log radon; sizes of groups as uneven as there."""
    rng = np.random.default_rng(31)
    shares = rng.dirichlet(np.full(85, 0.8))
    group = np.sort(np.r_[np.arange(85), rng.choice(85, size=919 - 85, p=shares)])
    floor = (rng.random(919) < 0.17).astype(float)
    uranium = rng.normal(size=85)
    level = 1.4 + 0.3 * uranium + rng.normal(0, 0.3, size=85)
    return group, floor, uranium, level[group] - 0.6 * floor + rng.normal(0, 0.75, size=919)


def _radon_exact() -> float:
    group, floor, uranium, y = _radon()
    x = np.c_[np.ones(919), uranium[group], floor, group[:, None] == np.arange(85)]
    linear = NormalLinear(x, y)

    def log_f(u: np.ndarray) -> float:
        tau, sigma = np.exp(u)
        prior = stats.halfnorm.logpdf([tau, sigma]).sum() + u.sum()
        sds = np.r_[2.0, 1.0, 1.0, np.full(85, tau)]
        return linear.log_density(sds, sigma) + float(prior)

    return grid_log_z(log_f, np.zeros(2))


@ordinary(exact=_radon_exact)
def radon() -> pm.Model:
    """Radon in 919 houses of 85 counties, with uranium and floor, 90 parameters."""
    group, floor, uranium, y = _radon()
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 2)
        of_uranium = pm.Normal("of_uranium", 0, 1)
        of_floor = pm.Normal("of_floor", 0, 1)
        tau = pm.HalfNormal("tau", 1)
        sigma = pm.HalfNormal("sigma", 1)
        z = pm.Normal("z", 0, 1, shape=85)
        level = mean + of_uranium * uranium + tau * z
        pm.Normal("y", level[group] + of_floor * floor, sigma, observed=y)
    return model


@ordinary()
def lkj_normal() -> pm.Model:
    """Three responses with unknown correlations, LKJ prior, 9 parameters, 100 rows."""
    rng = np.random.default_rng(32)
    covariance = np.array([[1.0, 0.6, 0.2], [0.6, 2.0, -0.3], [0.2, -0.3, 0.5]])
    y = rng.multivariate_normal([0.5, -1.0, 0.0], covariance, size=100)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 3, shape=3)
        chol, _, _ = pm.LKJCholeskyCov("chol", n=3, eta=2, sd_dist=pm.HalfNormal.dist(2, shape=3))
        pm.MvNormal("y", mu, chol=chol, observed=y)
    return model


@ordinary(exact=lambda: model_log_z(ordered_mixture(), n_ordered=2))
def ordered_mixture() -> pm.Model:
    """Mixture of two normals with ordered means, 5 parameters, 150 rows."""
    rng = np.random.default_rng(33)
    first = rng.random(150) < 0.4
    y = np.where(first, rng.normal(-1.0, 0.7, size=150), rng.normal(1.8, 1.0, size=150))
    with pm.Model() as model:
        weight = pm.Beta("weight", 2, 2)
        means = pm.Normal(
            "means",
            0,
            3,
            shape=2,
            transform=pm.distributions.transforms.ordered,
            initval=np.array([-1.0, 1.0]),
        )
        sigmas = pm.HalfNormal("sigmas", 2, shape=2)
        weights = pm.math.stack([weight, 1 - weight])
        pm.NormalMixture("y", w=weights, mu=means, sigma=sigmas, observed=y)
    return model
