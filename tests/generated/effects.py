"""Effects that are not normal given the rest: counts, proportions, sparse ones, factors, curves."""

from itertools import product

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import stats
from scipy.special import betaln, expit, gammaln, log_expit, logsumexp

from generated import scales
from generated.cases import Drawn, family, one_of
from generated.quadrature import box_log_integral, pieces

LOG_2PI = float(np.log(2 * np.pi))
NODES = pieces(-9.0, 9.0, 160)
"""Of a standard normal variable."""


def given_effects(log_likelihood, n: int, mean, sd):
    """Sum over n effects of the log of the mean likelihood, effects normal with this mean and sd.

    ``log_likelihood(i, effect)`` is of the data of effect i.
    """
    z, log_weights = NODES
    log_prior = stats.norm.logpdf(z) + log_weights
    mean, sd = np.broadcast_arrays(mean, sd)
    effect = mean[..., None] + sd[..., None] * z
    return sum(logsumexp(log_likelihood(i, effect) + log_prior, axis=-1) for i in range(n))


def _with_effects(rng, n: int, log_likelihood, observe, about: dict) -> Drawn:
    """Effects with a common unknown mean and spread."""
    kind = one_of(rng, scales.half_normal, scales.exponential)
    spread, centred = kind(2.0), bool(rng.random() < 0.5)

    def build() -> pm.Model:
        with pm.Model() as model:
            mean, tau = pm.Normal("mean", 0, 2), spread.add("tau")
            if centred:
                effect = pm.Normal("effect", mean, tau, shape=n)
            else:
                effect = mean + tau * pm.Normal("z", 0, 1, shape=n)
            observe(effect)
        return model

    def log_f(mean, s):
        value = stats.norm.logpdf(mean, 0, 2) + spread.log_density(s)
        return value + given_effects(log_likelihood, n, mean, np.exp(s))

    # neither prior has more than exp(-16) beyond the last spread
    found, accuracy = box_log_integral(log_f, (-14.0, 14.0), (-16.0, 3.5), nodes=96)
    about = {"spread": spread.about, "centred": centred, **about}
    return Drawn(build, n + 2, found, accuracy, about)


@family
def counts_with_effects(rng: np.random.Generator) -> Drawn:
    """Poisson counts, each with an effect of its own."""
    n = one_of(rng, 4, 8, 16, 30)
    y = rng.poisson(np.exp(rng.normal(0.5, 0.7, n)))

    def log_likelihood(i, effect):
        return y[i] * effect - np.exp(effect) - gammaln(y[i] + 1)

    def observe(effect):
        pm.Poisson("y", pt.exp(effect), observed=pm.Data("data", y))

    return _with_effects(rng, n, log_likelihood, observe, {"n": n})


@family
def proportions(rng: np.random.Generator) -> Drawn:
    """Binomial successes of groups with effects on the logit scale; some have none or all."""
    n, trials = one_of(rng, 4, 8, 16, 30), one_of(rng, 1, 5, 20)
    y = rng.binomial(trials, 1 / (1 + np.exp(-rng.normal(-1, 1.2, n))))
    constant = gammaln(trials + 1) - gammaln(y + 1) - gammaln(trials - y + 1)

    def log_likelihood(i, effect):
        return constant[i] + y[i] * log_expit(effect) + (trials - y[i]) * log_expit(-effect)

    def observe(effect):
        pm.Binomial("y", trials, logit_p=effect, observed=pm.Data("data", y))

    return _with_effects(rng, n, log_likelihood, observe, {"n": n, "trials": trials})


@family
def few_trials(rng: np.random.Generator) -> Drawn:
    """Subjects of one to three trials, most of which all fail or succeed, with a wide spread."""
    n, trials = one_of(rng, 4, 12, 30, 60), one_of(rng, 1, 2, 3)
    spread = one_of(rng, scales.half_cauchy, scales.half_normal)(one_of(rng, 2.5, 10.0))
    effects = rng.normal(rng.normal(), one_of(rng, 2.0, 6.0), n)
    y = rng.binomial(trials, 1 / (1 + np.exp(-effects)))
    seen, counts = np.unique(y, return_counts=True)
    ways = counts @ (gammaln(trials + 1) - gammaln(seen + 1) - gammaln(trials - seen + 1))

    def build() -> pm.Model:
        with pm.Model() as model:
            mean, tau = pm.Normal("mean", 0, 2), spread.add("tau")
            effect = pm.Normal("effect", mean, tau, shape=n)
            pm.Binomial("y", trials, logit_p=effect, observed=pm.Data("data", y))
        return model

    # the likelihood of a wide spread is a step, of a width that falls with it
    z, log_weights = pieces(-9.0, 9.0, 960)
    log_prior = stats.norm.logpdf(z) + log_weights

    def log_f(mean, s):
        effect = mean[..., None] + np.exp(s)[..., None] * z
        value = stats.norm.logpdf(mean, 0, 2) + spread.log_density(s) + ways
        for successes, times in zip(seen, counts, strict=True):
            log_p = successes * log_expit(effect) + (trials - successes) * log_expit(-effect)
            value = value + times * logsumexp(log_p + log_prior, axis=-1)
        return value

    log_z, accuracy = box_log_integral(log_f, (-14.0, 14.0), (-12.0, 9.0), nodes=64)
    about = {"n": n, "trials": trials, "spread": spread.about}
    return Drawn(build, n + 2, log_z, accuracy, about)


