"""Counts, classes and answers."""

import numpy as np
import pymc as pm

from gallery.entries import ordinary
from gallery.quadrature import model_log_z


@ordinary(exact=lambda: model_log_z(negative_binomial()))
def negative_binomial() -> pm.Model:
    """Negative binomial regression on 3 predictors, 5 parameters, 200 rows."""
    rng = np.random.default_rng(21)
    x = rng.normal(size=(200, 3))
    mean = np.exp(1.0 + x @ np.array([0.5, -0.3, 0.0]))
    y = rng.poisson(rng.gamma(2.0, mean / 2.0))
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0, 2)
        slopes = pm.Normal("slopes", 0, 1, shape=3)
        alpha = pm.Exponential("alpha", 0.5)
        mu = pm.math.exp(intercept + x @ slopes)
        pm.NegativeBinomial("y", mu=mu, alpha=alpha, observed=y)
    return model


@ordinary(exact=lambda: model_log_z(zero_inflated()))
def zero_inflated() -> pm.Model:
    """Zero-inflated Poisson regression, 3 parameters, 250 rows."""
    rng = np.random.default_rng(22)
    x = rng.normal(size=250)
    y = rng.poisson(np.exp(0.8 + 0.4 * x)) * (rng.random(250) < 0.7)
    with pm.Model() as model:
        psi = pm.Beta("psi", 2, 2)
        intercept = pm.Normal("intercept", 0, 2)
        slope = pm.Normal("slope", 0, 1)
        mu = pm.math.exp(intercept + slope * x)
        pm.ZeroInflatedPoisson("y", psi=psi, mu=mu, observed=y)
    return model


@ordinary(exact=lambda: model_log_z(ordinal(), n_ordered=3))
def ordinal() -> pm.Model:
    """Answers on a scale of four: ordered logistic regression, 5 parameters, 300 rows."""
    rng = np.random.default_rng(23)
    x = rng.normal(size=(300, 2))
    latent = x @ np.array([0.8, -0.4]) + rng.logistic(size=300)
    y = np.searchsorted([-1.0, 0.3, 1.5], latent)
    with pm.Model() as model:
        slopes = pm.Normal("slopes", 0, 1, shape=2)
        cutpoints = pm.Normal(
            "cutpoints",
            0,
            2,
            shape=3,
            transform=pm.distributions.transforms.ordered,
            initval=np.array([-1.0, 0.0, 1.0]),
        )
        pm.OrderedLogistic("y", eta=x @ slopes, cutpoints=cutpoints, observed=y, compute_p=False)
    return model


@ordinary(exact=lambda: model_log_z(dirichlet_multinomial()))
def dirichlet_multinomial() -> pm.Model:
    """Dirichlet-multinomial: 4 species counted in 12 places, 4 parameters."""
    rng = np.random.default_rng(24)
    shares = rng.dirichlet(6.0 * np.array([0.45, 0.3, 0.15, 0.1]), size=12)
    y = np.array([rng.multinomial(50, share) for share in shares])
    with pm.Model() as model:
        frac = pm.Dirichlet("frac", a=np.ones(4))
        conc = pm.LogNormal("conc", mu=1, sigma=1)
        pm.DirichletMultinomial("y", n=50, a=frac * conc, observed=y)
    return model


@ordinary()
def rasch() -> pm.Model:
    """Item response: 20 people answer 10 questions, 32 parameters."""
    rng = np.random.default_rng(25)
    ability, difficulty = rng.normal(size=(20, 1)), rng.normal(0.3, 0.9, size=10)
    y = rng.random((20, 10)) < 1 / (1 + np.exp(difficulty - ability))
    with pm.Model() as model:
        abilities = pm.Normal("ability", 0, 1, shape=(20, 1))
        mean = pm.Normal("mean", 0, 1)
        spread = pm.HalfNormal("spread", 1)
        z = pm.Normal("z", 0, 1, shape=10)
        pm.Bernoulli("y", logit_p=abilities - mean - spread * z, observed=y.astype(int))
    return model


@ordinary()
def varying_slopes() -> pm.Model:
    """Poisson regression with intercepts and slopes of 12 groups, 28 parameters, 180 rows."""
    rng = np.random.default_rng(26)
    group, x = np.repeat(np.arange(12), 15), rng.normal(size=180)
    levels, slopes = rng.normal(1.0, 0.5, size=12), rng.normal(0.3, 0.25, size=12)
    y = rng.poisson(np.exp(levels[group] + slopes[group] * x))
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 1, shape=2)
        spread = pm.HalfNormal("spread", 1, shape=2)
        z = pm.Normal("z", 0, 1, shape=(12, 2))
        effects = mean + spread * z
        eta = effects[group, 0] + effects[group, 1] * x
        pm.Poisson("y", pm.math.exp(eta), observed=y)
    return model
