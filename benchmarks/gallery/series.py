"""What comes one after the other."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import stats

from gallery.entries import ordinary
from gallery.quadrature import grid_log_z, model_log_z


@ordinary(exact=lambda: model_log_z(gaussian_process()))
def gaussian_process() -> pm.Model:
    """Gaussian process regression with 100 points, 3 parameters."""
    rng = np.random.default_rng(41)
    x = np.sort(rng.uniform(0, 10, size=100))
    y = np.sin(x) + 0.3 * x + rng.normal(0, 0.4, size=100)
    with pm.Model() as model:
        length = pm.InverseGamma("length", alpha=5, beta=8)
        height = pm.HalfNormal("height", 2)
        sigma = pm.HalfNormal("sigma", 1)
        gp = pm.gp.Marginal(cov_func=height**2 * pm.gp.cov.Matern52(1, ls=length))
        gp.marginal_likelihood("y", X=x[:, None], y=y, sigma=sigma)
    return model


def _walk(n_steps: int) -> np.ndarray:
    rng = np.random.default_rng(42)
    return np.cumsum(rng.normal(0, 0.3, size=n_steps)) + rng.normal(0, 0.5, size=n_steps)


def local_level_log_density(
    y: np.ndarray, start_sd: float, step_sd: float, noise_sd: float
) -> float:
    """Log density of a random walk seen through noise, by the Kalman filter.

    The first level is Normal(0, start_sd); all three standard deviations are known.
    """
    mean, variance, log_p = 0.0, start_sd**2, 0.0
    for value in y:
        total = variance + noise_sd**2
        log_p -= 0.5 * (np.log(2 * np.pi * total) + (value - mean) ** 2 / total)
        gain = variance / total
        mean, variance = mean + gain * (value - mean), (1 - gain) * variance + step_sd**2
    return log_p


def walk_log_z(n_steps: int = 100) -> float:
    """log Z of `random_walk` and `local_level`: the Kalman filter, two spreads on a grid."""
    y = _walk(n_steps)

    def log_f(u: np.ndarray) -> float:
        step_sd, noise_sd = np.exp(u)
        prior = stats.halfnorm.logpdf([step_sd, noise_sd]).sum() + u.sum()
        return local_level_log_density(y, 1.0, step_sd, noise_sd) + float(prior)

    return grid_log_z(log_f, np.zeros(2))


@ordinary(exact=walk_log_z)
def random_walk(n_steps: int = 100) -> pm.Model:
    """Gaussian random walk seen through noise, centred, 102 parameters."""
    with pm.Model() as model:
        step_sd = pm.HalfNormal("step_sd", 1)
        noise_sd = pm.HalfNormal("noise_sd", 1)
        level = pm.GaussianRandomWalk(
            "level", sigma=step_sd, init_dist=pm.Normal.dist(0, 1), shape=n_steps
        )
        pm.Normal("y", level, noise_sd, observed=_walk(n_steps))
    return model


@ordinary(exact=walk_log_z)
def local_level(n_steps: int = 100) -> pm.Model:
    """The same walk as a sum of standard normal steps, 102 parameters."""
    with pm.Model() as model:
        step_sd = pm.HalfNormal("step_sd", 1)
        noise_sd = pm.HalfNormal("noise_sd", 1)
        first = pm.Normal("first", 0, 1)
        steps = pm.Normal("steps", 0, 1, shape=n_steps - 1)
        level = first + pt.concatenate([[0.0], step_sd * pt.cumsum(steps)])
        pm.Normal("y", level, noise_sd, observed=_walk(n_steps))
    return model


@ordinary()
def stochastic_volatility() -> pm.Model:
    """Returns of 100 days whose log volatility is a random walk, 102 parameters."""
    rng = np.random.default_rng(43)
    volatility = np.exp(-0.5 + np.cumsum(rng.normal(0, 0.15, size=100)))
    y = volatility * rng.standard_t(8, size=100)
    with pm.Model() as model:
        step_sd = pm.Exponential("step_sd", 10)
        nu = pm.Exponential("nu", 0.1)
        first = pm.Normal.dist(0, 1)
        log_volatility = pm.GaussianRandomWalk(
            "log_volatility", sigma=step_sd, init_dist=first, shape=100
        )
        pm.StudentT("y", nu=nu, sigma=pm.math.exp(log_volatility), observed=y)
    return model


@ordinary(exact=lambda: model_log_z(autoregression()))
def autoregression() -> pm.Model:
    """AR(2) with a constant, 4 parameters, 120 values."""
    rng = np.random.default_rng(44)
    y = np.zeros(140)
    for t in range(2, 140):
        y[t] = 0.5 + 0.6 * y[t - 1] - 0.3 * y[t - 2] + rng.normal(0, 0.8)
    with pm.Model() as model:
        rho = pm.Normal("rho", 0, 1, shape=3)
        sigma = pm.HalfNormal("sigma", 2)
        start = pm.Normal.dist(0, 2, shape=2)
        pm.AR("y", rho=rho, sigma=sigma, constant=True, init_dist=start, observed=y[20:])
    return model


@ordinary(exact=lambda: model_log_z(garch()))
def garch() -> pm.Model:
    """GARCH(1, 1) of 300 returns, a scan, 3 parameters of which two depend on each other."""
    rng = np.random.default_rng(45)
    y, variance = np.zeros(300), 1.0
    for t in range(300):
        y[t] = np.sqrt(variance) * rng.normal()
        variance = 0.2 + 0.25 * y[t] ** 2 + 0.6 * variance
    with pm.Model() as model:
        omega = pm.HalfNormal("omega", 1)
        of_shock = pm.Uniform("of_shock", 0, 1)
        of_past = pm.Uniform("of_past", 0, 1 - of_shock)
        law = {"omega": omega, "alpha_1": of_shock, "beta_1": of_past}
        pm.GARCH11("y", **law, initial_vol=1.0, observed=y)
    return model


@ordinary()
def change_of_slope() -> pm.Model:
    """A trend whose slope changes at 10 possible times, and a season, 16 parameters, 150 rows."""
    rng = np.random.default_rng(46)
    t = np.linspace(0, 1, 150)
    changes = np.linspace(0.05, 0.85, 10)
    hinges = np.maximum(t[:, None] - changes, 0)
    season = np.c_[np.sin(12 * np.pi * t), np.cos(12 * np.pi * t)]
    trend = 1 + 2 * t - 3 * np.maximum(t - 0.4, 0)
    y = trend + season @ [0.4, 0.2] + rng.normal(0, 0.2, size=150)
    with pm.Model() as model:
        level = pm.Normal("level", 0, 2)
        slope = pm.Normal("slope", 0, 2)
        spread = pm.Exponential("spread", 1)
        delta = pm.Laplace("delta", 0, spread, shape=10)
        seasonal = pm.Normal("seasonal", 0, 1, shape=2)
        sigma = pm.HalfNormal("sigma", 1)
        mean = level + slope * t + hinges @ delta + season @ seasonal
        pm.Normal("y", mean, sigma, observed=y)
    return model
