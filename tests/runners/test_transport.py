"""Maps between temperatures: exact weights whatever they are, none of them unequal on normals."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from support.annealing_relations import check_crooks, uneven_plan
from support.checks import assert_detects, check_means, make_rng
from support.paths_with_exact_draws import (
    COVARIANCE,
    MEAN,
    N_ROWS,
    PRECISION,
    TARGETS,
    dead_zone_path,
)
from support.pilot_runs import TARGET_ACCEPT, N, narrow_path

from pymc_logz.kernels import Hamiltonian
from pymc_logz.kernels.base import Kernel
from pymc_logz.paths.schedules import linear_betas
from pymc_logz.pilot.ladder import choose_plan, log_weight_variance
from pymc_logz.pilot.population import SHORT, SHORT_EVERY, Stages, run_pilot
from pymc_logz.runners.anneal import Annealed, Plan, anneal
from pymc_logz.runners.block import Block
from pymc_logz.runners.transport import Maps, Transport, Watcher, population_moments, still_maps

KERNEL = Hamiltonian(dense=True)
EXACT = Transport(
    np.array([0.0, 1.0]),
    np.stack([np.eye(2), PRECISION]),
    np.stack([np.zeros(2), PRECISION @ MEAN]),
)
"""Of the Gaussian target, whose precision is linear in beta."""


@cache
def mapped_block(name: str, kernel: Kernel = KERNEL) -> Block:
    return Block(TARGETS[name].path(), kernel, N_ROWS, transports=True)


def dense(plan: Plan) -> Plan:
    """The same plan, with scales as matrices."""
    d = plan.scale.shape[1]
    return replace(
        plan, correlation=np.stack(2 * [np.eye(d)]), coordinate=np.linspace(0, 1, plan.betas.size)
    )


def wrong_transport(n_dims: int) -> Transport:
    """Maps that bend, shrink, grow and shift, and fit no target."""
    rng = make_rng("wrong transport", n_dims)
    mean = 0.2 * rng.normal(size=(3, n_dims))
    factor = np.tril(0.1 * rng.normal(size=(3, n_dims, n_dims)))
    factor += np.array([1.0, 0.8, 0.6])[:, None, None] * np.eye(n_dims)
    return Transport.from_moments(np.array([0, 0.4, 1.0]), mean, factor @ factor.swapaxes(1, 2))


def plan_with(name: str, transport: Transport, n_temperatures: int = 5) -> Plan:
    return replace(dense(uneven_plan(TARGETS[name], n_temperatures)), transport=transport)


def run(name: str, plan: Plan, label: str) -> Annealed:
    rng = make_rng("maps", name, label)
    start = TARGETS[name].sample(rng, float(plan.betas[0]), N_ROWS)
    return anneal(mapped_block(name), plan, start, rng)


@pytest.mark.parametrize("is_dense", [True, False])
def test_maps_carry_mean_and_covariance(is_dense: bool) -> None:
    """Catches a transposed root, a volume of the wrong sign, a map that is not undone backwards."""
    rng = make_rng("moments")
    root = np.tril(rng.normal(size=(4, 3, 3))) + 2 * np.eye(3)
    covariance = root @ root.swapaxes(1, 2)
    if not is_dense:
        covariance = np.diagonal(covariance, axis1=1, axis2=2)
    betas = np.array([0, 0.2, 0.7, 1.0])
    transport = Transport.from_moments(betas, rng.normal(size=(4, 3)), covariance)
    mean = transport.normals(betas).mean
    up, down = transport.maps(betas), transport.maps(betas[::-1])
    as_matrix = (lambda m: m) if is_dense else np.diag
    for i in range(3):
        a, back = as_matrix(up.matrix[i]), as_matrix(down.matrix[2 - i])
        np.testing.assert_allclose(a @ mean[i] + up.shift[i], mean[i + 1], atol=1e-10)
        np.testing.assert_allclose(
            a @ as_matrix(covariance[i]) @ a.T, as_matrix(covariance[i + 1]), atol=1e-10
        )
        np.testing.assert_allclose(a @ back, np.eye(3), atol=1e-10)
        assert up.log_volume[i] == pytest.approx(np.log(abs(np.linalg.det(a))))
        assert up.log_volume[i] == pytest.approx(-down.log_volume[2 - i])
    np.testing.assert_array_equal(up.beta_before, betas[:-1])
    np.testing.assert_array_equal(up.beta, betas[1:])


@pytest.mark.parametrize("backwards", [False, True])
def test_exact_maps_between_normals_leave_all_weights_equal(backwards: bool) -> None:
    """Catches any mistake of the weight at all: there is no noise to hide in."""
    plan = plan_with("gaussian", EXACT)
    annealed = run("gaussian", plan.reverse() if backwards else plan, "equal")
    log_z = (-1 if backwards else 1) * TARGETS["gaussian"].log_z
    np.testing.assert_allclose(annealed.log_weight, log_z, atol=1e-9)


@pytest.mark.parametrize("name", ["gaussian", "log_gamma", "student"])
def test_z_is_unbiased_whatever_the_maps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches weights without the volume of the map."""
    target = TARGETS[name]
    plan = plan_with(name, wrong_transport(target.n_dims), 24)

    def weights() -> np.ndarray:
        return np.exp(run(name, plan, "unbiased").log_weight - target.log_z)

    def check(weight: np.ndarray) -> None:
        check_means({"w / Z": weight}, 1.0)

    right = Transport.maps
    assert weights().std() > 0.05, "weights that hardly vary test nothing"
    check(weights())

    def broken(self: Transport, betas: np.ndarray) -> Maps:
        return right(self, betas)._replace(log_volume=np.zeros(betas.size - 1))

    monkeypatch.setattr(Transport, "maps", broken)
    assert_detects(check, weights())


