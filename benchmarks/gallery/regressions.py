"""One response, and what it depends on."""

import warnings

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import stats
from scipy.interpolate import BSpline

from gallery.entries import ordinary
from gallery.quadrature import NormalLinear, grid_log_z, model_log_z, normal_log_density


def _line() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    x = rng.normal(size=50)
    return x, 1.0 + 0.5 * x + rng.normal(0, 0.8, size=50)


def _line_exact() -> float:
    x, y = _line()
    linear = NormalLinear(np.stack([np.ones(50), x], axis=1), y)

    def log_f(u: np.ndarray) -> float:
        sigma = np.exp(u[0])
        prior = stats.halfnorm.logpdf(sigma, scale=2.0) + u[0]
        return linear.log_density([5.0, 5.0], sigma) + prior

    return grid_log_z(log_f, np.zeros(1))


@ordinary(exact=_line_exact)
def quickstart() -> pm.Model:
    """Line through 50 points, 3 parameters."""
    x, y = _line()
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0, 5)
        slope = pm.Normal("slope", 0, 5)
        sigma = pm.HalfNormal("sigma", 2)
        pm.Normal("y", intercept + slope * x, sigma, observed=y)
    return model


@ordinary()
def logistic() -> pm.Model:
    """Logistic regression, 1,000 rows on 20 predictors and an intercept."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(1000, 20))
    beta = rng.normal(0, 0.5, size=20)
    y = rng.random(1000) < 1 / (1 + np.exp(0.3 - x @ beta))
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0, 2.5)
        slopes = pm.Normal("slopes", 0, 1, shape=20)
        pm.Bernoulli("y", logit_p=intercept + x @ slopes, observed=y.astype(int))
    return model


@ordinary(exact=lambda: model_log_z(robust_line()))
def robust_line() -> pm.Model:
    """Line with Student-t noise and five outliers in 80 rows, 4 parameters."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, size=80)
    y = 1 + 2 * x + rng.normal(0, 0.3, size=80)
    y[:5] += rng.normal(0, 4, size=5)
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0, 5)
        slope = pm.Normal("slope", 0, 5)
        sigma = pm.HalfNormal("sigma", 2)
        nu = pm.Gamma("nu", 2, 0.1)
        pm.StudentT("y", nu=nu, mu=intercept + slope * x, sigma=sigma, observed=y)
    return model


MANY_ROWS = 20_000


def _many_rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    x = np.c_[np.ones(MANY_ROWS), rng.normal(size=(MANY_ROWS, 5))]
    beta = np.array([2.0, 0.5, -0.3, 0.1, 0.0, 0.02])
    return x, x @ beta + rng.normal(0, 1.5, size=MANY_ROWS)


def _many_rows_exact() -> float:
    linear = NormalLinear(*_many_rows())

    def log_f(u: np.ndarray) -> float:
        sigma = np.exp(u[0])
        return linear.log_density(np.full(6, 2.0), sigma) + stats.expon.logpdf(sigma) + u[0]

    return grid_log_z(log_f, np.zeros(1))


@ordinary(exact=_many_rows_exact)
def many_rows() -> pm.Model:
    """Linear regression with 20,000 rows, 7 parameters."""
    x, y = _many_rows()
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=6)
        sigma = pm.Exponential("sigma", 1)
        pm.Normal("y", x @ beta, sigma, observed=y)
    return model


def _conjugate() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(200, 49))
    return x, x @ rng.normal(0, 0.7, size=49) + rng.normal(0, 0.9, size=200)


def _conjugate_exact() -> float:
    x, y = _conjugate()
    # variance ~ InverseGamma(3, 2) and normal coefficients in its units: y is multivariate t
    shape = (2 / 3) * (np.eye(200) + x @ x.T)
    return float(stats.multivariate_t.logpdf(y, shape=shape, df=6))


@ordinary(exact=_conjugate_exact)
def conjugate_regression() -> pm.Model:
    """Linear regression with a conjugate prior, 50 parameters, 200 rows."""
    x, y = _conjugate()
    with pm.Model() as model:
        variance = pm.InverseGamma("variance", alpha=3, beta=2)
        beta = pm.Normal("beta", 0, pt.sqrt(variance), shape=49)
        pm.Normal("y", x @ beta, pt.sqrt(variance), observed=y)
    return model


@ordinary(exact=lambda: model_log_z(beta_regression()))
def beta_regression() -> pm.Model:
    """Shares between 0 and 1: beta regression, 3 parameters, 150 rows."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=150)
    mean = 1 / (1 + np.exp(-(-0.4 + 0.7 * x)))
    y = rng.beta(12 * mean, 12 * (1 - mean))
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0, 2)
        slope = pm.Normal("slope", 0, 2)
        precision = pm.Exponential("precision", 0.05)
        pm.Beta("y", mu=pm.math.sigmoid(intercept + slope * x), nu=precision, observed=y)
    return model


@ordinary(exact=lambda: model_log_z(censored_weibull()))
def censored_weibull() -> pm.Model:
    """Weibull survival regression with censoring, 3 parameters, 200 rows."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=200)
    times = np.exp(1.0 + 0.4 * x) * rng.weibull(1.4, size=200)
    with pm.Model() as model:
        shape = pm.Gamma("shape", 2, 1)
        intercept = pm.Normal("intercept", 0, 2)
        slope = pm.Normal("slope", 0, 1)
        law = pm.Weibull.dist(alpha=shape, beta=pm.math.exp(intercept + slope * x))
        pm.Censored("y", law, lower=None, upper=5.0, observed=np.minimum(times, 5.0))
    return model


