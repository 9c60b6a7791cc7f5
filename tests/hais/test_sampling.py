"""What `sample_hais` does with its arguments, seeds, cores, interrupts and failures."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats
from support import pymc_models as models

import pymc_logz as lz
from pymc_logz.energies import two_gaussians
from pymc_logz.hais import run as hais_run
from pymc_logz.loop import frozen, looking, planning
from pymc_logz.runners import running

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
FIXED = lz.kernels.Hamiltonian(step_size=0.2, scale=1.0)
EXACT = stats.norm.logpdf(0.7, 0, np.sqrt(2))
NUMPY = {"mode": "FAST_COMPILE"}  # nothing to compile for long
# without a pilot: for tests of all but the numbers
SMALL: Mapping[str, Any] = {"draws": 32, "betas": 8, "kernel": FIXED}


@pytest.fixture(scope="module")
def small() -> xr.DataTree:
    """A tiny run of the simplest model: 3 chains, and no look from the prior."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hais_run, "log_z_from_prior", lambda *_: None)
        return models.quick(models.normal_normal(), **SMALL, chains=3)


# --- arguments ---------------------------------------------------------------------------------

WRONG: list[tuple[dict[str, Any], type[Exception], list[str]]] = [
    ({"draws": 1}, ValueError, ["draws=1", "at least 2"]),
    ({"draws": 2.5}, ValueError, ["draws=2.5", "an integer"]),
    ({"draws": True}, ValueError, ["draws=True", "an integer"]),
    ({"chains": 0}, ValueError, ["chains=0", "at least 1"]),
    ({"cores": 0}, ValueError, ["cores=0", "at least 1"]),
    ({"tune": 0}, ValueError, ["tune=0", "at least 1"]),
    ({"target_accept": 0}, ValueError, ["target_accept=0", "between 0 and 1"]),
    ({"target_accept": 1.0}, ValueError, ["target_accept=1.0", "between 0 and 1"]),
    ({"target_accept": np.nan}, ValueError, ["target_accept=nan", "between 0 and 1"]),
    ({"kernel": "nuts"}, TypeError, ["kernel='nuts'", "'hmc'", "Slice()"]),
    ({"betas": "linear"}, ValueError, ["betas='linear'", "'adaptive'"]),
    ({"betas": 0}, ValueError, ["betas=0", "at least 1"]),
    ({"betas": True}, ValueError, ["betas", "an integer"]),
    ({"betas": 2.5}, ValueError, ["betas", "()", "an integer"]),
    ({"betas": np.eye(2)}, ValueError, ["betas", "(2, 2)", "one-dimensional"]),
    ({"betas": [0, 0.5, 0.4, 1]}, ValueError, ["betas[2]=0.4", "betas[1]=0.5", "sort"]),
    ({"betas": [0, 0.5, 0.5, 1]}, ValueError, ["betas[2]=0.5", "repeats"]),
    ({"betas": [0.1, 1]}, ValueError, ["from 0.1", "exactly 0"]),
    ({"betas": [0, 0.9]}, ValueError, ["to 0.9", "exactly 1"]),
    ({"betas": [0, np.nan, 1]}, ValueError, ["betas", "finite"]),
    (
        {"kernel": lz.kernels.Hamiltonian(scale=(1.0, 2.0))},
        ValueError,
        ["scale", "2 entries", "has 1"],
    ),
]


@pytest.mark.parametrize(("wrong", "error", "parts"), WRONG, ids=[str(w[0]) for w in WRONG])
def test_wrong_arguments(wrong: dict[str, Any], error: type[Exception], parts: list[str]) -> None:
    """Would catch a wrong argument that runs, or a message without argument, value or range."""
    with pytest.raises(error) as caught:
        models.quick(models.normal_normal(), **wrong)
    for part in parts:
        assert part in str(caught.value)


def test_no_model_at_all() -> None:
    """Would catch a run without a model that fails later, with another message."""
    with pytest.raises(TypeError, match="model"):
        lz.sample_hais(progressbar=False)


