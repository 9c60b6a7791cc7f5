"""Trajectories reflected at linear constraints: invariance, with broken walls as controls."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from scipy import stats
from support.checks import assert_detects, make_rng
from support.kernel_contracts import check_invariant, constant_moves, evaluated_state

import pymc_logz as lz
from pymc_logz.kernels import Hamiltonian
from pymc_logz.kernels import hamiltonian as dynamics
from pymc_logz.kernels.base import column, strides
from pymc_logz.paths.geometric import AnnealingPath
from pymc_logz.runners.block import Block

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
N_ROWS = 10_000
CORNER = (((1.0, 0.5), 0.6), ((-0.3, 1.0), 0.4), ((-1.0, -0.2), 1.5))
MEAN = np.array([0.3, 0.2])
DENSE = np.array([[0.8, 0.0], [0.5, 0.4]])
"""A scale that leans, so that mirrors of another metric show."""


@cache
def path() -> AnnealingPath:
    """From N(0, I) to a density to the right of it, both cut off by a corner."""
    point = pt.tensor("point", dtype="float64", shape=(2,))
    return AnnealingPath(
        point,
        -0.5 * (point**2).sum(),
        (point * MEAN).sum() - 0.4 * point[0] * point[1],
        n_dims=2,
        sample_reference=lambda rng, n: exact_draws(rng, 0.0, n),
    )


def exact_draws(rng: np.random.Generator, beta: float, n: int) -> np.ndarray:
    """By rejection from the whole plane."""
    precision = np.eye(2) + 0.4 * beta * np.array([[0.0, 1.0], [1.0, 0.0]])
    covariance = np.linalg.inv(precision)
    kept = np.empty((0, 2))
    while len(kept) < n:
        rows = rng.multivariate_normal(beta * covariance @ MEAN, covariance, 8 * n)
        kept = np.concatenate([kept, rows[~dynamics.outside(CORNER, rows)]])
    return kept[:n]


@dataclass(frozen=True)
class OtherMetric(Hamiltonian):
    """Mirrors as if the scale were one in all directions."""


@dataclass(frozen=True)
class Stopped(Hamiltonian):
    """Rows that hit a wall stay there, their momentum turned round."""


def plain_mirror(given: Any, position: Any, momentum: Any, move: Any) -> Any:
    """Reflection along the wall's normal as it is in the model's own coordinates."""
    normals = np.array([a for a, _ in given])
    bounds = np.array([b for _, b in given])
    unit = normals / np.linalg.norm(normals, axis=1, keepdims=True)
    velocity = strides(momentum, move)
    time, which = dynamics._first_hit(position, velocity, normals, bounds)
    hits, normal = time < 1.0, pt.as_tensor(unit)[which]
    gone = column(pt.minimum(time, 1.0))
    turned = momentum - 2.0 * (momentum * normal).sum(axis=1, keepdims=True) * normal
    momentum = pt.switch(column(hits), turned, momentum)
    rest = (1.0 - gone) * strides(momentum, move)
    return position + gone * velocity + rest, momentum


def stopped(given: Any, position: Any, momentum: Any, move: Any) -> Any:
    """No reflection: a row goes as far as the wall."""
    normals, bounds = np.array([a for a, _ in given]), np.array([b for _, b in given])
    velocity = strides(momentum, move)
    time, _ = dynamics._first_hit(position, velocity, normals, bounds)
    gone = column(pt.minimum(time, 1.0))
    return position + gone * velocity, pt.switch(column(time < 1.0), -momentum, momentum)


def block_of(kernel: Hamiltonian) -> Block:
    block = Block(path(), kernel, N_ROWS)
    block.compile()
    return block


@pytest.mark.parametrize("n_steps", [1, 3])
def test_the_cut_off_density_is_invariant(n_steps: int) -> None:
    check(block_of(Hamiltonian(n_steps=n_steps, walls=CORNER, dense=True)), "right", n_steps)


def check(block: Block, *label: object) -> None:
    check_invariant(
        block,
        exact_draws,
        make_rng("walls", *label),
        n_rows=N_ROWS,
        beta=0.7,
        scale=DENSE,
        settings=[(0.4, 0.3), (1.2, 1.0)],
    )


@pytest.mark.parametrize(("kind", "broken"), [(OtherMetric, plain_mirror), (Stopped, stopped)])
def test_broken_walls_are_detected(
    kind: type[Hamiltonian], broken: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches mirrors in the wrong metric, and rows that stick to a wall."""
    monkeypatch.setattr("pymc_logz.kernels.hamiltonian.reflected_drift", broken)
    block = block_of(kind(walls=CORNER, dense=True))
    assert_detects(lambda moved: check(moved, kind.__name__), block)


@cache
def level() -> AnnealingPath:
    """A density that is the same everywhere."""
    point = pt.tensor("point", dtype="float64", shape=(2,))
    return AnnealingPath(
        point,
        0.0 * point.sum(),
        0.0 * point.sum(),
        n_dims=2,
        sample_reference=lambda rng, n: exact_draws(rng, 0.0, n),
    )


