"""One latent value for each datum, not normal given the rest, of a spread that may vanish."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import stats
from scipy.special import erfcx, gammaln, log_expit, log_ndtr, logsumexp, ndtr

from generated import scales
from generated.cases import Drawn, family, one_of
from generated.quadrature import box_log_integral, pieces


@family
def latent_exponentials(rng: np.random.Generator) -> Drawn:
    """Normal noise around exponential values, as of response times; their sum is known."""
    n, noise = one_of(rng, 5, 12, 25), one_of(rng, 0.05, 0.2, 1.0)
    kind = one_of(rng, scales.half_normal, scales.half_cauchy, scales.exponential)
    spread, mean = kind(0.5), scales.half_normal(1.0)
    y = rng.normal(0, noise, n) + rng.exponential(0.5, n)

    def build() -> pm.Model:
        with pm.Model() as model:
            sigma, scale = spread.add("sigma"), mean.add("scale")
            value = pm.Exponential("value", scale=scale, shape=n)
            pm.Normal("y", value, sigma, observed=pm.Data("data", y))
        return model

    def log_f(s, t):
        sigma, rate = np.exp(s), np.exp(-t)
        total = spread.log_density(s) + mean.log_density(t)
        for one in y:
            q = rate * sigma - one / sigma
            # both forms are the same; each is exact on one side
            far = np.log(erfcx(np.maximum(q, 0) / np.sqrt(2)) / 2) - 0.5 * (one / sigma) ** 2
            near = log_ndtr(-q) + rate * (0.5 * rate * sigma**2 - one)
            total = total - t + np.where(q > 0, far, near)
        return total

    log_z, accuracy = box_log_integral(log_f, (-16.0, 9.0), (-16.0, 3.5))
    return Drawn(build, n + 2, log_z, accuracy, {"n": n, "noise": noise, "spread": spread.about})


@family
def inefficiencies(rng: np.random.Generator) -> Drawn:
    """A stochastic frontier: normal noise less a half normal value for each datum."""
    n, noise = one_of(rng, 6, 15, 30), one_of(rng, 0.05, 0.3)
    spread, shortfall = scales.half_normal(0.5), scales.half_normal(1.0)
    y = rng.normal(0, noise, n) - np.abs(rng.normal(0, one_of(rng, 0.1, 0.6), n))

    def build() -> pm.Model:
        with pm.Model() as model:
            sigma, size = spread.add("sigma"), shortfall.add("size")
            lost = pm.HalfNormal("lost", size, shape=n)
            pm.Normal("y", -lost, sigma, observed=pm.Data("data", y))
        return model

    def log_f(s, t):
        total, both = spread.log_density(s) + shortfall.log_density(t), np.logaddexp(2 * s, 2 * t)
        for one in y:
            total = total + np.log(2) + stats.norm.logpdf(one, 0, np.exp(0.5 * both))
            total = total + log_ndtr(-one * np.exp(t - s - 0.5 * both))
        return total

    log_z, accuracy = box_log_integral(log_f, (-16.0, 3.5), (-16.0, 3.5))
    return Drawn(build, n + 2, log_z, accuracy, {"n": n, "noise": noise})


@family
def few_outliers(rng: np.random.Generator) -> Drawn:
    """Effects measured with known errors, most of a narrow and some of a wide normal."""
    n, wide = one_of(rng, 6, 12, 20), one_of(rng, 2.0, 5.0)
    narrow, error = scales.half_normal(0.5), one_of(rng, 0.2, 0.5)
    effects = rng.normal(0, np.where(rng.random(n) < 0.8, 0.3, wide))
    y = rng.normal(effects, error)

    def build() -> pm.Model:
        with pm.Model() as model:
            tau, share = narrow.add("tau"), pm.Beta("share", 2, 8)
            both = [pm.Normal.dist(0, tau), pm.Normal.dist(0, wide)]
            weights = pt.stack([1 - share, share])
            effect = pm.Mixture("effect", w=weights, comp_dists=both, shape=n)
            pm.Normal("y", effect, error, observed=pm.Data("data", y))
        return model

    def log_f(s, logit):
        total = narrow.log_density(s) + stats.beta(2, 8).logpdf(1 / (1 + np.exp(-logit)))
        total = total + log_expit(logit) + log_expit(-logit)
        sd = np.hypot(np.exp(s), error)
        for one in y:
            usual = log_expit(-logit) + stats.norm.logpdf(one, 0, sd)
            far = log_expit(logit) + stats.norm.logpdf(one, 0, np.hypot(wide, error))
            total = total + np.logaddexp(usual, far)
        return total

    log_z, accuracy = box_log_integral(log_f, (-16.0, 3.5), (-16.0, 16.0))
    return Drawn(build, n + 2, log_z, accuracy, {"n": n, "wide": wide, "error": error})


@family
def heavy_tailed_groups(rng: np.random.Generator) -> Drawn:
    """Binomial successes of groups whose effects are Student-t with few degrees of freedom."""
    n, trials, df = one_of(rng, 5, 15, 25), one_of(rng, 1, 4, 20), one_of(rng, 1.5, 2.0, 4.0)
    spread = one_of(rng, scales.half_normal, scales.half_cauchy)(1.0)
    y = rng.binomial(trials, 1 / (1 + np.exp(-0.3 - 0.7 * rng.standard_t(df, n))))
    seen, counts = np.unique(y, return_counts=True)
    ways = counts @ (gammaln(trials + 1) - gammaln(seen + 1) - gammaln(trials - seen + 1))

    def build() -> pm.Model:
        with pm.Model() as model:
            mean, tau = pm.Normal("mean", 0, 1), spread.add("tau")
            effect = pm.StudentT("effect", nu=df, mu=mean, sigma=tau, shape=n)
            pm.Binomial("y", trials, logit_p=effect, observed=pm.Data("data", y))
        return model

    s, log_weights = pieces(-28.0, 28.0, 960)
    log_prior = stats.t(df).logpdf(np.sinh(s)) + np.log(np.cosh(s)) + log_weights

    def log_f(mean, t):
        effect = mean[..., None] + np.exp(t)[..., None] * np.sinh(s)
        total = stats.norm.logpdf(mean) + spread.log_density(t) + ways
        for successes, times in zip(seen, counts, strict=True):
            log_p = successes * log_expit(effect) + (trials - successes) * log_expit(-effect)
            total = total + times * logsumexp(log_p + log_prior, axis=-1)
        return total

    log_z, accuracy = box_log_integral(log_f, (-7.0, 7.0), (-12.0, 9.0), nodes=64)
    about = {"n": n, "trials": trials, "df": df, "spread": spread.about}
    return Drawn(build, n + 2, log_z, accuracy, about)


@family
def seen_through(rng: np.random.Generator) -> Drawn:
    """Values seen through a function that several values share, so that each has several peaks."""
    n, kind, wide = one_of(rng, 3, 5, 8), one_of(rng, "square", "cubic", "sine"), 1.5
    through = {
        "square": lambda x: x**2,
        "cubic": lambda x: x**3 - 2 * x,
        "sine": lambda x: np.sin(3 * x),
    }[kind]
    x = rng.normal(0.3, wide, n)
    y = through(x) + rng.normal(0, one_of(rng, 0.1, 0.6), n)

    def build() -> pm.Model:
        with pm.Model() as model:
            sigma, value = pm.Gamma("sigma", 3, 3), pm.Normal("value", 0.3, wide, shape=n)
            pm.Normal("y", through(value), sigma, observed=pm.Data("data", y))
        return model

    s, log_weights = pieces(-7.0, 7.0, 3200)
    nodes, log_prior = through(0.3 + wide * s), stats.norm.logpdf(s) + log_weights

    def log_f(t):
        total = stats.gamma.logpdf(np.exp(t), 3, scale=1 / 3) + t
        for one in y:
            square = ((one - nodes) / np.exp(t)[..., None]) ** 2
            total = total + logsumexp(log_prior - 0.5 * square, axis=-1)
        return total - n * (t + 0.5 * np.log(2 * np.pi))

    log_z, accuracy = box_log_integral(log_f, (-4.6, 3.0), nodes=160)
    return Drawn(build, n + 1, log_z, accuracy, {"n": n, "through": kind})


@family
def pumps(rng: np.random.Generator) -> Drawn:
    """Failures whose rates are of a gamma distribution; as its shape vanishes they all do."""
    n, (c, e) = int(rng.integers(2, 16)), one_of(rng, (0.1, 1.0), (0.01, 0.01), (1.0, 0.1))
    is_vague, time = bool(rng.random() < 0.7), np.round(rng.lognormal(0, 1.5, n) + 0.01, 2)
    y = rng.poisson(rng.gamma(*one_of(rng, (0.5, 2.0), (5.0, 0.3)), n) * time)

    def build() -> pm.Model:
        with pm.Model() as model:
            shape = pm.Gamma("shape", 0.1, 0.1) if is_vague else pm.Exponential("shape", 1)
            rate = pm.Gamma("rate", shape, pm.Gamma("inverse_scale", c, e), shape=n)
            pm.Poisson("y", rate * pm.Data("time", time), observed=y)
        return model

    def log_f(s, t):
        a, b = np.exp(s), np.exp(t)
        prior = stats.gamma.logpdf(a, 0.1, scale=10) if is_vague else -a
        total = prior + s + stats.gamma.logpdf(b, c, scale=1 / e) + t
        for count, long in zip(y, time, strict=True):
            # the ratio of two gamma functions, without what cancels
            ratio = np.log(a + np.arange(count).reshape(-1, *[1] * a.ndim)).sum(axis=0)
            total = total + ratio - gammaln(count + 1) + count * np.log(long / (b + long))
            total = total - a * np.log1p(long / b)
        return total

    lowest = -90.0 if c >= 0.1 else -700.0
    log_z, accuracy = box_log_integral(log_f, (-70.0, 9.0), (lowest, 10.0), nodes=720)
    about = {"vague": is_vague, "rate": (c, e), "y": y.tolist()}
    return Drawn(build, n + 2, log_z, accuracy, about)


@family
def free_ends(rng: np.random.Generator) -> Drawn:
    """Uniform data, each around a middle of its own: as narrow as that, as likely."""
    return _each_around_its_own(rng, "uniform")


@family
def value_each(rng: np.random.Generator) -> Drawn:
    """Laplace noise around as many normal values, of a width that may vanish."""
    return _each_around_its_own(rng, "laplace")


def _each_around_its_own(rng: np.random.Generator, noise: str) -> Drawn:
    n, sd = one_of(rng, 2, 3, 4), one_of(rng, 2.0, 10.0)
    width = scales.proper(rng, one_of(rng, 0.5, 2.0))
    y = rng.normal(0, 0.6 * sd, n)

    def build() -> pm.Model:
        with pm.Model() as model:
            middle, half = pm.Normal("middle", 0, sd, shape=n), width.add("width")
            if noise == "uniform":
                pm.Uniform("y", middle - half, middle + half, observed=pm.Data("data", y))
            else:
                pm.Laplace("y", middle, half, observed=pm.Data("data", y))
        return model

    def log_f(t):
        w, total = np.exp(t), width.log_density(t)
        for one in np.abs(y):
            if noise == "uniform":
                log_p = np.log(ndtr(-(one - w) / sd) - ndtr(-(one + w) / sd)) - np.log(2 * w)
                narrow = stats.norm.logpdf(one, 0, sd)
                total = total + np.where(w < 1e-5 * sd, narrow, log_p)
            else:
                both = (sd / w - one / sd) / np.sqrt(2), (sd / w + one / sd) / np.sqrt(2)
                total = total + np.log(sum(map(erfcx, both)) / (4 * w)) - 0.5 * (one / sd) ** 2
        return total

    log_z, accuracy = box_log_integral(log_f, (-16.0, 16.0))
    return Drawn(
        build, n + 1, log_z, accuracy, {"n": n, "sd": sd, "width": width.about, "y": y.tolist()}
    )
