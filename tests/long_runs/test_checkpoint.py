"""Checkpoints: whole or not there, of this run or refused, whatever happens to the disk."""

import errno
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pymc_logz.errors import CheckpointError, EvidenceWarning
from pymc_logz.long_runs import checkpoint, records
from pymc_logz.long_runs.checkpoint import Keeper, begun_with
from pymc_logz.long_runs.resume import resume
from pymc_logz.runners.anneal import Underway
from pymc_logz.runners.moves_of_rows import Work
from pymc_logz.runners.running import AnnealJob

IDENTITY: dict[str, Any] = {
    "settings": {"method": "hais", "chains": 2, "draws": 4},
    "model": {"data": {"y": "abc"}},
    "versions": {"pymc": "6.4"},
}


def opened(path: Path, **changed: Any) -> AbstractContextManager[Keeper]:
    """The checkpoint of a run, of which something may be another."""
    return Keeper.opened(path, {**IDENTITY, **changed}, {"seed": {"state": 1}})


def open_once(path: Path, **changed: Any) -> None:
    """Open the checkpoint of a run, and let others use it."""
    with opened(path, **changed):
        pass


def job(n_moves: int) -> AnnealJob:
    """A chain after so many of 100 moves."""
    rng = dict(np.random.SFC64(n_moves).state)
    underway = Underway(n_moves, (), np.full(3, 0.1 * n_moves), np.zeros(3), np.zeros((3, 2)))
    return AnnealJob(None, rng, 100, 0, underway)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "run.ckpt"


def test_a_chain_is_read_as_it_was_written_last(path: Path) -> None:
    """Would catch an older state, parts that are lost or doubled, and states that pile up."""
    with opened(path) as keeper:
        for n in range(1, 5):
            keeper.store_chain("forward-1.chain-0", job(8 * n), np.full(2, float(n)))
    with opened(path) as keeper:
        kept = keeper.chain("forward-1.chain-0")
        assert kept is not None
        found, parts = kept
        assert found.n_done == 32
        np.testing.assert_equal(found.rng, job(32).rng)
        np.testing.assert_array_equal(np.concatenate(parts), [1, 1, 2, 2, 3, 3, 4, 4])
        assert keeper.chain("forward-1.chain-1") is None
    files = sorted(p.name.removeprefix("forward-1.chain-0.") for p in path.glob("forward-*"))
    assert files == ["npz", *(f"part-00000{i}.npz" for i in range(4))]


def test_what_was_made_is_made_once_and_generators_move_on(path: Path) -> None:
    """Would catch a pilot that runs again, or leaves its generator where it was."""
    rng = np.random.default_rng(1)
    with opened(path) as keeper:
        first = keeper.remember("plan", lambda: {"x": rng.normal(size=3)}, rng, work=Work())
    after, again = rng.normal(), np.random.default_rng(1)
    with opened(path) as keeper:
        second = keeper.remember("plan", lambda: pytest.fail("made twice"), again, work=Work())
    np.testing.assert_array_equal(first["x"], second["x"])
    assert again.normal() == after


def test_another_run_is_refused_with_what_differs(path: Path) -> None:
    """Would catch a run that goes on from what was made of another model, data or setting."""
    open_once(path)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"model": {"data": {"y": "other"}}}, "model 'data' 'y': 'abc' there, 'other' here"),
        ({"settings": {**IDENTITY["settings"], "draws": 8}}, "settings 'draws': 4 there, 8 here"),
        ({"versions": {"pymc": "6.5"}}, "versions 'pymc': '6.4' there"),
        ({"posterior_draws": "x"}, "posterior_draws: nothing there, 'x' here"),
    ]
    for changed, message in cases:
        with pytest.raises(CheckpointError, match=message):
            open_once(path, **changed)
    open_once(path)  # the one it is of is still taken


@pytest.mark.parametrize("made", ["folder", "file", "json", "broken", "layout"])
def test_something_else_at_the_path_is_left_alone(made: str, path: Path) -> None:
    """Would catch a foreign folder that is written into, or a crash from deep inside."""
    path.parent.mkdir()
    contents = {
        "json": '{"mine": 1}',
        "broken": '{"format": "pymc_logz',
        "layout": '{"format": "pymc_logz checkpoint", "layout": 99}',
    }
    if made == "file":
        path.write_text("mine")
    else:
        path.mkdir()
        (path / ("checkpoint.json" if made in contents else "mine.txt")).write_text(
            contents.get(made, "mine")
        )
    before = sorted(p.name for p in path.parent.rglob("*"))
    for call in (lambda: open_once(path), lambda: resume(path)):
        with pytest.raises(CheckpointError, match=r"not a checkpoint of pymc_logz.*not changed"):
            call()
    assert sorted(p.name for p in path.parent.rglob("*")) == before


