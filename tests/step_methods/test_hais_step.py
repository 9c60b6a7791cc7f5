"""HAIS inside pm.sample: exact, reproducible in whatever process, and every weight kept."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import arviz as az
import cloudpickle
import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats
from support.checks import assert_detects, check_means, make_rng
from support.step_chains import (
    FAST,
    QUIET,
    assert_state_round_trip,
    batch_means,
    continue_from,
    same,
    skewed_model,
    walk,
)

import pymc_logz as lz
from pymc_logz import energies
from pymc_logz.estimators import importance_log_z
from pymc_logz.step_methods import HAIS, PartialMomentumHMC
from pymc_logz.step_methods.hais import Proposals
from pymc_logz.trees.layout import log_weights

pytestmark = [
    # threads of JAX, alive since some test before, make fork warn
    pytest.mark.filterwarnings("ignore:.*fork.*:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


CUT = 5.5
"""Between the two modes of `energies.skewed_bimodal`."""


def high_mode(energy_count: int = 3) -> float:
    """Exact posterior mass above `CUT`."""
    shapes, rates = np.array([2.0, 40.0]), np.array([2.0, 4.0])
    part = stats.nbinom(shapes, rates / (rates + 1)).pmf(energy_count)
    upper = stats.gamma(shapes + energy_count, scale=1 / (rates + 1)).sf(CUT)
    return float((part * upper).sum() / part.sum())


@pytest.fixture(scope="module")
def bimodal():
    """Model and step method; few temperatures, so that weights differ a lot."""
    energy = energies.skewed_bimodal()
    with energy.model:
        return energy, HAIS(betas=6)


class AcceptAll(HAIS):
    """Goes to every proposal."""

    def _acceptance_rate(self, log_weight):
        return 1.0


def check_bimodal(step) -> None:
    """Fail unless the step gives both modes of `energies.skewed_bimodal` their mass."""
    energy = energies.skewed_bimodal()
    draws = walk(step, energy.model, 8000, tune=32)
    rate = np.exp(next(iter(draws.values())))
    check_means({"high mode": batch_means(rate > CUT)}, high_mode())
    mean = (np.mean(energy.sample_posterior(make_rng("bimodal"), 500_000)["rate"])).item()
    check_means({"rate": batch_means(rate)}, mean)


def test_hais_samples_both_modes(bimodal):
    # catches an inverted ratio, the weight of another row, a draw that is not the row's end
    check_bimodal(bimodal[1])


def test_hais_that_accepts_all_fails_the_same_check(bimodal):
    step = cloudpickle.loads(cloudpickle.dumps(bimodal[1]))
    step.__class__ = AcceptAll
    assert_detects(check_bimodal, step)


def hais_tree(energy, step, **kwargs) -> xr.DataTree:
    with energy.model:
        return pm.sample(
            **{"draws": 500, "chains": 2, "cores": 1, "step": step, "random_seed": 3, **QUIET}
            | kwargs
        )


def assert_agreed_and_right(row: dict[str, float]) -> None:
    """Chains that agree, on the right masses of both modes and the right log Z."""
    assert row["r_hat"] < 1.01
    assert abs(row["busy"] - row["busy_exact"]) < 3 * row["busy_mcse"]
    assert abs(row["log_z"] - row["log_z_exact"]) < 3 * row["log_z_mcse"]


def test_hais_chains_agree_about_two_modes(bimodal):
    # catches chains that each keep to a mode of their own
    energy, step = bimodal
    tree = lz.evidence(hais_tree(energy, step, draws=1000, chains=4))
    busy = (tree["posterior"]["rate"] > CUT).astype(float)
    entry = tree["evidence"].to_dataset().isel(estimator=0)
    assert str(entry["status"].item()) == "ok"
    assert_agreed_and_right(
        {
            "r_hat": float(az.rhat(tree["posterior"]["rate"].to_dataset())["rate"]),
            "busy": float(busy.mean()),
            "busy_mcse": float(az.mcse(busy.to_dataset())["rate"]),
            "busy_exact": high_mode(),
            "log_z": float(entry["log_z"]),
            "log_z_mcse": float(entry["mcse"]),
            "log_z_exact": energy.log_z,
        }
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # NUTS says in many ways that it fails
def test_nuts_chains_disagree_about_two_modes_where_hais_chains_do_not():
    path = Path(__file__).parents[2] / "examples" / "annealing" / "bimodal_step.py"
    example = SimpleNamespace(**runpy.run_path(str(path)))
    table = example.summary(example.sample(example.two_explanations()))
    assert table.loc["NUTS", "r_hat"] > 1.05
    assert_agreed_and_right(dict(table.loc["HAIS"]))


def test_hais_keeps_every_weight_for_log_z(bimodal):
    energy, step = bimodal
    tree = hais_tree(energy, step, discard_tuned_samples=False)
    sample_stats = tree["sample_stats"].to_dataset()
    dtypes = {name: variable.dtype for name, variable in sample_stats.items()}
    names = ["log_weight", "acceptance_rate", "accepted", "log_ratio", "lp"]
    assert dtypes == dict.fromkeys(names, np.dtype(float))
    log_weight = log_weights(tree)
    assert log_weight.shape == (2, 532)  # 32 draws of warm-up by default
    estimate = importance_log_z(log_weight)
    assert estimate.status == "ok"
    assert abs(estimate.log_z - energy.log_z) < 4 * estimate.mcse
    # rejected proposals are there too: all weights differ, the draws do not
    assert np.unique(log_weight).size == log_weight.size
    assert 0.2 < float(sample_stats["accepted"].mean()) < 0.95
    without = hais_tree(energy, step)
    np.testing.assert_array_equal(log_weights(without), log_weight[:, 32:])


def test_hais_statistics_belong_to_the_draw(bimodal):
    energy, step = bimodal
    tree = hais_tree(energy, step, draws=20, progressbar=True, quiet=False)
    rate = tree["posterior"]["rate"].to_numpy()
    sample_stats = tree["sample_stats"].to_dataset()
    log_ratio = stats.poisson(rate).logpmf(3)
    np.testing.assert_allclose(sample_stats["log_ratio"], log_ratio)
    logp = energy.model.compile_logp(mode="FAST_COMPILE")
    [name] = energy.model.initial_point(0)
    values = [logp({name: np.log(value)}) for value in rate.ravel()]
    np.testing.assert_allclose(sample_stats["lp"].to_numpy().ravel(), values)
    moved = np.diff(rate, axis=1) != 0
    np.testing.assert_array_equal(moved, sample_stats["accepted"].to_numpy()[:, 1:])


def test_hais_gives_the_same_draws_for_any_cores(bimodal):
    energy, step = bimodal
    one = hais_tree(energy, step, draws=300)
    assert same(one, hais_tree(energy, step, draws=300))
    # forked: if the step runs on JAX, chains ask this process to compute
    assert same(one, hais_tree(energy, step, draws=300, cores=2, mp_ctx="fork"))


def test_hais_pickles_as_model_and_settings(bimodal):
    energy, step = bimodal
    copy = cloudpickle.loads(cloudpickle.dumps(step))
    [ours] = walk(step, energy.model, 20).values()
    [theirs] = walk(copy, energy.model, 20).values()
    # what is compiled again may add in another order
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_hais_state_round_trip(bimodal):
    energy, step = bimodal
    assert_state_round_trip(step, cloudpickle.loads(cloudpickle.dumps(step)), energy.model)


def test_hais_is_made_the_same_each_time_and_in_the_order_of_the_model():
    model = skewed_model()
    with model:
        steps = [
            HAIS(vars, betas=4, kernel="random_walk", batch_size=128)
            for vars in (None, [model["s"], model["b"]])
        ]
    left, right = (walk(step, model, 200) for step in steps)
    for name, values in left.items():
        np.testing.assert_array_equal(values, right[name])
    assert left["b"].shape == (200, 2)
    assert abs(np.median(left["b"][:, 1]) + 40) < 20


class Scripted:
    """Source of proposals with given log weights; the position is the number of the row."""

    def __init__(self, log_weight: list[float]) -> None:
        n = len(log_weight)
        self.batch = Proposals(
            np.arange(1.0, n + 1)[:, None], np.array(log_weight), np.zeros(n), np.zeros(n)
        )

    def ask(self, message):
        return None, self.batch


def test_hais_never_goes_to_weight_zero(bimodal):
    energy, step = bimodal
    step = cloudpickle.loads(cloudpickle.dumps(step))
    # until the first positive weight the chain stays where pm.sample put it
    step.source = Scripted([-np.inf, -np.inf, -900.0, -np.inf, -1000.0, 5.0, -2000.0])
    step.setup_chain(np.random.default_rng(1), 0, 7)
    point = {next(iter(energy.model.initial_point(0))): np.array(0.5)}
    values = [next(iter(p.values())).item() for p in continue_from(step, point, 7)]
    assert values == [0.5, 0.5, 3.0, 3.0, 3.0, 6.0, 6.0]


def test_hais_refuses_what_it_cannot_do(bimodal):
    model = skewed_model()
    with model:
        with pytest.raises(ValueError, match=r"leaves out \['b'\]"):
            HAIS([model["s"]])
        for kwargs, message in (
            ({"batch_size": 1}, "batch_size=1"),
            ({"pilot_tune": 0}, "pilot_tune=0"),
            ({"target_accept": 0.0}, "target_accept=0.0"),
            ({"betas": "linear"}, "betas='linear'"),
        ):
            with pytest.raises(ValueError, match=message):
                HAIS(**kwargs)
    energy, step = bimodal
    step.setup_chain(np.random.default_rng(1), 0, 7)
    point = continue_from(step, energy.model.initial_point(0), 3)[-1]
    with pytest.raises(RuntimeError, match="another step method moved"):
        step.step({name: value + 1 for name, value in point.items()})
    with pytest.raises(ValueError, match=r"or the statistics of pm.sample\(step=HAIS\(\)\)"):
        log_weights(xr.DataTree())


@pytest.mark.slow
def test_steps_survive_a_spawned_process(bimodal):
    energy, hais = bimodal
    with energy.model:
        partial = PartialMomentumHMC(compile_kwargs=FAST)
        for step in (partial, hais):
            kwargs = {"draws": 30, "tune": 30, "chains": 2, "step": step, "random_seed": 3, **QUIET}
            assert same(pm.sample(cores=1, **kwargs), pm.sample(cores=2, mp_ctx="spawn", **kwargs))
