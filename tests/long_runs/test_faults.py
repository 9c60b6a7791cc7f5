"""What breaks in a run of hours: the result is right, or the user is told, and nothing is lost.

The rows of the table in ``docs/contributing/cost_of_long_runs.md`` name these tests, and those of
parts alone in ``tests/runners``.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from arviz_base import from_dict
from support.executors import PlainPickles, Sends
from support.failing_ops import Fails
from support.long_runs import METHODS, annealed, differing, model, numbers_of

import pymc_logz as lz
from pymc_logz.long_runs import checkpoint as checkpoint_module
from pymc_logz.long_runs import running
from pymc_logz.long_runs.checkpoint import Keeper

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
    pytest.mark.filterwarnings("ignore::pymc_logz.errors.EvidenceWarning"),  # runs are short
]


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains hand back what they have after every block."""
    monkeypatch.setattr(running, "SECONDS", 0.0)


# -- likelihoods that are no numbers --------------------------------------------------------------


def half(value: float) -> pm.Model:
    """Of x ~ N(0, 1) half has the likelihood x, and half has none: Z = 1 / sqrt(2 pi)."""
    with pm.Model() as half:
        x = pm.Normal("x")
        known = pt.switch(x > 0, pt.log(pt.maximum(x, 1e-300)), value)
        pm.Potential("likelihood", known)
        pm.Normal("y", 0.0, 1.0, observed=0.0)
    return half


EXACT = -0.5 * np.log(2 * np.pi) - 0.5 * np.log(2 * np.pi)
GIVEN: dict[str, Any] = {"random_seed": 4, "progressbar": False}


def bridged(model: pm.Model) -> xr.DataTree:
    x = np.sqrt(-2 * np.log(np.random.default_rng(1).random((4, 500))))  # density x exp(-x^2 / 2)
    return lz.bridge_sampling(from_dict({"posterior": {"x": x}}), model, repetitions=2, **GIVEN)


ROUTES: dict[str, Callable[[pm.Model], xr.DataTree]] = {
    "hais": lambda model: lz.sample_hais(128, 2, model=model, **GIVEN),
    "hais by others": lambda model: lz.sample_hais(128, 2, model=model, executor=Sends(), **GIVEN),
    "tempered": lambda model: lz.sample_tempered(300, 2, walkers=16, betas=6, model=model, **GIVEN),
    "bridge": bridged,
}


@pytest.mark.slow
@pytest.mark.parametrize("value", [np.nan, -np.inf])
@pytest.mark.parametrize("route", ROUTES)
def test_rows_without_a_likelihood_have_none(route: str, value: float) -> None:
    """Would catch a NaN that ends in log Z, rows that are left out of a mean, and silence."""
    with pytest.warns(lz.EvidenceWarning) as caught:
        found = ROUTES[route](half(value))["evidence"].to_dataset().isel(estimator=0)
    if np.isnan(value):
        assert any("NaN" in str(one.message) for one in caught)
    status, log_z, mcse = (found[name].item() for name in ("status", "log_z", "mcse"))
    assert np.isfinite(log_z)
    assert abs(log_z - EXACT) < 4 * mcse + 1e-3 or status != "ok"
    assert abs(log_z - EXACT) < 0.1


def test_data_rows_without_a_likelihood_have_none() -> None:
    """Would catch one impossible datum that takes its neighbours along."""
    with pm.Model() as one_datum:
        z = pm.Normal("z", 0, 1)
        y = pm.Data("y", 0.0)
        pm.Normal("seen", z, pt.switch(y < 1, 0.5, np.nan), observed=y)
    data = np.array([0.5, 2.0, -1.0, 3.0])
    tree = lz.marginal_log_likelihood(one_datum, {"y": data}, draws=64, **GIVEN)
    found = tree["evidence"].to_dataset().isel(estimator=0)
    exact = -0.5 * data**2 / 1.25 - 0.5 * np.log(2 * np.pi * 1.25)
    good = data < 1
    assert np.all(found["status"].to_numpy()[good] == "ok")
    assert np.all(np.abs(found["log_z"] - exact)[good] < 4 * found["mcse"][good])
    assert set(found["status"].to_numpy()[~good]) == {"no_support"}
    assert not np.any(np.isfinite(found["log_z"].to_numpy()[~good]))


# -- likelihoods that raise or hang ---------------------------------------------------------------


def failing(bomb: Path, seconds: float = 0.0) -> Callable[..., xr.DataTree]:
    """A run whose likelihood fails once there is a file."""
    with pm.Model() as model:
        x = pm.Normal("x", shape=2)
        pm.Potential("likelihood", -0.5 * Fails(str(bomb), seconds)(x))
        pm.Normal("y", 0.0, 1.0, observed=0.0)
    kernel = lz.kernels.RandomWalk(step_size=0.5, scale=1.0)  # so that there is no pilot
    given = {"betas": 33, "kernel": kernel, "compile_kwargs": {"mode": "FAST_COMPILE"}, **GIVEN}

    def run(**options: Any) -> xr.DataTree:
        return lz.sample_hais(8, 2, model=model, **given, **options)

    return run


