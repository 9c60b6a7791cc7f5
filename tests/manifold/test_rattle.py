"""Constrained moves: reversible, symplectic, of order two, invariant; and what breaks it."""

from dataclasses import replace

import numpy as np
import pytest
from support.checks import assert_detects, check_means, check_same_law, make_rng
from support.level_sets import (
    nearly_singular,
    on_surface,
    parabola,
    plain_system,
    surface,
    two_branches,
)

from pymc_logz.manifold.backends import JaxBackend, PytensorBackend
from pymc_logz.manifold.rattle import (
    NOT_CONVERGED,
    NOT_FINITE,
    NOT_REVERSIBLE,
    OK,
    ConstrainedHamiltonian,
    TransitionInput,
    project_position,
    state_at,
)

N_ROWS = 8000
N_MOVES = 2
MOVES = ConstrainedHamiltonian()


class UnprojectedMomentum(ConstrainedHamiltonian):
    """Leaves the level set's tangent space."""

    def project_momentum(self, system, linear, momentum):
        return momentum


class Unchecked(ConstrainedHamiltonian):
    """Takes steps that cannot be undone."""

    def is_reversible(self, system, old, back):
        return system.arrays.xp.asarray(True)


def without_determinant(system):
    """The density rho alone, as if the level set had the same thickness everywhere."""
    return replace(system, evaluate=lambda u: (system.evaluate(u)[0], -0.5 * (u @ u), -u))


@pytest.fixture(scope="module")
def on_numpy():
    """Density on `surface` in NumPy."""
    return plain_system(PytensorBackend(surface(), "test", "FAST_COMPILE", {}))


@pytest.fixture
def start(on_numpy):
    """A point of the surface and a tangent momentum."""
    rng = make_rng("constrained start")
    state = state_at(on_numpy, on_surface(rng))
    return state, MOVES.project_momentum(on_numpy, state.linear, rng.standard_normal(5))


def numeric_gradient(function, point, step=1e-5):
    """Central differences."""
    return np.array(
        [(function(point + e) - function(point - e)) / (2 * step) for e in step * np.eye(5)]
    )


def test_density_and_gradient(on_numpy, start):
    # catches a determinant of the wrong power, or a gradient that leaves part of it out
    position = start[0].position
    log_rho = -0.5 * ((position / [1.0, 0.7, 1.5, 1.0, 2.0]) ** 2).sum()
    jacobian = numeric_gradient(on_numpy.constraint, position).T
    expected = log_rho - 0.5 * np.linalg.slogdet(jacobian @ jacobian.T)[1]
    assert start[0].log_density == pytest.approx(expected, abs=1e-8)
    gradient = numeric_gradient(lambda u: on_numpy.evaluate(u)[1], position)
    np.testing.assert_allclose(start[0].gradient, gradient, atol=1e-7)


@pytest.mark.parametrize("n_inner", [1, 3])
def test_it_stays_on_the_level_set_and_comes_back(on_numpy, start, n_inner):
    moves = ConstrainedHamiltonian(n_inner=n_inner)
    state, momentum = start
    end = moves.integrate(on_numpy, state, momentum, 0.2, 7)
    assert end.status == OK
    assert end.n_steps == 7
    # catches a trajectory that does not move
    assert np.linalg.norm(end.state.position - state.position) > 0.3
    assert np.abs(on_numpy.constraint(end.state.position)).max() < 1e-11
    assert np.abs(on_numpy.algebra.multiplied(end.state.linear, end.momentum)).max() < 1e-12
    back = moves.integrate(on_numpy, end.state, -end.momentum, 0.2, 7)
    np.testing.assert_allclose(back.state.position, state.position, atol=1e-9)
    np.testing.assert_allclose(back.momentum, -momentum, atol=1e-9)


@pytest.mark.parametrize("n_inner", [1, 2])
def test_energy_error_is_of_order_two(on_numpy, start, n_inner):
    # catches an order of one: a kick at the wrong place, a momentum that is projected too late
    moves = ConstrainedHamiltonian(n_inner=n_inner)
    state, momentum = start
    step_sizes, errors = 0.1 / 2.0 ** np.arange(4), []
    for step_size in step_sizes:
        end = moves.integrate(on_numpy, state, momentum, step_size, round(0.8 / step_size))
        errors.append(abs(moves.energy(end.state, end.momentum) - moves.energy(state, momentum)))
    slope = np.polyfit(np.log(step_sizes), np.log(errors), 1)[0]
    assert slope == pytest.approx(2.0, abs=0.15)


def test_it_preserves_volume(on_numpy, start):
    """The symplectic form on the tangent bundle is kept, and with it its volume."""
    state, momentum = start
    rng = make_rng("tangent directions")

    def at(position, momentum):
        """The nearest pair on the level set and tangent to it."""
        base = on_numpy.algebra.factorise(on_numpy.jacobian(position))
        position = project_position(on_numpy, position, base, 50).position
        state = state_at(on_numpy, position)
        return state, MOVES.project_momentum(on_numpy, state.linear, momentum)

    def derivatives(directions):
        """Of pairs before and after the trajectory, along each direction."""
        before, after = [], []
        for direction in directions:
            ends = []
            for h in (1e-4, -1e-4):
                pair = at(state.position + h * direction[0], momentum + h * direction[1])
                end = MOVES.integrate(on_numpy, *pair, 0.3, 3)
                ends.append(
                    np.array([[pair[0].position, pair[1]], [end.state.position, end.momentum]])
                )
            before_after = (ends[0] - ends[1]) / 2e-4
            before.append(before_after[0])
            after.append(before_after[1])
        return np.array(before), np.array(after)

    def form(pairs):
        return pairs[:, 0] @ pairs[:, 1].T - pairs[:, 1] @ pairs[:, 0].T

    before, after = derivatives(rng.standard_normal((6, 2, 5)))
    assert np.abs(form(before)).max() > 0.5
    np.testing.assert_allclose(form(after), form(before), atol=1e-5)


