"""A run whose pilot, along the same path, found more is not ok."""

from types import SimpleNamespace

import numpy as np

from pymc_logz.estimators import LogZEstimate
from pymc_logz.hais.judging import pilot_disagrees
from pymc_logz.loop.frozen import Planned
from pymc_logz.pilot.ladder import settled
from pymc_logz.pilot.population import Stages
from pymc_logz.references.reference import Reference

ISLANDS = np.array([-0.1, 0.1, -0.05, 0.05])


def planned(stages: Stages | None) -> Planned:
    nothing = SimpleNamespace()
    return Planned(nothing, nothing, Reference("prior", "it was asked for"), stages)  # type: ignore[arg-type]


def stages(log_z: np.ndarray) -> Stages:
    """A pilot of five stages whose islands have these log Z."""
    ones = np.ones(5)
    return Stages(np.linspace(0, 1, 5), ones, ones[:, None], None, ones, log_z=log_z)


def estimate(log_z: float) -> LogZEstimate:
    return LogZEstimate("hais", log_z, 0.05, 900.0, 0.1, "ok")


def test_a_pilot_that_found_more_is_a_doubt() -> None:
    """Catches a run that is low although its own pilot knew."""
    [doubt] = pilot_disagrees(planned(stages(ISLANDS + 6.0)), estimate(0.0))
    assert doubt.status == "disagrees"
    assert "6 nats above" in doubt.reason


def test_a_pilot_that_found_less_is_none() -> None:
    """Catches an alarm because a pilot lost something: its Z is low as a rule."""
    assert pilot_disagrees(planned(stages(ISLANDS - 6.0)), estimate(0.0)) == []


def test_a_pilot_nearby_is_none() -> None:
    """Catches a false alarm: pilots are off by some tenths, and not all of them have a log Z."""
    near = stages(ISLANDS + 0.5)
    assert pilot_disagrees(planned(near), estimate(0.0)) == []
    assert pilot_disagrees(planned(None), estimate(0.0)) == []
    # of a fitted reference, whose path is another one
    assert pilot_disagrees(planned(settled(stages(ISLANDS + 6.0))), estimate(0.0)) == []
