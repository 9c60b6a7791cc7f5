"""Chains of PyMC step methods, and what is asked of all of them."""

from dataclasses import fields
from functools import cache

import cloudpickle
import numpy as np
import pymc as pm
import xarray as xr
from pymc.model.transform.optimization import freeze_model
from pymc.step_methods.state import equal_dataclass_values

FAST = {"mode": "FAST_COMPILE"}
QUIET = {
    "progressbar": False,
    "quiet": True,
    "compute_convergence_checks": False,
    "compile_kwargs": FAST,
}
N_BATCHES = 100


@cache
def skewed_model() -> pm.Model:
    """Skewed rate s beside a vector b on another scale, declared in the order b, s.

    Frozen models compile once for all steps on them.
    """
    with pm.Model() as model:
        b = pm.Normal("b", np.array([3.0, -40.0]), np.array([0.1, 20.0]))
        s = pm.Gamma("s", 0.5, 0.2)
        pm.Poisson("y", s, observed=np.array([0, 1, 0, 2, 0]))
        pm.Normal("z", b[0], 0.1, observed=3.2)
    return freeze_model(model)


def walk(step, model: pm.Model, draws: int, tune: int = 0, seed: int = 1) -> dict[str, np.ndarray]:
    """Draws of value variables, as pm.sample makes them in one chain."""
    step.setup_chain(np.random.default_rng(seed), tune, draws)
    point, points = model.initial_point(0), []
    for i in range(tune + draws):
        if i == tune:
            step.stop_tuning()
        point, _ = step.step(point)
        points.append(point)
    return {name: np.array([p[name] for p in points[tune:]]) for name in point}


def batch_means(values: np.ndarray) -> np.ndarray:
    """Means of long stretches of a chain, which are all but independent."""
    return values.reshape(N_BATCHES, -1, *values.shape[1:]).mean(axis=1)


def same(left: xr.DataTree, right: xr.DataTree) -> bool:
    """Whether two trees hold the same draws and statistics, bit by bit."""
    return all(
        left[group].to_dataset().equals(right[group].to_dataset())
        for group in ("posterior", "sample_stats")
    )


def continue_from(step, point, n: int) -> list[dict]:
    points = []
    for _ in range(n):
        point, _ = step.step(point)
        points.append(point)
    return points


def assert_state_round_trip(step, other, model: pm.Model, tune: int = 100) -> None:
    """Fail unless a chain goes on the same, in another instance, from its state alone."""
    step.setup_chain(np.random.default_rng(1), tune, 100)
    point = continue_from(step, model.initial_point(0), 70)[-1]
    state = cloudpickle.loads(cloudpickle.dumps(step.sampling_state))
    expected = continue_from(step, point, 40)
    for restored in (step, other):
        restored.sampling_state = state
        assert all(
            equal_dataclass_values(getattr(restored.sampling_state, f.name), getattr(state, f.name))
            for f in fields(state)
        )
        for ours, theirs in zip(continue_from(restored, point, 40), expected, strict=True):
            for name, value in ours.items():
                np.testing.assert_array_equal(value, theirs[name])