def test_both_backends_follow_the_same_trajectory(on_numpy, start):
    backend = JaxBackend(surface(), "test")
    system = plain_system(backend)
    transition = backend.compile(lambda *args: MOVES.transition(system, *args))
    rng = make_rng("noise of a transition")
    theirs = ours = start[0]
    for _ in range(5):
        given = TransitionInput(rng.standard_normal(5), np.log(rng.random()), 0.4, 4)
        ours, our_info = MOVES.transition(on_numpy, ours, given)
        theirs, their_info = transition(theirs, given)
        np.testing.assert_allclose(theirs.position, ours.position, atol=1e-9)
        np.testing.assert_allclose(their_info.energy_error, our_info.energy_error, atol=1e-8)
        assert int(their_info.n_iterations) == our_info.n_iterations


def test_newton_takes_over_where_the_quasi_newton_search_fails():
    system = plain_system(parabola().numpy())
    base = system.algebra.factorise(system.jacobian(np.array([0.3, 3.82])))
    # the level set curves away from the tangent: the fixed Gram matrix overshoots
    there = project_position(system, np.array([2.5, 3.0]), base, 20)
    assert there.residual <= 1.0
    assert there.n_newton > 0
    assert abs(system.constraint(there.position)[0]) < 1e-11


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_failures_have_their_status():
    system = plain_system(two_branches().numpy())
    state = state_at(system, np.array([0.0, 1.0]))

    def status(momentum, step_size):
        end = MOVES.integrate(system, state, np.array([momentum, 0.0]), step_size, 3)
        return int(end.status)

    statuses = {status(p, h) for p in (0.5, 1.0, 2.0, 4.0) for h in (0.1, 0.7, 1.5, 3.0)}
    assert OK in statuses
    assert NOT_REVERSIBLE in statuses
    # no point of the circle has a first input beyond its radius
    circle = replace(
        system,
        constraint=lambda u: np.array([u @ u - 1.0]),
        jacobian=lambda u: 2.0 * u[None],
    )
    far = MOVES.integrate(circle, state, np.array([3.0, 0.0]), 1.0, 3)
    assert far.status == NOT_CONVERGED
    broken = replace(system, evaluate=lambda u: (system.evaluate(u)[0], np.nan, np.full(2, np.nan)))
    assert MOVES.integrate(broken, state, np.array([0.5, 0.0]), 0.1, 3).status == NOT_FINITE
    with np.errstate(invalid="ignore"):
        given = TransitionInput(np.array([9.0, 0.0]), -1e-9, 1.0, 3)
        end, info = MOVES.transition(circle, state, given)
    # a failed trajectory is rejected
    assert not info.accepted
    assert info.acceptance_rate == 0.0
    np.testing.assert_array_equal(end.position, state.position)


CASES = {
    "parabola": (parabola(), 0.8, 2),
    "two branches": (two_branches(), 0.8, 2),
    "nearly singular": (nearly_singular(), 0.4, 2),
    "nearly singular, long steps": (nearly_singular(), 1.5, 1),
}


def move(case, system, moves, rows, rng, step_size, n_steps):
    """Rows after some transitions each."""
    import jax

    def one(args):
        position, noise, log_uniform = args

        def body(i, state):
            given = TransitionInput(noise[i], log_uniform[i], step_size, n_steps)
            return moves.transition(system, state, given)[0]

        return jax.lax.fori_loop(0, N_MOVES, body, state_at(system, position)).position

    noise = rng.standard_normal((len(rows), N_MOVES, 2))
    uniform = np.log(rng.random((len(rows), N_MOVES)))
    return np.asarray(jax.jit(lambda *args: jax.lax.map(one, args))(rows, noise, uniform))


def check_invariant(subject) -> None:
    """Fail unless exact draws keep their law."""
    name, moves, change = subject
    case, step_size, n_steps = CASES[name]
    system = change(plain_system(case.jax()))
    rng = make_rng("constrained invariance", name)
    old, fresh = case.draw(rng, N_ROWS), case.draw(rng, N_ROWS)
    new = move(case, system, moves, old, rng, step_size, n_steps)
    assert np.mean(np.abs(new - old)) > 0.1, "nothing moves"
    functions = {
        "first": lambda u: u[:, 0],
        "spread of first": lambda u: u[:, 0] ** 2,
        "second": lambda u: np.tanh(u[:, 1]),
        "spread of second": lambda u: np.tanh(u[:, 1]) ** 2,
        "square": lambda u: np.tanh((u**2).sum(axis=1)),
    }
    check_means({key: f(new) - f(old) for key, f in functions.items()})
    check_same_law({key: (f(new), f(fresh)) for key, f in functions.items()})


@pytest.mark.parametrize("name", CASES)
def test_exact_draws_keep_their_law(name):
    check_invariant((name, MOVES, lambda system: system))


@pytest.mark.parametrize(
    ("name", "moves", "change"),
    [
        ("parabola", MOVES, without_determinant),
        ("nearly singular, long steps", UnprojectedMomentum(), lambda system: system),
        ("two branches", Unchecked(), lambda system: system),
    ],
    ids=["no determinant", "momentum not projected", "no reversibility check"],
)
def test_broken_variants_are_found(name, moves, change):
    assert_detects(check_invariant, (name, moves, change))
