"""PartialMomentumHMC inside pm.sample: exact, reproducible, and all that PyMC expects of a step."""

import os

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from pymc.exceptions import SamplingError
from pymc.step_methods import CompoundStep
from scipy import stats
from support.checks import CheckFailedError, assert_detects, check_means, make_rng
from support.step_chains import (
    FAST,
    QUIET,
    assert_state_round_trip,
    batch_means,
    same,
    skewed_model,
    walk,
)

from pymc_logz.errors import DiscreteVariableError, ModelError
from pymc_logz.kernels.tuning import reasonable_step_size
from pymc_logz.step_methods import PartialMomentumHMC
from pymc_logz.step_methods.base import (
    ScaleAdaptation,
    gradient_scale,
    window_ends,
)

pytestmark = [
    # threads of JAX, alive since some test before, make fork warn
    pytest.mark.filterwarnings("ignore:.*fork.*:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]

SKEWED_RATE = stats.gamma(0.5 + 3, scale=1 / 5.2)


def check_skewed(step) -> None:
    """Fail unless the step samples the posterior of `skewed_model`."""
    draws = walk(step, step.model_under_test, draws=20_000, tune=400)
    s, b = np.exp(draws["s_log__"]), draws["b"]
    check_means({"s": batch_means(s)}, SKEWED_RATE.mean())
    check_means({"s squared": batch_means(s**2)}, SKEWED_RATE.moment(2))
    check_means({"s low": batch_means(s < SKEWED_RATE.ppf(0.2))}, 0.2)
    check_means({"b0": batch_means(b[:, 0])}, 3.1)
    check_means({"b0 spread": batch_means((b[:, 0] - 3.1) ** 2)}, 0.1**2 / 2)
    check_means({"b1": batch_means(b[:, 1])}, -40.0)
    check_means({"b1 spread": batch_means((b[:, 1] + 40) ** 2)}, 400.0)


def partial_momentum(cls=PartialMomentumHMC, **kwargs):
    """Step method on `skewed_model`, its variables passed in the order s, b."""
    model = skewed_model()
    with model:
        step = cls([model["s"], model["b"]], **kwargs)
    step.model_under_test = model
    return step


class NoFlip(PartialMomentumHMC):
    """Keeps its direction when it rejects."""

    @staticmethod
    def _rejected(start):
        return start


class Stale(PartialMomentumHMC):
    """Does not look whether others have moved."""

    def _is_cached(self, cached, position, others):
        return True


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"n_steps": 3, "jitter": 0.3},
        {"refreshment": 1.0, "target_accept": 0.7},
        {"step_size": 1.7, "refreshment": 0.1, "scale": [0.07, 20.0, 0.5]},
    ],
    ids=["default", "three steps", "full refreshment", "fixed"],
)
def test_partial_momentum_samples_a_skewed_posterior(kwargs):
    # catches a wrong sign, a wrong energy, variables in the wrong order
    check_skewed(partial_momentum(**kwargs))


def test_without_the_flip_the_same_check_fails():
    assert_detects(
        check_skewed,
        partial_momentum(NoFlip, step_size=1.7, refreshment=0.1, scale=[0.07, 20.0, 0.5]),
    )


def test_default_backend_gives_the_same_chain():
    model = skewed_model()
    with model:
        step = PartialMomentumHMC()
    ours = walk(step, model, 50, tune=50)
    theirs = walk(partial_momentum(), model, 50, tune=50)
    for name, values in ours.items():
        np.testing.assert_allclose(values, theirs[name], rtol=1e-4)


