"""A step method belongs to the model that it was made for: what happens once that has changed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytest
from support.step_chains import FAST, QUIET

import pymc_logz as lz
from pymc_logz.kernels import Hamiltonian

FIXED: dict[str, Any] = {"betas": 4, "kernel": Hamiltonian(step_size=0.5, scale=1.0)}


def sample(step: Any, draws: int = 5) -> Any:
    settings = {"draws": draws, "tune": 2, "chains": 1, "cores": 1, "random_seed": 3}
    return pm.sample(step=step, **settings | QUIET)


MADE = {
    "HAIS": lambda: lz.HAIS(batch_size=16, **FIXED),
    "SimulatedTempering": lambda: lz.SimulatedTempering(walkers=4, pilot_tune=8, **FIXED),
}
CHANGES: dict[str, Callable[[Any], None]] = {
    "y": lambda _: pm.set_data({"y": np.full(6, 3.0)}),
    "width": lambda width: width.set_value(6.0),
    "more": lambda _: pm.Potential("more", pm.math.exp(0.5)),
}


@pytest.mark.filterwarnings("ignore:the model has potentials")
@pytest.mark.parametrize("kind", MADE)
def test_a_step_method_of_the_model_before_is_refused(kind: str) -> None:
    """Catches draws of the old data, whose log Z was that of these, with status ok."""
    width = pytensor.shared(2.0, name="width")
    with pm.Model():
        b = pm.Normal("b", 0, width)
        pm.Normal("seen", b, 1, observed=pm.Data("y", np.zeros(5)))
        step = MADE[kind]()
        first, again = sample(step), sample(step)
        np.testing.assert_array_equal(first["posterior"]["b"], again["posterior"]["b"])
        for name, change in CHANGES.items():
            change(width)
            message = rf"\['{name}'\] changed since this {kind} was made"
            with pytest.raises(ValueError, match=message):
                sample(step)
            step = MADE[kind]()
            sample(step)


def test_a_step_method_on_a_level_set_is_refused_too() -> None:
    """Catches draws on the set of the old observation."""
    with pm.Model():
        v, n = pm.Normal("v"), pm.Normal("n")
        lz.ExactObservation("y", v + 0.5 * n, observed=pm.Data("seen", 1.0))
        step = lz.ConstrainedHMC()
        sample(step)
        pm.set_data({"seen": 2.0})
        with pytest.raises(ValueError, match=r"\['seen'\] changed since this ConstrainedHMC"):
            sample(step)


def test_a_step_method_that_reads_data_anew_goes_on() -> None:
    """Catches a refusal of what was right: the density of this one has the data as inputs."""
    with pm.Model():
        b = pm.Normal("b", 0, 2)
        pm.Normal("seen", b, 0.1, observed=pm.Data("y", np.zeros(5)))
        step = lz.PartialMomentumHMC(compile_kwargs=FAST)
        sample(step)
        pm.set_data({"y": np.full(5, 3.0)})
        tree = pm.sample(200, tune=200, chains=1, cores=1, step=step, random_seed=3, **QUIET)
    assert float(tree["posterior"]["b"].mean()) == pytest.approx(3.0, abs=0.1)
