"""What a tree says it is: through files, for trees of other samplers, and for each reader."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from support import pymc_models as models
from support.tempered_draws import stored_run

import pymc_logz as lz
from pymc_logz import energies
from pymc_logz.kernels import Hamiltonian
from pymc_logz.step_methods import HAIS, ConstrainedHMC, PartialMomentumHMC, SimulatedTempering
from pymc_logz.trees import kinds
from pymc_logz.trees.kinds import KIND, KINDS, LAYOUT, kind_of, material_of
from pymc_logz.trees.layout import log_weights, make_tree, stored_draws, weighted_draws

PAGE = Path(__file__).parents[2] / "docs" / "learn" / "read_the_output.md"
QUIET = {"random_seed": 1, "progressbar": False}
SMALL: dict[str, Any] = {"betas": 4, "kernel": Hamiltonian(step_size=0.3, scale=1.0), "tune": 8}
STEPS = {
    kinds.HAIS_STEP: lambda: HAIS(**SMALL_STEP, batch_size=64),
    kinds.TEMPERED_STEP: lambda: SimulatedTempering(**SMALL_STEP, walkers=4),
    kinds.POSTERIOR: lambda: PartialMomentumHMC(),
}
SMALL_STEP = {name: value for name, value in SMALL.items() if name != "tune"} | {"pilot_tune": 8}
pytestmark = [
    pytest.mark.filterwarnings("ignore::pymc_logz.EvidenceWarning"),
    pytest.mark.usefixtures("no_look_in_this_file"),
]


student = cache(energies.student_location)


def changing() -> pm.Model:
    """A model with data that may change."""
    with pm.Model() as model:
        centre = pm.Data("centre", np.float64(0.5))
        mu = pm.Normal("mu", np.float64(0), np.float64(1))
        pm.Normal("y", mu, np.float64(1), observed=centre)
    return model


def tracked() -> lz.LogZTracker:
    """A short one."""
    settings = {**SMALL, "draws": 8, "walkers": 8, "random_seed": 1}
    with changing() as model:
        pm.Potential("drift", -0.5 * (model["mu"] - model["centre"]) ** 2)
    return lz.LogZTracker(model, **settings)


def posterior() -> xr.DataTree:
    """Draws that another sampler could have made, with attributes of a user's own."""
    tree = models.exact_draws(student(), np.random.default_rng(4), 200, 2)
    tree.attrs = {"sampling_library": "mine", "settings": "none of yours"}
    return tree


def annealed(**kwargs: Any) -> xr.DataTree:
    """A small run."""
    return models.quick(models.normal_normal(), draws=40, **SMALL, **kwargs)


MADE: dict[str, Callable[[], xr.DataTree]] = {
    kinds.HAIS: annealed,
    kinds.HAIS_BOTH: lambda: annealed(direction="both"),
    kinds.PER_DATUM: lambda: lz.marginal_log_likelihood(
        changing(), {"centre": np.zeros(3)}, 32, **SMALL, **QUIET
    ),
    kinds.TEMPERED: lambda: lz.sample_tempered(
        40, 2, model=models.normal_normal(), walkers=8, cores=1, **SMALL, **QUIET
    ),
    kinds.TEMPERED_SUMS: lambda: lz.sample_tempered(
        40, 2, model=models.normal_normal(), walkers=8, cores=1, keep="sums", **SMALL, **QUIET
    ),
    kinds.TRACKED: lambda: tracked().tree,
    kinds.TRACKED_MOMENT: lambda: tracked().update({"centre": np.float64(0.6)}),
    kinds.BRIDGED: lambda: lz.bridge_sampling(posterior(), student().model, random_seed=1),
}
GROUPS = {
    kinds.HAIS: {"weighted_posterior", "annealing"},
    kinds.HAIS_BOTH: {"weighted_posterior", "annealing", "reverse_annealing"},
    kinds.PER_DATUM: {"annealing"},
    kinds.TEMPERED: {"tempered_posterior", "tempering"},
    kinds.TEMPERED_SUMS: {"some_draws", "tempering"},
    kinds.TRACKED: {"tracking"},
    kinds.TRACKED_MOMENT: {"tempered_posterior"},
    kinds.BRIDGED: set(),
}


@pytest.fixture(scope="module")
def made() -> dict[str, xr.DataTree]:
    """A tree of each kind that the package makes."""
    return {kind: make() for kind, make in MADE.items()}


@pytest.mark.parametrize("kind", MADE)
def test_a_tree_stays_what_it_is(kind: str, made: dict[str, xr.DataTree], tmp_path: Path) -> None:
    """Would catch a kind that is not written, or anything that a file gives back as another."""
    tree = made[kind]
    assert (tree.attrs[KIND], tree.attrs[LAYOUT]) == (kind, kinds.LAYOUT_VERSION)
    tree.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    tree.to_zarr(tmp_path / "a.zarr")
    for file, engine in (("a.nc", "h5netcdf"), ("a.zarr", "zarr")):
        with xr.open_datatree(tmp_path / file, engine=engine) as back:
            assert kind_of(back) == kind
            assert material_of(back) == KINDS[kind].material
            assert back.load().identical(tree)
    for group in tree.subtree:
        assert not [name for name, one in group.variables.items() if one.dtype.kind == "O"]


