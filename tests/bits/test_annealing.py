"""Annealed importance sampling of bits: both directions, adaptive and given ladders."""

import numpy as np
import pytest
import xarray as xr
from support.checks import check_coverage
from support.small_machines import KNOWN, MACHINES

import pymc_logz as lz


@pytest.fixture(scope="module")
def both() -> xr.DataTree:
    """A default run in both directions, backwards from exact draws."""
    draws = KNOWN.sample(np.random.default_rng(2), 1024)
    exact = xr.DataTree.from_dict(
        {"posterior": xr.Dataset({k: (("chain", "draw", k), v[None]) for k, v in draws.items()})}
    )
    run = {"direction": "both", "random_seed": 1, "progressbar": False}
    return lz.sample_hais(model=KNOWN, posterior_draws=exact, **run)


def test_all_estimates_are_right(both: xr.DataTree) -> None:
    """Catches weights of another path than the rows', in either direction."""
    evidence = both["evidence"].to_dataset()
    assert list(evidence["estimator"].values) == ["bar", "hais", "hais_reverse"]
    error = (evidence["log_z"] - KNOWN.log_z).values
    assert np.all(np.abs(error) < np.minimum(4 * evidence["mcse"].values, 0.05))
    assert list(evidence["status"].values) == ["ok", "ok", "upper_end"]


def test_the_tree_is_one_like_any_other(both: xr.DataTree, tmp_path) -> None:
    """Catches draws of other values than bits, and trees that no file takes."""
    posterior = both["posterior"].to_dataset()
    assert posterior["visible"].shape == (4, 256, 12)
    assert posterior["hidden"].dtype == np.int8
    exact = KNOWN.sample(np.random.default_rng(3), 20000)["visible"].mean(axis=0)
    assert np.abs(posterior["visible"].mean(("chain", "draw")) - exact).max() < 0.08
    both.to_netcdf(tmp_path / "run.nc", engine="h5netcdf")
    stored = xr.open_datatree(tmp_path / "run.nc", engine="h5netcdf")
    np.testing.assert_array_equal(stored["evidence"]["log_z"], both["evidence"]["log_z"])


@pytest.mark.parametrize("name", ["three_blocks", "checkerboard"])
def test_a_ladder_that_is_given(name: str) -> None:
    """Catches a ladder that is not the one asked for, and blocks that wait for each other."""
    energy = MACHINES[name]
    tree = lz.sample_hais(model=energy, betas=60, random_seed=3, progressbar=False)
    assert tree["evidence"].attrs["n_temperatures"] == 60
    np.testing.assert_allclose(np.diff(tree["annealing"]["beta"]), 1 / 60)
    log_z, mcse = (float(tree["evidence"][key][0]) for key in ("log_z", "mcse"))
    assert abs(log_z - energy.log_z) < 4 * mcse < 0.2


def test_what_does_not_go_with_bits_is_refused() -> None:
    """Catches arguments that nothing reads."""
    with pytest.raises(TypeError, match="bernoulli_rbm is made of bits"):
        lz.sample_hais(model=KNOWN, kernel="hmc")
    with pytest.raises(ValueError, match="starts from independent bits"):
        lz.sample_hais(model=KNOWN, reference="laplace")
    with pytest.raises(ValueError, match=r"target_accept=0.9 has no effect"):
        lz.sample_hais(model=KNOWN, target_accept=0.9)
    other = xr.DataTree.from_dict({"posterior": xr.Dataset({"x": (("chain", "draw"), [[1.0]])})})
    with pytest.raises(ValueError, match=r"\['visible', 'hidden'\] in its group"):
        lz.sample_hais(model=KNOWN, direction="both", posterior_draws=other)


@pytest.mark.slow
def test_intervals_cover() -> None:
    """Catches errors that are too small: 200 default runs."""
    covered = []
    for seed in range(200):
        tree = lz.sample_hais(model=KNOWN, random_seed=seed, progressbar=False)
        log_z, mcse = (float(tree["evidence"][key][0]) for key in ("log_z", "mcse"))
        covered.append(abs(log_z - KNOWN.log_z) < 1.96 * mcse)
    check_coverage(np.array(covered))
