"""Trees that were transposed, sorted or selected from before they came: labels count."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from support import pymc_models as models
from support.checks import make_rng

import pymc_logz as lz
from pymc_logz.kernels import Hamiltonian
from pymc_logz.trees.layout import log_weights, stored_draws, tempering_of
from pymc_logz.trees.posterior import aligned, checked_draws, checked_reference

pytestmark = pytest.mark.usefixtures("no_look_in_this_file")
Y = 3.0 * make_rng("table of data").normal(size=(3, 3))
SCALE = np.array([[0.1, 1.0, 10.0], [0.3, 3.0, 30.0], [0.05, 0.5, 5.0]])
QUIET: dict[str, Any] = {"random_seed": 1, "progressbar": False}
SMALL: dict[str, Any] = {"betas": 4, "kernel": Hamiltonian(step_size=0.3, scale=1.0), "tune": 8}


def table_model() -> pm.Model:
    """A square of means, of which no two are alike, and one vector without labels."""
    coords = {"row": ["c", "a", "b"], "column": [2003, 2001, 2002]}
    with pm.Model(coords=coords) as model:
        mean = pm.Normal("mean", 0, SCALE, dims=("row", "column"))
        free = pm.Normal("free", np.arange(3.0), 1)
        pm.Normal("y", mean, 0.5, observed=Y, dims=("row", "column"))
        pm.Normal("z", free, np.array([0.1, 1.0, 10.0]), observed=np.array([1.0, 5.0, -20.0]))
    return model


@pytest.fixture(scope="module")
def model() -> pm.Model:
    """The model of this page."""
    return table_model()


@pytest.fixture(scope="module")
def tree() -> xr.DataTree:
    """Exact draws of its posterior, labelled."""
    rng = make_rng("table draws")
    shape = (2, 400, 3, 3)
    precision = SCALE**-2 + 4
    mean = 4 * Y / precision + rng.normal(size=shape) / np.sqrt(precision)
    weight = np.array([100.0, 1.0, 0.01])
    centre = (np.arange(3) + weight * np.array([1.0, 5.0, -20.0])) / (1 + weight)
    free = centre + rng.normal(size=(2, 400, 3)) / np.sqrt(1 + weight)
    posterior = xr.Dataset(
        {
            "mean": (("chain", "draw", "row", "column"), mean),
            "free": (("chain", "draw", "free_dim_0"), free),
        },
        coords={
            "chain": [0, 1],
            "draw": np.arange(400),
            "row": ["c", "a", "b"],
            "column": [2003, 2001, 2002],
            "free_dim_0": [0, 1, 2],
        },
    )
    data = xr.Dataset({"y": (("row", "column"), Y)}, coords=posterior[["row", "column"]].coords)
    return xr.DataTree.from_dict({"posterior": posterior, "observed_data": data})


MANGLED: dict[str, Callable[[xr.Dataset], xr.Dataset]] = {
    "transposed": lambda one: one.transpose("column", "row", ...),
    "draws first": lambda one: one.transpose("draw", ..., "chain"),
    "sorted by label": lambda one: one.sortby("row").sortby("column"),
    "reversed": lambda one: one.isel(row=[2, 1, 0], free_dim_0=[1, 2, 0]),
    "draws shuffled": lambda one: one.isel(draw=make_rng("shuffled").permutation(400)),
    "chains reversed": lambda one: one.isel(chain=[1, 0]),
    "labels as text": lambda one: one.assign_coords(column=["2003", "2001", "2002"]),
    "counted from one": lambda one: one.assign_coords(free_dim_0=[1, 2, 3]),
    "dimensions of a user": lambda one: one.rename(row="a", column="b", free_dim_0="c"),
    "without labels": lambda one: one.drop_vars(["row", "column", "free_dim_0", "chain", "draw"]),
}


@pytest.mark.parametrize("case", MANGLED)
def test_labels_count_and_positions_do_not(case: str, model: pm.Model, tree: xr.DataTree) -> None:
    """Catches log Z off by 0.8 to 42 nats, with status ok, from a tree that was reordered."""
    mangled = MANGLED[case](tree["posterior"].to_dataset())
    found = aligned(mangled, model, ["mean", "free"])
    for name in ("mean", "free"):
        np.testing.assert_array_equal(found[name], tree["posterior"][name])


def test_a_mangled_tree_has_the_same_log_z(model: pm.Model, tree: xr.DataTree) -> None:
    """Would catch a way into the package that does not ask for labels; data are aligned too."""

    def mangle(one: xr.Dataset) -> xr.Dataset:
        return one.sortby("row").transpose("column", "row", ...)

    mangled = tree.map_over_datasets(lambda one: mangle(one) if "row" in one.dims else one)
    plain, other = (lz.bridge_sampling(one, model, **QUIET) for one in (tree, mangled))
    assert models.log_z_of(plain) == models.log_z_of(other)
    references = [checked_reference(one, model) for one in (tree, mangled)]
    draws = checked_draws(mangled, model, "posterior_draws")
    assert references[0].identical(references[1])
    np.testing.assert_array_equal(draws["posterior"]["mean"], tree["posterior"]["mean"])


@pytest.mark.parametrize(
    ("labels", "parts"),
    [
        (["c", "a", "x"], ["missing: ['b']", "not in the model: ['x']"]),
        (["c", "a", "a"], ["missing: ['b']"]),
    ],
)
def test_other_labels_are_refused(
    labels: list[str], parts: list[str], model: pm.Model, tree: xr.DataTree
) -> None:
    """Would catch entries that are taken for others of another name."""
    relabelled = xr.DataTree.from_dict(
        {"posterior": tree["posterior"].to_dataset().assign_coords(row=labels)}
    )
    with pytest.raises(ValueError, match=r"^these draws look like those of another") as caught:
        lz.bridge_sampling(relabelled, model, **QUIET)
    for part in (*parts, "'mean'", "'row'", "assign_coords"):
        assert part in str(caught.value)
    assert "[]" not in str(caught.value)


def test_bad_starts_are_refused_before_anything_is_compiled(
    model: pm.Model, tree: xr.DataTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches draws of another model that are noticed after a minute of compilation."""

    def run(*_: Any, **__: Any) -> None:
        raise AssertionError("the run has begun")

    monkeypatch.setattr("pymc_logz.hais.sampling.run_hais", run)
    monkeypatch.setattr("pymc_logz.tempered.sampling.run_tempered", run)
    posterior = tree["posterior"].to_dataset()
    lost = xr.DataTree.from_dict({"posterior": posterior.drop_vars("free")})
    few = xr.DataTree.from_dict({"posterior": posterior.isel(draw=slice(20))})
    shape = xr.DataTree.from_dict({"posterior": posterior.isel(row=[0, 1])})
    other = tree.copy()
    other["observed_data"] = xr.DataTree(tree["observed_data"].to_dataset() + 1)
    for bad, message in (
        (lost, "reference.*no variable.*'free'"),
        (few, "at least 10|at least 120"),
        (shape, "labels that are not those"),
        (other, "other data"),
        (xr.DataTree.from_dict({"prior": posterior}), "reference must be .* group 'posterior'"),
    ):
        for sample in (lz.sample_hais, lz.sample_tempered):
            with pytest.raises(ValueError, match=message):
                sample(model=model, reference=bad)
    with pytest.raises(ValueError, match=r"posterior_draws.*'free'"):
        lz.sample_hais(model=model, direction="both", posterior_draws=lost)
    with pytest.raises(TypeError, match="posterior_draws is of type Dataset"):
        lz.sample_hais(model=model, direction="both", posterior_draws=posterior)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def runs() -> dict[str, xr.DataTree]:
    """Small runs with weights, and with levels."""
    settings = {**SMALL, **QUIET, "cores": 1}
    return {
        "hais": models.quick(models.normal_normal(), draws=60, **SMALL),
        "both": models.quick(models.normal_normal(), draws=60, direction="both", **SMALL),
        "tempered": lz.sample_tempered(300, 3, model=models.normal_normal(), walkers=8, **settings),
    }


