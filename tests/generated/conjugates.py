"""Counts, shares, bounds and order: closed forms."""

import numpy as np
import pymc as pm
from pymc.distributions.transforms import ordered
from scipy.special import betaln, gammaln, log_ndtr, logsumexp

from generated.cases import Drawn, family, one_of

LOG_2PI = float(np.log(2 * np.pi))


@family
def gamma_poisson(rng: np.random.Generator) -> Drawn:
    """Counts whose rates have gamma priors."""
    d, n = int(rng.integers(1, 13)), int(rng.integers(1, 20))
    a, b = one_of(rng, 0.3, 1.0, 4.0), one_of(rng, 0.1, 1.0)
    y = rng.poisson(np.maximum(rng.gamma(a, 1 / b, d), 0.05), (n, d))

    def build() -> pm.Model:
        with pm.Model() as model:
            data = pm.Data("data", y)
            rate = pm.Gamma("rate", a, b, shape=d)
            pm.Poisson("y", rate, observed=data)
        return model

    total = y.sum(0)
    log_z = a * np.log(b) - gammaln(a) + gammaln(a + total) - (a + total) * np.log(b + n)
    return Drawn(build, d, float(log_z.sum() - gammaln(y + 1).sum()), about={"a": a, "b": b})


@family
def beta_binomial(rng: np.random.Generator) -> Drawn:
    """Successes whose chances have beta priors."""
    d, a, b = int(rng.integers(1, 13)), one_of(rng, 0.5, 1.0, 3.0), one_of(rng, 0.5, 1.0, 8.0)
    n = rng.integers(1, one_of(rng, 10, 200), d)
    y = rng.binomial(n, rng.beta(a, b, d))

    def build() -> pm.Model:
        with pm.Model() as model:
            trials, data = pm.Data("trials", n), pm.Data("data", y)
            p = pm.Beta("p", a, b, shape=d)
            pm.Binomial("y", n=trials, p=p, observed=data)
        return model

    log_z = betaln(a + y, b + n - y) - betaln(a, b) - betaln(y + 1, n - y + 1) - np.log(n + 1)
    return Drawn(build, d, float(log_z.sum()), about={"a": a, "b": b})


@family
def dirichlet_multinomial(rng: np.random.Generator) -> Drawn:
    """Counts of categories whose shares have a Dirichlet prior."""
    k, rows = int(rng.integers(2, 9)), int(rng.integers(1, 5))
    a = np.exp(rng.normal(0, 0.7, k))
    n = int(rng.integers(3, 100))
    y = np.stack([rng.multinomial(n, shares) for shares in rng.dirichlet(a, rows)])

    def build() -> pm.Model:
        with pm.Model() as model:
            concentration, data = pm.Data("concentration", a), pm.Data("data", y)
            p = pm.Dirichlet("p", concentration, shape=(rows, k))
            pm.Multinomial("y", n=n, p=p, observed=data)
        return model

    log_z = rows * (gammaln(n + 1) + gammaln(a.sum()) - gammaln(a.sum() + n))
    log_z += (gammaln(a + y) - gammaln(a) - gammaln(y + 1)).sum()
    return Drawn(build, rows * (k - 1), float(log_z))


@family
def normal_in_bounds(rng: np.random.Generator) -> Drawn:
    """Normal observations of numbers with uniform priors, inside and at the ends."""
    d, sd = int(rng.integers(1, 13)), one_of(rng, 0.02, 0.2, 1.0)
    low, high = np.sort(rng.normal(0, 2, (2, d)), axis=0)
    high += 0.5
    y = rng.normal(rng.uniform(low, high), sd)

    def build() -> pm.Model:
        with pm.Model() as model:
            data, a, b = pm.Data("data", y), pm.Data("low", low), pm.Data("high", high)
            x = pm.Uniform("x", a, b, shape=d)
            pm.Normal("y", x, sd, observed=data)
        return model

    # from the nearer end, where differences of probabilities near one do not cancel
    flip = (y > (low + high) / 2)[None]
    ends = np.stack([(low - y) / sd, (high - y) / sd])
    ends = np.where(flip, -ends[::-1], ends)
    small, large = log_ndtr(-ends[1]), log_ndtr(-ends[0])
    inside = large + np.log1p(-np.exp(small - large))
    return Drawn(build, d, float((inside - np.log(high - low)).sum()), about={"sd": sd})


