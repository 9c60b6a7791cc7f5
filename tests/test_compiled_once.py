"""A second call on the same model compiles nothing, whatever is called and whatever is new."""

import gc
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from support.compilations import Compilations, counted_compilations

import pymc_logz as lz
from pymc_logz.models.cache import kept_for

pytestmark = [
    pytest.mark.filterwarnings("ignore::pymc_logz.EvidenceWarning"),
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
]
X = np.linspace(-1, 1, 12)
Y = 1 + 2 * X + 0.3 * np.cos(7 * X)
BETAS = np.linspace(0, 1, 33) ** 3


def line() -> pm.Model:
    """A regression whose data and prior width are in containers."""
    with pm.Model() as model:
        width = pm.Data("width", 2.0)
        slope = pm.Normal("slope", 0, width)
        level = pm.Normal("level", 0, width)
        mean = level + slope * pm.Data("x", X)
        pm.Normal("y", mean, 0.5, observed=pm.Data("observed", Y))
    return model


@pytest.fixture(scope="module")
def model() -> pm.Model:
    return line()


@pytest.fixture(scope="module")
def posterior() -> xr.DataTree:
    """Draws of the posterior, in closed form."""
    design = np.stack([X, np.ones_like(X)], axis=1)
    covariance = np.linalg.inv(np.eye(2) / 4 + design.T @ design / 0.25)
    mean = covariance @ design.T @ Y / 0.25
    draws = np.random.default_rng(1).multivariate_normal(mean, covariance, (4, 500))
    names = {"slope": draws[..., 0], "level": draws[..., 1]}
    return xr.DataTree.from_dict(
        {"posterior": xr.Dataset({name: (("chain", "draw"), x) for name, x in names.items()})}
    )


def hais(model: pm.Model, **settings: Any) -> xr.DataTree:
    defaults: dict[str, Any] = {"random_seed": 1, "draws": 40, "chains": 1, "betas": BETAS}
    return lz.sample_hais(model=model, progressbar=False, **{**defaults, **settings})


@pytest.fixture(scope="module")
def begun() -> tuple[pm.Model, xr.DataTree]:
    """A model of which a run is all that was made, and that run."""
    model = line()
    return model, hais(model)


def stepped(model: pm.Model, step: Callable[..., Any], seed: int) -> None:
    """A few draws of a step method; PyMC's own recording functions are compiled elsewhere."""
    with model:
        method = step(random_seed=seed, betas=BETAS, pilot_tune=8)
    point = {var.name: np.zeros(()) for var in model.value_vars}
    method.setup_chain(np.random.default_rng(seed), tune=1, draws=3)
    for _ in range(3):
        point, _ = method.step(point)


CALLS: dict[str, Callable[[pm.Model, xr.DataTree, int], Any]] = {
    "hais": lambda model, _, seed: hais(model, random_seed=seed),
    "other draws and chains": lambda model, _, seed: hais(model, draws=30 * seed, chains=seed),
    "more draws than a portion": lambda model, _, seed: hais(model, draws=250 + 40 * seed),
    "both directions": lambda model, _, seed: hais(model, random_seed=seed, direction="both"),
    "laplace": lambda model, _, seed: hais(model, random_seed=seed, reference="laplace"),
    "fitted": lambda model, tree, seed: hais(model, random_seed=seed, reference=tree),
    "tempered": lambda model, _, seed: lz.sample_tempered(
        model=model, random_seed=seed, draws=20, tune=20, betas=BETAS, progressbar=False
    ),
    "bridge": lambda model, tree, seed: lz.bridge_sampling(
        tree, model, random_seed=seed, progressbar=False
    ),
    "evidence of a posterior": lambda model, tree, seed: lz.evidence(
        tree, model, random_seed=seed, progressbar=False
    ),
    "evidence of a run": lambda model, _, seed: lz.evidence(
        hais(model), model, random_seed=seed, progressbar=False
    ),
    "data rows": lambda model, _, seed: lz.marginal_log_likelihood(
        model, {"observed": seed + Y[None]}, 32, betas=BETAS, random_seed=seed, progressbar=False
    ),
    "step HAIS": lambda model, _, seed: stepped(model, lz.HAIS, seed),
    "step SimulatedTempering": lambda model, _, seed: stepped(model, lz.SimulatedTempering, seed),
}


WITHOUT_LOOK = {"fitted", "tempered", "evidence of a posterior"}
"""Whose look from the prior is that of `more draws than a portion`, or of `bridge`."""


@pytest.mark.parametrize("name", CALLS)
def test_a_second_call_compiles_nothing(
    name: str, model: pm.Model, posterior: xr.DataTree, request: pytest.FixtureRequest
) -> None:
    """Catches what is compiled for a seed, a number of rows, a fit, or one call only."""
    if name in WITHOUT_LOOK:
        request.getfixturevalue("no_look_from_prior")
    CALLS[name](model, posterior, 1)
    with counted_compilations() as again:
        CALLS[name](model, posterior, 2)
    assert (again.by_pytensor, again.by_xla) == (0, 0)


