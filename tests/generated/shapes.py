"""Posteriors that are far from normal: ridges that bend, shells, many peaks along one axis."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import stats
from scipy.special import gammaln, logsumexp

from generated.cases import Drawn, family, one_of
from generated.quadrature import box_log_integral, pieces

LOG_2PI = float(np.log(2 * np.pi))


@family
def sinusoid(rng: np.random.Generator) -> Drawn:
    """A wave of unknown frequency in noise: the likelihood has a peak at each that almost fits."""
    n, sd, size = int(rng.integers(12, 50)), one_of(rng, 0.5, 1.0, 2.0), one_of(rng, 1.0, 2.0)
    times = np.sort(rng.uniform(0, 10, n))
    high = one_of(rng, 3.0, 6.0)
    w = rng.uniform(0.3, high)
    y = size * (rng.normal() * np.cos(w * times) + rng.normal() * np.sin(w * times))
    y = y + rng.normal(0, sd, n)

    def build() -> pm.Model:
        with pm.Model() as model:
            t, data = pm.Data("t", times), pm.Data("data", y)
            w = pm.Uniform("w", 0.3, high)
            a = pm.Normal("a", 0, size, shape=2)
            pm.Normal("y", a[0] * pt.cos(w * t) + a[1] * pt.sin(w * t), sd, observed=data)
        return model

    def log_f(w):
        design = np.stack([np.cos(w[..., None] * times), np.sin(w[..., None] * times)], -1)
        precision = np.einsum("...ni,...nj->...ij", design, design) / sd**2 + np.eye(2) / size**2
        linear = np.einsum("...ni,n->...i", design, y) / sd**2
        top = 0.5 * (linear * np.linalg.solve(precision, linear[..., None])[..., 0]).sum(-1)
        log_det = np.linalg.slogdet(precision)[1] + 4 * np.log(size)
        return stats.norm.logpdf(y, 0, sd).sum() + top - 0.5 * log_det - np.log(high - 0.3)

    log_z, accuracy = box_log_integral(log_f, (0.3, high))
    return Drawn(build, 3, log_z, accuracy, {"n": n, "sd": sd, "size": size, "high": high})


@family
def cauchy_location(rng: np.random.Generator) -> Drawn:
    """Centre and scale of a few values with Cauchy noise, far apart: a mode at each."""
    n, prior_sd = int(rng.integers(2, 9)), one_of(rng, 5.0, 20.0)
    y = rng.normal(0, one_of(rng, 2.0, 6.0, 15.0), n)

    def build() -> pm.Model:
        with pm.Model() as model:
            data = pm.Data("data", y)
            centre, scale = pm.Normal("centre", 0, prior_sd), pm.HalfNormal("scale", 1)
            pm.Cauchy("y", centre, scale, observed=data)
        return model

    def log_f(centre, log_scale):
        scale = np.exp(log_scale)
        value = stats.norm.logpdf(centre, 0, prior_sd)
        value = value + stats.halfnorm.logpdf(scale) + log_scale
        return value + sum(stats.cauchy.logpdf(one, centre, scale) for one in y)

    reach = 9 * prior_sd
    log_z, accuracy = box_log_integral(log_f, (-reach, reach), (-20.0, 3.0))
    return Drawn(build, 2, log_z, accuracy, {"n": n, "prior_sd": prior_sd})


@family
def shells(rng: np.random.Generator) -> Drawn:
    """One or two spherical shells inside a box, the second with its own radius and width."""
    d, n_shells = one_of(rng, 2, 3, 5, 8), int(rng.integers(1, 3))
    radii, widths = rng.uniform(1, 2, n_shells), rng.uniform(0.1, 0.3, n_shells)
    centres = np.zeros((n_shells, d))
    centres[:, 0] = [0.0] if n_shells == 1 else [-2.5, 2.5]
    half = 6.0

    def build() -> pm.Model:
        with pm.Model() as model:
            centre, radius, width = (
                pm.Data(name, value)
                for name, value in {"centre": centres, "radius": radii, "width": widths}.items()
            )
            x = pm.Uniform("x", -half, half, shape=d)
            far = pt.sqrt(((x - centre) ** 2).sum(1))
            own = -0.5 * ((far - radius) / width) ** 2 - pt.log(width)
            pm.Potential("shells", pt.logsumexp(own))
        return model

    def one(radius: float, width: float) -> float:
        r, log_weights = pieces(max(radius - 10 * width, 0.0), radius + 10 * width, 800)
        area = np.log(2) + 0.5 * d * np.log(np.pi) - gammaln(d / 2)
        own = -0.5 * ((r - radius) / width) ** 2 - np.log(width)
        return float(logsumexp(own + (d - 1) * np.log(r) + log_weights) + area)

    total = logsumexp([one(*both) for both in zip(radii, widths, strict=True)])
    log_z = float(total) - d * float(np.log(2 * half))
    about = {"shells": n_shells, "radii": radii.round(3).tolist()}
    # what a shell has outside the box, ten widths and more from it, does not count
    return Drawn(build, d, log_z, 1e-6, about)


@family
def banana(rng: np.random.Generator) -> Drawn:
    """Entries whose neighbours follow their squares, seen with noise."""
    pairs, bend = one_of(rng, 1, 2, 4), one_of(rng, 0.5, 2.0)
    sd, noise = one_of(rng, 0.1, 0.5), one_of(rng, 0.5, 2.0)
    u = rng.normal(0, 1.5, pairs)
    y = bend * u**2 + rng.normal(0, sd, pairs) + rng.normal(0, noise, pairs)

    def build() -> pm.Model:
        with pm.Model() as model:
            data = pm.Data("data", y)
            u = pm.Normal("u", 0, 1.5, shape=pairs)
            v = pm.Normal("v", bend * u**2, sd, shape=pairs)
            pm.Normal("y", v, noise, observed=data)
        return model

    def one(value: float) -> tuple[float, float]:
        def log_f(u):
            own = stats.norm.logpdf(u, 0, 1.5)
            return own + stats.norm.logpdf(value, bend * u**2, np.hypot(sd, noise))

        return box_log_integral(log_f, (-15.0, 15.0))

    found = np.array([one(value) for value in y])
    about = {"bend": bend, "sd": sd, "noise": noise}
    return Drawn(build, 2 * pairs, float(found[:, 0].sum()), float(found[:, 1].sum()), about)


@family
def product(rng: np.random.Generator) -> Drawn:
    """Two or three factors of which data see the product alone: ridges in every sign."""
    d, sd, n = int(rng.integers(2, 4)), one_of(rng, 0.1, 0.3), int(rng.integers(1, 6))
    y = float(np.prod(rng.normal(0, 1.5, d))) + rng.normal(0, sd, n)

    def build() -> pm.Model:
        with pm.Model() as model:
            data = pm.Data("data", y)
            x = pm.Normal("x", 0, 1.5, shape=d)
            pm.Normal("y", pt.prod(x), sd, observed=data)
        return model

    seen = float(stats.norm.logpdf(y, y.mean(), sd).sum())

    # given all factors but the last the product is normal
    def log_f(*x):
        rest = np.prod(np.broadcast_arrays(*x), axis=0) if len(x) > 1 else x[0]
        variance = (1.5 * rest) ** 2 + sd**2 / n
        own = sum(stats.norm.logpdf(one, 0, 1.5) for one in x)
        return own - 0.5 * (LOG_2PI + np.log(variance) + y.mean() ** 2 / variance)

    # all is even in each factor, and bends only at zero
    found, accuracy = box_log_integral(log_f, *[(0.0, 15.0)] * (d - 1))
    log_z = found + (d - 1) * np.log(2) + seen + 0.5 * (LOG_2PI + 2 * np.log(sd) - np.log(n))
    return Drawn(build, d, float(log_z), accuracy, {"sd": sd, "n": n})
