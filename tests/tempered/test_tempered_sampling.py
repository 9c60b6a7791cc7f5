"""What `sample_tempered` makes of arguments, seeds, cores and failures; log Z at every beta."""

import json
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats
from support import pymc_models as models
from support.compiled_once import compiled_once

import pymc_logz as lz
from pymc_logz.energies import gaussian_shells, ridge, skewed_bimodal, two_gaussians
from pymc_logz.estimators.tempering import rts
from pymc_logz.loop import frozen
from pymc_logz.tempered import chains
from pymc_logz.tempered import run as runs
from pymc_logz.trees.layout import stored_draws

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
FIXED = lz.kernels.Hamiltonian(step_size=0.8, scale=1.0)
MODEL = models.normal_normal()
EXACT = stats.norm.logpdf(0.7, 0, np.sqrt(2))
# without a pilot, and with nothing to compile for long: for tests of all but the numbers
SMALL: Mapping[str, Any] = {
    "draws": 40,
    "walkers": 16,
    "betas": np.array([0.0, 0.3, 1.0]),
    "kernel": FIXED,
    "tune": 16,
    "compile_kwargs": {"mode": "FAST_COMPILE"},
}
RIDGE_BETAS = np.array([0.0, 0.1, 0.25, 0.5, 1.0])
RIDGE_LOG_Z = np.array([0.0, -1.55472648, -2.38525461, -3.36306597, -4.97455187])


def run(model: pm.Model, **kwargs: Any) -> xr.DataTree:
    """A run with a fixed seed and no progress bar."""
    settings = {"chains": 2, "cores": 1, "random_seed": 1, "progressbar": False}
    return lz.sample_tempered(model=model, **{**settings, **kwargs})


def small_run(model: pm.Model | None = None, **kwargs: Any) -> xr.DataTree:
    """A tiny run, of the simplest model by default."""
    return run(MODEL if model is None else model, **{**SMALL, **kwargs})


@pytest.fixture(scope="module", autouse=True)
def _compile_once() -> Iterator[None]:
    """One compilation for all runs of ``MODEL`` with one kernel, and no look from the prior."""
    with compiled_once(MODEL), pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "log_z_from_prior", lambda *_: None)  # its seconds are no part of a run
        yield


@pytest.fixture(scope="module")
def small() -> xr.DataTree:
    """A tiny run of the simplest model: 3 chains."""
    return small_run(chains=3)


# --- log Z at every temperature, and the posterior -------------------------------------------


def check_curve(tree: xr.DataTree, exact: np.ndarray) -> None:
    """Log Z agrees at every level within 5 errors, which are small and grow from 0."""
    levels = tree["tempering"].to_dataset()
    error = np.asarray(levels["mcse"])
    assert error[0] == 0
    assert np.all(error[1:] > 0)
    assert np.all(error < 0.05)
    np.testing.assert_allclose((levels["log_z"] - exact)[1:] / error[1:], 0.0, atol=5)
    assert models.log_z_of(tree)[:2] == (levels["log_z"].item(-1), error[-1])


@pytest.fixture(scope="module")
def ridge_run() -> xr.DataTree:
    """The ridge on a given ladder, tuned."""
    return run(ridge().model, betas=RIDGE_BETAS, draws=1000)


def test_log_z_of_the_ridge_at_every_beta(ridge_run: xr.DataTree) -> None:
    """Would catch a curve that is right at its ends only."""
    check_curve(ridge_run, RIDGE_LOG_Z)
    levels = ridge_run["tempering"].to_dataset()
    np.testing.assert_array_equal(levels["beta"], RIDGE_BETAS)
    # warm-up is frozen at shares within 10% of the prior, give or take its noise and the run's
    np.testing.assert_allclose(levels["occupancy"] * 5, 1.0, atol=0.3)
    np.testing.assert_allclose(levels["visit_share"], levels["occupancy"], atol=0.03)
    np.testing.assert_allclose(levels["acceptance_rate"], 0.8, atol=0.12)
    assert np.all(levels["rhat"] < 1.02)
    assert np.all(levels["round_trip_rate"] > 0.01)


