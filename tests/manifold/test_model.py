"""A constrained model travels as what was found, and does the same where it arrives."""

import cloudpickle
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_logz.manifold.generator_form import ExactObservation
from pymc_logz.manifold.missed_modes import find_start
from pymc_logz.manifold.model import MAX_TRANSITIONS, make_constrained_model
from pymc_logz.manifold.rattle import TransitionInput


@pytest.fixture(scope="module")
def constrained():
    """Ten outputs of two common inputs and one noise input each."""
    with pm.Model() as model:
        v, n = pm.Normal("v", shape=2), pm.Normal("n", shape=10)
        output = pt.exp(0.3 * v[0]) * np.arange(1.0, 11.0) + pt.sin(v[1]) + n
        ExactObservation("y", output, np.linspace(1.0, 11.0, 10))
    return make_constrained_model(model, compile_kwargs={"mode": "FAST_COMPILE"})


def moved(constrained, n):
    """Positions after some transitions from a start."""
    rng = np.random.default_rng(1)
    start = find_start(constrained, rng)
    given = [TransitionInput(rng.standard_normal(12), np.log(rng.random()), 0.3, 3)] * n
    _, records = constrained.transitions(constrained.state_at(start), given)
    return np.array([record.position for record in records])


def test_what_was_found_is_kept_and_what_was_compiled_is_not(constrained):
    """Would catch a compiled function in a pickle, or another search where that is opened."""
    moved(constrained, 1)
    assert constrained.structure is not None
    assert set(constrained.__getstate__()) == {
        *("model", "compile_kwargs", "moves", "distance", "scale", "structure", "tolerance")
    }
    other = cloudpickle.loads(cloudpickle.dumps(constrained))
    assert set(vars(other)) == set(other.__getstate__())
    np.testing.assert_array_equal(other.tolerance, constrained.tolerance)
    np.testing.assert_array_equal(other.scale, constrained.scale)
    np.testing.assert_array_equal(moved(other, 2), moved(constrained, 2))


def test_moves_have_the_tolerance_that_was_found(constrained):
    """Would catch moves that are compiled for the placeholder of the search."""
    np.testing.assert_array_equal(constrained.system.tolerance, constrained.tolerance)
    assert constrained.tolerance.max() < 1e-6
    start = find_start(constrained, np.random.default_rng(2))
    assert constrained.residual_at(start) <= 1.0
    off = start + 1e-6
    assert constrained.residual_at(off) > 1.0
    near, residual = constrained.polish(off)
    assert residual <= 1.0
    np.testing.assert_allclose(near, start, atol=1e-5)


def test_transitions_follow_each_other(constrained):
    """Would catch rows beyond those asked for, or records that are all of the last one."""
    positions = moved(constrained, MAX_TRANSITIONS)
    assert len(positions) == MAX_TRANSITIONS
    np.testing.assert_array_equal(moved(constrained, 3), positions[:3])
    assert len(np.unique(positions[:, 0])) > 3