def check_compound(cls) -> None:
    """Fail unless a normal given a Poisson count, and the count on Metropolis, have their law."""
    with pm.Model() as model:
        x, k = pm.Normal("x"), pm.Poisson("k", 2)
        pm.Normal("y", x + k, 1, observed=2.5)
        steps = [cls([x], compile_kwargs=FAST), pm.Metropolis([k], compile_kwargs=FAST)]
    draws = walk(CompoundStep(steps), model, 4000, tune=200)
    counts = np.arange(20)
    mass = stats.poisson(2).pmf(counts) * stats.norm(counts, np.sqrt(2)).pdf(2.5)
    mass /= mass.sum()
    mean = (2.5 - counts) / 2  # of x given the count; its variance is 1 / 2
    for count in range(4):
        check_means({f"k = {count}": batch_means(draws["k"] == count)}, mass[count])
    check_means({"x": batch_means(draws["x"])}, mass @ mean)
    check_means({"x squared": batch_means(draws["x"] ** 2)}, mass @ (mean**2 + 0.5))


def test_partial_momentum_sees_what_others_moved():
    # catches a log density that still has the discrete variable of the draw before
    check_compound(PartialMomentumHMC)
    with pytest.raises(CheckFailedError):
        check_compound(Stale)


def test_partial_momentum_beside_other_steps_in_pm_sample():
    with pm.Model():
        a = pm.Normal("a", shape=2)
        c = pm.Normal("c")
        k = pm.Poisson("k", 3)
        pm.Normal("y", a.sum() + c + k, 1, observed=1.0)
        steps = [PartialMomentumHMC([a], compile_kwargs=FAST), pm.NUTS([c], compile_kwargs=FAST)]
        tree = pm.sample(10, tune=10, chains=1, cores=1, step=steps, random_seed=1, **QUIET)
        alone = PartialMomentumHMC(compile_kwargs=FAST)
        pm.sample(10, tune=10, chains=1, cores=1, step=alone, random_seed=1, **QUIET)
    assert [var.name for var in alone.vars] == ["a", "c"]
    # one column per step where two of them report the same
    assert tree["sample_stats"]["acceptance_rate"].shape == (1, 10, 2)
    assert tree["sample_stats"]["energy_error"].shape == (1, 10, 2)


def test_partial_momentum_gives_the_same_draws_for_any_cores():
    model = skewed_model()
    with model:
        step = PartialMomentumHMC(compile_kwargs=FAST)
        kwargs = {"draws": 60, "tune": 60, "chains": 2, "step": step, "random_seed": 3, **QUIET}
        one = pm.sample(cores=1, **kwargs)
        again = pm.sample(cores=1, **kwargs)
        two = pm.sample(cores=2, mp_ctx="fork", **kwargs)
    assert same(one, again)
    assert same(one, two)
    first, second = one["posterior"]["s"].to_numpy()
    assert not np.array_equal(first, second)


def test_partial_momentum_tree_has_groups_and_statistics(capsys):
    model, seen = skewed_model(), []
    with model:
        tree = pm.sample(
            40,
            tune=50,
            chains=2,
            cores=1,
            step=PartialMomentumHMC(n_steps=2, compile_kwargs=FAST),
            random_seed=3,
            discard_tuned_samples=False,
            callback=lambda trace, draw: seen.append(draw.stats[0]),
            progressbar=True,
            compute_convergence_checks=False,
            compile_kwargs=FAST,
        )
    sample_stats = tree["sample_stats"].to_dataset()
    dtypes = {name: variable.dtype for name, variable in sample_stats.items()}
    numbers = "acceptance_rate accepted energy energy_error step_size step_size_bar n_steps lp"
    expected = dict.fromkeys(numbers.split(), np.dtype(float))
    assert dtypes == {**expected, "diverging": np.dtype(bool), "divergences": np.dtype(int)}
    assert tree["warmup_posterior"].sizes["draw"] == 50
    assert sample_stats.sizes["draw"] == 40
    assert [stats["tune"] for stats in seen[:90]] == [True] * 50 + [False] * 40
    assert np.all(sample_stats["n_steps"] == 2)
    # the step size is frozen after tuning, and the chains have their own
    step_size = sample_stats["step_size"].to_numpy()
    assert np.all(step_size == step_size[:, :1])
    assert np.all(step_size == sample_stats["step_size_bar"])
    assert step_size[0, 0] != step_size[1, 0]
    logp = model.compile_logp(mode="FAST_COMPILE")
    posterior = tree["posterior"].to_dataset().isel(chain=0, draw=5)
    value = logp({"b": posterior["b"].to_numpy(), "s_log__": np.log(posterior["s"].to_numpy())})
    np.testing.assert_allclose(sample_stats["lp"][0, 5], value)