@pytest.mark.parametrize("name", ["gaussian", "log_gamma", "student"])
def test_maps_backwards_are_the_time_reversal(name: str) -> None:
    """Catches a reverse run that starts at another beta, or maps in another order than moves."""
    target = TARGETS[name]
    plan = plan_with(name, wrong_transport(target.n_dims))
    forward = run(name, plan, "crooks").log_weight - target.log_z
    check_crooks(forward, run(name, plan.reverse(), "crooks back").log_weight + target.log_z)
    # moves reversed, maps not
    other = replace(plan, transport=None).reverse()
    broken = run(name, other, "crooks back").log_weight + target.log_z
    assert_detects(lambda backward: check_crooks(forward, backward), broken)


def test_maps_that_stay_change_nothing() -> None:
    """Catches padding that carries rows away, or increments that differ from those of moves."""
    plan = dense(uneven_plan(TARGETS["log_gamma"], 45))
    start = TARGETS["log_gamma"].sample(make_rng("still"), 0.0, N_ROWS)
    with_maps, without = (
        anneal(block, plan, start, make_rng("still noise"))
        for block in (mapped_block("log_gamma"), mapped_block("log_gamma").without_maps())
    )
    np.testing.assert_allclose(with_maps.log_weight, without.log_weight, atol=1e-9)
    np.testing.assert_allclose(with_maps.position, without.position, atol=1e-9)
    np.testing.assert_allclose(with_maps.stage_weight_ess, without.stage_weight_ess, rtol=1e-8)
    with pytest.raises(ValueError, match="compiled without"):
        anneal(
            mapped_block("log_gamma").without_maps(),
            replace(plan, transport=wrong_transport(1)),
            start,
            make_rng("still noise"),
        )


def test_rows_without_support_are_counted_with_maps_too() -> None:
    """Catches a dead row that comes back to life by being carried into the support."""
    block = Block(dead_zone_path(), Hamiltonian(dense=False), N, transports=True)
    start = np.linspace(-3, 3, N)[:, None]
    shrinking = Transport(np.array([0.0, 1.0]), np.array([[1.0], [9.0]]), np.zeros((2, 1)))
    plan = Plan(linear_betas(40), np.full(41, 0.5), np.ones((41, 1)), transport=shrinking)
    annealed = anneal(block, plan, start, make_rng("dead maps"))
    dead = (start[:, 0] > 1.7) | (start[:, 0] < -1.2)
    assert np.all(np.isneginf(annealed.log_weight[dead]))
    inside = (start[:, 0] > -0.9) & (start[:, 0] < 1.4)
    assert np.all(np.isfinite(annealed.log_weight[inside]))
    assert annealed.n_nan >= np.sum(start < -1.2)
    assert np.all(np.isfinite(annealed.stage_weight_ess))


