"""Groups without names whose weights are unknown, and persons who answer few items."""

import numpy as np
import pymc as pm
from scipy import stats
from scipy.special import betaln, expit, log_expit, logsumexp

from generated import scales
from generated.cases import Drawn, family, one_of
from generated.quadrature import box_log_integral, pieces

LOG_2PI = float(np.log(2 * np.pi))


@family
def two_lines(rng: np.random.Generator) -> Drawn:
    """A mixture of two regression lines for few points: each partition of them is a mode."""
    n, sd, noise = int(rng.integers(3, 9)), one_of(rng, 1.0, 5.0, 50.0), one_of(rng, 0.05, 0.4)
    share, spread = one_of(rng, 1.0, 3.0), one_of(rng, scales.half_normal, scales.exponential)(0.5)
    x, lines = np.round(rng.uniform(-1, 1, n), 2), rng.normal(0, 1.2, (2, 2))
    own = lines[(rng.random(n) < one_of(rng, 0.1, 0.5)).astype(int)]
    y = own[:, 0] + own[:, 1] * x + rng.normal(0, noise, n)

    def build() -> pm.Model:
        with pm.Model() as model:
            w = pm.Dirichlet("w", np.full(2, share))
            level, slope = pm.Normal("level", 0, sd, shape=2), pm.Normal("slope", 0, sd, shape=2)
            mu = level + slope * x[:, None]
            pm.NormalMixture("y", w=w, mu=mu, sigma=spread.add("sigma"), observed=y)
        return model

    # which points are on the first line, shape (2**n, n)
    first = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    k = first.sum(axis=1)
    ways = betaln(share + k, share + n - k) - betaln(share, share)
    lines = np.column_stack([np.ones(n), x])

    def log_f(t):
        both = ways[:, None] - n * (0.5 * LOG_2PI + t)
        for members in (first, 1 - first):
            left, size, _ = np.linalg.svd(members[..., None] * lines * sd, full_matrices=False)
            along = np.einsum("snp,sn->sp", left, members * y)
            rest = members * y - np.einsum("snp,sp->sn", left, along)
            both = both - 0.5 * np.exp(-2 * t) * (rest**2).sum(axis=1)[:, None]
            for j in range(2):
                more = size[:, j, None] ** 2 * np.exp(-2 * t)
                both = both - 0.5 * np.log1p(more)
                both = both - 0.5 * np.exp(-2 * t) * along[:, j, None] ** 2 / (1 + more)
        return spread.log_density(t) + logsumexp(both, axis=0)

    log_z, accuracy = box_log_integral(log_f, (-16.0, 9.0), nodes=400)
    about = {"n": n, "sd": sd, "noise": noise, "share": share, "spread": spread.about}
    return Drawn(build, 6, log_z, accuracy, about)


@family
def few_items(rng: np.random.Generator) -> Drawn:
    """Persons who pass both of two items or none: abilities with tails that no normal has."""
    n, sd, true = int(rng.integers(3, 36)), one_of(rng, 1.0, 3.0, 10.0), one_of(rng, 0.5, 2.5)
    passed = rng.random((n, 2)) < expit(rng.normal(size=(n, 1)) - rng.normal(0, true, 2))
    correct, scores = passed.sum(axis=0), np.bincount(passed.sum(axis=1), minlength=3)

    def build() -> pm.Model:
        with pm.Model() as model:
            ability, difficulty = (
                pm.Normal("ability", shape=n),
                pm.Normal("difficulty", 0, sd, shape=2),
            )
            logit = ability[:, None] - difficulty
            pm.Bernoulli("y", logit_p=logit, observed=passed.astype(int))
        return model

    z, log_weights = pieces(-9.0, 9.0, 96)
    log_weights = log_weights + stats.norm.logpdf(z)

    def log_f(a, b):
        fails = log_expit(a[..., None] - z) + log_expit(b[..., None] - z)
        value = stats.norm.logpdf(a, 0, sd) + stats.norm.logpdf(b, 0, sd)
        value = value - a * correct[0] - b * correct[1]
        for s, count in enumerate(scores):
            value = value + count * logsumexp(fails + s * z + log_weights, axis=-1)
        return value

    log_z, accuracy = box_log_integral(log_f, *[(-9.0 * sd, 9.0 * sd)] * 2)
    return Drawn(build, n + 2, log_z, accuracy, {"n": n, "sd": sd, "correct": correct.tolist()})
