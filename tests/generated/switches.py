"""Two explanations of many numbers at once: a block of coefficients, or a common scale."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import stats
from scipy.special import logsumexp

from generated.cases import Drawn, family, one_of
from generated.quadrature import box_log_integral

LOG_2PI = float(np.log(2 * np.pi))


@family
def switched_block(rng: np.random.Generator) -> Drawn:
    """Regression whose coefficients are all in the model, or none of them."""
    k, n = one_of(rng, 2, 5, 8, 15), one_of(rng, 30, 100, 200)
    share, sd, how = one_of(rng, 0.5, 0.1), one_of(rng, 0.5, 1.0, 5.0), one_of(rng, "moved", "sum")
    x = rng.normal(size=(n, k))
    size = one_of(rng, 0.0, 1.0, 2.0) / np.sqrt(n)
    y = x @ (size * rng.normal(size=k)) + rng.normal(size=n)

    def build() -> pm.Model:
        with pm.Model() as model:
            slope = pm.Normal("slope", 0, sd, shape=k)
            if how == "moved":
                is_in = pm.Bernoulli("is_in", share)
                pm.Normal("y", is_in * (x @ slope), 1, observed=y)
            else:
                none, every = (
                    -0.5 * n * LOG_2PI - 0.5 * pt.sum(left**2) for left in (y, y - x @ slope)
                )
                logs = np.log1p(-share) + none, np.log(share) + every
                pm.Potential("y", pt.logaddexp(*logs))
        return model

    without = stats.norm.logpdf(y).sum()
    covariance = np.eye(n) + sd**2 * x @ x.T
    within = -0.5 * (
        n * LOG_2PI + np.linalg.slogdet(covariance)[1] + y @ np.linalg.solve(covariance, y)
    )
    log_z = np.logaddexp(np.log1p(-share) + without, np.log(share) + within)
    about = {"coefficients": k, "data": n, "sd": sd, "is in": share, "indicator": how}
    return Drawn(build, k + (how == "moved"), float(log_z), 1e-9, about)


@family
def switched_scale(rng: np.random.Generator) -> Drawn:
    """Effects whose common spread is small or large, and data that both explain about as well."""
    d, how = one_of(rng, 5, 20, 60, 80, 120), one_of(rng, "moved", "mixture", "bimodal")
    share, odds, noise = one_of(rng, 0.5, 0.1, 0.02), rng.uniform(-3, 3), 0.5
    spreads = np.array([0.1, 1.0])
    variance = spreads**2 + noise**2
    # the sum of squares at which both evidences are apart by these odds
    wanted = odds - np.log(share) + np.log1p(-share) + 0.5 * d * np.log(variance[1] / variance[0])
    length = np.sqrt(2 * wanted / (1 / variance[0] - 1 / variance[1]))
    direction = rng.normal(size=d)
    y = direction * length / np.linalg.norm(direction)
    weights = np.array([1 - share, share])

    def build() -> pm.Model:
        with pm.Model() as model:
            if how == "moved":
                large = pm.Bernoulli("large", share)
                effect = pm.Normal("effect", 0, pt.switch(large, *spreads[::-1]), shape=d)
            elif how == "mixture":
                parts = [pm.MvNormal.dist(np.zeros(d), cov=s**2 * np.eye(d)) for s in spreads]
                effect = pm.Mixture("effect", weights, parts)
            else:
                log_spread = pm.NormalMixture("log_spread", weights, np.log(spreads), sigma=0.1)
                effect = pm.Normal("effect", 0, pt.exp(log_spread), shape=d)
            pm.Normal("y", effect, noise, observed=y)
        return model

    def log_likelihood(spread):
        total = np.asarray(spread) ** 2 + noise**2
        return -0.5 * d * (LOG_2PI + np.log(total)) - 0.5 * (y @ y) / total

    if how == "bimodal":

        def log_f(log_spread):
            each = stats.norm.logpdf(np.asarray(log_spread)[..., None], np.log(spreads), 0.1)
            prior = logsumexp(each + np.log(weights), axis=-1)
            return prior + log_likelihood(np.exp(log_spread))

        log_z, accuracy = box_log_integral(log_f, (-4.0, 2.0), nodes=400)
    else:
        log_z, accuracy = logsumexp(np.log(weights) + log_likelihood(spreads)), 1e-9
    about = {"effects": d, "prior of the large one": share, "odds": odds, "spread": how}
    return Drawn(build, d + (how != "mixture"), float(log_z), accuracy, about)


@family
def switched_noise(rng: np.random.Generator) -> Drawn:
    """Latent values seen with small noise or with large noise, all of them with the same."""
    d, how = one_of(rng, 5, 20, 60, 80, 120), one_of(rng, "moved", "sum")
    noises, odds = one_of(rng, (0.3, 0.6), (0.5, 2.0)), rng.uniform(-2, 2)
    variance = 1 + np.square(noises)
    # the sum of squares at which both evidences are apart by these odds
    wanted = max(odds + 0.5 * d * np.log(variance[1] / variance[0]), 0.1)
    direction = rng.normal(size=d)
    length = np.sqrt(2 * wanted / (1 / variance[0] - 1 / variance[1]))
    y = direction * length / np.linalg.norm(direction)

    def build() -> pm.Model:
        with pm.Model() as model:
            latent = pm.Normal("latent", 0, 1, shape=d)
            if how == "moved":
                is_large = pm.Bernoulli("is_large", 0.5)
                pm.Normal("y", latent, pt.switch(is_large, *noises[::-1]), observed=y)
            else:
                logs = [pm.logp(pm.Normal.dist(latent, sd), y).sum() for sd in noises]
                pm.Potential("y", np.log(0.5) + pt.logaddexp(*logs))
        return model

    each = -0.5 * (d * (LOG_2PI + np.log(variance)) + length**2 / variance)
    log_z = logsumexp(each) + np.log(0.5)
    about = {"latent": d, "noises": noises, "odds": odds, "indicator": how}
    return Drawn(build, d + (how == "moved"), float(log_z), 1e-9, about)
