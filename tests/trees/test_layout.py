"""The tree that comes back: groups, dimensions, types, attributes, and files."""

import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from scipy import stats
from support import pymc_models as models

from pymc_logz.kernels import Hamiltonian
from pymc_logz.trees.layout import versions_of

pytestmark = [
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
    pytest.mark.usefixtures("no_look_in_this_file"),
]
GROUPS = {
    "posterior",
    "sample_stats",
    "weighted_posterior",
    "annealing",
    "evidence",
    "observed_data",
    "constant_data",
}
KERNEL = Hamiltonian(step_size=0.2, scale=1.0)


@pytest.fixture(scope="module")
def tree() -> xr.DataTree:
    """A small run of the regression with data containers and coordinates."""
    return models.quick(models.regression(), draws=100, betas=np.linspace(0, 1, 65) ** 2)


def test_groups_and_dimensions(tree: xr.DataTree) -> None:
    """Would catch a group or dimension that is renamed, added or lost."""
    assert set(tree.children) == GROUPS
    expected = {
        "posterior": {"chain": 2, "draw": 100, "obs": 8},
        "sample_stats": {"chain": 2, "draw": 100},
        "weighted_posterior": {"chain": 2, "draw": 100, "obs": 8},
        "annealing": {"chain": 2, "stage": 65},
        "evidence": {"estimator": 1},
        "observed_data": {"obs": 8},
        "constant_data": {"obs": 8},
    }
    assert {name: dict(tree[name].sizes) for name in GROUPS} == expected
    draws = {"intercept", "slope", "sigma", "mu"}
    assert set(tree["posterior"].data_vars) == draws
    assert set(tree["weighted_posterior"].data_vars) == {*draws, "log_weight"}
    assert set(tree["sample_stats"].data_vars) == {"lp", "log_ratio", "acceptance_rate"}
    numbers = {"log_z", "mcse", "weight_ess", "khat", "status"}
    assert set(tree["evidence"].data_vars) == numbers
    stages = {"acceptance_rate", "mean_log_ratio", "weight_ess", "step_size", "n_nan_log_ratio"}
    assert set(tree["annealing"].data_vars) == stages
    assert list(tree["evidence"]["estimator"].to_numpy()) == ["hais"]


def test_types_are_plain(tree: xr.DataTree) -> None:
    """Would catch an object array, which no file format can store."""
    for group in tree.subtree:
        for name, variable in group.variables.items():
            assert variable.dtype.kind in "fiU", (group.path, name)
            if group.path != "/constant_data" and variable.dtype.kind == "f":
                assert variable.dtype == np.float64


def plain(value: object) -> bool:
    """Whether an attribute is a string or a number, of Python or NumPy."""
    return isinstance(value, str | int | float | np.number) and not isinstance(value, bool)


def test_attributes_are_strings_or_numbers(tree: xr.DataTree) -> None:
    """Would catch an attribute that files cannot store; ArviZ's own ``sample_dims`` is a list."""
    for group in tree.subtree:
        if group.path == "/annealing":
            continue
        owners = [group, *group.variables.values()]
        attrs = {k: v for owner in owners for k, v in owner.attrs.items()}
        attrs.pop("sample_dims", None)
        assert all(plain(value) for value in attrs.values()), group.path
    assert isinstance(json.loads(tree.attrs["settings"]), dict)
    assert isinstance(json.loads(tree.attrs["versions"]), dict)


def test_attributes_of_annealing_are_strings_or_numbers(tree: xr.DataTree) -> None:
    """Would catch an attribute that comes back from a file as another type."""
    assert all(plain(value) for value in tree["annealing"].attrs.values())


def test_coordinates_are_kept(tree: xr.DataTree) -> None:
    """Would catch labels that are lost, or data that do not come along."""
    labels = [f"o{i}" for i in range(8)]
    for group in ("posterior", "weighted_posterior", "observed_data", "constant_data"):
        assert list(tree[group]["obs"].to_numpy()) == labels
    np.testing.assert_array_equal(tree["observed_data"]["y"], models.Y)
    np.testing.assert_array_equal(tree["constant_data"]["x"], models.X)


def test_draws_belong_together(tree: xr.DataTree) -> None:
    """Would catch variables of a draw that come from different rows."""
    for group in ("posterior", "weighted_posterior"):
        draws = tree[group].to_dataset()
        expected = draws["intercept"] + draws["slope"] * tree["constant_data"]["x"]
        np.testing.assert_allclose(draws["mu"], expected.transpose(*draws["mu"].dims))