@family
def separated(rng: np.random.Generator) -> Drawn:
    """A logistic regression whose outcomes a line separates, with wide or heavy priors."""
    n, cauchy = int(rng.integers(4, 20)), bool(rng.random() < 0.5)
    scale = one_of(rng, 2.5, 10.0)
    x = rng.normal(size=n)
    y = (x > rng.normal(0, 0.5)).astype(int)
    prior, log_prior = (
        (pm.Cauchy, stats.cauchy.logpdf) if cauchy else (pm.Normal, stats.norm.logpdf)
    )

    def build() -> pm.Model:
        with pm.Model() as model:
            covariate, data = pm.Data("x", x), pm.Data("data", y)
            a, b = prior("a", 0, scale), prior("b", 0, scale)
            pm.Bernoulli("y", logit_p=a + b * covariate, observed=data)
        return model

    def log_f(s, t):
        a, b = np.sinh(s), np.sinh(t)
        value = log_prior(a, 0, scale) + log_prior(b, 0, scale)
        value = value + np.log(np.cosh(s)) + np.log(np.cosh(t))
        return value + sum(
            log_expit((2 * one - 1) * (a + b * at)) for at, one in zip(x, y, strict=True)
        )

    log_z, accuracy = box_log_integral(log_f, (-16.0, 16.0), (-16.0, 16.0), nodes=720)
    return Drawn(build, 2, log_z, accuracy, {"n": n, "cauchy": cauchy, "scale": scale})


@family
def horseshoe(rng: np.random.Generator) -> Drawn:
    """Sparse effects seen with noise, each with a half-Cauchy scale of its own and a common one."""
    n, sd = one_of(rng, 2, 4, 8), one_of(rng, 0.3, 1.0)
    y = np.where(rng.random(n) < 0.4, rng.normal(0, 4, n), 0) + rng.normal(0, sd, n)
    top = one_of(rng, 0.5, 1.0)

    def build() -> pm.Model:
        with pm.Model() as model:
            data = pm.Data("data", y)
            tau = pm.HalfNormal("tau", top)
            own = pm.HalfCauchy("own", 1, shape=n)
            effect = pm.Normal("effect", 0, tau * own, shape=n)
            pm.Normal("y", effect, sd, observed=data)
        return model

    own, log_weights = pieces(-25.0, 25.0, 1200)
    log_own = np.log(2 / np.pi) - np.log1p(np.exp(2 * own)) + own + log_weights

    def log_f(s):
        sds = np.sqrt(np.exp(2 * (s[..., None] + own)) + sd**2)
        value = stats.halfnorm.logpdf(np.exp(s), 0, top) + s
        return value + sum(logsumexp(log_own + stats.norm.logpdf(v, 0, sds), axis=-1) for v in y)

    log_z, accuracy = box_log_integral(log_f, (-25.0, 4.0), nodes=800)
    return Drawn(build, 2 * n + 1, log_z, accuracy, {"n": n, "sd": sd, "top": top})


@family
def one_factor(rng: np.random.Generator) -> Drawn:
    """Two or three measurements of unknown factors with loadings of unknown sign."""
    n, j, sd = one_of(rng, 5, 10, 20), int(rng.integers(2, 4)), one_of(rng, 0.3, 1.0)
    y = np.outer(rng.normal(size=n), rng.normal(0, 1.5, j)) + rng.normal(0, sd, (n, j))

    def build() -> pm.Model:
        with pm.Model() as model:
            data = pm.Data("data", y)
            loading = pm.Normal("loading", 0, 1.5, shape=j)
            factor = pm.Normal("factor", 0, 1, shape=n)
            pm.Normal("y", factor[:, None] * loading, sd, observed=data)
        return model

    squares, cross = float((y**2).sum()), y.T @ y

    def log_f(*loading):
        length = sum(one**2 for one in loading) / sd**2
        along = (
            sum(cross[a, b] * loading[a] * loading[b] for a in range(j) for b in range(j)) / sd**4
        )
        value = sum(stats.norm.logpdf(one, 0, 1.5) for one in loading)
        value = value - 0.5 * n * j * (LOG_2PI + 2 * np.log(sd)) - 0.5 * squares / sd**2
        return value - 0.5 * n * np.log1p(length) + 0.5 * along / (1 + length)

    # a factor and its loadings may change their signs together
    log_z, accuracy = box_log_integral(log_f, (0.0, 13.0), *[(-13.0, 13.0)] * (j - 1))
    return Drawn(build, n + j, log_z + float(np.log(2)), accuracy, {"n": n, "sd": sd})


