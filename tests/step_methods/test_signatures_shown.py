"""What editors and the API pages show of step methods."""

import inspect

import pytest

import pymc_logz as lz

STEPS = ["HAIS", "SimulatedTempering", "ConstrainedHMC", "PartialMomentumHMC"]


@pytest.mark.parametrize("name", STEPS)
def test_arguments_are_written_out(name: str) -> None:
    """Would catch ``(*args, **kwargs)``, which is all that PyMC's ``__new__`` says."""
    step = getattr(lz, name)
    shown = inspect.signature(step).parameters
    own = dict(inspect.signature(step.__init__).parameters)
    own.pop("self")
    assert dict(shown) == own
    assert {"vars", "model"} <= set(shown)
