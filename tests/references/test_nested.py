"""Nested Laplace approximations: a reference that normal entries given a few others make."""

from functools import cache
from inspect import signature
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import optimize, stats
from scipy.special import logsumexp
from support import pymc_models
from support.checks import make_rng
from support.flat_rows import named_values

import pymc_logz as lz
from pymc_logz.hais.settings import HaisSettings
from pymc_logz.loop.planning import block_for
from pymc_logz.models.known_priors import n_factored, normal_columns
from pymc_logz.models.preparation import prepare
from pymc_logz.paths.funnels import Features, Funnel
from pymc_logz.references import nested
from pymc_logz.references.blend import Target
from pymc_logz.references.conditional import has_conditional_normals
from pymc_logz.references.conditional_modes import Conditionals
from pymc_logz.references.marginal_peaks import highest_marginal, with_all_peaks
from pymc_logz.references.matrices import Whole
from pymc_logz.references.nested_map import fitted_map
from pymc_logz.runners.block import Block

N = 20
Y = np.cumsum(np.random.default_rng(3).normal(0, 0.4, N)) + np.random.default_rng(4).normal(0, 1, N)


@cache
def walk() -> pm.Model:
    """A walk as a sum of steps, not centred: its conditional axes turn with both spreads."""
    with pm.Model() as model:
        step = pm.HalfNormal("step", 1)
        noise = pm.HalfNormal("noise", 1)
        steps = pm.Normal("steps", 0, 1, shape=N)
        pm.Normal("y", step * pt.cumsum(steps), noise, observed=Y)
    return model


def walk_log_z() -> float:
    """Steps integrated out in closed form, both spreads on a grid."""
    walked = np.minimum.outer(np.arange(1, N + 1), np.arange(1, N + 1))
    variances, axes = np.linalg.eigh(walked)
    u = np.linspace(-7, 2.5, 150)
    a, b = (one[..., None] for one in np.meshgrid(u, u))
    sd = np.sqrt(np.exp(2 * a) * variances + np.exp(2 * b))
    log_f = stats.norm.logpdf(Y @ axes, 0, sd).sum(axis=-1)
    for one in (a, b):
        log_f += (stats.halfnorm.logpdf(np.exp(one)) + one)[..., 0]
    return float(logsumexp(log_f) + 2 * np.log(u[1] - u[0]))


@cache
def counts_log_z(n: int = 40) -> float:
    """Rates one by one on a grid, their mean and spread on another."""
    y = np.random.default_rng(5).poisson(np.exp(np.random.default_rng(6).normal(1, 0.7, n)))
    y, often = np.unique(y, return_counts=True)
    rate = np.linspace(-8, 8, 1601)
    means, logs = np.linspace(-2, 4, 61), np.linspace(-4, 1.6, 71)
    a, b = (one.ravel() for one in np.meshgrid(means, logs))
    of_rate = stats.poisson.pmf(y[:, None], np.exp(rate))
    each = of_rate @ stats.norm.pdf(rate[:, None], a, np.exp(b)) * (rate[1] - rate[0])
    terms = often @ np.log(each) + stats.norm.logpdf(a, 0, 2) + stats.halfnorm.logpdf(np.exp(b)) + b
    steps = (means[1] - means[0]) * (logs[1] - logs[0])
    return float(logsumexp(terms) + np.log(steps))


counts = cache(pymc_models.counts)


def made(model: pm.Model, seed: int) -> tuple[nested.Reference, Block] | None:
    """The reference, and the moves on the path from the prior."""
    rng = np.random.default_rng(seed)
    prepared = prepare(model, rng)
    block = block_for(prepared, HaisSettings(), None)
    start = highest_marginal(Target(prepared, block), rng)
    found = None if start is None else nested.nested_laplace(Target(prepared, block), start, rng)
    return None if found is None else (found[0], block)