@pytest.mark.parametrize("kind", MADE)
def test_the_table_is_what_runs_make(kind: str, made: dict[str, xr.DataTree]) -> None:
    """Would catch a group that the table does not know, or that a run of this kind has not got."""
    groups = set(made[kind].children)
    assert groups & kinds.OWN_GROUPS == GROUPS[kind]
    assert KINDS[kind].held_in in groups
    assert KINDS[kind].draws is None or KINDS[kind].draws in groups
    assert made[kind]["evidence"]["log_z"].dims[0] == "estimator"


@pytest.mark.parametrize("kind", MADE)
def test_the_page_has_every_name(kind: str, made: dict[str, xr.DataTree]) -> None:
    """Would catch a name or a dimension that is in trees and not in the one table of them."""
    table = PAGE.read_text(encoding="utf-8")
    assert f"`{kind}`" in table
    draws = {"posterior", "observed_data", "constant_data"}
    for name, group in made[kind].children.items():
        assert f"`{name}`" in table
        own = set() if name in draws else set(group.data_vars) - {"mu"}
        missing = [variable for variable in own if f"`{variable}`" not in table]
        assert missing == [], name
        if name not in draws:
            assert all(dim in table for dim in group.sizes)


def test_entries_are_selected_by_name(made: dict[str, xr.DataTree]) -> None:
    """Would catch a dimension that xarray takes for an argument of its own, in silence."""
    tree = made[kinds.HAIS_BOTH]
    bar = tree["evidence"].sel(estimator="bar")
    assert bar["log_z"].ndim == 0
    assert bar["estimator"].item() == "bar"
    assert bar["log_z"].item() != tree["evidence"]["log_z"].values[0]
    every = lz.evidence(made[kinds.TEMPERED], methods=["rts", "mbar"])["evidence"]
    pair = every["covariance"].sel(estimator="rts", other_estimator="mbar")
    assert pair.ndim == 0


@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.filterwarnings("ignore:The number of samples is too small")
def test_step_methods_are_known_by_their_statistics(kind: str) -> None:
    """Would catch a statistic that is renamed in the step method and not where it is read."""
    with models.normal_normal():
        tree = pm.sample(
            60, tune=5, chains=2, cores=1, step=STEPS[kind](), compute_convergence_checks=False,
            **QUIET,
        )  # fmt: skip
    before = dict(tree.attrs)
    assert kind_of(tree) == kind
    if kind == kinds.POSTERIOR:
        return
    found = lz.evidence(tree)
    assert kind_of(found) == found.attrs[KIND] == kind
    assert before.items() <= found.attrs.items()
    assert tree.attrs == before
    again = lz.evidence(found)
    assert models.log_z_of(again) == models.log_z_of(found)


def test_each_statistic_is_declared_by_one_step_method() -> None:
    """Would catch a run of one step method that is taken for that of another."""
    declared = {
        kinds.HAIS_STEP: set(HAIS.stats_dtypes_shapes),
        kinds.CONSTRAINED_STEP: set(ConstrainedHMC.stats_dtypes_shapes),
        kinds.POSTERIOR: set(PartialMomentumHMC.stats_dtypes_shapes),
    }
    for kind, statistics in declared.items():
        fitting = [one for one, names in kinds.STEP_STATISTICS.items() if names <= statistics]
        assert fitting == ([kind] if kind in kinds.STEP_STATISTICS else [])


def test_a_users_own_attributes_are_kept(made: dict[str, xr.DataTree]) -> None:
    """Would catch a root that is written over, or the argument changed in place."""
    tree = posterior()
    assert kind_of(tree) == kinds.POSTERIOR
    found = made[kinds.BRIDGED]
    assert found.attrs["settings"] == "none of yours"
    assert found.attrs["sampling_library"] == "mine"
    lz.bridge_sampling(tree, student().model, random_seed=1)
    assert set(tree.attrs) == {"settings", "sampling_library"}
    # draws that were bridged before are a posterior still
    model = student().model
    again = lz.evidence(found, model, random_seed=1)
    assert models.log_z_of(again) == models.log_z_of(found)
    assert kind_of(again) == kinds.BRIDGED


def test_a_newer_layout_is_refused() -> None:
    """Would catch a tree that is read by names that may mean something else by then."""
    tree = stored_run(5, "newer")
    tree.attrs[LAYOUT] = np.int64(kinds.LAYOUT_VERSION + 1)
    readers = (lz.evidence, lz.plot_thermo, lambda one: lz.bayes_factor(one, one))
    for read in readers:
        with pytest.raises(ValueError, match=r"has layout 2.*up to 1.*install the version"):
            read(tree)