def test_rows_that_start_on_a_wall_and_in_a_corner() -> None:
    """Catches a row that passes the wall it is on, and one that never gets out of a corner."""
    normals, bounds = np.array([a for a, _ in CORNER]), np.array([b for _, b in CORNER])
    corners = [np.linalg.solve(normals[[i, j]], bounds[[i, j]]) for i, j in ((0, 1), (1, 2))]
    on_wall = np.mean(corners, axis=0)
    starts = np.repeat([*corners, on_wall], 200, axis=0)
    # which rounding may have put beyond
    starts -= 1e-14 * np.abs(starts)
    block = Block(level(), Hamiltonian(walls=CORNER, dense=True), len(starts))
    rng = make_rng("corners")
    start = evaluated_state(block, starts, rng.standard_normal((len(starts), 2)))
    moves = constant_moves(block, beta=1.0, step_size=0.5, scale=DENSE, refreshment=0.0, n_moves=4)
    end, _ = block.run(start, moves, rng)
    assert not dynamics.outside([(a, b + 1e-9) for a, b in CORNER], end.position).any()
    apart = np.linalg.norm(end.position - starts, axis=1).reshape(3, 200)
    assert np.all((apart > 1e-6).mean(axis=1) > 0.9)
    np.testing.assert_allclose(
        (end.momentum**2).sum(axis=1), (start.momentum**2).sum(axis=1), rtol=1e-9
    )


def test_rows_stay_within_and_come_back() -> None:
    """Catches a row that gets through, energy that is lost, and a way that is not the way back."""
    block = Block(level(), Hamiltonian(walls=CORNER, dense=True), 500)
    rng = make_rng("there and back")
    start = evaluated_state(block, exact_draws(rng, 0.0, 500), rng.standard_normal((500, 2)))
    moves = constant_moves(block, beta=1.0, step_size=0.5, scale=DENSE, refreshment=0.0, n_moves=4)
    end, trace = block.run(start, moves, rng)
    assert not dynamics.outside([(a, b + 1e-9) for a, b in CORNER], end.position).any()
    np.testing.assert_allclose(
        (end.momentum**2).sum(axis=1), (start.momentum**2).sum(axis=1), rtol=1e-9
    )
    moved = (trace.acceptance_rate > 1 - 1e-9).all(axis=0)
    assert moved.mean() > 0.9
    assert (np.abs(end.momentum - start.momentum).max(axis=1) > 1e-6).mean() > 0.2
    back, _ = block.run(end._replace(momentum=-end.momentum), moves, rng)
    np.testing.assert_allclose(back.position[moved], start.position[moved], atol=1e-8)


def test_log_z_of_a_model_with_walls() -> None:
    """Untransformed variables in a triangle: a truncated prior, and the paper's path."""
    with pm.Model() as model:
        u = pm.Uniform("u", 0, 1, default_transform=None)
        v = pm.Uniform("v", 0, 1, default_transform=None)
        pm.Normal("y", u + 2 * v, 0.3, observed=1.2)
    box = (((1.0, 0.0), 1.0), ((-1.0, 0.0), 0.0), ((0.0, 1.0), 1.0), ((0.0, -1.0), 0.0))
    kernel = Hamiltonian(walls=box)
    tree = lz.sample_hais(model=model, kernel=kernel, random_seed=1, progressbar=False)
    entry = tree["evidence"].to_dataset().isel(estimator=0)
    u_grid = (np.arange(2000) + 0.5) / 2000
    inside = [stats.norm(1.2, 0.3).cdf(one + 2) - stats.norm(1.2, 0.3).cdf(one) for one in u_grid]
    exact = float(np.log(np.mean(inside) / 2))
    assert str(entry["status"].item()) == "ok"
    assert abs(float(entry["log_z"]) - exact) < 4 * float(entry["mcse"])
    assert tree["evidence"].attrs["reference"] == "prior"
    assert float(tree["annealing"]["acceptance_rate"].isel(stage=slice(1, -1)).min()) > 0.5


WRONG = [
    ((((1.0,), np.inf),), "finite"),
    ((((0.0, 0.0), 1.0),), "not all of them zero"),
    ((((1.0,), 0.0), ((1.0, 2.0), 0.0)), "pairs"),
    ((1.0, 2.0), "pairs"),
]


@pytest.mark.parametrize(("given", "words"), WRONG)
def test_the_door(given: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Hamiltonian(walls=given)


def test_models_that_do_not_fit_the_walls() -> None:
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Normal("y", x, 1, observed=0.5)
    with pytest.raises(lz.ModelError, match="beyond the walls"):
        lz.sample_hais(model=model, kernel=Hamiltonian(walls=(((1.0,), 0.0),)), progressbar=False)
    with pytest.raises(ValueError, match="2 entries, but the model has 1"):
        lz.sample_hais(
            model=model, kernel=Hamiltonian(walls=(((1.0, 0.0), 0.0),)), progressbar=False
        )
    kernel = Hamiltonian(walls=(((1.0,), 9.0),))
    draws = xr.Dataset({"x": (("chain", "draw"), np.linspace(-1, 1, 40).reshape(2, 20))})
    for reference in ("learned", xr.DataTree.from_dict({"posterior": draws})):
        with pytest.raises(ValueError, match="reference must be None"):
            lz.sample_hais(model=model, kernel=kernel, reference=reference)


def test_walls_are_of_whole_rows() -> None:
    with pytest.raises(ValueError, match="whole particles"):
        lz.kernels.Compose({"x": Hamiltonian(walls=(((1.0,), 0.0),))})