@contextmanager
def failing_from(n: int, bomb: Path) -> Iterator[None]:
    """The file is there once so many states of chains were kept."""
    store, calls = Keeper.store_chain, iter(range(10_000))

    def stored(keeper: Keeper, *args: Any) -> None:
        store(keeper, *args)
        if next(calls) == n:
            bomb.touch()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Keeper, "store_chain", stored)
        yield
    bomb.unlink()


@pytest.mark.parametrize("executor", [None, Sends()])
def test_a_likelihood_that_raises_says_where_and_loses_nothing(
    executor: Any, tmp_path: Path
) -> None:
    """Would catch an error that says nothing of its chain, and a run that starts anew after it."""
    bomb, path = tmp_path / "bomb", tmp_path / "run.ckpt"
    run = failing(bomb)
    whole = numbers_of(run(cores=1))
    with (
        failing_from(4, bomb),
        pytest.raises(ArithmeticError, match="the simulator has no answer here") as caught,
    ):
        run(executor=executor, checkpoint=path)
    [note] = [note for note in caught.value.__notes__ if "This was" in note]
    assert "This was 'forward-1.chain-" in note
    assert "the same call resumes from it" in note
    kept = lz.resume(path)
    done, totals = zip(*kept.chains.values(), strict=True)
    # of all chains: of those that were begun one may be at its end
    assert 0 < sum(done) < kept.settings["chains"] * totals[0]
    assert not kept.is_finished
    found = run(executor=executor, checkpoint=path)
    assert differing(numbers_of(found), whole) == []


@pytest.mark.slow
def test_a_likelihood_that_hangs_in_a_process_is_given_up(tmp_path: Path) -> None:
    """Would catch a run that waits for ever, and processes that are left hanging."""
    bomb, path = tmp_path / "bomb", tmp_path / "run.ckpt"
    run = failing(bomb, 3600.0)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        whole = numbers_of(run(executor=executor))  # and both have the model, compiled
        processes = list(executor._processes.values())
        with failing_from(2, bomb), pytest.raises(TimeoutError, match="the likelihood hangs"):
            run(executor=executor, checkpoint=path, time_limit=20.0)
        for process in processes:
            process.join(10.0)
            assert not process.is_alive()
    assert differing(numbers_of(run(checkpoint=path)), whole) == []