def test_partial_momentum_tunes_to_its_target():
    with pm.Model() as model:
        x = pm.Normal("x", 0, np.array([1e-4, 1.0, 1e4]))
        step = PartialMomentumHMC([x], target_accept=0.85, compile_kwargs=FAST)
    step.setup_chain(np.random.default_rng(1), 1000, 2000)
    point, rates = model.initial_point(0), []
    for i in range(3000):
        if i == 1000:
            step.stop_tuning()
        point, [stats] = step.step(point)
        rates.append(stats["mean_tree_accept"])
    assert abs(np.mean(rates[1000:]) - 0.85) < 0.1
    np.testing.assert_allclose(step.scale_adapt.scale, [1e-4, 1.0, 1e4], rtol=0.3)


def test_partial_momentum_starts_each_chain_afresh():
    step = partial_momentum()
    model = step.model_under_test
    first = walk(step, model, 20, tune=30)
    assert step.tune is False
    again = walk(step, model, 20, tune=30)
    for name, values in first.items():
        np.testing.assert_array_equal(values, again[name])
    step.setup_chain(np.random.default_rng(1), 0, 10)
    assert step.tune is False
    step.setup_chain(np.random.default_rng(1), 10, 10)
    assert step.tune is True


def test_partial_momentum_state_round_trip():
    step = partial_momentum()
    assert_state_round_trip(step, partial_momentum(), step.model_under_test)


def test_partial_momentum_pickles():
    step = partial_momentum()
    copy = cloudpickle.loads(cloudpickle.dumps(step))
    ours = walk(step, step.model_under_test, 20, tune=20)
    theirs = walk(copy, step.model_under_test, 20, tune=20)
    for name, values in ours.items():
        np.testing.assert_array_equal(values, theirs[name])


def test_partial_momentum_can_go_variable_by_variable():
    with skewed_model() as model:
        step = PartialMomentumHMC([model["s"], model["b"]], blocked=False, compile_kwargs=FAST)
    assert [method.vars[0].name for method in step.methods] == ["s_log__", "b"]
    walk(step, model, 5, tune=5)


def test_half_life_is_a_share_of_momentum_per_time():
    """Would catch a half-life that nobody reads, or another default than the documented one."""
    step_size, short = 0.1, {"half_life": 0.1}
    usual = {"refreshment": 1 - 0.5**step_size}
    assert _same_draws(step_size, {}, usual)
    assert _same_draws(step_size, short, {"refreshment": 1 - 0.5 ** (step_size / 0.1)})
    assert not _same_draws(step_size, short, usual)


def _same_draws(step_size, first, second):
    with skewed_model() as model:
        steps = [
            PartialMomentumHMC(step_size=step_size, scale=1.0, compile_kwargs=FAST, **rule)
            for rule in (first, second)
        ]
    one, other = (walk(step, model, 20, tune=0) for step in steps)
    return all(np.array_equal(one[name], other[name]) for name in one)


