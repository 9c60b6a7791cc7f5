"""Simulated tempering inside pm.sample: every draw exact, reproducible, and log Z from walkers."""

from dataclasses import replace
from functools import partial

import cloudpickle
import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats
from scipy.special import softmax
from support.checks import assert_detects, check_means, check_same_law, make_rng
from support.step_chains import (
    FAST,
    QUIET,
    assert_state_round_trip,
    continue_from,
    same,
    skewed_model,
    walk,
)

import pymc_logz as lz
from pymc_logz import energies
from pymc_logz.kernels.base import KernelState
from pymc_logz.paths.geometric import Evaluation
from pymc_logz.runners.temper import Walkers
from pymc_logz.step_methods import SimulatedTempering
from pymc_logz.step_methods.simulated_tempering import refresh_held
from pymc_logz.tempered.warm_up import Ladder
from pymc_logz.trees.layout import tempering_of

pytestmark = [
    # threads of JAX, alive since some test before, make fork warn
    pytest.mark.filterwarnings("ignore:.*fork.*:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
]
CUT = 5.5
"""Between the two modes of `energies.skewed_bimodal`."""

# --- the held row, exactly ---------------------------------------------------------------------

N_ENSEMBLES, W = 2500, 5
BETAS = np.array([0.0, 0.3, 1.0])
TILT = 3.0
"""Log ratio per unit of x: N(0, 1) becomes N(3 beta, 1), and log Z is half of (3 beta)^2."""
LADDER = Ladder(
    betas=BETAS,
    log_prior=np.log([0.5, 0.2, 0.3]),
    log_z_hat=np.array([0.0, 0.9, 4.1]),
    step_size=np.ones(3),
    scale=np.ones((3, 1)),
)


def ensemble_of(x: np.ndarray, log_ratio: np.ndarray, level: np.ndarray) -> Walkers:
    """Walkers at these places and levels, the first row held at the top."""
    zeros = np.zeros((x.size, 1))
    evaluation = Evaluation(np.zeros(x.size), log_ratio, zeros, zeros)
    state = KernelState(x[:, None], zeros, evaluation)
    return Walkers(state, np.concatenate([[BETAS.size - 1], level]))


def exact_ensembles(rng: np.random.Generator) -> list[Walkers]:
    """Held rows of the target, walkers of their own joint law of level and position."""
    share = softmax(LADDER.log_prior - LADDER.log_z_hat + 0.5 * (TILT * BETAS) ** 2)
    level = rng.choice(3, size=(N_ENSEMBLES, W), p=share)
    held = rng.normal(TILT, 1, (N_ENSEMBLES, 1))
    x = rng.normal(TILT * BETAS[level], 1)
    ensembles = []
    for row, walkers, levels in zip(held, x, level, strict=True):
        u = np.concatenate([row, walkers])
        ensembles.append(ensemble_of(u, TILT * u, levels))
    return ensembles


def check_held(ladder: Ladder, redraw: bool = True) -> None:
    """Fail unless held rows and walkers keep their laws."""
    rng = make_rng("held")
    before = exact_ensembles(rng)
    after = [refresh_held(ensemble, ladder, rng)[0] for ensemble in before]
    if not redraw:
        after = [new._replace(level=old.level) for new, old in zip(after, before, strict=True)]
    changed = np.array(
        [
            new.state.position[0] != old.state.position[0]
            for new, old in zip(after, before, strict=True)
        ]
    )
    assert 0.3 < changed.mean() < 0.95
    held = np.array([ensemble.state.position[0, 0] for ensemble in after])
    check_same_law({"held": (held, rng.normal(TILT, 1, N_ENSEMBLES))})
    values = {}
    for name, ensembles in (("old", before), ("new", after)):
        x = np.tanh(np.array([ensemble.state.position[1:, 0] for ensemble in ensembles]) - 1.5)
        level = np.array([ensemble.level[1:] for ensemble in ensembles])
        values[name] = {
            f"{what} at {k}": ((level == k) * value).sum(axis=1)
            for k in range(3)
            for what, value in (("walkers", np.ones_like(x)), ("x", x), ("x^2", x**2))
        }
    check_means({label: values["new"][label] - old for label, old in values["old"].items()})


def test_held_row_and_walkers_keep_their_joint_law() -> None:
    """Catches weights other than q(beta = 1 | x), and a level left behind by another row."""
    check_held(LADDER)
    assert_detects(partial(check_held, LADDER), False)
    assert_detects(check_held, replace(LADDER, log_prior=np.zeros(3), log_z_hat=np.zeros(3)))
    assert_detects(check_held, replace(LADDER, betas=np.array([0.0, 0.3, 0.7])))


def test_rows_outside_the_support_are_never_held() -> None:
    """Catches -inf and NaN that win, or that make probabilities NaN."""
    ratio = np.array([-np.inf, np.nan, -3.0, -np.inf])
    start = ensemble_of(np.arange(4.0), ratio, np.zeros(3, dtype=int))
    ensemble, accepted = refresh_held(start, LADDER, make_rng("lost"))
    assert accepted
    assert ensemble.state.position[0] == 2.0
    assert ensemble.level[2] == 0
    lost = ensemble_of(np.arange(4.0), np.full(4, -np.inf), np.zeros(3, dtype=int))
    assert refresh_held(lost, LADDER, make_rng("lost")) == (lost, False)


# --- inside pm.sample --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bimodal():
    """Model and step method."""
    energy = energies.skewed_bimodal()
    with energy.model:
        return energy, SimulatedTempering(betas=4, reference="prior")


def tempered_tree(energy, step, **kwargs) -> xr.DataTree:
    with energy.model:
        return pm.sample(
            **{"draws": 60, "chains": 2, "cores": 1, "step": step, "random_seed": 3, **QUIET}
            | kwargs
        )


def test_both_modes_and_log_z(bimodal):
    # catches a held row that keeps to one mode, walkers stored in another order than drawn
    energy, step = bimodal
    tree = tempered_tree(energy, step, draws=750)
    exact = energy.sample_posterior(make_rng("bimodal"), 400_000)["rate"] > CUT
    high = (tree["posterior"]["rate"] > CUT).astype(float)
    mcse = float(high.azstats.mcse(method="mean"))
    assert 0 < mcse < 0.06
    assert abs(float(high.mean()) - exact.mean()) < 4 * mcse
    result = lz.evidence(tree)
    entry = result["evidence"].to_dataset().isel(estimator=0)
    assert str(entry["status"].item()) == "ok"
    assert abs(float(entry["log_z"]) - energy.log_z) < 4 * float(entry["mcse"])
    assert float(entry["mcse"]) < 0.1
    assert "tempering" not in tree.children
    both = lz.evidence(tree, methods=["rts", "mbar"])["evidence"].to_dataset()
    assert list(both["estimator"].to_numpy()) == ["rts", "mbar"]
    assert both["log_z"].item(0) == pytest.approx(float(entry["log_z"]))


def test_statistics_belong_to_the_draw(bimodal):
    energy, step = bimodal
    tree = tempered_tree(energy, step, draws=40, progressbar=True, quiet=False)
    rate = tree["posterior"]["rate"].to_numpy()
    sample_stats = tree["sample_stats"].to_dataset()
    np.testing.assert_allclose(sample_stats["log_ratio"], stats.poisson(rate).logpmf(3))
    logp = energy.model.compile_logp(mode="FAST_COMPILE")
    [name] = energy.model.initial_point(0)
    values = [logp({name: np.log(value)}) for value in rate.ravel()]
    np.testing.assert_allclose(sample_stats["lp"].to_numpy().ravel(), values)
    moved = np.diff(rate, axis=1) != 0
    np.testing.assert_array_equal(moved, sample_stats["accepted"].to_numpy()[:, 1:])
    assert all(variable.dtype != object for variable in sample_stats.values())
    group = tempering_of(tree)
    assert dict(group["level"].sizes) == {"chain": 2, "walker": 16, "draw": 40}
    np.testing.assert_array_equal(group["beta"], step.source.ladder.betas)
    np.testing.assert_array_equal(group["log_z_hat"], step.source.ladder.log_z_hat)
    with pytest.raises(ValueError, match="needs a DataTree with a group 'tempering'"):
        tempering_of(xr.DataTree())


@pytest.mark.slow
def test_the_same_draws_for_any_cores(bimodal):
    energy, step = bimodal
    one = tempered_tree(energy, step)
    # forked: if the step runs on JAX, each chain has a process of its own to compute in
    assert same(one, tempered_tree(energy, step, cores=2, mp_ctx="fork"))


@pytest.mark.slow
def test_it_pickles_as_model_and_settings(bimodal):
    energy, step = bimodal
    copy = cloudpickle.loads(cloudpickle.dumps(step))
    [ours] = walk(step, energy.model, 40).values()
    [theirs] = walk(copy, energy.model, 40).values()
    np.testing.assert_array_equal(ours, theirs)
    assert_state_round_trip(step, copy, energy.model)


def test_it_goes_on_from_its_state(bimodal):
    energy, step = bimodal
    assert_state_round_trip(step, step, energy.model)


def make_for_skewed_model(order: list[str]) -> dict[str, np.ndarray]:
    """Draws of a step made for the variables in this order."""
    model = skewed_model()
    with model:
        step = SimulatedTempering(
            [model[name] for name in order],
            betas=3,
            kernel="random_walk",
            walkers=4,
            compile_kwargs=FAST,
            pilot_tune=32,
        )
    return walk(step, model, 70)


def test_it_keeps_the_order_of_the_model():
    """Catches values handed to variables in the order of ``vars``."""
    draws = make_for_skewed_model(["s", "b"])
    assert draws["b"].shape == (70, 2)
    assert abs(np.median(draws["b"][:, 1]) + 40) < 30


@pytest.mark.slow
def test_it_is_made_the_same_each_time():
    left, right = make_for_skewed_model(["s", "b"]), make_for_skewed_model(["b", "s"])
    for name, values in left.items():
        np.testing.assert_array_equal(values, right[name])


def test_it_refuses_what_it_cannot_do(bimodal):
    model = skewed_model()
    with model:
        with pytest.raises(ValueError, match=r"leaves out \['b'\]"):
            SimulatedTempering([model["s"]])
        for kwargs, message in (
            ({"walkers": 0}, "walkers=0"),
            ({"pilot_tune": 0}, "pilot_tune=0"),
            ({"betas": "linear"}, "betas='linear'"),
            ({"update": "newton"}, "update='newton'"),
        ):
            with pytest.raises(ValueError, match=message):
                SimulatedTempering(**kwargs)
    energy, step = bimodal
    step.setup_chain(np.random.default_rng(1), 0, 7)
    point = continue_from(step, energy.model.initial_point(0), 3)[-1]
    with pytest.raises(RuntimeError, match="another step method moved"):
        step.step({name: value + 1 for name, value in point.items()})