@pytest.mark.filterwarnings("ignore::pymc_logz.EvidenceWarning")
def test_a_part_of_a_run_has_a_log_z_of_its_own(runs: dict[str, xr.DataTree]) -> None:
    """Catches the stored log Z of a whole run, given for that of one chain."""
    whole = runs["tempered"]
    part = lz.evidence(whole.isel(chain=[0]))
    assert models.log_z_of(lz.evidence(whole)) == models.log_z_of(whole)
    assert float(part["evidence"]["mcse"][0]) > float(whole["evidence"]["mcse"][0])
    assert part["evidence"].attrs["backend"] == whole["evidence"].attrs["backend"]
    with pytest.raises(ValueError, match="other particles than its log Z was made of"):
        lz.evidence(runs["both"].isel(chain=[0]))
    assert models.log_z_of(lz.evidence(runs["both"])) == models.log_z_of(runs["both"])
    # what the whole run found against its draws is said of its parts too
    doubted = whole.copy()
    told = whole["evidence"].to_dataset().assign(status=("estimator", ["missed_mode"]))
    doubted["evidence"] = xr.DataTree(told.assign_attrs(doubts="a mode that no draw is in"))
    found = lz.evidence(doubted.isel(chain=[0]))["evidence"]
    assert found["status"].values[0] == "missed_mode"
    assert "no draw is in" in found.attrs["doubts"]