@pytest.mark.usefixtures("no_look_from_prior")
def test_model_from_the_context(small: xr.DataTree) -> None:
    """Would catch `model=None` that does not take the model of the with statement."""
    with models.normal_normal():
        tree = lz.sample_hais(
            32, 3, betas=8, kernel=FIXED, random_seed=1, cores=1, progressbar=False
        )
    xr.testing.assert_equal(tree["weighted_posterior"], small["weighted_posterior"])


def test_progress_bar_and_default_cores() -> None:
    """Would catch a progress bar that fails, which no other test shows."""
    with models.normal_normal():
        tree = lz.sample_hais(64, 2, random_seed=1)
    assert abs(models.log_z_of(tree)[0] - EXACT) < 4 * models.log_z_of(tree)[1]


@pytest.mark.parametrize("betas", [7, np.array([0.0, 0.1, 0.5, 1.0])], ids=["int", "array"])
@pytest.mark.usefixtures("no_look_from_prior")
def test_given_ladder_is_taken_as_it_is(betas: Any) -> None:
    """Would catch a ladder that the pilot changes."""
    tree = models.quick(models.normal_normal(), draws=64, betas=betas)
    expected = np.linspace(0, 1, 8) if isinstance(betas, int) else betas
    np.testing.assert_allclose(tree["annealing"]["beta"], expected, atol=1e-15)
    assert tree["evidence"].attrs["n_temperatures"] == len(expected) - 1
    assert abs(models.log_z_of(tree)[0] - EXACT) < 4 * models.log_z_of(tree)[1]


def test_fixed_kernel_and_ladder_need_no_pilot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Would catch a pilot that runs although there is nothing to tune, or changes the settings."""

    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("the pilot was run")

    for planner in (frozen, looking, planning):
        monkeypatch.setattr(planner, "run_pilot", fail)
    # which looks once it is over
    monkeypatch.setattr(hais_run, "log_z_from_prior", lambda *_: None)
    tree = models.quick(models.normal_normal(), **SMALL)
    assert np.all(tree["annealing"]["step_size"].to_numpy()[1:-1] == 0.2)
    with pytest.raises(AssertionError, match="pilot"):
        models.quick(models.normal_normal(), draws=32, kernel=FIXED)


@pytest.mark.usefixtures("no_look_from_prior")
def test_paper_settings_with_adaptive_ladder_are_kept() -> None:
    """Would catch a pilot that overwrites the step size or the scale of the user's kernel."""
    tree = models.quick(models.normal_normal(), kernel=FIXED)
    assert np.all(tree["annealing"]["step_size"].to_numpy()[1:-1] == 0.2)
    models.assert_log_z(tree, EXACT)


@pytest.mark.filterwarnings("ignore:the model has potentials")
@pytest.mark.usefixtures("no_look_from_prior")
def test_scale_per_dimension_with_adaptive_ladder() -> None:
    """Would catch a scale for each dimension that only works without a pilot."""
    kernel = lz.kernels.Hamiltonian(scale=(1.0, 0.5))
    tree = models.quick(models.with_potential(), kernel=kernel, compile_kwargs=NUMPY)
    assert models.log_z_of(tree)[2] == "ok"


# --- seeds, chains, cores ----------------------------------------------------------------------


def timeless(tree: xr.DataTree) -> xr.DataTree:
    """The tree's numbers, without attributes such as times."""
    return tree.map_over_datasets(lambda dataset: dataset.drop_attrs())


@pytest.mark.filterwarnings("ignore:hais has status")  # its number is not what is looked at
@pytest.mark.usefixtures("no_look_from_prior")
def test_cores_do_not_change_a_bit() -> None:
    """Would catch a random stream or a buffer that chains share: adaptive run, 1 and 2 threads."""
    model = models.dependent_bounds()
    settings = {"draws": 200, "chains": 3, "kernel": FIXED, "reference": "prior"}
    runs = [models.quick(model, cores=n, **settings) for n in (1, 2)]
    xr.testing.assert_identical(timeless(runs[0]), timeless(runs[1]))


