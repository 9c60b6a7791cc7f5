"""Log likelihood of each of many data rows: exact numbers, errors, labels."""

import json
from pathlib import Path

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats
from support.checks import assert_detects
from support.latent_models import (
    PEOPLE,
    PIXELS,
    check_rows,
    exact_images,
    exact_people,
    factor_analysis,
    images,
    numbers,
    run,
    survey,
)

import pymc_logz as lz
from pymc_logz.per_datum.data_rows import DEFAULT_DIM

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
ROWS = images(16)
LABELLED = xr.DataArray(
    ROWS,
    dims=("picture", "pixel"),
    coords={
        "picture": np.array([f"n{i}" for i in range(16)], dtype=object),
        "pixel": PIXELS,
        "kind": ("picture", np.arange(16) % 2),
    },
)


@pytest.fixture(scope="module")
def factors() -> xr.DataTree:
    """An adaptive run over factor analysis: one batch of 16 rows."""
    return run(factor_analysis(ROWS[3]), {"x": LABELLED}, random_seed=2)


@pytest.fixture(scope="module")
def surveyed() -> xr.DataTree:
    """An adaptive run over the survey, with the model of the context."""
    with survey():
        return run(None, PEOPLE)


# --- numbers -------------------------------------------------------------------------------------


def test_factor_analysis_is_exact_row_by_row(factors: xr.DataTree) -> None:
    """Would catch rows that get another's number, an error that is wrong, a prior that is lost."""
    log_z, mcse = numbers(factors)
    exact = exact_images(ROWS)
    assert np.all(factors["evidence"]["status"] == "ok")
    assert np.all((mcse > 0) & (mcse < 0.1))
    check_rows((log_z, mcse, exact))
    assert np.all(np.abs(log_z - exact) < 4.5 * mcse)
    assert_detects(check_rows, (log_z, mcse, np.roll(exact, 1)))
    assert_detects(check_rows, (log_z, mcse / 4, exact))
    assert_detects(check_rows, (log_z + 3 * mcse, mcse, exact))


def test_counts_answers_and_covariates_are_exact_row_by_row(surveyed: xr.DataTree) -> None:
    """Would catch integers or covariates that are the model's own, or mixed up between rows."""
    log_z, mcse = numbers(surveyed)
    check_rows((log_z, mcse, exact_people(PEOPLE)))
    for name in PEOPLE:
        swapped = {**PEOPLE, name: np.roll(PEOPLE[name], 1, axis=0)}
        assert_detects(check_rows, (log_z, mcse, exact_people(swapped)))


@pytest.mark.usefixtures("no_look_from_prior")
def test_agrees_with_a_run_of_a_single_row(surveyed: xr.DataTree) -> None:
    """Would catch a density that differs from the one that `sample_hais` integrates."""
    log_z, mcse = numbers(surveyed)
    model = survey(**{name: value[0] for name, value in PEOPLE.items()})
    settings = {"reference": "prior", "random_seed": 2, "progressbar": False}
    single = lz.sample_hais(256, 1, model=model, **settings)
    entry = single["evidence"].to_dataset().isel(estimator=0)
    error = np.hypot(mcse[0], float(entry["mcse"]))
    assert abs(log_z[0] - float(entry["log_z"])) < 4.5 * error


def test_sum_over_rows(factors: xr.DataTree) -> None:
    """Would catch a sum whose error is not that of independent rows."""
    log_z, mcse = numbers(factors)
    attrs = factors["evidence"].attrs
    assert attrs["sum_log_z"] == pytest.approx(log_z.sum(), rel=1e-12)
    assert attrs["sum_mcse"] == pytest.approx(np.sqrt((mcse**2).sum()), rel=1e-12)
    assert attrs["sum_bias"] == pytest.approx(-0.5 * (mcse**2).sum(), rel=1e-12)
    assert abs(log_z.sum() - exact_images(ROWS).sum()) < 4.5 * attrs["sum_mcse"]