def test_partial_momentum_refuses_what_it_cannot_do(monkeypatch):
    with pm.Model():
        x = pm.Normal("x")
        k = pm.Poisson("k", 3)
        pm.Normal("y", x + k, observed=1.0)
        with pytest.raises(DiscreteVariableError, match=r"\['k'\] are discrete"):
            PartialMomentumHMC([x, k])
        for kwargs, message in (
            ({"n_steps": 0}, "n_steps=0"),
            ({"refreshment": 1.5}, "refreshment=1.5"),
            ({"target_accept": 1.0}, "target_accept=1.0"),
            ({"step_size": -1.0}, "step_size=-1.0"),
            ({"jitter": 1.0}, "jitter=1.0"),
            ({"scale": [1.0, 2.0]}, "scale has shape"),
            ({"scale": 0.0}, "scale=0.0"),
        ):
            with pytest.raises(ValueError, match=message):
                PartialMomentumHMC([x], compile_kwargs=FAST, **kwargs)
    with pm.Model() as only_discrete:
        pm.Poisson("k", 3)
        with pytest.raises(DiscreteVariableError, match="no continuous"):
            PartialMomentumHMC()
    assert only_discrete.value_vars
    with pm.Model():
        pm.Normal("x", shape=0)
        with pytest.raises(ModelError, match=r"no entries to move: .*\(0,\)"):
            PartialMomentumHMC()


def test_partial_momentum_rejects_outside_the_support():
    with pm.Model() as model:
        pm.Uniform("x", 0, 1, default_transform=None)
        step = PartialMomentumHMC(step_size=0.7, scale=1.0, compile_kwargs=FAST)
    step.setup_chain(np.random.default_rng(1), 0, 100)
    point, diverging = model.initial_point(0), 0
    for _ in range(200):
        point, [stats] = step.step(point)
        assert 0 < point["x"] < 1
        assert stats["diverging"] == (stats["energy_error"] == np.inf)
        diverging += stats["diverging"]
    assert 0 < diverging < 200
    with pytest.raises(SamplingError, match="-inf where PartialMomentumHMC starts"):
        step.setup_chain(np.random.default_rng(1), 0, 1) or step.step({"x": np.array(2.0)})


def test_partial_momentum_on_jax_refuses_a_fork(monkeypatch):
    pytest.importorskip("jax")
    with skewed_model():
        step = PartialMomentumHMC(compile_kwargs={"mode": "JAX"})
    step.setup_chain(np.random.default_rng(1), 0, 1)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(RuntimeError, match="forkserver"):
        step.setup_chain(np.random.default_rng(1), 0, 1)


def test_window_ends():
    assert window_ends(0) == ()
    assert window_ends(24) == ()
    assert window_ends(100) == (20, 80)
    assert window_ends(1000) == (20, 60, 140, 300, 800)


def test_scale_adaptation_knows_a_normal_from_a_part_of_it():
    # draws from a tenth of each dimension's width: the ratio to the gradients tells the rest
    scales = np.array([1e-3, 1.0, 50.0])
    x = scales * make_rng("scale").normal(0.3, 0.1, size=(50, 3))
    adapt = ScaleAdaptation(np.ones(3))
    for row in x:
        adapt = adapt.added(row, -row / scales**2)
    adapt = adapt.finished()
    np.testing.assert_allclose(adapt.scale, scales)
    assert adapt.n == 0
    adapt = adapt.added(x[0], np.full(3, np.nan)).added(x[1], np.full(3, np.nan)).finished()
    np.testing.assert_allclose(adapt.scale, scales)


def test_gradient_scale_survives_what_a_gradient_can_be():
    scale = gradient_scale(np.array([0.0, np.nan, np.inf, 4.0, 1e30]))
    np.testing.assert_allclose(scale, [1.0, 1.0, 1.0, 0.5, 1e-5])


@pytest.mark.parametrize(("guess", "expected"), [(1.0, 2.0), (64.0, 2.0), (0.25, 2.0)])
def test_reasonable_step_size(guess, expected):
    assert reasonable_step_size(lambda step: float(step < 3), guess) == expected


def test_reasonable_step_size_ends_where_nothing_helps():
    assert reasonable_step_size(lambda step: 1.0, 1.0) >= 1e3
    assert reasonable_step_size(lambda step: 0.0, 1.0) <= 1e-8