@family
def ordered_means(rng: np.random.Generator) -> Drawn:
    """Normal means that are kept in order, one observation of each."""
    d, sd, prior_sd = int(rng.integers(2, 7)), one_of(rng, 0.3, 1.0), one_of(rng, 1.0, 3.0)
    y = rng.normal(np.sort(rng.normal(0, prior_sd, d)), sd)

    def build() -> pm.Model:
        with pm.Model() as model:
            data = pm.Data("data", y)
            start = np.linspace(-1, 1, d)
            x = pm.Normal("x", 0, prior_sd, shape=d, transform=ordered, initval=start)
            pm.Normal("y", x, sd, observed=data)
        return model

    log_z, accuracy = ordered_log_z(y, prior_sd, sd)
    return Drawn(build, d, log_z, accuracy, {"sd": sd, "prior_sd": prior_sd})


def ordered_log_z(y: np.ndarray, prior_sd: float, sd: float) -> tuple[float, float]:
    """Of means that come in order, from a prior with mass one; by two grids."""
    found = []
    for n in (20_001, 40_001):
        x = np.linspace(-9 * prior_sd, 9 * prior_sd, n)
        reached = np.ones(n)
        log_scale = float(gammaln(y.size + 1))
        for one in y:
            log_f = -0.5 * (((one - x) / sd) ** 2 + (x / prior_sd) ** 2)
            log_f -= LOG_2PI + np.log(sd * prior_sd)
            own = np.exp(log_f - log_f.max()) * reached
            # the integral from the left up to each node
            reached = np.concatenate([[0.0], np.cumsum(own[1:] + own[:-1])]) * (x[1] - x[0]) / 2
            log_scale += float(log_f.max() + np.log(reached[-1]))
            reached = reached / reached[-1]
        found.append(log_scale)
    return found[1], abs(found[1] - found[0])


@family
def change_in_counts(rng: np.random.Generator) -> Drawn:
    """Counts whose rate changes once, at a time that is summed out in a potential."""
    n, a, b = int(rng.integers(6, 40)), one_of(rng, 0.5, 2.0), one_of(rng, 0.2, 1.0)
    at = int(rng.integers(1, n))
    rates = np.maximum(rng.gamma(a, 1 / b, 2), 0.1)
    y = rng.poisson(np.where(np.arange(n) < at, *rates))
    early, late = np.cumsum(y)[:-1], y.sum() - np.cumsum(y)[:-1]
    times = np.arange(1, n)

    def build() -> pm.Model:
        with pm.Model() as model:
            before, after, when = (
                pm.Data(name, value.astype(float))
                for name, value in {"before": early, "after": late, "when": times}.items()
            )
            rate = pm.Gamma("rate", a, b, shape=2)
            parts = before * pm.math.log(rate[0]) + after * pm.math.log(rate[1])
            parts = parts - when * rate[0] - (n - when) * rate[1]
            constant = -np.log(n - 1) - gammaln(y + 1).sum()
            pm.Potential("y", pm.math.logsumexp(parts) + pm.Data("constant", constant))
        return model

    terms = [2 * (a * np.log(b) - gammaln(a)) - np.log(n - 1) - gammaln(y + 1).sum()]
    terms = terms + sum(
        gammaln(a + total) - (a + total) * np.log(b + length)
        for total, length in ((early, times), (late, n - times))
    )
    return Drawn(build, 2, float(logsumexp(terms)), about={"n": n, "a": a, "b": b})


@family
def change_in_time(rng: np.random.Generator) -> Drawn:
    """A normal series whose mean changes at a time in (0, 1): flat between observations."""
    n, sd, prior_sd = int(rng.integers(5, 30)), one_of(rng, 0.3, 1.0), one_of(rng, 1.0, 3.0)
    when = np.sort(rng.random(n))
    true, at = rng.normal(0, prior_sd, 2), rng.uniform(0.1, 0.9)
    y = rng.normal(np.where(when < at, *true), sd)

    def build() -> pm.Model:
        with pm.Model() as model:
            time, data = pm.Data("time", when), pm.Data("data", y)
            change = pm.Uniform("change", 0, 1)
            mean = pm.Normal("mean", 0, prior_sd, shape=2)
            pm.Normal("y", pm.math.switch(time < change, mean[0], mean[1]), sd, observed=data)
        return model

    def half(own: np.ndarray) -> float:
        precision = 1 + own.size * (prior_sd / sd) ** 2
        explained = (own.sum() * prior_sd / sd**2) ** 2 / precision
        noise = own.size * (LOG_2PI + 2 * np.log(sd)) + (own**2).sum() / sd**2
        return 0.5 * (explained - np.log(precision) - noise)

    lengths = np.diff([0.0, *when, 1.0])
    terms = [np.log(lengths[k]) + half(y[:k]) + half(y[k:]) for k in range(n + 1)]
    return Drawn(build, 3, float(logsumexp(terms)), about={"n": n, "sd": sd})
