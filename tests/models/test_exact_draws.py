"""Priors whose draws round to a bound: nothing of them is lost, and no wrong reason is given."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp, softmax
from support import pymc_models as models
from support.checks import make_rng

from pymc_logz.errors import ImproperPriorError
from pymc_logz.models.density import RowDensity
from pymc_logz.models.flat import constrain, flatten_model
from pymc_logz.models.known_priors import exact_transforms
from pymc_logz.models.prior import PriorDraws

pytestmark = pytest.mark.filterwarnings(
    "ignore:PyTensor could not link to a BLAS", "ignore:the model has potentials"
)
FAST = {"mode": "FAST_COMPILE"}
LOWEST_P = 1e-6
INTERVAL = pm.distributions.transforms.Interval(0, None)
ORDERED = pm.distributions.transforms.ordered


def model_of(prior: Callable[[], Any]) -> pm.Model:
    """One prior, and a potential that is nothing."""
    with pm.Model() as model:
        pm.Potential("nothing", 0.0 * prior().sum())
    return model


DRAWN: dict[str, Callable[[], Any]] = {
    "Beta": lambda: pm.Beta("x", 0.7, 2.0),
    "Beta with a spike": lambda: pm.Beta("x", 0.4, 2.0),
    "Beta at both ends": lambda: pm.Beta("x", 0.01, 0.01),
    "Beta at one end": lambda: pm.Beta("x", 1.0, 0.01),
    "Gamma": lambda: pm.Gamma("x", 0.7, 2.0),
    "Gamma below the smallest number": lambda: pm.Gamma("x", 0.001, 3.0),
    "InverseGamma": lambda: pm.InverseGamma("x", 2.0, 3.0),
    "InverseGamma with a tail": lambda: pm.InverseGamma("x", 0.4, 3.0),
    "InverseGamma above the largest": lambda: pm.InverseGamma("x", 0.001, 3.0),
    "LogNormal": lambda: pm.LogNormal("x", 1.0, 0.5),
    "one stick": lambda: pm.StickBreakingWeights("x", 2.0, 1),
    "one stick at one end": lambda: pm.StickBreakingWeights("x", 0.05, 1),
    "Weibull": lambda: pm.Weibull("x", 1.5, 2.0),
    "Weibull at both ends": lambda: pm.Weibull("x", 0.01, 2.0),
}


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "one stick")) for name in DRAWN]
)
def test_draws_follow_the_density_of_the_model(name: str) -> None:
    """Catches a part of the prior beyond rounding that is left out, and a wrong parameter."""
    model = model_of(DRAWN[name])
    prior, rng = PriorDraws(model), make_rng(name)
    draws = prior(rng, 2000)[:, 0]
    # a vector of one entry is evaluated row by row
    n = 2001 if model["x"].ndim else 40_001
    grid = np.linspace(draws.min() - np.ptp(draws), draws.max() + np.ptp(draws), n)
    log_prior, _ = RowDensity(flatten_model(model), FAST)(grid[:, None])
    density = np.exp(np.nan_to_num(log_prior, nan=-np.inf))
    mass = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(grid))])
    assert abs(mass[-1] - 1.0) < 0.01
    p = stats.kstest(draws, lambda x: np.interp(x, grid, mass / mass[-1])).pvalue
    assert p > LOWEST_P
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert prior.log_mass(rng) == (0.0, 0.0)


SHAPED: dict[str, Callable[[Any], Any]] = {
    "matrix": lambda s: pm.Beta("x", 2.0, s, shape=(2, 3)),
    "vector of parameters": lambda s: pm.Gamma("x", np.array([2.0, 3.0]), s),
    "simplex": lambda s: pm.Dirichlet("x", np.array([2.0, 3.0, 4.0]) * s),
    "simplices": lambda s: pm.Dirichlet("x", np.array([2.0, 3.0, 4.0]) * s, shape=(2, 3)),
    "sticks": lambda s: pm.StickBreakingWeights("x", 3.0 * s, 2),
    "rows of sticks": lambda s: pm.StickBreakingWeights("x", 3.0 * s, 2, shape=(2, 3)),
    "sticks of vectors": lambda s: pm.StickBreakingWeights("x", np.array([2.0, 3.0]) * s, 2),
}


@pytest.mark.parametrize("name", SHAPED)
def test_draws_of_any_shape_under_random_parameters(name: str) -> None:
    """Catches parameters of one row that meet the draws of another, and shapes that differ."""
    with pm.Model() as model:
        scale = pm.Uniform("scale", 1.0, 2.0)
        x = SHAPED[name](scale)
        pm.Potential("nothing", 0.0 * x.sum())
    prior = PriorDraws(model)
    assert prior.vectorized
    rows = prior(np.random.default_rng(3), 4000)
    scales, values = pm.draw([scale, x], draws=4000, random_seed=4, **FAST)
    transform = model.rvs_to_transforms[x]
    theirs = np.asarray(transform.forward(values).eval(**FAST)).reshape(4000, -1)
    assert rows.shape == (4000, 1 + theirs.shape[1])
    ours = np.c_[stats.logistic.cdf(rows[:, 0]) + 1.0, rows[:, 1:]]
    other = np.c_[scales, theirs]
    for i in range(ours.shape[1]):
        assert stats.ks_2samp(ours[:, i], other[:, i]).pvalue > LOWEST_P
        # the sum with the parameter, since each law alone may be right where both are not
        assert stats.ks_2samp(ours[:, i] * ours[:, 0], other[:, i] * other[:, 0]).pvalue > LOWEST_P


def test_ordinary_priors_are_drawn_from_as_they_were() -> None:
    """Catches a graph that costs compilation where nothing rounds."""
    with pm.Model() as model:
        pm.Gamma("rate", 2.0, 1.0)
        pm.Beta("share", 1.0, 2.0)
        pm.LogNormal("size", 0.0, 1.0)
        spike = pm.Beta("spike", 0.1, 2.0)
    own, exact = model.rvs_to_transforms, exact_transforms(model)
    changed = [rv for rv in exact if exact[rv] is not own[rv]]
    assert changed == [spike]


def test_log_z_of_a_prior_beyond_rounding() -> None:
    """Catches 0.4 nats: 69% of the draws of Beta(1, 0.01) are 1 in double precision."""
    with pm.Model() as model:
        pm.Bernoulli("y", pm.Beta("p", 1.0, 0.01), observed=0)
    exact = np.log(0.01 / 1.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        models.assert_log_z(models.quick(model), exact)


@pytest.mark.parametrize(
    "prior",
    [
        lambda: pm.Kumaraswamy("x", 0.01, 0.01),
        lambda: pm.LogNormal("x", 0.0, 400.0),
        lambda: pm.Mixture("x", [0.5, 0.5], [pm.Beta.dist(0.01, 0.01), pm.Beta.dist(1.0, 1.0)]),
    ],
    ids=["bounds", "no density there", "unknown"],
)
def test_other_priors_that_round_are_refused(prior: Callable[[], Any]) -> None:
    """Catches a log Z without the part of the prior whose unconstrained values are infinite."""
    with pytest.raises(ImproperPriorError, match=r"round to a bound of \['x'\]"):
        PriorDraws(model_of(prior)).log_mass(np.random.default_rng(1))


def far_out(link: Callable[[Any], Any]) -> pm.Model:
    """A prior of which a half is beyond all numbers, and a likelihood of what is linked."""
    with pm.Model() as model:
        precision = pm.Gamma("precision", 0.001, 0.001)
        x = pm.Normal("x", 0.0, tau=precision, shape=3)
        pm.Normal("y", link(x), 1.0, observed=np.array([0.5, -2.0, 1.0]))
    return model


def test_draws_beyond_all_numbers_count_as_likelihoods_of_zero() -> None:
    """Catches a prior that is refused, or renormalised, for draws that overflow."""
    log_precision = np.linspace(-60.0, 60.0, 4001)
    spread = np.sqrt(1 + np.exp(-log_precision))
    log_f = stats.norm.logpdf(np.array([[0.5], [-2.0], [1.0]]), 0, spread).sum(axis=0)
    log_f += (
        0.001 * (log_precision + np.log(0.001)) - 0.001 * np.exp(log_precision) - gammaln(0.001)
    )
    exact = float(logsumexp(log_f) + np.log(np.diff(log_precision)[0]))
    models.assert_log_z(models.quick(far_out(lambda x: x)), exact)


def test_what_depends_on_weights_near_the_corners_is_drawn_given_them() -> None:
    """Catches other weights than those of the row: of a simplex only differences count."""
    levels = np.arange(3.0)
    with pm.Model() as model:
        weights = pm.Dirichlet("weights", np.full(3, 0.002))
        pm.Normal("x", weights @ levels, 1e-3)
    rows = PriorDraws(model)(make_rng("corners"), 5_000)
    free = np.column_stack([rows[:, :2], -rows[:, :2].sum(axis=1)])
    assert np.mean(np.abs(free).max(axis=1) > 600) > 0.1
    np.testing.assert_allclose(rows[:, 2], softmax(free, axis=1) @ levels, atol=0.01)


def test_draws_beyond_all_numbers_are_refused_where_they_are_likely() -> None:
    """Catches a log Z without the part of a prior that no number stands for."""
    with pytest.raises(ImproperPriorError, match=r"\['x'\] are larger than 1e\+70"):
        models.quick(far_out(lambda x: x / (1 + abs(x))))


def test_what_a_transform_forbids_is_no_rounding() -> None:
    """Catches a restricted prior that is taken for one that rounds."""
    prior = PriorDraws(model_of(lambda: pm.Normal("x", transform=INTERVAL)))
    with pytest.warns(UserWarning, match="transforms take only"):
        log_mass, error = prior.log_mass(np.random.default_rng(1))
    prior(np.random.default_rng(2), 100)
    prior.warn_of_restriction()  # not again, with another number: warnings are errors here
    assert abs(log_mass - np.log(0.5)) < 4 * error
    assert prior.n_rounded == 0


@pytest.mark.parametrize("k", [4, 12])
def test_share_of_ordered_entries(k: int) -> None:
    """Catches a share of like entries in order that is not 1 / k!, or draws that are not sorted."""
    prior = PriorDraws(model_of(lambda: pm.Normal("x", shape=(2, k), transform=ORDERED)))
    with pytest.warns(UserWarning, match="transforms take only"):
        assert prior.log_mass() == pytest.approx((-2 * gammaln(k + 1), 0.0))
    rows = prior(np.random.default_rng(1), 4096)
    # given that they are in order, the first is the least of all
    least = np.random.default_rng(2).normal(size=(4096, k)).min(axis=1)
    assert stats.ks_2samp(rows[:, 0], least).pvalue > 1e-4


def test_entries_that_fall_or_have_named_dimensions_are_sorted_too() -> None:
    """Catches draws in the other order, of which none is allowed, and lengths that dims tell."""
    falling = pm.distributions.transforms.Ordered(ascending=False)
    with pm.Model(coords={"item": range(2), "cut": range(12)}) as model:
        x = pm.Normal("x", dims=("item", "cut"), transform=falling)
        pm.Potential("nothing", 0.0 * x.sum())
    prior = PriorDraws(model)
    with pytest.warns(UserWarning, match="transforms take only"):
        assert prior.log_mass() == pytest.approx((-2 * gammaln(13), 0.0))
    assert prior.n_outside == 0
    [natural] = constrain(flatten_model(model), prior(make_rng(), 16), ["x"]).values()
    assert np.all(np.diff(natural) < 0)


def test_share_of_entries_in_order_that_are_not_alike() -> None:
    """Catches draws that are sorted where entries differ, which changes their distribution."""
    means = np.array([0.0, 1.0])
    prior = PriorDraws(model_of(lambda: pm.Normal("x", means, 1, shape=2, transform=ORDERED)))
    with pytest.warns(UserWarning, match="transforms take only"):
        log_mass, error = prior.log_mass()
    assert abs(log_mass - stats.norm.logcdf(np.sqrt(0.5))) < 4 * error < 0.05
    assert prior.log_mass() == (log_mass, error)
    rows, draws = prior(np.random.default_rng(1), 4096), make_rng().normal(means, 1, (8192, 2))
    assert stats.ks_2samp(rows[:, 0], draws[np.diff(draws)[:, 0] > 0, 0]).pvalue > 1e-4


def test_draws_of_autoregressions_are_made_together() -> None:
    """Catches a batch whose parameters go to other rows, and a loop of calls, a row each."""
    with pm.Model() as model:
        mean, rho = pm.Normal("mean"), pm.Normal("rho", 0.5, 0.1, shape=3)
        tau = pm.LogNormal("tau", mean)
        start = pm.Normal.dist(mean, tau, shape=(2, 2))
        pm.AR("x", rho, sigma=tau, init_dist=start, constant=True, shape=(2, 6))
        pm.Potential("nothing", 0.0 * pm.Normal("after", tau).sum())
    prior, flat = PriorDraws(model), flatten_model(model)
    assert prior.vectorized
    values = constrain(flat, prior(make_rng("autoregression"), 2000))
    x, tau, mean = values["x"], values["tau"][:, None, None], values["mean"][:, None, None]
    level, first, second = values["rho"].T[:, :, None, None]
    steps = x[..., 2:] - level - first * x[..., 1:-1] - second * x[..., :-2]
    noise = np.concatenate([(x[..., :2] - mean) / tau, steps / tau], axis=2).reshape(2000, 12)
    noise = np.c_[noise, values["after"] - values["tau"], values["mean"]]
    normal_and_apart(noise)


def normal_and_apart(noise: np.ndarray) -> None:
    """Columns of noise are standard normal, and not correlated."""
    n, d = noise.shape
    assert min(stats.kstest(column, "norm").pvalue for column in noise.T) > LOWEST_P
    assert np.abs(np.corrcoef(noise.T) - np.eye(d)).max() < 5 / np.sqrt(n)


def test_draws_of_series_are_made_together() -> None:
    """Catches steps that do not follow the scale of their row, and a loop of calls, a row each."""
    with pm.Model() as model:
        tau, rho = pm.LogNormal("tau"), pm.Beta("rho", 2, 4)
        start = pm.Normal.dist(0, 1)
        pm.GaussianRandomWalk("walk", sigma=tau, init_dist=start, shape=4)
        innovation = pm.Laplace.dist(0, tau)
        pm.RandomWalk("steps", init_dist=start, innovation_dist=innovation, shape=(2, 3))
        pm.GARCH11("vol", omega=tau, alpha_1=rho, beta_1=0.3, initial_vol=1.0, shape=4)
        drift = {"sde_fn": lambda x, k: (-k * x, 2.0), "sde_pars": (tau,), "init_dist": start}
        pm.EulerMaruyama("way", 0.1, **drift, shape=4, initval=np.zeros(4))
        pm.Potential("nothing", 0.0 * tau)
    prior, flat = PriorDraws(model), flatten_model(model)
    assert prior.vectorized
    values = constrain(flat, prior(make_rng("series"), 2000))
    tau, rho = values["tau"][:, None], values["rho"]
    walk, vol, way = (values[name] for name in ("walk", "vol", "way"))
    steps = np.diff(values["steps"], axis=2).reshape(2000, 4)
    normal_and_apart(
        np.hstack(
            [
                walk[:, :1],
                np.diff(walk) / tau,
                stats.norm.ppf(stats.laplace.cdf(steps / tau)),
                (way[:, 1:] - (1 - 0.1 * tau) * way[:, :-1]) / (2 * np.sqrt(0.1)),
                volatile(vol, tau[:, 0], rho, 0.3),
            ]
        )
    )


def volatile(x: np.ndarray, omega: np.ndarray, alpha: np.ndarray, beta: float) -> np.ndarray:
    """Noise of a GARCH(1, 1) series that starts with a spread of 1."""
    spread, noise = np.ones(len(x)), [x[:, 0]]
    for before, now in zip(x.T[:-1], x.T[1:], strict=True):
        spread = np.sqrt(omega + alpha * before**2 + beta * spread**2)
        noise.append(now / spread)
    return np.stack(noise, axis=1)