# -- folders that cannot be written to, or are not whole ------------------------------------------


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Files may have no more than 2 kB while a checkpoint is open, as if the disk was full.

    No longer: what pytest writes of a test that is done may go to a file, too.
    """
    resource = pytest.importorskip("resource", reason="there is no limit to files here")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler, opened = signal.signal(signal.SIGXFSZ, signal.SIG_IGN), Keeper.opened

    @contextmanager
    def then_full(*args: Any) -> Iterator[Keeper]:
        try:
            with opened(*args) as keeper:
                resource.setrlimit(resource.RLIMIT_FSIZE, (2048, before[1]))
                yield keeper
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    with monkeypatch.context() as patch:
        patch.setattr(Keeper, "opened", then_full)
        yield patch
    signal.signal(signal.SIGXFSZ, handler)


@pytest.fixture(scope="module")
def whole() -> dict[str, np.ndarray]:
    """Numbers of a run that nothing happens to."""
    return numbers_of(annealed(cores=1))


@pytest.mark.usefixtures("full")
def test_a_disk_that_fills_stops_nothing(whole: dict[str, np.ndarray], tmp_path: Path) -> None:
    """Would catch a run of hours that ends because it could not be kept, or says it every time."""
    with pytest.warns(lz.EvidenceWarning, match="cannot be written to") as caught:
        found = annealed(checkpoint=tmp_path / "run.ckpt")
    told = [one for one in caught if "cannot be written to" in str(one.message)]
    assert 1 <= len(told) <= 3  # once, and again after something that was small enough
    assert differing(numbers_of(found), whole) == []
    kept = lz.resume(tmp_path / "run.ckpt")
    assert kept.share_done < 1.0, "the disk was not full"


def test_a_run_goes_on_once_there_is_room(
    whole: dict[str, np.ndarray], tmp_path: Path, full: pytest.MonkeyPatch
) -> None:
    """Would catch what was half written before the disk was full."""
    path = tmp_path / "run.ckpt"
    with pytest.warns(lz.EvidenceWarning, match="cannot be written to"):
        annealed(checkpoint=path)
    full.undo()
    assert differing(numbers_of(annealed(checkpoint=path)), whole) == []
    assert lz.resume(path).is_finished


def test_a_folder_that_cannot_be_written_to_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Would catch a traceback from inside, or hours of a run that is not kept."""
    (tmp_path / "file").touch()
    with pytest.raises(lz.CheckpointError, match="cannot be written to"):
        annealed(checkpoint=tmp_path / "file" / "run.ckpt")
    path = tmp_path / "run.ckpt"
    annealed(checkpoint=path)

    def refuse(*args: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(checkpoint_module, "open", refuse, raising=False)
    with pytest.raises(lz.CheckpointError, match=r"cannot be written to.*Permission denied"):
        annealed(checkpoint=path)


def check_damage(which: list[Path], whole: dict[str, np.ndarray], path: Path, copy: Path) -> None:
    """A run goes on from a checkpoint with one file cut short, or refuses it."""
    for file in which:
        shutil.copytree(path, copy)
        target = copy / file.relative_to(path)
        target.write_bytes(target.read_bytes()[: target.stat().st_size // 2])
        if file.name == "checkpoint.json":  # what says that it is a checkpoint at all
            with pytest.raises(lz.CheckpointError, match="is not a checkpoint"):
                annealed(checkpoint=copy)
        else:
            assert differing(numbers_of(annealed(checkpoint=copy)), whole) == [], file
        shutil.rmtree(copy)


def files_of(path: Path) -> list[Path]:
    """All files of a checkpoint that have something in them."""
    return sorted(file for file in path.rglob("*") if file.is_file() and file.stat().st_size)


def test_files_that_were_cut_short(whole: dict[str, np.ndarray], tmp_path: Path) -> None:
    """Would catch half a plan or half a state that is gone on from."""
    path = tmp_path / "run.ckpt"
    annealed(checkpoint=path)
    of_plan = [file for file in files_of(path) if file.name.startswith("plan")]
    chosen = [path / "checkpoint.json", of_plan[0], files_of(path)[3]]
    check_damage(chosen, whole, path, tmp_path / "copy.ckpt")


@pytest.mark.slow
def test_any_file_that_was_cut_short(whole: dict[str, np.ndarray], tmp_path: Path) -> None:
    """Would catch a record that nobody looks at before it is used."""
    path = tmp_path / "run.ckpt"
    annealed(checkpoint=path)
    check_damage(files_of(path), whole, path, tmp_path / "copy.ckpt")


# -- interrupts -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("interrupts")
def test_ctrl_c_leaves_a_tree_that_can_be_read_and_added_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Would catch a partial result that is none: without errors, files, or a way to go on."""
    path, store, is_first = tmp_path / "run.ckpt", Keeper.store_chain, iter([True])

    def stored(keeper: Keeper, name: str, job: Any, part: Any) -> None:
        store(keeper, name, job, part)
        if job.n_done == job.n_total and next(is_first, False):
            signal.raise_signal(signal.SIGINT)

    def run(path: Path) -> xr.DataTree:
        # so long that the other chains are at work while one is kept
        given: dict[str, Any] = {"betas": 257, "tune": 8, "cores": 1, "model": model(), **GIVEN}
        return lz.sample_hais(32, 8, checkpoint=path, **given)

    monkeypatch.setattr(Keeper, "store_chain", stored)
    with pytest.warns(lz.EvidenceWarning, match="interrupted: [1-7] of 8 chains are finished"):
        part = run(path)
    assert part["posterior"].sizes["chain"] < 8
    assert not lz.resume(path).is_finished
    part.to_netcdf(tmp_path / "part.nc")
    with xr.open_datatree(tmp_path / "part.nc") as stored_part:
        assert differing(numbers_of(stored_part.load()), numbers_of(part)) == []
        more = lz.extend(stored_part, model(), draws=8, progressbar=False)
    whole = run(tmp_path / "whole.ckpt")
    expected = lz.extend(whole, model(), draws=8, progressbar=False)
    assert differing(numbers_of(more), numbers_of(expected)) == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no groups of processes")
@pytest.mark.parametrize("workers", ["processes", "threads"])
def test_ctrl_c_in_a_terminal(tmp_path: Path, workers: str) -> None:
    """Would catch a Ctrl-C that hangs, crashes Python as it ends, or leaves half a record."""
    path, found = tmp_path / "run.ckpt", tmp_path / "found.npz"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    command = [sys.executable, "-m", "support.interrupted_run", str(path), str(found), workers]
    run = subprocess.Popen(command, env=env, start_new_session=True, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 300
    while not list(path.glob("forward-1.chain-*")):
        assert time.monotonic() < deadline, "it never began"
        assert run.poll() is None
        time.sleep(0.05)
    os.killpg(run.pid, signal.SIGINT)
    _, said = run.communicate(timeout=60)
    assert b"the same call resumes from it" in said or b"interrupted: 1 of 2 chains" in said
    assert run.returncode in (0, 130, -signal.SIGINT)
    found.unlink(missing_ok=True)
    done = subprocess.run(command, env=env, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert differing(dict(np.load(found)), numbers_of(METHODS["annealed"](cores=1))) == []


# -- executors of other machines ------------------------------------------------------------------


@pytest.mark.slow
def test_plain_pickles_to_a_process_that_knows_nothing(
    whole: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Would catch what only cloudpickle can send, or only a child of this process can read."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    monkeypatch.setenv("PYTHONPATH", paths)
    with PlainPickles() as executor:
        found = annealed(executor=executor)
        assert executor.n_bytes > 10_000
    assert differing(numbers_of(found), whole) == []