def test_posterior_of_the_ridge(ridge_run: xr.DataTree) -> None:
    """Would catch draws of another temperature, weighted draws in `posterior`, or lost order."""
    exact = ridge().sample_posterior
    assert exact is not None
    draws = exact(np.random.default_rng(3), 200_000)
    posterior = ridge_run["posterior"].to_dataset()
    assert dict(posterior.sizes) == {"chain": 2, "draw": 1000}
    weighted = ridge_run["tempered_posterior"].to_dataset()
    weight = np.exp(weighted["log_weight"] - weighted["log_weight"].max())
    for name in ("p1", "p2"):
        values = posterior[name]
        error = float(values.azstats.mcse(method="mean"))
        assert abs(float(values.mean()) - draws[name].mean()) < 5 * error
        mean = float((weight * weighted[name]).sum() / weight.sum())
        # about as many effective draws as a fifth of all thinned ones
        assert abs(mean - draws[name].mean()) < 5 * draws[name].std() / np.sqrt(weight.size / 20)
    stats_group = ridge_run["sample_stats"].to_dataset()
    p = posterior["p1"] * posterior["p2"]
    np.testing.assert_allclose(
        stats_group["log_ratio"], stats.binom.logpmf(50, 100, p), rtol=1e-6, atol=1e-8
    )
    assert np.all(np.diff(stats_group["walker"], axis=1) >= 0)


@pytest.mark.parametrize(
    ("exchange", "reference"),
    [("gibbs", "prior"), pytest.param("swap", "auto", marks=pytest.mark.slow)],
)
def test_modes_have_their_weights(exchange: str, reference: str) -> None:
    """Would catch walkers that stay in the mode where they began."""
    energy = skewed_bimodal()
    tree = run(energy.model, exchange=exchange, reference=reference, cores=2)
    log_z, error, status = models.log_z_of(tree)
    assert status == "ok"
    assert abs(log_z - energy.log_z) < 4 * error
    assert energy.sample_posterior is not None
    rate = energy.sample_posterior(np.random.default_rng(2), 400_000)["rate"]
    cut = 4.0
    high = (tree["posterior"]["rate"] > cut).astype(float)
    mcse = float(high.azstats.mcse(method="mean"))
    assert 0 < mcse < 0.05
    assert abs(float(high.mean()) - (rate > cut).mean()) < 4 * mcse


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the model has potentials")
@pytest.mark.parametrize("energy", [two_gaussians(), gaussian_shells()], ids=lambda e: e.name)
@pytest.mark.parametrize("exchange", ["gibbs", "swap"])
def test_log_z_of_far_modes(energy: Any, exchange: str) -> None:
    """Would catch an error bar that does not know how slowly walkers travel."""
    tree = run(energy.model, exchange=exchange, draws=2000, chains=4, cores=2)
    log_z, error, status = models.log_z_of(tree)
    assert status == "ok"
    assert error < 0.2
    assert abs(log_z - energy.log_z) < 4 * error


def test_swaps_find_the_same_log_z() -> None:
    """Would catch an estimate by the law of levels where each level has one walker."""
    tree = small_run(exchange="swap", walkers=16, draws=800)
    log_z, error, status = models.log_z_of(tree)
    assert status == "ok"
    assert error < 0.05
    assert abs(log_z - EXACT) < 4 * error
    assert tree["evidence"]["estimator"].item(0) == "mbar"
    assert tree["evidence"].attrs["n_walkers"] == 18
    np.testing.assert_allclose(tree["tempering"]["visit_share"], 1 / 3)
    mu = tree["posterior"]["mu"]
    assert abs(float(mu.mean()) - 0.35) < 5 * float(mu.azstats.mcse(method="mean"))


# --- arguments ---------------------------------------------------------------------------------