def test_trees_that_lost_what_they_said_are_refused() -> None:
    """Would catch a run that is taken for a posterior, and bridged from draws that repeat."""
    run = annealed()
    parts = {name: run[name].to_dataset() for name in ("posterior", "weighted_posterior")}
    lost = xr.DataTree.from_dict(parts)
    with pytest.raises(ValueError, match=r"'weighted_posterior'.*new.attrs = old.attrs"):
        lz.bridge_sampling(lost, models.normal_normal())
    lost.attrs = run.attrs
    assert kind_of(lost) == kinds.HAIS
    lost.attrs = {**run.attrs, KIND: "tea"}
    with pytest.raises(ValueError, match="'tea' must be one of"):
        kind_of(lost)
    with pytest.raises(TypeError, match="tree is of type dict"):
        kind_of({})
    older = run.copy()
    older["evidence"] = xr.DataTree(run["evidence"].to_dataset().rename(estimator="method"))
    with pytest.raises(ValueError, match="earlier version"):
        lz.bayes_factor(older, older)


def test_a_group_that_was_dropped() -> None:
    """Would catch a KeyError where a sentence is due, and an estimate that is lost with it."""
    run = annealed()
    small = run.copy()
    del small["weighted_posterior"], small["annealing"]
    assert models.log_z_of(lz.evidence(small)) == models.log_z_of(run)
    for figure in (lz.plot_weights, lz.plot_path):
        with pytest.raises(ValueError, match=r"from sample_hais, but its group .* was dropped"):
            figure(small)
    with pytest.raises(ValueError, match="the weights give a better log Z"):
        lz.bridge_sampling(small, models.normal_normal())


REFUSED = {
    "plot_weights": (kinds.TEMPERED, ["weighted_posterior", "sample_hais", "step=HAIS"]),
    "plot_path": (kinds.TEMPERED, ["annealing", "marginal_log_likelihood"]),
    "plot_thermo": (kinds.HAIS, ["tempering", "sample_tempered", "step=SimulatedTempering"]),
    "plot_overlap": (kinds.PER_DATUM, ["tempering"]),
    "plot_tempering": (kinds.BRIDGED, ["tempering"]),
}


@pytest.mark.parametrize("figure", REFUSED)
def test_figures_say_what_they_draw(figure: str, made: dict[str, xr.DataTree]) -> None:
    """Would catch a figure of something else, or a message without what the tree is."""
    kind, parts = REFUSED[figure]
    with pytest.raises(ValueError, match="needs a DataTree with a group") as caught:
        getattr(lz, figure)(made[kind])
    for part in (*parts, f"comes from {KINDS[kind].made_by}"):
        assert part in str(caught.value)
    with pytest.raises(ValueError, match=r"direction='both'.*comes from sample_hais"):
        lz.plot_sandwich([made[kinds.HAIS]])


def test_readers_agree_on_what_a_kind_holds(made: dict[str, xr.DataTree]) -> None:
    """Would catch weights of other draws, or walkers that are lost on the way."""
    for kind in (kinds.HAIS, kinds.HAIS_BOTH):
        weighted = weighted_draws(made[kind])
        assert weighted is not None
        np.testing.assert_array_equal(weighted["log_weight"], log_weights(made[kind]))
    tempered = weighted_draws(made[kinds.TEMPERED])
    assert tempered is not None
    assert tempered.sizes["chain"] == 2 * 8
    assert stored_draws(made[kinds.TEMPERED]).level.shape == (16, 40)
    assert weighted_draws(posterior()) is None


def test_settings_are_kept_beside_the_kind() -> None:
    """Would catch a kind that takes the place of the settings."""
    tree = make_tree({}, {"draws": 3}, kinds.HAIS)
    assert json.loads(tree.attrs["settings"]) == {"draws": 3}
    assert set(tree.attrs) == {"settings", "versions", KIND, LAYOUT}


def test_chains_with_ladders_of_their_own_are_not_read_as_one() -> None:
    """Would catch the levels of one chain read on the ladder of another."""
    stats = xr.Dataset(
        {
            "walker_level": (("chain", "draw", "w"), np.zeros((2, 5, 4), dtype=int)),
            "walker_log_ratio": (("chain", "draw", "w"), np.zeros((2, 5, 4))),
            **{name: (("chain", "draw", "k"), np.zeros((2, 5, 3))) for name in ("log_z_hat",)},
            **{name: (("chain", "draw", "k"), np.zeros((2, 5, 3))) for name in ("log_prior",)},
            "beta": (("chain", "draw", "k"), np.tile([0.0, 0.5, 1.0], (2, 5, 1))),
        }
    )
    tree = xr.DataTree.from_dict({"sample_stats": stats})
    assert stored_draws(tree).n_levels == 3
    stats["beta"][1, :, 1] = 0.4
    with pytest.raises(ValueError, match=r"sample_stats\['beta'\] differs from chain to chain"):
        stored_draws(xr.DataTree.from_dict({"sample_stats": stats}))
