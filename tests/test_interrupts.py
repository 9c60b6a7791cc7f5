"""Ctrl-C before there is a result: a sentence says what was going on."""

import contextlib
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from arviz_base import dict_to_dataset

import pymc_logz as lz
from pymc_logz.errors import says_if_interrupted
from pymc_logz.models.density import draw_posterior
from pymc_logz.models.preparation import prepare

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
PYTHON = {"mode": "FAST_COMPILE"}


def model() -> pm.Model:
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1)
        pm.Normal("y", mu, 1, observed=0.7)
    return model


def annealed(**settings: Any) -> xr.DataTree:
    return lz.sample_hais(16, 1, model=model(), progressbar=False, random_seed=1, **settings)


def tempered() -> xr.DataTree:
    kernel = lz.kernels.Hamiltonian(step_size=0.5, scale=1.0)
    settings: dict[str, Any] = {"kernel": kernel, "betas": [0, 1], "compile_kwargs": PYTHON}
    return lz.sample_tempered(16, 1, model=model(), progressbar=False, random_seed=1, **settings)


def bridged() -> xr.DataTree:
    draws = np.random.default_rng(1).normal(0.35, np.sqrt(0.5), (2, 500))
    idata = xr.DataTree.from_dict({"posterior": dict_to_dataset({"mu": draws})})
    return lz.bridge_sampling(idata, model(), progressbar=False, random_seed=1)


def hmc() -> xr.DataTree:
    settings: dict[str, Any] = {"compile_kwargs": PYTHON, "random_seed": 1, "progressbar": False}
    return lz.sample_hmc(8, 16, model=model(), superchains=4, **settings)


STAGES: list[tuple[Callable[[], Any], str, str]] = [
    (annealed, "models.preparation.flatten_model", "the model was being prepared"),
    (lambda: annealed(reference="laplace"), "loop.widening.followed", "the pilot was choosing"),
    (annealed, "runners.moves_of_rows.compile_loop", "the model was being compiled"),
    (annealed, "loop.looking.run_pilot", "the pilot was choosing"),
    (tempered, "runners.temper.TemperBlock._compile", "the model was being compiled"),
    (tempered, "tempered.run.fixed_plan", "levels were being placed"),
    (tempered, "tempered.run.climb", "levels were being tuned"),
    (bridged, "posterior.bridging.bridge", "the bridge was being built"),
    (hmc, "hmc.posterior_rows", "chains were being made ready"),
]


@pytest.mark.parametrize(("call", "hooked", "doing"), STAGES, ids=[stage[1] for stage in STAGES])
def test_an_interrupt_says_what_was_going_on(
    call: Callable[[], Any], hooked: str, doing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches an interrupt without a word, one that a stage swallows, or the words of another."""

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"pymc_logz.{hooked}", interrupt)
    with pytest.raises(KeyboardInterrupt, match=f"interrupted while {doing}") as caught:
        call()
    assert "there is no result, and nothing of it is stored" in str(caught.value)
    assert caught.value.__suppress_context__, "the place that was interrupted is of no interest"


def test_an_interrupt_that_pm_sample_swallows_is_one_of_the_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Catches a call that goes on with the few draws that were made, or with a SystemError."""

    def interrupted(**_: Any) -> None:
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise SystemError("CPUDispatcher returned a result with an exception set")

    monkeypatch.setattr(pm, "sample", interrupted)
    prepared = prepare(model(), np.random.default_rng(1))
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        draw_posterior(prepared, np.random.default_rng(1))
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_of_the_way_back_keeps_forward_chains(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Catches a finished direction that is lost with the other one."""

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pymc_logz.hais.run.Chains.back", interrupt)
    with pytest.warns(lz.EvidenceWarning) as said:
        tree = annealed(direction="both", betas=8, compile_kwargs=PYTHON)
    assert sum("no reverse chain is finished" in str(one.message) for one in said) == 1
    assert tree["evidence"]["estimator"].values.tolist() == ["hais"]


def test_an_interrupt_that_leaves_nothing_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches thirty lines of traceback, and not a word, where all chains were dropped."""

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pymc_logz.hais.run.Chains.twice", interrupt)
    with pytest.raises(KeyboardInterrupt, match="interrupted before there was a result"):
        annealed()


@pytest.mark.parametrize("kept", [True, False])
def test_an_interrupt_of_the_checks_says_where_the_progress_is(
    kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches hours of a run that is kept, and of which nobody says so."""

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pymc_logz.hais.run.doubts_of_run", interrupt)
    path = tmp_path / "run.ckpt" if kept else None
    with pytest.raises(KeyboardInterrupt, match="interrupted before there was a result") as caught:
        annealed(betas=8, compile_kwargs=PYTHON, checkpoint=path)
    assert (f"The progress is in {str(path)!r}: the same call" in str(caught.value)) == kept


def test_other_exceptions_and_results_pass() -> None:
    """Catches a decorator that changes what a function returns, raises or is called."""

    @says_if_interrupted("dividing")
    def inverse(x: float) -> float:
        return 1 / x

    assert inverse(2) == 0.5
    assert inverse.__name__ == "inverse"
    with pytest.raises(ZeroDivisionError):
        inverse(0)
