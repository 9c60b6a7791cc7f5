"""Structured Jacobians give what dense ones give; recurrent outputs lose their loop."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.replace import clone_replace
from support.checks import make_rng

from pymc_logz.errors import ModelError
from pymc_logz.manifold.algebra import find_structure, is_analytic, needs_loop
from pymc_logz.manifold.backends import JaxBackend, PytensorBackend, SymbolicSystem
from pymc_logz.manifold.generator import make_generator, without_recurrence
from pymc_logz.manifold.generator_form import ExactObservation
from pymc_logz.manifold.missed_modes import find_start
from pymc_logz.manifold.model import make_constrained_model

N_STEPS = 12
FAST = {"mode": "FAST_COMPILE"}
TRUE_NOISE = make_rng("recurrent").standard_normal((N_STEPS, 2))


def elementwise() -> SymbolicSystem:
    """Ten outputs of two common inputs and two noise inputs each, one noise input missing."""
    u = pt.tensor("u", dtype="float64", shape=(21,))
    v, n = u[:2], u[2:12]
    more = pt.concatenate([u[12:], np.zeros(1)])
    outputs = pt.exp(0.3 * v[0]) * np.arange(1.0, 11.0) + pt.sin(v[1]) + n + 0.1 * n**2
    outputs = outputs + 0.5 * more * v[1]
    return SymbolicSystem(u, outputs - np.linspace(0.0, 5.0, 10), -0.5 * (u**2).sum())


@pytest.fixture(scope="module", params=["jax", "numpy"])
def both(request):
    """The dense and the structured system, on each backend, and the structure."""
    symbolic = elementwise()
    if request.param == "jax":
        backend = JaxBackend(symbolic, "test")
    else:
        backend = PytensorBackend(symbolic, "test", "FAST_COMPILE", {})
    scale, tolerance = np.linspace(0.5, 2.0, 21), np.full(10, 1e-10)
    dense = backend.system(scale, tolerance, None)
    jacobian = backend.compile(dense.jacobian)
    rng = make_rng("structure")
    jacobians = np.stack([np.asarray(jacobian(rng.standard_normal(21))) for _ in range(3)])
    analytic = is_analytic([symbolic.point], [symbolic.residual])
    structure = find_structure(jacobians, (), [""] * 10, analytic=analytic)
    return backend, dense, backend.system(scale, tolerance, structure), structure


def test_structure_is_found(both):
    *_, structure = both
    np.testing.assert_array_equal(structure.common, [0, 1])
    np.testing.assert_array_equal(structure.local[:, 0], np.arange(2, 12))
    np.testing.assert_array_equal(structure.local[:, 1], [*range(12, 21), -1])


def test_structured_equals_dense(both):
    # catches a wrong place of an input, a factor of the inversion or the determinant lemma
    backend, dense, structured, _ = both
    rng = make_rng("dense and structured")
    there, here = rng.standard_normal((2, 21))
    of_inputs, of_outputs = rng.standard_normal(21), rng.standard_normal(10)
    results = []
    for system in (dense, structured):
        algebra = system.algebra

        def values(here, there, system=system, algebra=algebra):
            linear, log_density, gradient = system.evaluate(here)
            base = system.jacobian(there)
            raised = algebra.factorise(linear.jacobian, np.linspace(0.1, 1.0, 10))
            return (
                log_density,
                gradient,
                algebra.multiplied(linear, of_inputs),
                algebra.transposed(linear, of_outputs),
                algebra.solved(linear, of_outputs),
                algebra.solved(raised, of_outputs),
                algebra.cross_solve(linear.jacobian, base, of_outputs),
                algebra.cross_log_det(linear.jacobian, base),
                algebra.half_log_det(linear),
                algebra.row_norms(linear.jacobian),
            )

        results.append(backend.compile(values)(here, there))
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10)


def test_zeros_are_trusted_only_where_functions_are_analytic():
    u = pt.tensor("u", dtype="float64", shape=(12,))
    switched = u[:10] + pt.switch(pt.gt(u[10], 5.0), u[0], 0.0) + u[11]
    assert is_analytic([u], [pt.exp(u[:10]) * u[10] + pt.sigmoid(u[11])])
    assert not is_analytic([u], [switched])
    assert not is_analytic([u], [pt.maximum(u, 0.0)])
    assert not is_analytic([u], [u[u.sum().astype(int)]])
    jacobians = np.broadcast_to(np.eye(10, 12), (2, 10, 12)).copy()
    jacobians[:, :, 11] = 1.0
    labels = [f"y[{i}]" for i in range(10)]
    assert find_structure(jacobians, (), labels, analytic=False) is None
    assert find_structure(jacobians, (), labels, analytic=True) is not None
    # input 10 was not seen to reach anything, which proves nothing
    declared = find_structure(jacobians, tuple(range(11)), labels, analytic=False)
    np.testing.assert_array_equal(declared.common, [10, 11])
    with pytest.raises(ModelError, match="declared noise reaches 10 entries"):
        find_structure(jacobians, (11,), labels, analytic=False)


def test_structure_is_left_alone_where_it_does_not_help():
    dense = np.ones((2, 10, 12))
    assert find_structure(dense, (), [""] * 10, analytic=True) is None
    # the last constraint has no input of its own
    some = np.zeros((2, 10, 12))
    some[:, :, 11] = 1.0
    some[:, np.arange(9), np.arange(9)] = 1.0
    assert find_structure(some, (), [""] * 10, analytic=True) is None


@pytest.mark.parametrize(("size", "helps"), [(0.1, True), (1e-6, False)])
def test_noise_that_is_lost_beside_many_common_inputs_gives_no_structure(size, helps):
    """Would catch a diagonal that rounding swallows, where the dense form is well conditioned."""
    rng = np.random.default_rng(1)
    jacobians = np.concatenate(
        [rng.normal(size=(3, 10, 8)), np.tile(size * np.eye(10), (3, 1, 1))], 2
    )
    structure = find_structure(jacobians, (), [""] * 10, analytic=True)
    assert (structure is not None) == helps
    # few common inputs have no full rank, so the dense form is no better
    few = np.delete(jacobians, range(5), axis=2)
    assert find_structure(few, (), [""] * 10, analytic=True) is not None


def walk(n, first, second, rate):
    """One step of two coupled states."""
    return first + 0.1 * pt.tanh(second) * rate + n[0], second * rate + 0.2 * first + 0.5 * n[1]


def recurrent(observe_second: bool = True, fraction: slice = slice(None)) -> pm.Model:
    """Simulator with a loop over its steps, observed at what it gives for known inputs."""
    values, state = [], (np.float64(0.3), np.float64(-0.5))
    for n in TRUE_NOISE:
        state = (
            state[0] + 0.1 * np.tanh(state[1]) * 0.8 + n[0],
            state[1] * 0.8 + 0.2 * state[0] + 0.5 * n[1],
        )
        values.append(state)
    first, second = np.array(values).T
    with pm.Model() as model:
        rate = pm.Normal("rate", 0.8, 0.3)
        n = pm.Normal("n", shape=(N_STEPS, 2))
        a, b = pytensor.scan(
            walk,
            sequences=[n],
            outputs_info=[pt.constant(np.float64(0.3)), pt.constant(np.float64(-0.5))],
            non_sequences=[rate],
            return_updates=False,
        )
        ExactObservation("a", a[fraction], first[fraction])
        if observe_second:
            ExactObservation("b", b, second)
    return model


def test_loop_goes_where_all_states_are_observed():
    """The zero set is the same, and so is the determinant there."""
    model = recurrent()
    generator = make_generator(model)
    residuals = generator.residual, _with_loop(model, generator.flat.point)
    assert [needs_loop([residual]) for residual in residuals] == [False, True]
    point = np.concatenate([[0.8], TRUE_NOISE.ravel()])
    log_dets, off = [], []
    for residual in residuals:
        jacobian = pytensor.gradient.jacobian(residual, generator.flat.point, vectorize=False)
        inputs = [generator.flat.point]
        function = pytensor.function(inputs, [residual, jacobian], mode="FAST_COMPILE")
        value, matrix = function(point)
        np.testing.assert_allclose(value, 0.0, atol=1e-12)
        log_dets.append(np.linalg.slogdet(matrix @ matrix.T)[1])
        off.append(function(point + 0.1)[0])
    assert log_dets[0] == pytest.approx(log_dets[1], abs=1e-9)
    # off the set they are different functions
    assert np.abs(off[0] - off[1]).max() > 0.01


def _with_loop(model, point):
    """Residual of the loop itself, as a function of the flat inputs."""
    outputs = model.replace_rvs_by_values([term.owner.inputs[0] for term in model.potentials])
    values = [term.owner.inputs[1] for term in model.potentials]
    parts = [point[0], point[1:].reshape((N_STEPS, 2))]
    looped = clone_replace(
        outputs, dict(zip(model.value_vars, parts, strict=True)), rebuild_strict=False
    )
    return pt.concatenate([out - value for out, value in zip(looped, values, strict=True)])


def test_loop_stays_where_states_are_missing():
    for model in (recurrent(observe_second=False), recurrent(fraction=slice(1, None))):
        rewritten = without_recurrence(model.potentials)
        assert rewritten[0] is model.potentials[0].owner.inputs[0]


def test_recurrent_model_is_structured_and_declared_noise_is_used():
    model = make_constrained_model(recurrent(), compile_kwargs=FAST)
    assert model.structure is not None
    np.testing.assert_array_equal(model.structure.common, [0])
    with pm.Model() as declared:
        n = pm.Normal("n", shape=3)
        level = pm.Normal("level")
        ExactObservation("y", pt.maximum(level, -9.0) + n, [1.0, 2.0, 3.0], noise=n)
    model = make_constrained_model(declared, compile_kwargs=FAST)
    np.testing.assert_array_equal(model.structure.common, [3])
    plain = make_constrained_model(declared, use_structure=False, compile_kwargs=FAST)
    assert plain.structure is None


def test_structure_that_does_not_hold_where_it_matters_is_refused():
    """A noise input that reaches a second output only where the data are, far from the prior."""
    with pm.Model() as model:
        level, n = pm.Normal("level", 0.0, 0.01), pm.Normal("n", shape=3)
        outputs = level + n
        far = pt.switch(pt.gt(n[0], 20.0), n[0], 0.0)
        ExactObservation("y", pt.inc_subtensor(outputs[2], far), [30.0, 0.0, 35.0], noise=n)
    constrained = make_constrained_model(model, compile_kwargs=FAST)
    with pytest.raises(ModelError, match="use_structure=False"):
        find_start(constrained, np.random.default_rng(1))