WRONG: list[tuple[dict[str, Any], type[Exception], list[str]]] = [
    ({"draws": 1}, ValueError, ["draws=1", "at least 2"]),
    ({"walkers": 0}, ValueError, ["walkers=0", "at least 1"]),
    ({"walkers": 2.5}, ValueError, ["walkers=2.5", "an integer"]),
    ({"thin": 0}, ValueError, ["thin=0", "at least 1"]),
    ({"tune": 0}, ValueError, ["tune=0", "at least 1"]),
    ({"target_accept": 1.0}, ValueError, ["target_accept=1.0", "between 0 and 1"]),
    ({"kernel": "nuts"}, TypeError, ["kernel='nuts'", "'hmc'", "Slice()"]),
    ({"betas": "linear"}, ValueError, ["betas='linear'", "'adaptive'"]),
    ({"betas": 1}, ValueError, ["betas=1", "at least 2"]),
    ({"betas": [0, 0.5, 0.4, 1]}, ValueError, ["betas[2]=0.4", "sort"]),
    ({"update": "newton"}, ValueError, ["update='newton'", "rts"]),
    ({"exchange": "random"}, ValueError, ["exchange='random'", "gibbs"]),
    ({"level_prior": "flat"}, ValueError, ["level_prior='flat'", "uniform"]),
    ({"level_prior": [1, 2]}, ValueError, ["level_prior", "(2,)", "3 levels"]),
    ({"level_prior": [1, 2], "betas": 4}, ValueError, ["level_prior", "(2,)", "4 levels"]),
    ({"level_prior": [1, 2], "betas": "adaptive"}, ValueError, ["level_prior", "betas=<int>"]),
    ({"level_prior": [1, 0, 1]}, ValueError, ["level_prior", "0.0", "positive"]),
    ({"level_prior": "exp", "exchange": "swap"}, ValueError, ["swap", "'uniform'"]),
    ({"reference": "mean"}, ValueError, ["reference='mean'", "'laplace'"]),
]


@pytest.mark.parametrize(("wrong", "error", "parts"), WRONG, ids=[str(w[0]) for w in WRONG])
def test_wrong_arguments(wrong: dict[str, Any], error: type[Exception], parts: list[str]) -> None:
    """Would catch a wrong argument that runs, or a message without argument, value or range."""
    with pytest.raises(error) as caught:
        small_run(**wrong)
    for part in parts:
        assert part in str(caught.value)


def test_number_of_levels_and_prior_can_be_given() -> None:
    """Would catch a number of levels, or a prior, that is not the one asked for."""
    prior = np.array([1.0, 2.0, 2.0, 4.0, 6.0])
    tree = small_run(betas=5, level_prior=prior, draws=800, walkers=64, reference="prior")
    levels = tree["tempering"].to_dataset()
    assert levels.sizes["stage"] == 5
    beta = levels["beta"].to_numpy()
    assert (beta[0], beta[-1]) == (0, 1)
    assert np.all(np.diff(beta) > 0)
    np.testing.assert_allclose(np.exp(levels["log_prior"]), prior / 15)
    np.testing.assert_allclose(levels["occupancy"].mean("chain"), prior / 15, rtol=0.3)
    log_z, error, status = models.log_z_of(tree)
    assert status == "ok"
    assert abs(log_z - EXACT) < 4 * error


