"""Public functions speak one language: the same arguments, in the same order, and kind refusals."""

import inspect
from collections.abc import Callable

import numpy as np
import pytest
import xarray as xr
from support import pymc_models as models

import pymc_logz as lz

SAMPLERS = ("sample_hais", "sample_tempered", "sandwich", "marginal_log_likelihood")
RUNNING = (*SAMPLERS, "bridge_sampling", "evidence", "evidence_sensitivity", "LogZTracker")
STEP_METHODS = ("HAIS", "SimulatedTempering", "PartialMomentumHMC", "ConstrainedHMC")
LAST = ("cores", "random_seed", "progressbar", "compile_kwargs")
"""Arguments that come last, in this order; `idata` and `model` come first."""
DEFAULTS = {"random_seed": None, "progressbar": True, "compile_kwargs": None, "cores": None}
OTHER_NAMES = {"inference_data", "trace", "dt", "data_tree", "seed", "rng_seed", "n_chains"}


def arguments(name: str) -> dict[str, inspect.Parameter]:
    """Parameters of a public name."""
    return dict(inspect.signature(getattr(lz, name)).parameters)


def names_of_functions() -> list[str]:
    return [name for name in lz.__all__ if inspect.isfunction(getattr(lz, name))]


@pytest.mark.parametrize("name", RUNNING)
def test_arguments_of_what_runs_have_one_order(name: str) -> None:
    """Would catch a function that puts the seed elsewhere, or has another default for it."""
    given = arguments(name)
    last = [one for one in given if one in LAST]
    assert last == [one for one in LAST if one in given]
    assert {"progressbar", "compile_kwargs"} <= given.keys()
    assert {one: given[one].default for one in last} == {one: DEFAULTS[one] for one in last}
    keyword_only = inspect.Parameter.KEYWORD_ONLY
    assert all(given[one].kind is keyword_only for one in last)


def test_trees_and_models_have_one_name() -> None:
    """Would catch a tree that is `idata` here and something else there."""
    for name in names_of_functions():
        given = list(arguments(name))
        assert not OTHER_NAMES & set(given), name
        if "idata" in given:
            assert given[0] == "idata", name
        if "model" in given and not name.startswith("sample_") and name != "ExactObservation":
            comes_first = {"idata", "proposal"} & set(given)
            assert given.index("model") == len(comes_first), name


@pytest.mark.parametrize("name", STEP_METHODS)
def test_step_methods_take_what_pymc_gives(name: str) -> None:
    """Would catch a step method that pm.sample cannot make."""
    given = arguments(name)
    assert next(iter(given)) == "vars"
    assert {"model", "blocked", "rng", "initial_point", "compile_kwargs"} <= given.keys()


MODEL = models.normal_normal()
TREE = xr.DataTree.from_dict(
    {"posterior": xr.Dataset({"mu": (("chain", "draw"), np.zeros((2, 100)))})}
)
SLIPS: dict[str, tuple[Callable[[], object], str]] = {
    "model as draws": (lambda: lz.sample_hais(MODEL), r"write sample_hais\(model=model\)"),
    "model as chains": (lambda: lz.sample_tempered(9, MODEL), r"sample_tempered\(model=model\)"),
    "tree as model": (lambda: lz.sample_hais(model=TREE), "model is of type DataTree.*sample_hais"),
    "tree as model of a sandwich": (lambda: lz.sandwich(TREE), r"write sandwich\(model\)"),
    "swapped in evidence": (lambda: lz.evidence(MODEL, TREE), r"write evidence\(idata, model\)"),
    "swapped in the bridge": (
        lambda: lz.bridge_sampling(MODEL, TREE),
        r"write bridge_sampling\(idata, model\)",
    ),
    "swapped in the sensitivity": (
        lambda: lz.evidence_sensitivity(MODEL, TREE, {}),
        r"write evidence_sensitivity\(idata, model, alternatives\)",
    ),
    "data before the model": (
        lambda: lz.marginal_log_likelihood({"x": [1.0]}, MODEL),
        r"write marginal_log_likelihood\(model, data\)",
    ),
    "a posterior as model": (lambda: lz.evidence(TREE, "model"), "model is of type str"),
    "no tree at all": (lambda: lz.evidence("tree", MODEL), "idata is of type str.*DataTree"),
    "a path": (lambda: lz.evidence("a.nc", MODEL), r"az.from_netcdf\(path\)"),
    "a group": (lambda: lz.evidence(TREE["posterior"].to_dataset(), MODEL), "the whole DataTree"),
    "models in a list": (lambda: lz.evidence([MODEL]), r"are models: .*evidence_of_models"),
    "models to compare": (
        lambda: lz.compare_evidence({"a": MODEL, "b": MODEL}),
        r"trees are models: write lz.evidence_of_models\(models\) first",
    ),
    "a model in a Bayes factor": (lambda: lz.bayes_factor(MODEL, MODEL), r"a is a pm.*evidence\(m"),
    "evidence of no model": (lambda: lz.evidence(), r"write evidence\(model\).*`with model:`"),
    "no model anywhere": (lambda: lz.sample_hais(), "model is missing: write.*`with model:`"),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_arguments_in_the_wrong_place_are_told_where_to_go(slip: str) -> None:
    """Would catch a slip that ends in an error from deep inside, or runs."""
    call, message = SLIPS[slip]
    with pytest.raises(TypeError, match=message):
        call()
