"""Simulated and parallel tempering of bits, and every estimator of such a run."""

import numpy as np
import pytest
import xarray as xr
from support.checks import check_coverage
from support.small_machines import KNOWN, MACHINES

import pymc_logz as lz

QUIET = {"progressbar": False}


@pytest.fixture(scope="module")
def run() -> xr.DataTree:
    """Ten levels, evenly spaced."""
    return lz.sample_tempered(model=KNOWN, betas=10, random_seed=1, **QUIET)


def test_log_z_of_all_levels(run: xr.DataTree) -> None:
    """Catches levels that are drawn by the ratio of another row, and walkers at a wrong beta."""
    tempering = run["tempering"].to_dataset()
    betas = tempering["beta"].to_numpy()
    np.testing.assert_allclose(betas, np.linspace(0, 1, 10))
    error = np.abs(tempering["log_z"].to_numpy() - KNOWN.log_z_at(betas))
    assert np.all(error <= 4 * tempering["mcse"].to_numpy() + 1e-12)
    assert run["evidence"]["status"].item() == "ok"
    assert abs(run["evidence"]["log_z"].item() - KNOWN.log_z) < 0.05


def test_every_estimator_on_the_same_run(run: xr.DataTree) -> None:
    """Catches a tree that other estimators cannot read."""
    with pytest.warns(lz.EvidenceWarning, match="do not agree"):
        evidence = lz.evidence(run, methods="all")["evidence"].to_dataset()
    ok = evidence.where(evidence["status"] == "ok", drop=True)
    assert {"rts", "ts", "mbar", "bar_chain", "stepping_stone"} <= set(ok["estimator"].values)
    assert np.all(np.abs(ok["log_z"] - KNOWN.log_z) < 4 * ok["mcse"])


def test_draws_stand_for_the_target(run: xr.DataTree) -> None:
    """Catches weights of the draws of all levels that are those of another level."""
    exact = KNOWN.sample(np.random.default_rng(5), 20000)
    for name in ("visible", "hidden"):
        found = run["posterior"][name].mean(("chain", "draw")).to_numpy()
        assert np.abs(found - exact[name].mean(axis=0)).max() < 0.06
    assert set(np.unique(run["tempered_posterior"]["visible"])) == {0, 1}


def test_what_levels_have_in_common(run: xr.DataTree) -> None:
    """Catches rows and columns that change places, and rounds that are told in another order."""
    tempering = run["tempering"].to_dataset()
    overlap, covariance = (tempering[k].to_numpy() for k in ("overlap", "log_z_covariance"))
    np.testing.assert_allclose(overlap.sum(axis=1), 1.0)
    assert np.all(np.diff(overlap[0]) < 0)
    assert np.all(np.diff(overlap[-1]) > 0)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), tempering["mcse"], atol=1e-12)
    assert np.linalg.eigvalsh(covariance).min() > -1e-12
    assert tempering["log_z_bias"][0] == 0
    assert np.all(np.abs(tempering["log_z_bias"]) < 0.01)
    length = 64 * 2 ** np.arange(tempering.sizes["round"])
    np.testing.assert_array_equal(tempering["round_log_z_hat"][-1], tempering["log_z_hat"])
    np.testing.assert_array_equal(tempering["round_length"], length)
    np.testing.assert_array_equal(tempering["round_visits"].sum("stage"), 64 * length)
    np.testing.assert_allclose(tempering["round_share"].sum("stage"), 1.0)


def test_swaps_and_an_adaptive_ladder() -> None:
    """Catches swaps that rest on constants, and a pilot that cannot place levels for bits."""
    torus = MACHINES["checkerboard"]
    for settings in ({"exchange": "swap", "betas": 5}, {}):
        tree = lz.sample_tempered(500, 2, model=torus, random_seed=2, **settings, **QUIET)
        log_z, mcse = (float(tree["evidence"][key][0]) for key in ("log_z", "mcse"))
        assert abs(log_z - torus.log_z) < 4 * mcse < 0.2
        assert set(np.unique(tree["posterior"]["spin"])) == {-1, 1}


def test_the_same_bits_for_any_cores() -> None:
    """Catches chains that share a generator."""
    log_z = [
        lz.sample_tempered(50, 2, model=KNOWN, betas=4, cores=cores, random_seed=3, **QUIET)[
            "tempering"
        ]["log_ratio"].to_numpy()
        for cores in (1, 2)
    ]
    np.testing.assert_array_equal(*log_z)


@pytest.mark.parametrize("keep", ["draws", "sums"])
def test_walkers_that_stay_where_they_are_are_told(keep: str) -> None:
    """Catches a run of bits too short for its walkers to get anywhere, which was called ok."""
    rng = np.random.default_rng(1)
    weights = rng.normal(0, 6, (20, 12))
    biases = [-0.5 * weights.sum(axis=axis) for axis in (1, 0)]
    stiff = lz.energies.bernoulli_rbm(weights, *biases)
    with pytest.warns(lz.EvidenceWarning, match="R-hat of the probability of level"):
        tree = lz.sample_tempered(
            100, model=stiff, walkers=50, betas=40, tune=10, keep=keep, random_seed=1, **QUIET
        )
    assert tree["evidence"]["status"].item() == "chains_disagree"
    assert tree["tempering"]["rhat"].max() > 1.15


def test_what_does_not_go_with_bits_is_refused() -> None:
    """Catches arguments that nothing reads."""
    with pytest.raises(TypeError, match="bernoulli_rbm is made of bits"):
        lz.sample_tempered(model=KNOWN, kernel="slice")
    with pytest.raises(ValueError, match="starts from independent bits"):
        lz.sample_tempered(model=KNOWN, reference="learned")


@pytest.mark.slow
def test_intervals_cover() -> None:
    """Catches errors that are too small: 200 runs."""
    covered = []
    for seed in range(200):
        tree = lz.sample_tempered(200, 2, model=KNOWN, betas=8, random_seed=seed, **QUIET)
        log_z, mcse = (float(tree["evidence"][key][0]) for key in ("log_z", "mcse"))
        covered.append(abs(log_z - KNOWN.log_z) < 1.96 * mcse)
    check_coverage(np.array(covered))
