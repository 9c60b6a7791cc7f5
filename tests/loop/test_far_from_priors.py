"""Black boxes that cope with draws of the prior, and with nothing far beyond them."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from support.checks import make_rng
from support.counted_ops import Counted

import pymc_logz as lz
from pymc_logz.kernels.walks import RandomWalk
from pymc_logz.loop.planning import block_for
from pymc_logz.models.preparation import prepare
from pymc_logz.pilot.ladder import Aim, choose_plan
from pymc_logz.pilot.population import Stages
from pymc_logz.pilot.settings import RunSettings

pytestmark = pytest.mark.filterwarnings("ignore:the model has potentials")
FAR = 25.0
"""In standard deviations of the prior; its draws end at 5, and moves between them at 13."""
FAST = {"random_seed": 1, "progressbar": False}


def checked(a: float, b: float) -> None:
    """What a solver does that has a range."""
    if max(abs(a), abs(b)) > FAR:
        raise ArithmeticError(f"out of range: {a:.3g}, {b:.3g}")


class Sum(Counted):
    """A sum that is measured, within a range."""

    truth: ClassVar = -0.5 * (np.log(201) + 1.3**2 / 2.01)

    def value(self, a: float, b: float) -> float:
        checked(a, b)
        return -50.0 * (1.3 - a - b) ** 2


class Slope(Counted):
    """Gradient of the next one."""

    otypes: ClassVar = [pt.TensorType("float64", shape=(2,))]

    def value(self, a: float, b: float) -> Any:
        checked(a, b)
        return [1 / (1 + np.exp(a + b))] * 2


class Rising(Counted):
    """A likelihood, with a gradient, that rises without an end, within a range."""

    truth: ClassVar = np.log(0.5)

    def value(self, a: float, b: float) -> float:
        checked(a, b)
        return -np.log1p(np.exp(-a - b))

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> Any:
        return [cotangents[0] * Slope()(*inputs)]


def model_of(box: Counted) -> pm.Model:
    """Two standard normal parameters of a black box."""
    with pm.Model() as model:
        pm.Potential("likelihood", box(pm.Normal("t", 0, 1, shape=2)))
    return model


def tempered(model: pm.Model, **kwargs: Any) -> Any:
    return lz.sample_tempered(model=model, draws=20, tune=20, chains=2, **kwargs)


def annealed(model: pm.Model, **kwargs: Any) -> Any:
    return lz.sample_hais(model=model, draws=32, chains=2, **kwargs)


@pytest.mark.parametrize(("box", "call"), [(Sum, lz.evidence), (Sum, tempered), (Rising, annealed)])
def test_no_call_is_far_from_the_prior(box: type[Any], call: Callable[..., Any]) -> None:
    """Catches lines and rows to 2,000 and 1e16 standard deviations, where a solver fails."""
    found = call(model_of(box()), **FAST)["evidence"]
    assert abs(found["log_z"].values[0] - box.truth) < 5 * found["mcse"].values[0]


def stuck_along(n_stages: int) -> Stages:
    """Stages whose moves lead nowhere."""
    n = n_stages + 1
    scale, correlation = np.full((n, 2), 1e-6), np.tile(np.eye(2), (n, 1, 1))
    return Stages(np.linspace(0, 1, n), np.ones(n), scale, correlation, np.ones(n))


@pytest.mark.parametrize("n_stages", [4, 100])
def test_a_ladder_of_a_black_box_has_an_end(n_stages: int) -> None:
    """Catches 10 million calls of a solver, and more, where no ladder is long enough."""
    rng, n, most = make_rng("no-end"), 4, 1024
    prepared = prepare(model_of(Sum()), rng)
    block = block_for(prepared, RunSettings(kernel=RandomWalk()), None, n)
    before, aim = block.work.done, Aim(1e-9, 1e-9, n_rows=most)
    stages = stuck_along(n_stages)
    plan, _ = choose_plan(block, stages, lambda: prepared.prior(rng, n), rng, aim)
    assert plan.n_temperatures == most
    assert block.work.done - before <= n * 2 * most