@family
def smooth_curve(rng: np.random.Generator) -> Drawn:
    """A Gaussian process whose length, height and noise are unknown: smooth, or all noise."""
    n = int(rng.integers(6, 20))
    times = np.sort(rng.uniform(0, 5, n))
    far = (times[:, None] - times) ** 2
    truth = np.exp(-0.5 * far / rng.uniform(0.2, 2.0) ** 2) + 1e-9 * np.eye(n)
    y = np.linalg.cholesky(truth) @ rng.normal(size=n) + rng.normal(0, rng.uniform(0.1, 0.7), n)

    def build() -> pm.Model:
        with pm.Model() as model:
            squares, data = pm.Data("squares", far), pm.Data("data", y)
            length = pm.LogNormal("length", 0, 1)
            height, noise = pm.HalfNormal("height", 1), pm.HalfNormal("noise", 1)
            covariance = height**2 * pt.exp(-0.5 * squares / length**2)
            pm.MvNormal("y", pt.zeros(n), covariance + noise**2 * pt.eye(n), observed=data)
        return model

    def log_f(log_length, log_ratio, log_noise):
        """Length, height over noise, noise; given the first two the matrix is factored once."""
        shape = np.broadcast_shapes(log_length.shape, log_ratio.shape)
        scale = np.exp(2 * np.broadcast_to(log_length, shape)).ravel()
        ratio = np.exp(2 * np.broadcast_to(log_ratio, shape)).ravel()
        squares, log_det = np.empty(scale.size), np.empty(scale.size)
        for start in range(0, scale.size, 4096):
            part = slice(start, start + 4096)
            own = ratio[part, None, None] * np.exp(-0.5 * far / scale[part, None, None])
            factor = np.linalg.cholesky(own + np.eye(n))
            squares[part] = (np.linalg.solve(factor, y[:, None])[..., 0] ** 2).sum(-1)
            log_det[part] = 2 * np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(-1)
        value = -0.5 * (n * (LOG_2PI + 2 * log_noise) + log_det.reshape(shape))
        value = value - 0.5 * squares.reshape(shape) * np.exp(-2 * log_noise)
        log_height = log_ratio + log_noise
        value = value + stats.halfnorm.logpdf(np.exp(log_noise)) + log_noise
        value = value + stats.halfnorm.logpdf(np.exp(log_height)) + log_height
        return value + stats.norm.logpdf(log_length)

    log_z, accuracy = box_log_integral(log_f, (-9.0, 9.0), (-9.0, 9.0), (-8.0, 2.5), nodes=96)
    return Drawn(build, 3, log_z, accuracy, {"n": n})


@family
def heritability(rng: np.random.Generator) -> Drawn:
    """Values that relatives share, and a rest: either may have next to none of the spread."""
    n, families = int(rng.integers(6, 33)), int(rng.integers(2, 6))
    share, shapes = one_of(rng, 0.02, 0.4, 0.9), one_of(rng, (1.0, 1.0), (0.5, 0.5))
    spread = one_of(rng, scales.half_cauchy, scales.half_normal)(2.0)
    kin = 0.5 * np.eye(n) + 0.5 * np.equal(*np.meshgrid(*[np.arange(n) % families] * 2))
    root = np.linalg.cholesky(kin)
    y = np.sqrt(share) * root @ rng.normal(size=n) + np.sqrt(1 - share) * rng.normal(size=n)

    def build() -> pm.Model:
        with pm.Model() as model:
            mean, h2, sd = pm.Normal("mean", 0, 10), pm.Beta("h2", *shapes), spread.add("sd")
            value = pm.MvNormal("value", np.zeros(n), chol=sd * pt.sqrt(h2) * root)
            pm.Normal("y", mean + value, sd * pt.sqrt(1 - h2), observed=pm.Data("data", y))
        return model

    size, turn = np.linalg.eigh(kin)
    ones, target = turn.T @ np.ones(n), turn.T @ y

    def log_f(odds, log_sd):
        """Log density of the log odds of the share and of the log of the spread."""
        h2, rest, variance = expit(odds)[..., None], expit(-odds)[..., None], np.exp(2 * log_sd)
        own = h2 * size + rest
        weights = [(a * b / own).sum(-1) for a, b in product((target, ones), repeat=2)]
        more = 100 * weights[3] / variance
        square = weights[0] - weights[1] ** 2 / weights[3] * more / (1 + more)
        log_det = np.log1p(more) + np.log(own).sum(-1) + n * (2 * log_sd + LOG_2PI)
        a, b = shapes
        prior = a * log_expit(odds) + b * log_expit(-odds) - betaln(a, b)
        return prior + spread.log_density(log_sd) - 0.5 * (square / variance + log_det)

    log_z, accuracy = box_log_integral(log_f, (-40.0, 40.0), (-9.0, 15.0), nodes=320)
    about = {"n": n, "families": families, "share": share, "shapes": shapes}
    return Drawn(build, n + 3, log_z, accuracy, about | {"spread": spread.about})