def test_log_ratio_is_the_log_likelihood_of_the_draw(tree: xr.DataTree) -> None:
    """Would catch sample_stats that are not resampled along with the draws."""
    draws = tree["posterior"].to_dataset()
    sigma = draws["sigma"].to_numpy()[..., None]
    log_like = stats.norm.logpdf(models.Y, draws["mu"].to_numpy(), sigma).sum(axis=2)
    np.testing.assert_allclose(tree["sample_stats"]["log_ratio"], log_like, rtol=1e-8)
    log_prior = stats.norm.logpdf(draws["intercept"]) + stats.norm.logpdf(draws["slope"])
    log_prior = log_prior + stats.halfnorm.logpdf(draws["sigma"]) + np.log(draws["sigma"])
    lp = tree["sample_stats"]["lp"]
    np.testing.assert_allclose(lp, log_prior + log_like, rtol=1e-6)


def test_resampled_draws_are_rows_of_the_run(tree: xr.DataTree) -> None:
    """Would catch resampling that favours the wrong rows: copies follow the weights."""
    rows = tree["weighted_posterior"]["slope"].to_numpy().ravel()
    chosen = tree["posterior"]["slope"].to_numpy().ravel()
    copies = np.array([(chosen == row).sum() for row in rows])
    assert copies.sum() == chosen.size
    weight = np.exp(tree["weighted_posterior"]["log_weight"].to_numpy().ravel())
    # systematic resampling: the number of copies is off by less than one
    assert np.all(np.abs(copies - weight / weight.mean()) < 1 + 1e-9)


def test_annealing_group(tree: xr.DataTree) -> None:
    """Would catch per-temperature numbers of another temperature, or a scrambled ladder."""
    annealing = tree["annealing"].to_dataset()
    np.testing.assert_allclose(annealing["beta"], np.linspace(0, 1, 65) ** 2)
    assert np.isnan(annealing["step_size"].to_numpy()[[0, -1]]).all()
    assert annealing["step_size"].isel(stage=slice(1, -1)).notnull().all()
    ends = annealing["acceptance_rate"].isel(stage=[0, -1])
    assert ends.isnull().all()
    inner = annealing["acceptance_rate"].isel(stage=slice(1, -1))
    assert ((inner >= 0) & (inner <= 1)).all()
    np.testing.assert_allclose(annealing["weight_ess"].isel(stage=0), 100)
    weight = np.exp(tree["weighted_posterior"]["log_weight"].to_numpy())
    ess = weight.sum(axis=1) ** 2 / (weight**2).sum(axis=1)
    np.testing.assert_allclose(annealing["weight_ess"].isel(stage=-1), ess)


def test_evidence_is_the_mean_weight(tree: xr.DataTree) -> None:
    """Would catch an estimate of other weights than those in the tree."""
    log_weight = tree["weighted_posterior"]["log_weight"].to_numpy()
    assert models.log_z_of(tree)[0] == pytest.approx(np.log(np.exp(log_weight).mean()))
    assert tree["evidence"]["log_z"].attrs["units"] == "nats"
    assert "can be trusted" in tree["evidence"]["status"].attrs["ok"]


def test_no_data_no_group() -> None:
    """Would catch an empty group for a model without constant data."""
    tree = models.quick(models.normal_normal(), draws=30, betas=4, kernel=KERNEL)
    assert set(tree.children) == GROUPS - {"constant_data"}


def test_zarr_round_trip(tree: xr.DataTree, tmp_path: Path) -> None:
    """Would catch anything in the tree that zarr cannot store or gives back changed."""
    pytest.importorskip("zarr")
    tree.to_zarr(tmp_path / "run.zarr")
    with xr.open_datatree(tmp_path / "run.zarr", engine="zarr") as back:
        xr.testing.assert_identical(back.load(), tree)


def test_netcdf_round_trip(tree: xr.DataTree, tmp_path: Path) -> None:
    """Would catch anything in the tree that netCDF cannot store or gives back changed."""
    pytest.importorskip("h5py", reason="h5netcdf writes through h5py")
    tree.to_netcdf(tmp_path / "run.nc", engine="h5netcdf")
    with xr.open_datatree(tmp_path / "run.nc", engine="h5netcdf") as back:
        xr.testing.assert_equal(back.load(), tree)
        assert back.attrs == tree.attrs


def test_a_copy_of_the_sources_needs_no_installation() -> None:
    """Catches a run that ends in an error about metadata, when all of its work is done."""
    assert "no-such-package" not in versions_of(["numpy", "no-such-package"])
    assert versions_of(["numpy"]) == {"numpy": np.__version__}