def test_normal_entries_are_told_by_their_prior() -> None:
    """Catches a transformed variable, or one of heavy tails, taken for normal."""
    with pm.Model() as model:
        a = pm.Normal("a", 0, 1, shape=2)
        pm.HalfNormal("b", 1)
        pm.MvNormal("c", a, np.eye(2))
        pm.StudentT("d", 3)
        pm.GaussianRandomWalk("e", 0.0, 1.0, init_dist=pm.Normal.dist(0, 1), shape=3)
        pm.GaussianRandomWalk("f", 0.0, 1.0, init_dist=pm.StudentT.dist(3), shape=3)
        pm.ZeroSumNormal("g", shape=3)
        pm.Normal("h", 0, 1, transform=pm.distributions.transforms.Interval(-1, 1))
        pm.AR("i", rho=np.array([0.5]), sigma=1.0, init_dist=pm.Normal.dist(0, 1), shape=4)
        pm.Normal("y", a[0], 1, observed=0.0)
    flat = prepare(model, np.random.default_rng(0)).flat
    owners = {flat.owners[j] for j in normal_columns(flat)}
    assert owners == {"a", "c", "e", "g", "i"}


def test_what_another_narrows_by_is_not_normal_given_it() -> None:
    """Catches the log of a spread, as in Neal's funnel, taken for normal beside what it scales."""
    with pm.Model() as model:
        a, b, c, d = (pm.Normal(name, 0, 1) for name in "abcd")
        pm.Normal("e", a, pm.math.exp(b), shape=3)
        pm.GaussianRandomWalk("f", a, pm.math.exp(c), init_dist=pm.Normal.dist(0, 1), shape=3)
        pm.Gamma("g", pm.math.exp(d), 1)
        h, i = pm.Normal("h", 0, 1, shape=2), pm.HalfNormal("i", 1)
        pm.AR("j", h, sigma=i, init_dist=pm.Normal.dist(a, 1, shape=2), steps=3)
        pm.Normal("y", a, 1, observed=0.0)
    flat = prepare(model, np.random.default_rng(0)).flat
    assert {flat.owners[j] for j in normal_columns(flat)} == {"a", "e", "f", "j"}


def test_sums_of_small_differences_are_no_missing_tail() -> None:
    """Catches hundreds of entries that are nearly normal refused for the sum of what they lack."""
    rng = make_rng("sums")
    small = rng.normal(size=512) * 4.0
    assert nested._adds_up(small, 200)
    assert not nested._adds_up(small, 50)  # too few entries for so much
    assert not nested._adds_up(np.append(small, 30.0), 200)  # a row that alone has all the weight


def test_modes_and_curvatures_are_those_of_an_optimiser() -> None:
    """Catches a curvature of the wrong sign, and a climb that stops on its way."""
    rng = make_rng("modes")
    prepared = prepare(counts(), rng)
    block = block_for(prepared, HaisSettings(), None)
    inner = normal_columns(prepared.flat)
    parts = Conditionals(block, inner, np.setdiff1d(np.arange(42), inner), Whole(41))
    outer = np.array([[-0.5], [0.3]])
    found = parts.modes(outer, np.zeros((2, 41)), np.ones(41))
    log_p = prepared.flat.model.compile_logp()

    def value(x: np.ndarray, given: np.ndarray) -> float:
        row = parts.rows(given[None], x[None])[0]
        return float(-log_p(named_values(prepared.flat, row)))

    for given, mode, precision, log_marginal in zip(outer, *found[:3], strict=True):
        best = optimize.minimize(value, np.zeros(41), (given,), method="BFGS", tol=1e-6)
        np.testing.assert_allclose(mode, best.x, atol=0.02)
        laplace = -best.fun + 20.5 * np.log(2 * np.pi) - np.linalg.slogdet(precision)[1] / 2
        assert log_marginal == pytest.approx(laplace, abs=0.02)
        step = np.linalg.cholesky(np.linalg.inv(precision))[:, 0]
        there = value(best.x + step, given) + value(best.x - step, given) - 2 * best.fun
        assert there == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize(
    ("build", "exact", "n_runs"),
    [
        (walk, walk_log_z, 1),
        pytest.param(walk, walk_log_z, 3, marks=pytest.mark.slow),
        pytest.param(counts, counts_log_z, 3, marks=pytest.mark.slow),
    ],
)
def test_log_z_is_exact_and_cheap(build: object, exact: object, n_runs: int) -> None:
    """Catches a map of the wrong volume, and one that no longer fits where axes turn."""
    model, log_z = build(), exact()  # type: ignore[operator]
    found = []
    for seed in range(n_runs):
        tree = lz.sample_hais(model=model, random_seed=seed, progressbar=False)
        evidence = tree["evidence"].dataset.isel(estimator=0)
        assert evidence.attrs["reference"] in ("nested_laplace", "learned")
        assert evidence["status"].item() == "ok"
        cost = sum(evidence.attrs[f"{part}_row_gradients"] for part in ("pilot", "run"))
        assert cost < 4_000_000  # thousands of temperatures from the prior take 16 million
        found.append((float(evidence["log_z"]), float(evidence["mcse"])))
    values, errors = np.array(found).T
    assert np.all(errors < 0.05)
    assert np.all(np.abs(values - log_z) < 4 * errors)
    assert abs(values.mean() - log_z) < 4 * np.sqrt(np.mean(errors**2) / n_runs)