def test_order_in_a_run_is_by_label(runs: dict[str, xr.DataTree]) -> None:
    """Would catch walkers taken for draws, and levels for others, in a file of another order."""

    def turned(one: xr.Dataset) -> xr.Dataset:
        ways = {dim: np.arange(size)[::-1] for dim, size in one.sizes.items() if dim != "walker"}
        return one.isel(ways).transpose(*reversed(list(one.dims)))

    tempered = runs["tempered"]
    first, second = (stored_draws(one) for one in (tempered, tempered.map_over_datasets(turned)))
    for name in ("level", "log_ratio", "betas", "log_prior", "log_z_hat"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    weights = [log_weights(one) for one in (runs["hais"], runs["hais"].map_over_datasets(turned))]
    np.testing.assert_array_equal(*weights)


def test_a_chain_without_its_dimension_says_so(
    runs: dict[str, xr.DataTree], model: pm.Model, tree: xr.DataTree
) -> None:
    """Catches a raw error of xarray where chain was taken out by a number."""
    message = r"no dimension \['chain'\].*isel\(chain=\[0\]\)"
    for one in (runs["hais"], runs["tempered"]):
        with pytest.raises(ValueError, match=message):
            lz.evidence(one.isel(chain=0))
    with pytest.raises(ValueError, match=message):
        lz.bridge_sampling(tree.isel(chain=0), model, **QUIET)


def test_draws_of_two_runs_in_one_tree_are_refused(
    runs: dict[str, xr.DataTree], tree: xr.DataTree
) -> None:
    """Catches a tree whose weights are of one run and whose posterior is of another."""
    nuts = tree["posterior"].to_dataset().assign_attrs(inference_library="nutpie")
    for name in ("hais", "tempered"):
        updated = runs[name].copy()
        updated.update({"posterior": xr.DataTree(nuts)})
        with pytest.raises(ValueError, match=r"posterior is of another run, by nutpie"):
            lz.evidence(updated)
        predicted = runs[name].copy()
        predicted.update({"posterior_predictive": xr.DataTree(nuts)})
        assert models.log_z_of(lz.evidence(predicted)) == models.log_z_of(runs[name])


def test_what_is_no_tree_is_a_type_error() -> None:
    """Catches a ValueError in one place and a TypeError in another for the same mistake."""
    for read in (lz.evidence, log_weights, tempering_of, stored_draws):
        with pytest.raises(TypeError, match=r"is of type dict|was given is of type dict"):
            read({})  # type: ignore[arg-type]
