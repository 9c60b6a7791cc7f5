"""What PyMC expects of any step method, of both of ours."""

from io import StringIO
from typing import Any

import numpy as np
import pymc as pm
import pytest
from pymc.step_methods import BlockedStep
from pytensor.compile.maker import FunctionMaker
from rich.console import Console
from rich.progress import Progress
from support.step_chains import FAST, QUIET, same, skewed_model

from pymc_logz.kernels import Hamiltonian
from pymc_logz.step_methods import HAIS, PartialMomentumHMC, SimulatedTempering

FIXED = Hamiltonian(step_size=0.5, scale=1.0)
"""Settings that need no pilot: these tests are about PyMC, not about the posterior."""


def make_hais() -> BlockedStep:
    return HAIS(betas=4, kernel=FIXED, batch_size=16)


def make_partial() -> BlockedStep:
    return PartialMomentumHMC(compile_kwargs=FAST)


@pytest.fixture(scope="module", params=[make_hais, make_partial], ids=["hais", "partial"])
def step(request: pytest.FixtureRequest) -> BlockedStep:
    """One of the step methods on `skewed_model`, whose variables are b (a vector) and s."""
    with skewed_model():
        return request.param()


def sample(step: BlockedStep, **kwargs: Any) -> Any:
    settings = {"draws": 7, "tune": 5, "chains": 2, "cores": 1, "random_seed": 3, "step": step}
    with skewed_model():
        return pm.sample(**settings | QUIET | kwargs)


def test_step_returns_a_new_point_and_what_it_declared(step: BlockedStep) -> None:
    """Would catch a point in another order, one moved in place, and a statistic that reads 0.

    PyMC records values by their position in the point, and leaves 0 where a declared statistic is
    not given.
    """
    point = skewed_model().initial_point(0)
    step.setup_chain(np.random.default_rng(1), 2, 3)
    for i in range(5):
        if i == 2:
            step.stop_tuning()
        before = {name: value.copy() for name, value in point.items()}
        new, given = step.step(point)
        assert list(new) == list(point)
        for name, value in point.items():
            np.testing.assert_array_equal(value, before[name])
            assert isinstance(new[name], np.ndarray)
            assert (new[name].dtype, new[name].shape) == (value.dtype, value.shape)
        [statistics] = given
        assert statistics.keys() == step.stats_dtypes_shapes.keys()
        for name, (dtype, _) in step.stats_dtypes_shapes.items():
            assert np.can_cast(np.asarray(statistics[name]).dtype, dtype, "same_kind"), name
        assert statistics["tune"] == (i < 2)
        point = new


def test_callback_sees_each_draw_of_each_chain(step: BlockedStep) -> None:
    """Would catch a tuning flag that is not reset for the second chain."""
    seen = []
    tree = sample(
        step,
        callback=lambda trace, draw: seen.append((draw.chain, draw.tuning, draw.stats[0])),
        discard_tuned_samples=False,
    )
    assert [(chain, tuning) for chain, tuning, _ in seen] == [
        (chain, i < 5) for chain in (0, 1) for i in range(12)
    ]
    assert all(tuning == statistics["tune"] for _, tuning, statistics in seen)
    assert tree["warmup_posterior"].sizes["draw"] == 5
    assert tree["posterior"].sizes["draw"] == 7
    assert tree["posterior"].attrs["tuning_steps"] == 5


def test_draws_follow_from_the_seed_alone(step: BlockedStep) -> None:
    """Would catch noise that does not come from the generator of the chain."""
    first = sample(step)
    assert same(first, sample(step))
    other = sample(step, random_seed=4)
    for left, right in ((first, other), (first.isel(chain=0), first.isel(chain=1))):
        assert not np.array_equal(left["posterior"]["s"], right["posterior"]["s"])
    assert sample(step, tune=0, chains=1)["posterior"].sizes == {
        "chain": 1,
        "draw": 7,
        "b_dim_0": 2,
    }


def test_chains_share_what_is_compiled(step: BlockedStep, monkeypatch: pytest.MonkeyPatch) -> None:
    """Would catch a function made again for each chain: some seconds each."""
    made = []
    prepare = FunctionMaker.prepare_fgraph

    def counted(*args: Any, **kwargs: Any) -> Any:
        made.append(args)
        return prepare(*args, **kwargs)

    monkeypatch.setattr(FunctionMaker, "prepare_fgraph", staticmethod(counted))
    sample(step)
    made.clear()
    sample(step, chains=4)
    assert len(made) == 4  # PyMC makes one itself, to record the draws of a chain with


def test_progress_bar_has_columns_for_the_statistics(step: BlockedStep) -> None:
    """Would catch a column whose field no update gives, or that cannot be formatted."""
    columns, fields = step._progressbar_config(2)
    [update] = step._make_progressbar_update_functions()
    step.setup_chain(np.random.default_rng(1), 1, 1)
    _, [statistics] = step.step(skewed_model().initial_point(0))
    shown = update(statistics)
    assert shown.keys() == fields.keys() | {"failing"}
    assert all(len(values) == 2 for values in fields.values())
    text = StringIO()
    progress = Progress(*columns, console=Console(file=text, force_terminal=True, width=80))
    progress.add_task("", **shown)
    progress.refresh()
    assert len(columns) == len(fields)
    sample(step, progressbar=True, quiet=False)


@pytest.mark.parametrize("cls", [HAIS, PartialMomentumHMC])
def test_compile_kwargs_reach_the_compiler(cls: type[BlockedStep]) -> None:
    """Would catch a step method that compiles as it likes."""
    with skewed_model(), pytest.raises(Exception, match="no-such-mode"):
        cls(compile_kwargs={"mode": "no-such-mode"})


@pytest.mark.parametrize("cls", [HAIS, SimulatedTempering])
def test_another_step_method_for_the_same_variables(cls: type[BlockedStep]) -> None:
    """Catches PyMC's error about types of the statistic `accepted`, in place of the reason."""
    with pm.Model():
        pm.Normal("y", pm.Normal("x"), 1, observed=1.0)
        with pytest.raises(RuntimeError, match="another step method moved 'x'"):
            pm.sample(20, tune=5, chains=1, cores=1, step=[cls(), pm.Metropolis()], quiet=True)
