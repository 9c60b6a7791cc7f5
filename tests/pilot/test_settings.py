"""Settings as asked for: what nothing reads is refused, what is not given has its default."""

import json
from functools import partial
from typing import Any

import numpy as np
import pytest
from support import pymc_models as models

import pymc_logz as lz
from pymc_logz.hais.settings import HaisSettings
from pymc_logz.kernels import Hamiltonian, RandomWalk, Slice
from pymc_logz.tempered.settings import TemperedSettings

FIXED = Hamiltonian(step_size=0.2, scale=1.0)
SHORT_STEPS = Hamiltonian(step_size=0.2)


def made(step: Any, **kwargs: Any) -> None:
    with models.normal_normal():
        step(**kwargs)


ENTRIES = {
    "sample_hais": partial(lz.sample_hais, progressbar=False),
    "sample_tempered": partial(lz.sample_tempered, progressbar=False),
    "sandwich": partial(lz.sandwich, progressbar=False),
    "marginal_log_likelihood": partial(lz.marginal_log_likelihood, None, {"x": [1.0]}),
    "LogZTracker": lz.LogZTracker,
    "HAIS": lz.HAIS,
    "SimulatedTempering": lz.SimulatedTempering,
    "PartialMomentumHMC": lz.PartialMomentumHMC,
}
ALL_WITH_A_PILOT = [name for name in ENTRIES if name != "PartialMomentumHMC"]


@pytest.mark.parametrize("entry", ALL_WITH_A_PILOT)
@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (SHORT_STEPS, "Hamiltonian has a step size of its own, 0.2, .*leave target_accept out"),
        ("slice", "Slice has a step size of its own, 4.0"),
        ("random_walk", "RandomWalk is tuned for its own acceptance rate, 0.3; leave"),
    ],
    ids=["step size", "slice", "random walk"],
)
def test_target_accept_that_the_kernel_ignores(entry: str, kernel: Any, message: str) -> None:
    """Catches an entry point at which an aim is taken, and nothing is tuned to it."""
    with pytest.raises(ValueError, match=f"target_accept=0.9 has no effect: {message}"):
        made(ENTRIES[entry], kernel=kernel, target_accept=0.9)


@pytest.mark.parametrize(
    ("entry", "kwargs", "message"),
    [
        (
            "sample_tempered",
            {"exchange": "swap", "update": "rts"},
            "update='rts' has no effect: .*'gibbs'",
        ),
        ("PartialMomentumHMC", {"step_size": 0.1, "target_accept": 0.9}, "target_accept=0.9 .*0.1"),
        ("PartialMomentumHMC", {"refreshment": 0.1, "half_life": 2.0}, "half_life=2.0 .*0.1"),
    ],
)
def test_arguments_that_others_leave_unread(
    entry: str, kwargs: dict[str, Any], message: str
) -> None:
    """Catches an argument that changes nothing beside the others, and says nothing of it."""
    with pytest.raises(ValueError, match=message):
        made(ENTRIES[entry], **kwargs)


@pytest.mark.parametrize(
    ("kind", "kwargs"),
    [
        (HaisSettings, {"kernel": Slice()}),
        (HaisSettings, {"kernel": RandomWalk(), "target_accept": 0.3}),
        (HaisSettings, {"kernel": FIXED, "betas": 8, "tune": 9}),
        (TemperedSettings, {"kernel": FIXED, "betas": [0, 1], "tune": 9}),
        (TemperedSettings, {"exchange": "swap", "update": None}),
    ],
    ids=str,
)
def test_what_is_read_may_be_given(kind: Any, kwargs: dict[str, Any]) -> None:
    """Catches a refusal of what does have an effect, or of what agrees with what is done."""
    asked = kind.from_arguments(**{"target_accept": None, **kwargs})
    expected = {"tune": 64, "target_accept": 0.8}
    expected |= {name: value for name, value in kwargs.items() if value is not None}
    assert {name: getattr(asked, name) for name in expected} == expected


def test_record_holds_what_was_resolved() -> None:
    """Catches None in a result, where the value is what a reader needs."""
    record = HaisSettings.from_arguments(target_accept=None).record()
    assert (record["tune"], record["target_accept"]) == (64, 0.8)
    assert TemperedSettings.from_arguments(update=None).record()["update"] == "rts"


def test_record_holds_numbers_as_numbers() -> None:
    """Catches NumPy's numbers, which a file would keep as text."""
    numbers = {"draws": np.int64(64), "chains": np.int64(1), "betas": np.int64(50)}
    record = HaisSettings(**numbers, tune=np.int64(16)).record()
    assert json.loads(json.dumps(record))["betas"] == 50
    assert record["draws"] == 64
    assert HaisSettings(betas=np.array([0.0, 1.0])).record()["betas"] == "array"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Hamiltonian(step_size=[0.1, 0.2]), "step_size=.*one positive number"),
        (lambda: RandomWalk(step_size=(0.1, 0.2)), "step_size=.*one positive number"),
        (lambda: Slice(width=[1.0, 2.0]), "width=.*one positive number"),
        (lambda: HaisSettings(target_mcse=[0.1, 0.2]), "target_mcse=.*one positive number"),
        (lambda: HaisSettings(kernel=Hamiltonian(scale=[1, 2])).kernel_for(3), "scale has 2 ent"),
    ],
)
def test_several_numbers_where_one_is_meant(make: Any, message: str) -> None:
    """Catches a list that ends in an error of broadcasting, after seconds of compiling."""
    with pytest.raises(ValueError, match=message):
        make()
