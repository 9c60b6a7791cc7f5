"""Small models whose densities and gradients are easily lost far out: overflow, log of 0, 0 / 0."""

from collections.abc import Callable

import numpy as np
import pymc as pm
import pytensor.tensor as pt

X = np.linspace(-2, 2, 7)
COUNTS = np.array([0, 3, 1, 0, 250, 12, 2])


def mixture() -> pm.Model:
    """Two normals with unknown weights, as PyMC's marginal mixture."""
    with pm.Model() as model:
        weights = pm.Dirichlet("weights", np.ones(2))
        centres = pm.Normal("centres", 0, 3, shape=2)
        spread = pm.HalfNormal("spread", 1, shape=2)
        pm.NormalMixture("y", weights, centres, spread, observed=[-40.0, 0.1, 2.0, 900.0])
    return model


def censored() -> pm.Model:
    """Normal data cut off at 1, whose tail is a survival function."""
    with pm.Model() as model:
        mean, spread = pm.Normal("mean", 0, 2), pm.HalfNormal("spread", 1)
        normal = pm.Normal.dist(mean, spread)
        pm.Censored("y", normal, lower=None, upper=1.0, observed=[0.2, 1.0, 1.0, -30.0])
    return model


def truncated() -> pm.Model:
    """Normal data above 0, divided by what is left of the law."""
    with pm.Model() as model:
        mean, spread = pm.Normal("mean", 0, 2), pm.HalfNormal("spread", 1)
        pm.TruncatedNormal("y", mean, spread, lower=0.0, observed=[0.2, 1.0, 25.0])
    return model


def zero_inflated() -> pm.Model:
    """Counts with more zeros than Poisson's, and rates that may be huge."""
    with pm.Model() as model:
        rate = pm.math.exp(pm.Normal("a", 0, 3) + pm.Normal("b", 0, 3) * X)
        pm.ZeroInflatedPoisson("y", pm.Beta("present", 1, 1), rate, observed=COUNTS)
    return model


def negative_binomial() -> pm.Model:
    """Overdispersed counts: differences of logarithms of gamma functions."""
    with pm.Model() as model:
        rate = pm.math.exp(pm.Normal("a", 0, 3) + pm.Normal("b", 0, 3) * X)
        pm.NegativeBinomial("y", rate, pm.HalfCauchy("alpha", 2), observed=COUNTS)
    return model


def poisson() -> pm.Model:
    """Rates from nothing to e^800."""
    with pm.Model() as model:
        rate = pm.math.exp(pm.Normal("a", 0, 3) + 10 * pm.Normal("b", 0, 3) * X)
        pm.Poisson("y", rate, observed=COUNTS)
    return model


def logistic() -> pm.Model:
    """Logits up to 800."""
    with pm.Model() as model:
        logit = pm.Normal("a", 0, 3) + 20 * pm.Normal("b", 0, 3) * X
        pm.Bernoulli("y", logit_p=logit, observed=[0, 1, 0, 1, 1, 0, 1])
    return model


def probit() -> pm.Model:
    """Probabilities that are a normal law's."""
    with pm.Model() as model:
        pm.Bernoulli("y", pm.math.invprobit(pm.Normal("a", 0, 3) + X), observed=COUNTS > 1)
    return model


def ordinal() -> pm.Model:
    """Answers in order: differences of sigmoids."""
    with pm.Model() as model:
        ordered = pm.distributions.transforms.ordered
        cuts = pm.Normal("cuts", [-1, 0, 1], 2, transform=ordered, initval=[-1, 0, 1])
        pm.OrderedLogistic("y", pm.Normal("b", 0, 3) * X, cuts, observed=[0, 1, 2, 3, 3, 0, 1])
    return model


def robust() -> pm.Model:
    """Student-t noise of few degrees of freedom, and points far away."""
    with pm.Model() as model:
        nu, spread = pm.Gamma("nu", 2, 0.1), pm.HalfStudentT("spread", 3, 1)
        mean = pm.Normal("mean", 0, 10)
        pm.StudentT("y", nu, mu=mean, sigma=spread, observed=[0.0, 1e3, -1e6])
    return model


def survival() -> pm.Model:
    """Weibull times, some of them cut off."""
    with pm.Model() as model:
        shape, scale = pm.HalfNormal("shape", 2), pm.math.exp(pm.Normal("a", 0, 2) + 0.3 * X)
        times = np.array([0.1, 2.0, 3.0, 0.5, 3.0, 1e-3, 1.0])
        pm.Censored("y", pm.Weibull.dist(shape, scale), lower=None, upper=3.0, observed=times)
    return model


def shares() -> pm.Model:
    """Shares between 0 and 1 whose beta law may be of any shape."""
    with pm.Model() as model:
        mean = pm.math.sigmoid(pm.Normal("a", 0, 2) + X)
        pm.Beta("y", mu=mean, nu=pm.HalfCauchy("nu", 5), observed=np.linspace(1e-6, 0.9, 7))
    return model


def categories() -> pm.Model:
    """Softmax probabilities."""
    with pm.Model() as model:
        logits = pm.Normal("logits", 0, 3, shape=4)
        pm.Multinomial("y", 20, pm.math.softmax(logits * 10), observed=[3, 0, 7, 10])
    return model


def potential() -> pm.Model:
    """A log of a sum of exponentials, and a log of one minus an exponential, by hand."""
    with pm.Model() as model:
        a = pm.Normal("a", 0, 3, shape=3)
        pm.Potential("sum", pt.log(pt.exp(a).sum()) + pt.log1p(pt.exp(a[0])))
        pm.Potential("rest", pt.log(1 - pt.exp(-pt.abs(a[1]) - 1e-3)))
    return model


MODELS: dict[str, Callable[[], pm.Model]] = {
    make.__name__: make
    for make in (
        mixture,
        censored,
        truncated,
        zero_inflated,
        negative_binomial,
        poisson,
        logistic,
        probit,
        ordinal,
        robust,
        survival,
        shares,
        categories,
        potential,
    )
}
