"""Tempered runs with exact draws, on paths whose log Z is known at every temperature."""

from dataclasses import dataclass, replace

import numpy as np
import xarray as xr
from scipy.special import digamma, gammaln, logsumexp, polygamma

from pymc_logz.estimators import TemperedDraws
from pymc_logz.trees.kinds import TEMPERED
from pymc_logz.trees.layout import make_tree
from support.checks import make_rng


@dataclass(frozen=True)
class PoissonPath:
    """Rate with a Gamma(shape, rate) prior, n Poisson counts with sum s: a skewed log ratio.

    At inverse temperature beta the rate has law Gamma(shape + beta s, rate + beta n).
    """

    shape: float = 1.5
    rate: float = 0.6
    total: float = 14.0
    n: float = 5.0

    def log_z(self, betas: np.ndarray) -> np.ndarray:
        """Exact log Z at each beta, 0 at the reference."""
        shape, rate = self.shape + betas * self.total, self.rate + betas * self.n
        log_integral = gammaln(shape) - shape * np.log(rate)
        return log_integral - (gammaln(self.shape) - self.shape * np.log(self.rate))

    def mean_log_ratio(self, betas: np.ndarray) -> np.ndarray:
        """Exact mean of the log ratio at each beta, the derivative of log Z."""
        shape, rate = self.shape + betas * self.total, self.rate + betas * self.n
        return self.total * (digamma(shape) - np.log(rate)) - self.n * shape / rate

    def variance_log_ratio(self, betas: np.ndarray) -> np.ndarray:
        """Exact variance of the log ratio at each beta, the derivative of its mean."""
        shape, rate = self.shape + betas * self.total, self.rate + betas * self.n
        common = self.n**2 * shape / rate**2 - 2 * self.total * self.n / rate
        return self.total**2 * polygamma(1, shape) + common

    def draw(self, rng: np.random.Generator, beta: np.ndarray) -> np.ndarray:
        """Exact draws, one at each of the given betas."""
        return rng.gamma(self.shape + beta * self.total) / (self.rate + beta * self.n)

    def log_ratio(self, x: np.ndarray) -> np.ndarray:
        """Log likelihood, without the factorials of the counts."""
        return self.total * np.log(x) - self.n * x


@dataclass(frozen=True)
class TruncatedPath:
    """Uniform prior on (0, 1), likelihood x**power below a limit and zero above it."""

    limit: float = 0.7
    power: float = 4.0

    def log_z(self, betas: np.ndarray) -> np.ndarray:
        """Exact log Z at each beta: at 0 the part above the limit still counts."""
        power = betas * self.power + 1
        return np.where(betas == 0, 0.0, power * np.log(self.limit) - np.log(power))

    def draw(self, rng: np.random.Generator, beta: np.ndarray) -> np.ndarray:
        """Exact draws, one at each of the given betas."""
        tempered = self.limit * rng.uniform(size=beta.shape) ** (1 / (beta * self.power + 1))
        return np.where(beta == 0, rng.uniform(size=beta.shape), tempered)

    def log_ratio(self, x: np.ndarray) -> np.ndarray:
        """Log likelihood; -inf above the limit."""
        return np.where(x < self.limit, self.power * np.log(x), -np.inf)


type Path = PoissonPath | TruncatedPath


def ladder(n_levels: int, power: float = 3.0) -> np.ndarray:
    """Inverse temperatures denser near the reference."""
    return np.linspace(0, 1, n_levels) ** power


def sticky_draws(
    path: Path,
    rng: np.random.Generator,
    *,
    betas: np.ndarray,
    shape: tuple[int, int] = (8, 400),
    stay: float = 0.0,
    log_prior: np.ndarray | None = None,
    log_z_hat: np.ndarray | None = None,
) -> TemperedDraws:
    """A stationary run of (level, x) pairs, each kept with probability ``stay``, else drawn anew.

    Every function of the pair has autocorrelation ``stay**t``, thus autocorrelation time
    ``(1 + stay) / (1 - stay)``.
    """
    log_prior = np.zeros(betas.size) if log_prior is None else log_prior
    log_z_hat = path.log_z(betas) if log_z_hat is None else log_z_hat
    log_distribution = log_prior - log_z_hat + path.log_z(betas)
    law = np.exp(log_distribution - logsumexp(log_distribution))
    level = rng.choice(betas.size, size=shape, p=law / law.sum())
    log_ratio = path.log_ratio(path.draw(rng, betas[level]))
    fresh = rng.uniform(size=shape) >= stay
    fresh[:, 0] = True
    source = np.maximum.accumulate(np.where(fresh, np.arange(shape[1]), 0), axis=1)
    level, log_ratio = (np.take_along_axis(a, source, axis=1) for a in (level, log_ratio))
    return TemperedDraws(level, log_ratio, betas, log_prior, log_z_hat)


def gibbs_draws(
    path: Path,
    rng: np.random.Generator,
    *,
    betas: np.ndarray,
    shape: tuple[int, int] = (8, 400),
    log_prior: np.ndarray | None = None,
    log_z_hat: np.ndarray | None = None,
) -> TemperedDraws:
    """Simulated tempering itself: x given the level, then the level given x, from stationarity."""
    first = sticky_draws(
        path, rng, betas=betas, shape=(shape[0], 1), log_prior=log_prior, log_z_hat=log_z_hat
    )
    log_weight = (first.log_prior - first.log_z_hat)[0]
    level, log_ratio = np.empty(shape, dtype=int), np.empty(shape)
    current = first.level[:, 0]
    for i in range(shape[1]):
        log_ratio[:, i] = path.log_ratio(path.draw(rng, betas[current]))
        gumbel = rng.gumbel(size=(shape[0], betas.size))
        current = np.argmax(first.log_tilt(log_ratio[:, i]) + log_weight + gumbel, axis=1)
        level[:, i] = current
    return replace(first, level=level, log_ratio=log_ratio, segment=np.zeros(1, dtype=int))


def stored_run(n_levels: int, label: str, log_z_error: float = 0.0) -> xr.DataTree:
    """A tree such as `sample_tempered` makes of the Poisson path, of 2 chains with 8 walkers."""
    path, betas = PoissonPath(), ladder(n_levels)
    log_z_hat = path.log_z(betas) + log_z_error * betas
    rng = make_rng("tempered evidence", label)
    draws = sticky_draws(path, rng, betas=betas, shape=(16, 600), stay=0.3, log_z_hat=log_z_hat)
    group = xr.Dataset(
        {
            "level": (("chain", "walker", "draw"), draws.level.reshape(2, 8, -1)),
            "log_ratio": (("chain", "walker", "draw"), draws.log_ratio.reshape(2, 8, -1)),
            "log_prior": ("stage", draws.log_prior),
            "log_z_hat": ("stage", log_z_hat),
        },
        coords={"stage": np.arange(n_levels), "beta": ("stage", betas)},
    )
    evidence = xr.Dataset({"log_z": ("estimator", [0.0])}, coords={"estimator": ["rts"]})
    return make_tree({"tempering": group, "evidence": evidence}, {}, TEMPERED)
