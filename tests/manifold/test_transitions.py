"""Records of transitions come back from rows of numbers as they went in."""

import numpy as np
import pytest

from pymc_logz.manifold.rattle import TransitionInfo, TransitionInput, TransitionRecord

# numbers that single precision holds too, which is what JAX may begin with
GIVEN = TransitionInput(np.array([0.5, -0.25, 2.0]), -1.5, 0.25, 7)
INFO = TransitionInfo(
    acceptance_rate=0.875,
    accepted=True,
    energy=3.5,
    energy_error=np.inf,
    residual=0.25,
    status=2,
    n_steps=7,
    n_iterations=31,
    n_newton=0,
)


@pytest.fixture(params=["numpy", "jax"])
def xp(request):
    """An array library."""
    return np if request.param == "numpy" else pytest.importorskip("jax.numpy")


def test_input_survives_a_row(xp):
    """Would catch numbers that change places: a step size for a number of steps."""
    again = TransitionInput.unpacked(xp.asarray(GIVEN.packed()))
    np.testing.assert_array_equal(again.noise, GIVEN.noise)
    assert tuple(map(float, again[1:])) == GIVEN[1:]


def test_record_survives_a_row(xp):
    """Would catch a field of the record that is read off another's place."""
    record = TransitionRecord(xp.asarray([1.0, 2.0]), xp.asarray(-4.5), INFO)
    again = TransitionRecord.unpacked(np.asarray(record.packed(xp)))
    np.testing.assert_array_equal(again.position, [1.0, 2.0])
    assert again.log_density == -4.5
    assert again.info == INFO