@pytest.mark.usefixtures("no_look_from_prior")
def test_seeds(small: xr.DataTree) -> None:
    """Would catch a seed that is ignored, or randomness that does not come from it."""
    model = models.normal_normal()
    again = models.quick(model, **SMALL, chains=3, random_seed=1)
    other = models.quick(model, **SMALL, chains=3, random_seed=2)
    xr.testing.assert_identical(timeless(again), timeless(small))
    assert not np.any(other["weighted_posterior"]["mu"] == small["weighted_posterior"]["mu"])
    first, second = (
        models.quick(model, **SMALL, random_seed=np.random.default_rng(5)) for _ in range(2)
    )
    xr.testing.assert_identical(timeless(first), timeless(second))


@pytest.mark.usefixtures("no_look_from_prior")
def test_chains_do_not_see_each_other(small: xr.DataTree) -> None:
    """Would catch chain i's numbers that depend on how many chains there are."""
    alone = models.quick(models.normal_normal(), **SMALL, chains=1)
    xr.testing.assert_equal(
        alone["weighted_posterior"].to_dataset(),
        small["weighted_posterior"].to_dataset().isel(chain=[0]),
    )
    chains = small["weighted_posterior"]["mu"].to_numpy()
    assert np.unique(chains).size == chains.size


@pytest.mark.usefixtures("c_compiler")
@pytest.mark.parametrize(
    ("mode", "linker"),
    [
        ("FAST_COMPILE", "vm"),
        ("JAX", "jax"),
        pytest.param("CVM", "vm", marks=pytest.mark.slow),
        pytest.param("NUMBA", "numba", marks=pytest.mark.slow),
    ],
)
@pytest.mark.usefixtures("no_look_from_prior")
def test_backends_make_the_same_chain(mode: str, linker: str, small: xr.DataTree) -> None:
    """Would catch a backend that computes something else, or draws its own noise."""
    pytest.importorskip("jax")
    assert small["evidence"].attrs["backend"] == "numpy"
    other = models.quick(models.normal_normal(), **SMALL, chains=3, compile_kwargs={"mode": mode})
    assert other["evidence"].attrs["backend"] == linker
    for var in ("mu", "log_weight"):
        np.testing.assert_allclose(
            other["weighted_posterior"][var], small["weighted_posterior"][var], rtol=1e-6
        )


@pytest.mark.usefixtures("no_look_from_prior")
def test_adding_a_constant_adds_it_to_log_z(small: xr.DataTree) -> None:
    """Would catch a log Z that is not that of the target: a potential of 5 adds exactly 5."""
    with pytest.warns(lz.EvidenceWarning, match="offset"):
        tree = models.quick(models.normal_with_offset(5.0), **SMALL, chains=3)
    moved, plain = models.log_z_of(tree), models.log_z_of(small)
    assert moved[0] - plain[0] == pytest.approx(5.0, abs=1e-10)
    assert moved[1] == pytest.approx(plain[1], rel=1e-10)
    np.testing.assert_allclose(
        tree["posterior"]["mu"], small["posterior"]["mu"], rtol=1e-10, atol=1e-12
    )


# --- interrupts and failures -------------------------------------------------------------------


