"""Priors and posteriors with long tails, to either side, of locations and of scales."""

import numpy as np
import pymc as pm
from scipy import stats

from adversary.cases import case
from adversary.integrals import half_line, interval, line, log_integral


@case(lambda: float(stats.cauchy.logpdf(20, 0, 2)), tempered=True)
def cauchy_of_a_cauchy() -> pm.Model:
    """A Cauchy datum 20 units out under a Cauchy prior: two modes and tails between and beyond."""
    with pm.Model() as model:
        mu = pm.Cauchy("mu", 0, 1)
        pm.Cauchy("y", mu, 1, observed=20.0)
    return model


@case(
    lambda: log_integral(
        lambda x: stats.cauchy.logpdf(x) + stats.norm.logpdf(1e4, x, 1),
        interval(9980, 10000, 10020),
    ),
    nuts=True,
)
def cauchy_prior_far_datum() -> pm.Model:
    """A datum ten thousand scales out, which a Cauchy prior allows."""
    with pm.Model() as model:
        mu = pm.Cauchy("mu", 0, 1)
        pm.Normal("y", mu, 1, observed=1e4)
    return model


@case(lambda: 5 * float(stats.cauchy.logpdf(3, 0, 2)))
def five_cauchys() -> pm.Model:
    """Five Cauchy locations, each with one Cauchy datum: the posterior has no mean."""
    with pm.Model() as model:
        mu = pm.Cauchy("mu", 0, 1, shape=5)
        pm.Cauchy("y", mu, 1, observed=np.full(5, 3.0))
    return model


@case(
    lambda: log_integral(
        lambda s: stats.halfcauchy.logpdf(s, scale=25) + stats.norm.logpdf(1.0, 0, s), half_line()
    ),
    nuts=True,
    tempered=True,
)
def half_cauchy_scale_of_one_datum() -> pm.Model:
    """The scale of one datum: the posterior falls like a power of -3."""
    with pm.Model() as model:
        s = pm.HalfCauchy("s", 25)
        pm.Normal("y", 0, s, observed=1.0)
    return model


@case(
    lambda: log_integral(
        lambda s: stats.lognorm.logpdf(s, 5) + stats.expon.logpdf(0.01, scale=s), half_line()
    ),
    tempered=True,
)
def log_normal_of_five() -> pm.Model:
    """A scale known to within a factor of e^5."""
    with pm.Model() as model:
        s = pm.LogNormal("s", 0, 5)
        pm.Exponential("y", scale=s, observed=0.01)
    return model


@case(
    lambda: log_integral(
        lambda s: stats.invgamma.logpdf(s, 0.1, scale=0.1) + stats.norm.logpdf(0.3, 0, np.sqrt(s)),
        half_line(),
    )
)
def inverse_gamma_of_a_tenth() -> pm.Model:
    """A variance under the popular vague prior."""
    with pm.Model() as model:
        s = pm.InverseGamma("s", 0.1, 0.1)
        pm.Normal("y", 0, pm.math.sqrt(s), observed=0.3)
    return model


@case(
    lambda: log_integral(
        lambda s: stats.pareto.logpdf(s, 0.5) + stats.norm.logpdf(7.0, np.log(s), 1.0),
        interval(*np.exp(np.arange(0.0, 40.0, 2.0)), n=400),
    )
)
def pareto_without_a_mean() -> pm.Model:
    """A Pareto prior of index one half, its log seen."""
    with pm.Model() as model:
        s = pm.Pareto("s", 0.5, 1.0)
        pm.Normal("y", pm.math.log(s), 1.0, observed=7.0)
    return model


@case(
    lambda: log_integral(
        lambda x: stats.t.logpdf(x, 0.5) + stats.norm.logpdf(2.0, x, 0.5), line(2, 0.1)
    )
)
def student_of_half_a_degree() -> pm.Model:
    """A Student-t prior with half a degree of freedom."""
    with pm.Model() as model:
        x = pm.StudentT("x", nu=0.5, mu=0, sigma=1)
        pm.Normal("y", x, 0.5, observed=2.0)
    return model


@case(lambda: log_integral(lambda x: stats.t.logpdf(x, 0.5) - 0.1 * np.log1p(x**2), line(0, 0.1)))
def student_hardly_changed() -> pm.Model:
    """A Student-t with half a degree of freedom and almost no likelihood."""
    with pm.Model() as model:
        x = pm.StudentT("x", nu=0.5, mu=0, sigma=1)
        pm.Potential("almost", -0.1 * pm.math.log1p(x**2))
    return model


def _ten_students_exact() -> float:
    one = lambda x: stats.t.logpdf(x, 2) + stats.t.logpdf(6.0, 2, x, 1)  # noqa: E731
    return 10 * log_integral(one, line(0, 0.1))


@case(_ten_students_exact)
def ten_students_in_conflict() -> pm.Model:
    """Ten locations, each with prior and datum in conflict: 1,024 modes."""
    with pm.Model() as model:
        x = pm.StudentT("x", nu=2, mu=0, sigma=1, shape=10)
        pm.StudentT("y", nu=2, mu=x, sigma=1, observed=np.full(10, 6.0))
    return model


@case(
    lambda: log_integral(
        lambda x: stats.laplace.logpdf(x) + stats.laplace.logpdf(8.0, x, 1), interval(-60, 0, 8, 68)
    ),
    tempered=True,
)
def laplace_of_a_laplace() -> pm.Model:
    """A plateau between a Laplace prior and a Laplace datum."""
    with pm.Model() as model:
        x = pm.Laplace("x", 0, 1)
        pm.Laplace("y", x, 1, observed=8.0)
    return model


@case(
    lambda: log_integral(
        lambda x: stats.gumbel_r.logpdf(x, 0, 3) + stats.norm.logpdf(5.0, x**3 / 100, 0.1),
        interval(-40, 0, 6, 9, 20),
    )
)
def gumbel_seen_by_its_cube() -> pm.Model:
    """A skewed prior, seen through a cube."""
    with pm.Model() as model:
        x = pm.Gumbel("x", 0, 3)
        pm.Normal("y", x**3 / 100, 0.1, observed=5.0)
    return model
