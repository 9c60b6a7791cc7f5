"""Directions in which a target is independent: found, with their tails, and exact as weights."""

import numpy as np
import pymc as pm
import pytest
from support.checks import assert_detects, check_means, make_rng

import pymc_logz as lz
from pymc_logz.estimators import importance_log_z
from pymc_logz.hais.settings import HaisSettings
from pymc_logz.loop.planning import block_for
from pymc_logz.models.preparation import prepare
from pymc_logz.references.blend import Target
from pymc_logz.references.directions import IndependentDirections, independent_directions

FILTERS = lz.energies.random_filters(5, 6) * np.geomspace(1, 8, 6)[:, None]
EXPONENTS = np.array([1.05, 1.2, 1.5, 2.0, 3.0, 6.0])
ENERGY = lz.energies.student_t_experts(FILTERS, EXPONENTS)


def target_for(model: pm.Model, rng: np.random.Generator) -> Target:
    prepared = prepare(model, rng)
    return Target(prepared, block_for(prepared, HaisSettings(), None))


def log_density(one: IndependentDirections, rows: np.ndarray) -> np.ndarray:
    """Of rows, which need neither a model nor its prior."""
    return one.log_density_of(None, rows, None)


def found(energy: lz.energies.Energy = ENERGY) -> IndependentDirections:
    """Directions of an energy from some of its exact draws."""
    rng = make_rng("directions")
    assert energy.sample_posterior is not None
    target = target_for(energy.model, rng)
    found = independent_directions(target, energy.sample_posterior(rng, 200)["x"], rng)
    assert found is not None
    return found


@pytest.mark.filterwarnings("ignore:the model has potentials")
def test_filters_and_tails_are_found() -> None:
    """Catches directions at right angles, one tail for all, and curvatures that rounding spoils.

    A direction that is off by a hundredth lacks what is a hundred widths along the heavy one.
    """
    directions = found()
    alike = directions.directions @ np.linalg.inv(FILTERS)
    alike = np.abs(alike) / np.abs(alike).max(axis=1, keepdims=True)
    expert = np.argmax(alike, axis=1)
    assert sorted(expert) == list(range(6))
    assert np.sort(alike, axis=1)[:, -2].max() < 1e-5
    wanted = 2 * EXPONENTS[expert] - 1
    np.testing.assert_allclose(np.log(directions.df / wanted), 0, atol=np.log(1.5))


@pytest.mark.filterwarnings("ignore:the model has potentials")
def test_weights_average_to_z() -> None:
    """Catches a density that lacks the volume of the directions, or has other tails."""
    directions = found()

    def check(one: IndependentDirections) -> None:
        rows, _ = directions.draw(None, make_rng("draw"), 4000)
        u = rows @ FILTERS.T
        log_target = -(EXPONENTS * np.log1p(u**2)).sum(axis=1)
        check_means({"z": np.exp(log_target - log_density(one, rows) - ENERGY.log_z) - 1})

    check(directions)
    assert_detects(
        check,
        IndependentDirections(
            directions.directions, directions.location, 1.1 * directions.scale, directions.df
        ),
    )


@pytest.mark.filterwarnings("ignore:the model has potentials")
@pytest.mark.parametrize("seed", [1, 2, 8])
def test_experts_by_default(seed: int) -> None:
    """Catches elliptical tails: by them log Z of learned experts was 5 to 7 errors too low."""
    tree = lz.sample_hais(model=ENERGY.model, random_seed=seed, progressbar=False)
    entry = tree["evidence"].to_dataset().isel(estimator=0)
    assert entry["status"] == "ok"
    assert abs(float(entry["log_z"]) - ENERGY.log_z) < 4 * float(entry["mcse"]) < 0.2


def test_one_dimension_and_bits_have_none() -> None:
    """Catches an error where there is nothing to turn."""
    rng = make_rng("one")
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("x"), observed=0.5)
    target = target_for(model, rng)
    assert independent_directions(target, target.prepared.prior(rng, 50), rng) is None


def test_errors_of_weights_are_honest() -> None:
    """Catches directions taken for independent where they are not, with a small error."""
    rng = make_rng("banana")
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=2)
        pm.Normal("y", x[1] - x[0] ** 2, 0.2, observed=0.5)
    target = target_for(model, rng)
    grid = np.linspace(-8, 8, 8001)
    exact = -0.5 * grid**2 - 0.5 * ((0.5 + grid**2) ** 2 / 1.04 + np.log(4 * np.pi**2 * 1.04))
    exact_log_z = np.log(np.trapezoid(np.exp(exact), grid))
    tree = lz.sample_hais(model=model, random_seed=1, progressbar=False)
    entry = tree["evidence"].to_dataset().isel(estimator=0)
    assert abs(float(entry["log_z"]) - exact_log_z) < 4 * float(entry["mcse"])
    directions = independent_directions(target, target.prepared.prior(rng, 64), rng)
    if directions is not None:
        rows, _ = directions.draw(target, rng, 2000)
        estimate = importance_log_z(target(rows).log_target - log_density(directions, rows))
        off = abs(estimate.log_z - exact_log_z)
        assert estimate.status != "ok" or off < 4 * estimate.mcse