def test_model_from_the_context_without_a_pilot(
    small: xr.DataTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Would catch `model=None` that fails, a progress bar that does, a pilot with nothing to do."""
    monkeypatch.setattr(frozen, "run_pilot", None)
    with models.normal_normal():
        tree = lz.sample_tempered(**{**SMALL, "chains": 3, "random_seed": 1})
    xr.testing.assert_equal(tree["posterior"], small["posterior"])
    np.testing.assert_array_equal(tree["tempering"]["step_size"], 0.8)
    np.testing.assert_array_equal(tree["tempering"]["beta"], SMALL["betas"])


@pytest.mark.parametrize(
    "update", [pytest.param("wang_landau", marks=pytest.mark.slow), "stochastic_approximation"]
)
def test_other_updates_lead_to_the_same_log_z(update: str) -> None:
    """Would catch an update whose estimated constants spoil the estimate."""
    tree = small_run(update=update, draws=800)
    log_z, error, _ = models.log_z_of(tree)
    assert 0 < error < 0.1
    assert abs(log_z - EXACT) < 4 * error


def test_kernels_without_gradient() -> None:
    """Would catch a kernel that cannot have a step size for each walker."""
    tree = small_run(kernel="random_walk", draws=800)
    log_z, error, _ = models.log_z_of(tree)
    assert abs(log_z - EXACT) < 4 * error


# --- seeds, chains, cores ----------------------------------------------------------------------


def timeless(tree: xr.DataTree) -> xr.DataTree:
    """The tree's numbers, without attributes such as times."""
    return tree.map_over_datasets(lambda dataset: dataset.drop_attrs())


def test_cores_do_not_change_a_bit(small: xr.DataTree) -> None:
    """Would catch a random stream or a buffer that chains share, or a Generator that is refused."""
    again = small_run(chains=3, cores=2, random_seed=np.random.default_rng(1))
    xr.testing.assert_identical(timeless(again), timeless(small))


def test_chains_do_not_see_each_other(small: xr.DataTree) -> None:
    """Would catch chain i's draws that depend on how many chains there are."""
    alone = small_run(chains=1)
    for group in ("posterior", "sample_stats"):
        xr.testing.assert_equal(
            alone[group].to_dataset(), small[group].to_dataset().isel(chain=[0])
        )
    ratios = small["tempering"]["log_ratio"].to_numpy()
    assert np.unique(ratios).size > 0.3 * ratios.size


def test_adding_a_constant_adds_it_to_log_z(small: xr.DataTree) -> None:
    """Would catch a log Z that is not that of the target: a potential of 5 adds exactly 5."""
    with pytest.warns(lz.EvidenceWarning, match="offset"):
        tree = small_run(models.normal_with_offset(5.0), chains=3)
    moved, plain = models.log_z_of(tree), models.log_z_of(small)
    assert moved[0] - plain[0] == pytest.approx(5.0, abs=1e-8)
    assert moved[1] == pytest.approx(plain[1], rel=1e-8)
    np.testing.assert_allclose(tree["posterior"]["mu"], small["posterior"]["mu"], atol=1e-10)


def test_an_interrupt_keeps_finished_chains(
    small: xr.DataTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Would catch an interrupt that loses everything or goes unmentioned, and a seed unused."""
    advance, calls = chains.TemperJob.advance, iter(range(100))

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == 2:
            raise KeyboardInterrupt
        return advance(*args, **kwargs)

    monkeypatch.setattr(chains.TemperJob, "advance", interrupted)
    with pytest.warns(lz.EvidenceWarning, match="2 of 3 chains"):
        tree = small_run(chains=3, random_seed=2)
    assert tree["posterior"].sizes["chain"] == 2
    seen = small["tempering"]["log_ratio"].to_numpy()[:2]
    assert not np.any(tree["tempering"]["log_ratio"].to_numpy() == seen)


@pytest.mark.usefixtures("interrupts")
@pytest.mark.filterwarnings("ignore:all walkers together made")
@pytest.mark.parametrize("cores", [1, 2])
def test_an_interrupt_keeps_the_draws_of_chains_that_run(
    cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches minutes of draws that Ctrl-C loses, and chains of unequal length."""
    walk_on, n_calls = chains.walk_on, count(1)

    def pressed(*args: Any, **kwargs: Any) -> Any:
        if next(n_calls) == 2 * cores:  # this one keeps its draws
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        return walk_on(*args, **kwargs)

    monkeypatch.setattr(chains, "walk_on", pressed)
    with pytest.warns(lz.EvidenceWarning, match=rf"of 3000000 draws of {cores} of 4 chains"):
        tree = small_run(chains=4, cores=cores, draws=3_000_000, thin=5)
    assert tree["posterior"].sizes["chain"] == cores
    n_draws = tree["tempering"].sizes["draw"]
    assert 4 <= n_draws < 3_000_000
    assert tree["tempering"]["level"].shape == (cores, 16, n_draws)
    evidence = tree["evidence"].isel(estimator=0)
    assert abs(float(evidence["log_z"]) - EXACT) < 5 * float(evidence["mcse"])


# --- the tree ----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:walkers stay in one part")
def test_tree_of_a_model_with_dims(tmp_path: Any) -> None:
    """Would catch lost coordinates, object dtypes, attributes that files cannot hold."""
    tree = small_run(models.regression(), thin=4)
    assert set(tree.children) == {
        *("posterior", "sample_stats", "tempered_posterior", "tempering"),
        *("evidence", "observed_data", "constant_data"),
    }
    assert tree["posterior"]["mu"].dims == ("chain", "draw", "obs")
    weighted = tree["tempered_posterior"].to_dataset()
    assert weighted["mu"].dims == ("chain", "walker", "draw", "obs")
    assert dict(weighted["log_weight"].sizes) == {"chain": 2, "walker": 16, "draw": 10}
    np.testing.assert_array_equal(weighted["draw"], np.arange(3, 40, 4))
    levels = tree["tempering"].to_dataset()
    assert levels["level"].dims == levels["log_ratio"].dims == ("chain", "walker", "draw")
    assert levels["level"].dtype.kind == "i"
    assert levels["log_ratio"].attrs["units"] == "nats"
    for name in ("log_z", "mcse", "log_prior", "log_z_hat", "step_size", "ess", "rhat"):
        assert levels[name].dims == ("stage",), name
    settings = json.loads(tree.attrs["settings"])
    assert settings["method"] == "tempered"
    assert settings["walkers"] == 16
    tree.to_netcdf(tmp_path / "run.nc", engine="h5netcdf")
    back = xr.open_datatree(tmp_path / "run.nc", engine="h5netcdf").load()
    xr.testing.assert_equal(back["tempering"], tree["tempering"])
    assert lz.evidence(back)["evidence"]["log_z"].item() == models.log_z_of(tree)[0]


def test_tree_holds_what_estimators_take(small: xr.DataTree) -> None:
    """Would catch levels, log ratios or constants stored in another order than they were used."""
    levels = small["tempering"].to_dataset()
    curve = rts(stored_draws(small))
    np.testing.assert_allclose(curve.log_z, levels["log_z"])
    assert curve.estimate.log_z == models.log_z_of(small)[0]


# --- warnings ----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:rts has status", "ignore:walkers stay in one part")
def test_a_run_without_round_trips_says_so() -> None:
    """Would catch walkers that never travel, and nobody is told."""
    with pytest.warns(lz.EvidenceWarning, match="round trips.*swaps are mostly rejected"):
        tree = small_run(draws=6, walkers=3, tune=1)
    assert tree["tempered_posterior"].sizes["draw"] == 1


def test_rounds_that_do_not_converge_are_mentioned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Would catch a warm-up that fails in silence."""
    monkeypatch.setattr(runs, "LARGE_DEVIATION", 0.0)
    with pytest.warns(lz.EvidenceWarning, match="warm-up iterations.*larger tune"):
        small_run()


def test_likelihood_that_is_nan_is_counted() -> None:
    """Would catch NaN in the results, or NaN that nobody hears of."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Potential("root", pm.math.sqrt(x))
    with pytest.warns(lz.EvidenceWarning) as caught:
        tree = small_run(model, draws=300)
    messages = [str(warning.message) for warning in caught]
    assert any("during tempering" in message for message in messages)
    assert np.all(tree["tempering"]["n_nan_log_ratio"] > 0)
    assert not np.any(np.isnan(tree["tempering"]["log_ratio"]))
    assert np.all(tree["posterior"]["x"] > 0)
