"""Repetitions of a bridge: whoever makes them, and however often it is stopped, the same bits."""

from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from support import pymc_models as models
from support.checks import make_rng
from support.executors import Sends
from support.long_runs import differing, numbers_of

import pymc_logz as lz
from pymc_logz.energies import Energy, radiata_pine
from pymc_logz.posterior.repetitions import Repetition

pytestmark = [
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
    pytest.mark.usefixtures("no_look_in_this_file"),
]


@pytest.fixture(scope="module")
def energy() -> Energy:
    return radiata_pine("density")


@pytest.fixture(scope="module")
def draws(energy: Energy) -> xr.DataTree:
    return models.exact_draws(energy, make_rng("bridge draws", "repetitions"), 500, 4)


def bridged(idata: xr.DataTree, energy: Energy, **options: Any) -> xr.DataTree:
    """A bridge of few proposals, repeated four times."""
    given = {"repetitions": 4, "draws": 100, "random_seed": 3, "progressbar": False, **options}
    return lz.bridge_sampling(idata, energy.model, **given)


@pytest.fixture(scope="module")
def alone(draws: xr.DataTree, energy: Energy) -> xr.DataTree:
    """Made in this process, one after the other."""
    return bridged(draws, energy)


def test_log_z_is_that_of_all_draws_together(
    draws: xr.DataTree, energy: Energy, alone: xr.DataTree
) -> None:
    """Would catch repetitions that are copies, or an error that does not know of them."""
    models.assert_log_z(alone, energy.log_z, within=0.03)
    found = alone["evidence"]
    each = found["repetition_log_z"].to_numpy()
    assert each.shape == (4,)
    assert len(np.unique(each)) == 4
    assert np.abs(each - energy.log_z).max() < 5 * found["repetition_mcse"].max()
    assert float(found["mcse"][0]) < found["repetition_mcse"].min()
    once = bridged(draws, energy, repetitions=1)
    assert "repetition" not in once["evidence"].dims
    assert float(once["evidence"]["log_z"][0]) == each[0], "the first one is as if it were alone"
    at_once = bridged(draws, energy, repetitions=1, draws=400)
    error = float(at_once["evidence"]["mcse"][0])
    assert float(found["mcse"][0]) == pytest.approx(error, rel=0.2)
    assert found.attrs["row_evaluations"] > once["evidence"].attrs["row_evaluations"]


@pytest.mark.parametrize("executor", [ThreadPoolExecutor(2), Sends(lost=(2,))])
def test_anyone_may_make_them(
    executor: Executor, draws: xr.DataTree, energy: Energy, alone: xr.DataTree
) -> None:
    """Would catch a repetition that depends on who makes it, and counts that get lost."""
    with executor:
        found = bridged(draws, energy, executor=executor)
    assert differing(numbers_of(found), numbers_of(alone)) == []
    for name in ("row_evaluations", "n_nan"):
        assert found["evidence"].attrs[name] == alone["evidence"].attrs[name]


@pytest.fixture
def stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C is pressed in the third repetition of a call."""
    advance, calls = Repetition.advance, iter(range(100))

    def advanced(one: Repetition, *args: Any) -> Any:
        if next(calls) == 2:
            raise KeyboardInterrupt
        return advance(one, *args)

    monkeypatch.setattr(Repetition, "advance", advanced)


@pytest.mark.usefixtures("stops")
def test_an_interrupt_keeps_those_that_were_made(draws: xr.DataTree, energy: Energy) -> None:
    """Would catch hours of repetitions that a Ctrl-C throws away."""
    with pytest.warns(lz.EvidenceWarning, match="2 of 4 repetitions are finished"):
        found = bridged(draws, energy)
    assert found["evidence"].sizes["repetition"] == 2
    models.assert_log_z(found, energy.log_z, within=0.04)


@pytest.mark.usefixtures("stops")
def test_a_bridge_that_was_stopped_ends_with_the_same_bits(
    draws: xr.DataTree, energy: Energy, alone: xr.DataTree, tmp_path: Path
) -> None:
    """Would catch repetitions that are made twice, or draws of another posterior."""
    path = tmp_path / "bridge.ckpt"
    with pytest.warns(lz.EvidenceWarning, match="[23] of 4 repetitions are finished"):
        bridged(draws, energy, checkpoint=path)
    kept = lz.resume(path)
    assert (kept.method, kept.is_finished) == ("bridge_sampling", False)
    assert 2 <= len(kept.chains) <= 3
    found = bridged(draws, energy, checkpoint=path)
    assert differing(numbers_of(found), numbers_of(alone)) == []
    assert lz.resume(path).is_finished
    more = bridged(draws, energy, checkpoint=path, repetitions=5)
    five = bridged(draws, energy, repetitions=5)
    assert differing(numbers_of(more), numbers_of(five)) == []
    other = models.exact_draws(energy, make_rng("bridge draws", "other"), 500, 4)
    for changed, message in (
        ({"idata": other}, "posterior_draws"),
        ({"draws": 301}, "'draws': 100 there, 301 here"),
        ({"method": "normal"}, "'bridge_method': 'warp3' there, 'normal' here"),
        ({"random_seed": 4}, "random_seed"),
    ):
        idata = changed.pop("idata", draws)
        with pytest.raises(lz.CheckpointError, match=message):
            bridged(idata, energy, checkpoint=path, **changed)


def test_arguments_are_checked(draws: xr.DataTree, energy: Energy) -> None:
    """Would catch an argument that is found wrong only after minutes, or ignored."""
    with pytest.raises(TypeError, match=r"executor is of type int; give a concurrent\.futures"):
        bridged(draws, energy, executor=2)
    with pytest.raises(ValueError, match="repetitions=0 must be an integer of at least 1"):
        bridged(draws, energy, repetitions=0)
    with pytest.raises(TypeError, match="checkpoint=3 must be a path"):
        bridged(draws, energy, checkpoint=3)
    import pymc as pm

    with pm.Model() as simulator:
        v, n = pm.Normal("v"), pm.Normal("n")
        lz.ExactObservation("y", v + n, observed=1.0)
    for options, name in (
        ({"executor": ThreadPoolExecutor(1)}, "executor does not apply"),
        ({"repetitions": 2}, "repetitions=2 does not apply"),
    ):
        with pytest.raises(ValueError, match=name):
            lz.bridge_sampling(draws, simulator, **options)