@pytest.mark.usefixtures("no_look_from_prior")
def test_a_second_sensitivity_compiles_nothing(model: pm.Model, posterior: xr.DataTree) -> None:
    """Catches what is compiled for a number of alternatives."""
    bridged = lz.bridge_sampling(posterior, model, random_seed=1, progressbar=False)

    def call(n: int) -> None:
        lz.evidence_sensitivity(bridged, model, {"width": np.linspace(1, 3, n)}, progressbar=False)

    call(3)
    with counted_compilations() as again:
        call(4)
    assert (again.by_pytensor, again.by_xla) == (0, 0)


def test_the_same_seed_gives_the_same_numbers_again(begun: tuple[pm.Model, xr.DataTree]) -> None:
    """Catches checks and compilations that take random numbers from a run, the first time only."""
    model, first = begun
    second = hais(model)
    for name in ("slope", "level"):
        np.testing.assert_array_equal(first["posterior"][name], second["posterior"][name])


@dataclass
class Life:
    """What a model leaves that was annealed, bridged, tempered and then dropped."""

    of_bridge: Compilations
    of_tempering: Compilations
    trees: list[xr.DataTree]
    left: list[object]
    """What is still there of the model, and of what was made for it."""


@pytest.fixture(scope="module")
def life(posterior: xr.DataTree) -> Life:
    """One model from its first call to its end."""
    model = line()
    trees = [hais(model)]
    with counted_compilations() as of_bridge:
        trees.append(lz.bridge_sampling(posterior, model, random_seed=1, progressbar=False))
    with counted_compilations() as of_tempering:
        trees.append(CALLS["tempered"](model, posterior, 1))
    watched = [weakref.ref(thing) for thing in (model, kept_for(model), model["slope"])]
    del model
    gc.collect()
    return Life(of_bridge, of_tempering, trees, [ref() for ref in watched])


def test_methods_share_what_they_need(life: Life) -> None:
    """Catches a method with a preparation of its own: a run is tempered by the same moves."""
    # the density of rows and the way from draws to rows; the shapes of draws; and, for another look
    # from the prior, moves along a path that is open for mixtures: one at a time by NumPy, with a
    # count of their bytes, and several by JAX
    assert life.of_bridge.by_pytensor <= 6
    assert life.of_bridge.by_xla <= 2
    # the walk along the levels
    assert life.of_tempering.by_pytensor <= 1


def test_new_data_compile_nothing_and_count(begun: tuple[pm.Model, xr.DataTree]) -> None:
    """Catches a likelihood or a prior of the old data, against a model that never had others."""
    (model, _), fresh = begun, line()
    new = {"observed": Y - 1, "x": 2 * X, "width": 3.0}
    with counted_compilations() as again:
        pm.set_data(new, model=model)
        found = hais(model)
    assert again.total == 0
    pm.set_data(new, model=fresh)
    expected = hais(fresh)["weighted_posterior"]["log_weight"]
    np.testing.assert_array_equal(found["weighted_posterior"]["log_weight"], expected)


def test_simulated_data_compile_nothing() -> None:
    """Catches simulated observations that become constants."""
    model = line()
    lz.sandwich(model, draws=40, chains=1, betas=BETAS, random_seed=1, progressbar=False)
    with counted_compilations() as again:
        lz.sandwich(model, draws=40, chains=1, betas=BETAS, random_seed=2, progressbar=False)
    assert again.total == 0


def test_a_dropped_model_takes_all_with_it(life: Life) -> None:
    """Catches compiled moves that outlive the model, through a cache or a result."""
    assert life.left == [None, None, None]
    assert all("evidence" in tree.children for tree in life.trees)


def circle() -> pm.Model:
    """Two inputs whose squares have a sum that is observed exactly."""
    with pm.Model() as model:
        u = pm.Normal("u", shape=2)
        lz.ExactObservation("y", (u**2).sum(), observed=pm.Data("radius", 2.0))
    return model


def on_circle(radius: float) -> xr.DataTree:
    angle = np.random.default_rng(1).uniform(0, 2 * np.pi, (2, 100))
    u = np.sqrt(radius) * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    return xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset(
                {
                    "u": (
                        (
                            "chain",
                            "draw",
                            "u_dim",
                        ),
                        u,
                    )
                }
            )
        }
    )


def test_constrained_moves_are_compiled_once() -> None:
    """Catches a level set that each step method or bridge compiles for itself, and a stale one."""
    model = circle()

    def log_z(radius: float) -> float:
        tree = lz.bridge_sampling(on_circle(radius), model, random_seed=1, progressbar=False)
        return float(tree["evidence"]["log_z"][0])

    def step() -> None:
        with model:
            lz.ConstrainedHMC(random_seed=1)

    step()
    with counted_compilations() as again:
        step()
    assert again.total == 0
    # the density of the sum of squares, chi-squared with two degrees of freedom
    assert log_z(2.0) == pytest.approx(-1.0 - np.log(2), abs=0.1)
    pm.set_data({"radius": 5.0}, model=model)
    assert log_z(5.0) == pytest.approx(-2.5 - np.log(2), abs=0.1)