@pytest.mark.slow
def test_draws_that_are_given_come_first() -> None:
    """Catches an approximation in place of the draws that were asked for."""
    settings = {"model": counts(12), "draws": 128, "chains": 1, "progressbar": False}
    tree = lz.sample_hais(**settings, random_seed=1)
    assert tree["evidence"].attrs["reference"] == "nested_laplace"
    given = lz.sample_hais(**settings, random_seed=2, reference=tree)
    assert given["evidence"].attrs["reference"] == "draws"


@pytest.mark.parametrize("kind", ["function", "marginal", "fixed", "regression"])
def test_matrices_that_each_evaluation_factors(kind: str) -> None:
    """Catches conditional modes of each particle, minutes long, where each gradient is dear."""
    x = np.linspace(0, 1, 20)
    with pm.Model() as model:
        width = 0.3 if kind == "fixed" else pm.HalfNormal("width", 1)
        spread = pm.HalfNormal("spread", 1)
        cov = spread**2 if kind != "fixed" else 1.0
        cov = cov * pm.gp.cov.ExpQuad(1, width)
        if kind == "marginal":
            f = pm.MvNormal("f", np.zeros(20), cov(x[:, None]) + 1e-6 * np.eye(20))
        elif kind == "regression":
            f = pm.Normal("f", 0, spread, shape=20)
        else:
            f = pm.gp.Latent(cov_func=cov).prior("f", X=x[:, None])
        pm.Normal("y", f, 1, observed=x)
    is_dear = kind in ("function", "marginal")
    assert n_factored(model) == 20 * is_dear
    assert has_conditional_normals(prepare(model, np.random.default_rng(0))) != is_dear


@pytest.mark.slow
@pytest.mark.parametrize(("n", "taken"), [(120, "learned"), (300, "nested_laplace")])
def test_hundreds_of_counts_have_a_log_z(n: int, taken: str) -> None:
    """Catches a reference refused whose weights hundreds of small differences make uneven."""
    tree = lz.sample_hais(model=counts(n), random_seed=1, progressbar=False)
    evidence = tree["evidence"].dataset.isel(estimator=0)
    assert evidence.attrs["reference"] == taken
    assert evidence["status"].item() == "ok"
    assert evidence["mcse"] < 0.06
    assert abs(float(evidence["log_z"]) - counts_log_z(n)) < 4 * float(evidence["mcse"])


def test_ends_of_newtons_method_are_no_other_modes() -> None:
    """Catches 120 counts that are refused, with `pm.sample` for a minute: their spread may vanish.

    There the climb to a mode ends short of it.
    """
    rng = np.random.default_rng(1)
    prepared = prepare(counts(120), rng)
    start = highest_marginal(Target(prepared, block_for(prepared, HaisSettings(), None)), rng)
    assert start is not None
    start = with_all_peaks(start, prepared, rng)
    assert len(nested.conditional_at_peak(prepared, start, rng)) == 1