@ordinary(exact=lambda: model_log_z(decay()))
def decay() -> pm.Model:
    """Exponential decay to a level: nonlinear regression, 4 parameters, 40 rows."""
    rng = np.random.default_rng(8)
    t = np.linspace(0, 10, 40)
    y = 5 * np.exp(-0.6 * t) + 1 + rng.normal(0, 0.3, size=40)
    with pm.Model() as model:
        height = pm.HalfNormal("height", 10)
        rate = pm.LogNormal("rate", -1, 1)
        level = pm.Normal("level", 0, 3)
        sigma = pm.HalfNormal("sigma", 1)
        pm.Normal("y", height * pm.math.exp(-rate * t) + level, sigma, observed=y)
    return model


N_KNOTS = 12


def _spline() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(9)
    x = np.sort(rng.uniform(0, 1, size=150))
    knots = np.r_[[0.0] * 3, np.linspace(0, 1, N_KNOTS), [1.0] * 3]
    basis = BSpline.design_matrix(x, knots, 3).toarray()
    return basis, 3 + np.sin(9 * x) * (1 + x) + rng.normal(0, 0.4, size=150)


def _spline_exact() -> float:
    basis, y = _spline()
    linear = NormalLinear(np.c_[np.ones(len(y)), basis], y)

    def log_f(u: np.ndarray) -> float:
        tau, sigma = np.exp(u)
        prior = stats.halfnorm.logpdf(tau, scale=2.0) + stats.halfnorm.logpdf(sigma)
        sds = np.r_[5.0, np.full(basis.shape[1], tau)]
        return linear.log_density(sds, sigma) + float(prior) + u.sum()

    return grid_log_z(log_f, np.zeros(2))


@ordinary(exact=_spline_exact)
def spline() -> pm.Model:
    """Curve through 150 points by 14 cubic splines with a common spread, 17 parameters."""
    basis, y = _spline()
    with pm.Model() as model:
        level = pm.Normal("level", 0, 5)
        tau = pm.HalfNormal("tau", 2)
        weights = pm.Normal("weights", 0, 1, shape=basis.shape[1])
        sigma = pm.HalfNormal("sigma", 1)
        pm.Normal("y", level + tau * (basis @ weights), sigma, observed=y)
    return model


@ordinary()
def horseshoe(n_predictors: int = 20) -> pm.Model:
    """Regularised horseshoe: 100 rows on 20 predictors of which 4 matter, 44 parameters."""
    rng = np.random.default_rng(10)
    x = rng.normal(size=(100, n_predictors))
    beta = np.r_[2.0, -1.5, 1.0, 0.7, np.zeros(n_predictors - 4)]
    y = x @ beta + rng.normal(size=100)
    with pm.Model() as model:
        sigma = pm.HalfNormal("sigma", 2)
        tau = pm.HalfStudentT("tau", nu=2, sigma=0.25)
        local = pm.HalfStudentT("local", nu=5, sigma=1, shape=n_predictors)
        slab = pm.InverseGamma("slab", alpha=2, beta=8)
        shrunk = local * pt.sqrt(slab / (slab + tau**2 * local**2))
        z = pm.Normal("z", 0, 1, shape=n_predictors)
        intercept = pm.Normal("intercept", 0, 2)
        pm.Normal("y", intercept + x @ (z * tau * shrunk), sigma, observed=y)
    return model


def _with_holes() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    x = rng.normal(1.0, 1.5, size=60)
    y = 0.5 + 1.2 * x + rng.normal(0, 0.7, size=60)
    x[rng.choice(60, size=12, replace=False)] = np.nan
    return x, y


def _missing_exact() -> float:
    x, y = _with_holes()
    seen = np.isfinite(x)

    def log_f(u: np.ndarray) -> float:
        """Log density with the covariates that are missing integrated out."""
        mean, intercept, slope = u[:3]
        spread, sigma = np.exp(u[3:])
        total = np.hypot(slope * spread, sigma)
        terms = (
            normal_log_density(x[seen], mean, spread),
            normal_log_density(y[seen], intercept + slope * x[seen], sigma),
            normal_log_density(y[~seen], intercept + slope * mean, total),
            normal_log_density(u[:3], 0.0, np.array([5.0, 5.0, 2.0])),
            # half-normal: twice as dense
            np.log(2) + normal_log_density(np.array([spread, sigma]), 0.0, 2.0) + u[3:],
        )
        return float(sum(term.sum() for term in terms))

    return grid_log_z(log_f, np.zeros(5))


@ordinary(exact=_missing_exact)
def missing_covariates() -> pm.Model:
    """Line with 12 of 60 covariates missing and imputed, 17 parameters."""
    x, y = _with_holes()
    with pm.Model() as model, warnings.catch_warnings():
        warnings.simplefilter("ignore", pm.exceptions.ImputationWarning)
        mean = pm.Normal("mean", 0, 5)
        spread = pm.HalfNormal("spread", 2)
        covariate = pm.Normal("x", mean, spread, observed=np.ma.masked_invalid(x))
        intercept = pm.Normal("intercept", 0, 5)
        slope = pm.Normal("slope", 0, 2)
        sigma = pm.HalfNormal("sigma", 2)
        pm.Normal("y", intercept + slope * covariate, sigma, observed=y)
    return model