def test_trial_rows_correct_the_moments() -> None:
    """Catches moments taken at another beta than the rows, or weights that are ignored."""
    rng, betas = make_rng("watcher"), linear_betas(40)
    wrong = Transport.from_moments(
        linear_betas(10), np.zeros((11, 2)), np.stack(11 * [np.diag([0.6, 0.4])])
    )
    watcher = Watcher(wrong, betas)
    for i, beta in enumerate(betas[:-1]):
        exact = TARGETS["gaussian"].sample(rng, beta, N_ROWS)
        # rows that are too wide, weighted back
        wide = exact[0] + 1.3 * (exact - exact[0])
        normal = EXACT.normals(betas[i : i + 1])
        log_weight = log_normal(wide, normal) - log_normal(
            exact[0] + (wide - exact[0]) / 1.3, normal
        )
        watcher.add(slice(i, i + 1), log_weight[None], wide[None])
    corrected = watcher.corrected(10 * betas, 1e9)
    now, goal = (t.normals(np.array([0.5])) for t in (corrected, EXACT))
    np.testing.assert_allclose(now.mean, goal.mean, atol=0.05)
    np.testing.assert_allclose(now.root, goal.root, rtol=0.1, atol=0.1)
    before = wrong.normals(np.array([0.5]))
    assert np.abs(before.mean - goal.mean).max() > 0.3


def log_normal(x: np.ndarray, normal: object) -> np.ndarray:
    return -0.5 * (((x - normal.mean[0]) @ normal.root[0]) ** 2).sum(axis=1)


@pytest.mark.parametrize("is_dense", [True, False])
def test_moments_of_a_population(is_dense: bool) -> None:
    """Catches a heavy tail that rules the moments, and a correlation lost on the way."""
    rng = make_rng("population")
    rows = rng.multivariate_normal(MEAN, COVARIANCE, 20_000)
    mean, covariance = population_moments(rows, is_dense)
    exact = COVARIANCE if is_dense else np.diag(COVARIANCE)
    np.testing.assert_allclose(mean, MEAN, atol=0.02)
    np.testing.assert_allclose(covariance, exact, atol=0.02)
    rows[::100] = 1e6
    mean, covariance = population_moments(rows, is_dense)
    np.testing.assert_allclose(mean, MEAN, atol=0.1)
    assert np.abs(covariance).max() < 1.0


@cache
def narrow_stages() -> tuple[Block, Stages]:
    block, rng = Block(narrow_path(), KERNEL, N, transports=True), make_rng("narrow maps")
    start = rng.standard_normal((N, 3))
    return block, run_pilot(block, start, rng, target_accept=TARGET_ACCEPT, tune=64)


def test_long_ladder_gets_maps_and_becomes_short() -> None:
    """Catches maps that are never chosen, do not help, or step sizes without the short ones."""
    block, stages = narrow_stages()
    rng = make_rng("choose maps")

    def draw() -> np.ndarray:
        return rng.standard_normal((N, 3))

    plan, _ = choose_plan(block, stages, draw, rng, 0.1)
    plain, _ = choose_plan(block, replace(stages, transport=None), draw, rng, 0.1)
    assert plan.transport is not None
    assert plain.transport is None
    assert plan.n_temperatures < plain.n_temperatures / 2
    annealed = anneal(block, plan, draw(), rng)
    assert log_weight_variance(annealed.log_weight) < 0.15
    ratio = plan.step_size[SHORT_EVERY] / plan.step_size[SHORT_EVERY + 1]
    assert ratio == pytest.approx(SHORT, rel=0.2)


def test_short_ladder_stays_as_it_is() -> None:
    """Catches maps, and their doubled evaluations, where a few temperatures do."""
    block, stages = narrow_stages()
    rng = make_rng("no maps")

    def draw() -> np.ndarray:
        return rng.standard_normal((N, 3))

    plan, _ = choose_plan(block, stages, draw, rng, 5.0)
    assert plan.transport is None


def test_still_maps_have_the_betas_of_the_plan() -> None:
    """Catches a plan without maps whose weights are those of other betas."""
    betas = np.array([1.0, 0.3, 0.0])
    maps = still_maps(betas, 2, dense=False)
    np.testing.assert_array_equal(maps.beta_before, [1.0, 0.3])
    np.testing.assert_array_equal(maps.beta, [0.3, 0.0])
    assert np.all(maps.log_volume == 0)