@pytest.mark.parametrize("harmed", ["a.chain-0", "a.chain-0.part-000001"])
@pytest.mark.parametrize("harm", ["cut", "bits", "empty"])
def test_a_chain_that_is_not_whole_is_made_again(harm: str, harmed: str, path: Path) -> None:
    """Would catch garbage that is gone on from."""
    with opened(path) as keeper:
        for n in (1, 2):
            keeper.store_chain("a.chain-0", job(8 * n), np.full(3, 0.8 * n))
    file = path / f"{harmed}.npz"
    whole = file.read_bytes()
    at = whole.index(np.full(3, 1.6).tobytes())  # the log weights, or the draws
    changed = {"cut": whole[:-8], "bits": whole[:at] + b"\1" + whole[at + 1 :], "empty": b""}
    file.write_bytes(changed[harm])
    with opened(path) as keeper:
        with pytest.warns(EvidenceWarning, match="is damaged"):
            assert keeper.chain("a.chain-0") is None
        keeper.store_chain("a.chain-0", job(8), np.full(3, 5.0))
        kept = keeper.chain("a.chain-0")
    assert kept is not None
    assert kept[0].n_done == 8
    np.testing.assert_array_equal(kept[1], [np.full(3, 5.0)])


def test_a_disk_that_is_full_costs_nothing_but_a_warning(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Would catch a run that ends because it could not be kept, or parts that are left out."""
    is_full = True

    def flush(file: Any) -> None:
        if is_full:
            raise OSError(errno.ENOSPC, "No space left on device")

    with opened(path) as keeper:
        keeper.store_chain("a.chain-0", job(8), np.full(2, 1.0))
        monkeypatch.setattr(records, "_flush", flush)
        with pytest.warns(EvidenceWarning, match="No space left.*continues and tries again"):
            keeper.store_chain("a.chain-0", job(16), np.full(2, 2.0))
        keeper.store_chain("a.chain-0", job(24), np.full(2, 3.0))  # told once is enough
        kept = Keeper(path).chain("a.chain-0")
        assert kept is not None
        assert (kept[0].n_done, len(kept[1])) == (8, 1)
        is_full = False
        keeper.store_chain("a.chain-0", job(32), np.full(2, 4.0))
    kept = Keeper(path).chain("a.chain-0")
    assert kept is not None
    assert kept[0].n_done == 32
    np.testing.assert_array_equal(np.concatenate(kept[1])[::2], [1, 2, 3, 4])
    assert not list(path.glob(f"{records.WRITING}*"))


def test_two_runs_do_not_share_a_checkpoint(path: Path) -> None:
    """Would catch two processes that write over each other."""
    pytest.importorskip("fcntl", reason="files cannot be locked here")
    with opened(path), pytest.raises(CheckpointError, match="in use by another run"):
        open_once(path)
    open_once(path)


def test_what_was_being_written_when_the_run_was_killed_goes(path: Path) -> None:
    """Would catch rubbish that piles up, or is taken for a record."""
    open_once(path)
    left = [path / f"{records.WRITING}1", path.with_name(f"{path.name}{records.WRITING}2")]
    left[0].write_text("{")
    left[1].mkdir()
    (left[1] / "checkpoint.json").write_text("{")
    open_once(path)
    assert not any(one.exists() for one in left)
    assert begun_with(path, "seed") == {"state": 1}


def test_resume_tells_how_far_it_is(path: Path) -> None:
    """Would catch counts of an old state, and a run that is called finished."""
    with opened(path) as keeper:
        assert resume(path).share_done == 0.0
        keeper.write("plan", {"x": 1.0})
        for n in (1, 2):
            keeper.store_chain("forward-1.chain-0", job(8 * n), None)
        keeper.store_chain("forward-1.chain-1", job(100), None)
        kept = resume(path)
        assert kept.chains == {"forward-1.chain-0": (16, 100), "forward-1.chain-1": (100, 100)}
        assert (kept.share_done, kept.is_finished, kept.records) == (0.58, False, ("plan",))
        assert "forward-1.chain-0: 16 of 100 moves (16%)" in str(kept)
        assert "the same call resumes" in str(kept)
        keeper.store_chain("forward-1.chain-0", job(100), None)
        keeper.write("finished", True)
    assert resume(path).is_finished
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        resume(path.parent)


def test_paths_are_checked() -> None:
    """Would catch a number that is taken for a path."""
    with pytest.raises(TypeError, match=r"checkpoint=True must be a path, such as 'run.ckpt'"):
        checkpoint.check_path(True)
    with pytest.raises(TypeError, match="checkpoint='' must be a path"):
        checkpoint.check_path("")