def test_axes_that_turn_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights are even with the map, and were it blind to how axes turn they would not be."""
    whole = made(walk(), 2)
    assert whole is not None

    def without_turn(*given: Any) -> Funnel | None:
        found = fitted_map(*given)
        if found is not None:
            found.turn[1:] = 0.0
        return found

    monkeypatch.setattr(nested, "fitted_map", without_turn)
    blind = made(walk(), 2)

    def share(found: tuple[nested.Reference, Block] | None) -> float:
        if found is None:
            return 0.0
        reference, block = found
        moved = reference.start(block)
        rows = moved.path.sample_reference(np.random.default_rng(0), 2048)
        log_weight = moved.densities(rows)[1]
        return float(lz.weights.weight_ess(log_weight)) / 2048

    assert share(whole) > 0.5
    assert np.log(share(blind)) < 2 * np.log(share(whole))


def test_nothing_to_suspect_is_no_error() -> None:
    """Catches a map that is asked for no rows, where all climbs end at the peak: a ValueError."""
    with pm.Model() as model:
        spread = pm.LogNormal("spread", 0, 0.3)
        x = pm.Normal("x", 0, 1, shape=18)
        pm.Normal("y", spread * x, 1, observed=np.linspace(-1, 1, 18))
    assert made(model, 1) is not None


def test_few_dimensions_and_many_others_are_left_alone() -> None:
    """Catches a fit where nothing says that it holds."""
    with pm.Model() as model:
        spread = pm.HalfNormal("spread", 1, shape=18)
        x = pm.Normal("x", 0, spread)
        pm.Normal("y", x, 1, observed=np.linspace(-2, 2, 18))
    assert made(model, 1) is None
    assert made(counts(8), 1) is None


def test_features_are_all_products_of_up_to_three() -> None:
    """Catches a feature that is missing, or has none of its parents."""
    features = Features.cubic(2)
    at = np.array([[2.0, 3.0]])
    expected = [2.0, 3.0, 4.0, 6.0, 9.0, 8.0, 12.0, 18.0, 27.0]
    assert sorted(features.of(at)[0]) == sorted(expected)
    assert Features.cubic(0).of(np.zeros((1, 0))).shape == (1, 0)


def test_a_ridge_beyond_the_map_is_seen() -> None:
    """Catches noise that may vanish, and effects have all of the spread: 5% of Z, on no axis."""
    y = np.array([4.469, 2.489, 3.898, 4.659])
    with pm.Model() as model:
        spread, noise = pm.InverseGamma("spread", 1, 0.1), pm.Exponential("noise", 1)
        effect = pm.Normal("effect", pm.Normal("mean", 0, 10), spread, shape=y.size)
        pm.Normal("y", effect, noise, observed=y)
    assert made(model, 3) is None


def test_a_tail_beyond_the_map_is_seen() -> None:
    """Catches the far end of a funnel, 3 to 6% of Z, taken for nothing."""
    assert made(lz.energies.hierarchical_normal().model, 3) is None


@pytest.mark.parametrize(("hidden", "is_refused"), [(1, True), (2, False)])
def test_a_place_without_a_mode_is_not_one_without_mass(
    hidden: int, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a density that is not known beyond the map, taken for zero."""
    modes = Conditionals.modes
    n_far = signature(nested._mass_outside_map).parameters["n_far"].default

    def without_one(self: Conditionals, outer: np.ndarray, *rest: np.ndarray) -> object:
        found = modes(self, outer, *rest)
        if len(outer) == n_far:
            found.log_marginal[::hidden] = -np.inf
        return found

    monkeypatch.setattr(Conditionals, "modes", without_one)
    assert (made(counts(), 1) is None) == is_refused


@pytest.mark.filterwarnings("ignore:the model has potentials")
def test_a_target_of_straight_pieces_has_no_modes() -> None:
    """Catches a step of Newton's method without curvature: 54 Laplace experts ended in an error."""
    filters = np.random.default_rng(1).normal(size=(54, N)) / np.sqrt(N)
    assert made(lz.energies.laplace_experts(filters).model, 1) is None


@pytest.mark.filterwarnings("ignore:the model has potentials")
def test_few_normal_entries_are_nested_too() -> None:
    """Catches a small regression looked at from the prior, and a potential that is not."""
    x = make_rng("small").normal(size=(30, 4))
    y = x @ [1.0, -1.0, 0.5, 0.0] + make_rng("noise").normal(size=30)
    found = []
    for is_potential in (False, True):
        with pm.Model() as model:
            beta = pm.Normal("beta", 0, 1, shape=4)
            if is_potential:
                pm.Potential("y", pm.logp(pm.Normal.dist(x @ beta, 1), y).sum())
            else:
                pm.Normal("y", x @ beta, 1, observed=y)
        tree = lz.sample_hais(model=model, random_seed=1, progressbar=False)
        evidence = tree["evidence"].dataset.isel(estimator=0)
        log_z = stats.multivariate_normal.logpdf(y, cov=np.eye(30) + x @ x.T)
        assert abs(float(evidence["log_z"]) - log_z) < 4 * float(evidence["mcse"])
        found.append(evidence.attrs["reference"])
    assert found == ["nested_laplace", "learned"]