@pytest.mark.filterwarnings("ignore:the model has potentials")
def test_a_row_without_support_or_with_nan_leaves_the_others_alone() -> None:
    """Would catch one impossible row that spoils the pilot or the other rows' numbers."""
    with pm.Model() as model:
        y, shift = pm.Data("y", 0.5), pm.Data("shift", 1.0)
        z = pm.HalfNormal("z", 1.0)
        pm.Uniform("obs", 0, 2 * z, observed=y)
        pm.Potential("root", pm.math.sqrt(z + shift))
    data = {"y": np.array([0.5, 50.0, 1.0, 0.2]), "shift": np.array([0.0, 1.0, 2.0, -1e9])}
    with pytest.warns(lz.EvidenceWarning) as caught:
        tree = run(model, data, betas=np.linspace(0, 1, 40) ** 2, draws=256)
    messages = " ".join(str(warning.message) for warning in caught)
    assert "was NaN" in messages
    assert "2 of 4 data rows, the first of them row 1, have status 'no_support'" in messages
    grid = np.linspace(0, 12, 400_001)[1:]
    log_z, mcse = numbers(tree)
    for row in (0, 2):
        y, shift = data["y"][row], data["shift"][row]
        inside = np.where(grid > y / 2, np.exp(np.sqrt(grid + shift)) / (2 * grid), 0.0)
        exact = np.log((inside * stats.halfnorm.pdf(grid)).sum() * (grid[1] - grid[0]))
        assert abs(log_z[row] - exact) < 4.5 * mcse[row]
    assert np.isnan(log_z[[1, 3]]).all()


# --- labels --------------------------------------------------------------------------------------


def test_dims_and_coords_are_those_of_the_data(factors: xr.DataTree, tmp_path: Path) -> None:
    """Would catch a result that does not say which number belongs to which row."""
    entry = factors["evidence"].to_dataset()
    for name in ("log_z", "mcse", "weight_ess", "khat", "status"):
        assert entry[name].dims == ("estimator", "picture")
        assert entry[name].dtype != object
    assert list(entry["estimator"].values) == ["hais"]
    assert list(entry["picture"].values) == [f"n{i}" for i in range(16)]
    np.testing.assert_array_equal(entry["kind"], LABELLED["kind"])
    assert entry["picture"].dtype != object
    assert entry["log_z"].attrs["units"] == "nats"
    stages = factors["annealing"].to_dataset()
    assert stages["acceptance_rate"].dims == ("chain", "stage")
    assert stages.sizes["stage"] == entry.attrs["n_temperatures"] + 1
    pytest.importorskip("h5netcdf")
    factors.to_netcdf(tmp_path / "tree.nc", engine="h5netcdf")
    with xr.open_datatree(tmp_path / "tree.nc", engine="h5netcdf") as again:
        xr.testing.assert_equal(again["evidence"].to_dataset(), entry)
    settings = json.loads(factors.attrs["settings"])
    assert settings["data"] == ["x"]
    assert settings["draws"] == 128


def test_arrays_get_a_dimension_of_their_own(surveyed: xr.DataTree) -> None:
    """Would catch rows without a name."""
    entry = surveyed["evidence"].to_dataset()
    assert entry["log_z"].dims == ("estimator", DEFAULT_DIM)
    np.testing.assert_array_equal(entry[DEFAULT_DIM], np.arange(12))


def test_a_tree_of_many_rows_is_not_compared_as_one_number(factors: xr.DataTree) -> None:
    """Would catch the first row's log Z that goes for all."""
    with pytest.raises(ValueError, match=r"log Z of each 'picture'.*sum"):
        lz.compare_evidence({"a": factors, "b": factors})


@pytest.mark.slow
def test_seeds(surveyed: xr.DataTree) -> None:
    """Would catch numbers that do not come from the seed."""
    again, other = (run(survey(), PEOPLE, random_seed=seed) for seed in (1, 2))
    np.testing.assert_array_equal(numbers(again)[0], numbers(surveyed)[0])
    assert not np.any(numbers(other)[0] == numbers(surveyed)[0])


# --- many rows -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*have status 'high_khat'")
def test_sum_over_500_rows_is_exact_once_its_bias_is_taken_off() -> None:
    """Would catch a bias or a dependence between rows that no single row shows."""
    rows = images(500)
    tree = run(factor_analysis(rows[0]), {"x": rows}, draws=256)
    log_z, mcse = numbers(tree)
    assert np.mean(tree["evidence"]["status"] == "ok") > 0.98
    exact, attrs = exact_images(rows), tree["evidence"].attrs
    check_rows((log_z, mcse, exact))
    error = attrs["sum_log_z"] - attrs["sum_bias"] - exact.sum()
    print(f"sum {error:+.3f} +- {attrs['sum_mcse']:.3f}, bias {attrs['sum_bias']:+.3f}")
    assert abs(error) < 4.5 * attrs["sum_mcse"]