def interrupt_at(call: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Press Ctrl-C in the annealing of chain number `call`."""
    go_on, calls = running.go_on, iter(range(100))

    def stop(*args: Any) -> Any:
        if next(calls) == call:
            raise KeyboardInterrupt
        return go_on(*args)

    monkeypatch.setattr(running, "go_on", stop)


@pytest.mark.usefixtures("no_look_from_prior")
def test_interrupt_keeps_finished_chains(
    small: xr.DataTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Would catch finished work that is thrown away, or an estimate that counts missing chains."""
    interrupt_at(2, monkeypatch)
    with pytest.warns(lz.EvidenceWarning, match="2 of 3 chains"):
        tree = models.quick(models.normal_normal(), **SMALL, chains=3)
    finished = small["weighted_posterior"].to_dataset().isel(chain=[0, 1])
    xr.testing.assert_equal(tree["weighted_posterior"].to_dataset(), finished)
    log_weight = finished["log_weight"].to_numpy()
    assert models.log_z_of(tree)[0] == lz.estimators.importance_log_z(log_weight).log_z


def test_interrupt_before_anything_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    """Would catch an interrupt that is swallowed although there is nothing to return."""
    interrupt_at(0, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        models.quick(models.normal_normal(), **SMALL)


@pytest.mark.filterwarnings("ignore:the model has potentials")
def test_degenerate_run_reports_no_number() -> None:
    """Would catch a guess where there is no log Z: one temperature for a narrow 20-d target."""
    with pytest.warns(lz.EvidenceWarning, match="degenerate.*A handful of particles"):
        tree = models.quick(two_gaussians(20).model, betas=1, kernel=FIXED)
    log_z, mcse, status = models.log_z_of(tree)
    assert status == "degenerate"
    assert np.isnan([log_z, mcse]).all()
    assert np.isfinite(tree["weighted_posterior"]["log_weight"]).all()


@pytest.mark.usefixtures("no_look_from_prior")
def test_an_error_is_not_smaller_than_what_no_row_may_have_seen() -> None:
    """Catches 100 rows of weight 1, none of which came to the hundredth where it is 0: |z| 20."""
    with pm.Model() as model:
        rate = pm.Gamma("rate", 0.01, 2.0)
        pm.Poisson("y", rate, observed=0)
    settings = {"draws": 25, "chains": 4, "betas": 30, "tune": 8, "model": model, "cores": 1}
    found = []
    for seed in range(2, 8):
        tree = models.quick(**settings, random_seed=seed)
        found.append(tree["evidence"].to_dataset().squeeze("estimator"))
    log_z, mcse = (np.array([float(one[name]) for one in found]) for name in ("log_z", "mcse"))
    assert np.all(mcse >= 1 / 100)
    own = lz.estimators.importance_log_z(tree["weighted_posterior"]["log_weight"].to_numpy())
    assert mcse[-1] == max(own.mcse, 1 / 100)
    assert np.all(np.abs(log_z + 0.01 * np.log(1.5)) < 4 * mcse)


@pytest.mark.usefixtures("no_look_from_prior")
def test_rows_outside_the_support_raise_no_warning_of_numpy() -> None:
    """Would catch NumPy warnings for a log ratio of -inf, which is legal."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Uniform("y", x, x + 1, observed=[0.5, 0.9])
    tree = models.quick(model, draws=500, betas=np.linspace(0, 1, 33) ** 3)
    log_z, mcse, _ = models.log_z_of(tree)
    exact = np.log(stats.norm.cdf(0.5) - stats.norm.cdf(-0.1))
    assert abs(log_z - exact) < 4 * mcse


def warned_about(kind: str) -> pm.Model:
    """A model whose run warns of one thing."""
    with pm.Model() as model:
        transform = {"transform": models.interval(0, None)} if kind == "restricted" else {}
        x = pm.Normal("x", 0, 1, **transform)
        sigma = 1e-4 if kind == "degenerate" else 1.0
        pm.Normal("y", pm.math.log(x) if kind == "nan" else x, sigma, observed=0.5)
        if kind == "potentials":
            pm.Potential("p", -x)
    return model


@pytest.mark.filterwarnings("ignore:invalid value encountered in multiply:RuntimeWarning")
@pytest.mark.usefixtures("no_look_from_prior")
def test_warnings_point_to_the_caller() -> None:
    """Would catch a stack level that shows a line of the package instead of the user's own."""
    settings = {"kernel": FIXED, "random_seed": 1, "progressbar": False, "compile_kwargs": NUMPY}
    places = {}
    for kind in ("potentials", "nan", "degenerate", "restricted"):
        model, betas = warned_about(kind), 1 if kind == "degenerate" else 4
        with pytest.warns(lz.EvidenceWarning) as caught:
            lz.sample_hais(64, 1, model=model, betas=betas, **settings)
        ours = [w.filename for w in caught if issubclass(w.category, lz.EvidenceWarning)]
        places[kind] = set(ours)
    assert places == {kind: {__file__} for kind in places}


@pytest.mark.usefixtures("no_look_from_prior")
def test_settings_are_recorded(small: xr.DataTree) -> None:
    """Would catch a result that does not say how it was made."""
    settings = json.loads(small.attrs["settings"])
    assert settings["draws"] == 32
    assert settings["chains"] == 3
    assert settings["betas"] == 8
    assert settings["kernel"]["step_size"] == 0.2
    assert "pymc-logz" in json.loads(small.attrs["versions"])
