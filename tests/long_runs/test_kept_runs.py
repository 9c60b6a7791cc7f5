"""Whole runs that are kept: gone on with, refused, added to."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from pytensor.compile.mode import get_mode
from support.long_runs import (
    METHODS,
    SHORT,
    annealed,
    blended,
    differing,
    model,
    numbers_of,
    tempered,
)

import pymc_logz as lz
from pymc_logz.long_runs import identity, running
from pymc_logz.long_runs.checkpoint import Keeper
from pymc_logz.runners.running import AnnealJob

pytestmark = [
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
    pytest.mark.filterwarnings("ignore::pymc_logz.errors.EvidenceWarning"),  # runs are short
]


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains hand back what they have after every block."""
    monkeypatch.setattr(running, "SECONDS", 0.0)


@contextmanager
def stopped_after(n_states: int) -> Iterator[None]:
    """Ctrl-C is pressed when so many states of chains were kept."""
    store, calls = Keeper.store_chain, iter(range(10_000))

    def stored(keeper: Keeper, *args: Any) -> None:
        store(keeper, *args)
        if next(calls) == n_states:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Keeper, "store_chain", stored)
        yield


def test_a_run_without_a_path_has_the_same_bits(tmp_path: Path) -> None:
    """Would catch a kept run that takes another plan, and a blend that is kept in part."""
    path = tmp_path / "run.ckpt"
    whole = numbers_of(blended(cores=1))
    for _ in range(2):
        assert differing(numbers_of(blended(checkpoint=path)), whole) == []
    assert lz.resume(path).is_finished


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name == "tempered_from_learned"))
        for name in METHODS
    ],
)
@pytest.mark.usefixtures("no_look_from_prior")
def test_a_run_that_was_stopped_ends_with_the_same_bits(method: str, tmp_path: Path) -> None:
    """Would catch a pilot, a chain or a generator that is not where it was."""
    path, run = tmp_path / "run.ckpt", METHODS[method]
    whole = numbers_of(run(cores=1))
    for n_states in (0, 1):
        with stopped_after(n_states), suppress(KeyboardInterrupt):  # raised if no chain is done
            run(checkpoint=path)
        kept = lz.resume(path)
        assert not kept.is_finished
        assert 0 < kept.share_done <= 1
    found = run(checkpoint=path)
    assert differing(numbers_of(found), whole) == []
    assert found.attrs["checkpoint"] == str(path)
    assert lz.resume(path).is_finished
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "Task", lambda *_: pytest.fail("something was run again"))
        assert differing(numbers_of(run(checkpoint=path)), whole) == []


def other_model() -> pm.Model:
    """The same variables, another prior."""
    data = np.random.default_rng(5).normal(1.0, 1.0, size=(4, 6))
    with pm.Model() as other:
        mean = pm.Normal("mean", 0.0, 2.0)
        spread = pm.HalfNormal("spread", 1.0)
        groups = pm.Normal("groups", mean, spread, shape=4)
        pm.Normal("y", groups[:, None], 1.0, observed=data)
    return other


def other_data() -> pm.Model:
    """The same model, one datum apart."""
    data = np.random.default_rng(5).normal(1.0, 1.0, size=(4, 6))
    data[0, 0] += 1e-9
    with pm.Model() as other:
        mean = pm.Normal("mean", 0.0, 3.0)
        spread = pm.HalfNormal("spread", 1.0)
        groups = pm.Normal("groups", mean, spread, shape=4)
        pm.Normal("y", groups[:, None], 1.0, observed=data)
    return other


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> xr.DataTree:
    """An annealed run that is at its end."""
    return annealed(checkpoint=tmp_path_factory.mktemp("kept") / "run.ckpt")


def test_another_run_is_refused(kept: xr.DataTree) -> None:
    """Would catch rows of one model that are weighted with those of another."""
    path = kept.attrs["checkpoint"]
    betas = np.linspace(0, 1, 97) ** 4
    given: dict[str, Any] = {"betas": betas, "tune": 8, "checkpoint": path, **SHORT}
    cases: list[tuple[dict[str, Any], str]] = [
        ({"model": other_model()}, "model 'log density'"),
        ({"model": other_data()}, "model 'data' 'y' is not the same"),
        ({"model": model(), "random_seed": 8}, "run: random_seed is not the same. "),
        ({"model": model(), "tune": 9}, "settings 'tune': 8 there, 9 here"),
        ({"model": model(), "betas": np.linspace(0, 1, 97)}, "settings 'betas'"),
        (
            {"model": model(), "max_memory": 30_000, "cores": 1},
            "particles that max_memory has room",
        ),
        ({"model": model(), "kernel": lz.kernels.Hamiltonian(n_steps=2)}, "'n_steps': 1 there"),
        ({"model": model(), "compile_kwargs": {"mode": "FAST_COMPILE"}}, "backend: 'numpy' there"),
    ]
    for changed, message in cases:
        with pytest.raises(lz.CheckpointError, match=message):
            lz.sample_hais(64, 2, **{**given, **changed})
    with pytest.raises(lz.CheckpointError, match="'method': 'hais' there, 'tempered' here"):
        lz.sample_tempered(64, 2, model=model(), checkpoint=path, **SHORT)


def test_other_temperatures_are_refused_however_they_are_given(tmp_path: Path) -> None:
    """Would catch a tuple that no one looks at, so that the first run came back for the second."""
    given: dict[str, Any] = {"model": model(), "checkpoint": tmp_path / "run.ckpt", **SHORT}
    lz.sample_hais(16, 2, betas=(0.0, 0.1, 0.5, 1.0), **given)
    with pytest.raises(lz.CheckpointError, match="settings 'betas'"):
        lz.sample_hais(16, 2, betas=(0.0, 0.2, 0.5, 1.0), **given)


def test_another_version_is_refused(kept: xr.DataTree, monkeypatch: pytest.MonkeyPatch) -> None:
    """Would catch a run that goes on with a library that rounds otherwise."""
    monkeypatch.setattr(identity, "versions_of", lambda names: dict.fromkeys(names, "0.1"))
    with pytest.raises(lz.CheckpointError, match=r"versions 'jax': .* there, '0\.1' here"):
        annealed(checkpoint=kept.attrs["checkpoint"])


def test_the_table_of_faults_names_tests_that_there_are() -> None:
    """Would catch a row of the documentation that nothing shows."""
    root = Path(__file__).parents[2]
    page = root / "docs" / "contributing" / "cost_of_long_runs.md"
    table = page.read_text().split("## Faults")[1]
    named = set(re.findall(r"`(test_\w+)`", table))
    folders = [root / "tests" / name for name in ("long_runs", "runners")]
    sources = "".join(file.read_text() for folder in folders for file in folder.glob("*.py"))
    assert len(named) > 20
    assert not [name for name in named if f"def {name}(" not in sources]


def test_a_run_without_a_seed_goes_on_with_its_own(tmp_path: Path) -> None:
    """Would catch a run that is refused, or starts anew, because nobody knows its seed."""
    given: dict[str, Any] = {"model": model(), "betas": 16, "progressbar": False}
    given["checkpoint"] = tmp_path / "run.ckpt"
    one, two = (lz.sample_hais(16, 2, **given) for _ in range(2))
    assert differing(numbers_of(one), numbers_of(two)) == []


def test_more_rows_are_added_and_none_run_again(
    kept: xr.DataTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Would catch rows that are run twice, left out, or of another plan."""
    n_rows, advance = [], AnnealJob.advance

    def counted(job: Any, *args: Any) -> Any:
        n_rows.append(0 if job.start is None else len(job.start))
        return advance(job, *args)

    monkeypatch.setattr(AnnealJob, "advance", counted)
    more = lz.extend(kept, model(), draws=192, progressbar=False)
    assert sum(n_rows) == 2 * 192
    old, new = (tree["weighted_posterior"]["log_weight"] for tree in (kept, more))
    assert new.sizes == {"chain": 2, "draw": 256}
    np.testing.assert_array_equal(new.isel(draw=slice(64)), old)
    assert len(np.unique(new)) == 512
    assert float(more["evidence"]["mcse"][0]) < float(kept["evidence"]["mcse"][0])
    difference = float(more["evidence"]["log_z"][0] - kept["evidence"]["log_z"][0])
    assert abs(difference) < 4 * float(kept["evidence"]["mcse"][0])
    n_rows.clear()
    again = lz.extend(kept, model(), draws=192, progressbar=False)
    assert differing(numbers_of(again), numbers_of(more)) == []
    assert sum(n_rows) == 0
    further = lz.extend(more, model(), draws=8, progressbar=False)
    assert sum(n_rows) == 2 * 8
    np.testing.assert_array_equal(
        further["weighted_posterior"]["log_weight"].isel(draw=slice(256)), new
    )
    assert json.loads(further.attrs["settings"])["more"] == [192, 8]


@pytest.mark.usefixtures("no_look_from_prior")
def test_walkers_walk_on(tmp_path: Path) -> None:
    """Would catch walkers that start anew, or draws that are lost between the two parts."""
    path = tmp_path / "run.ckpt"
    tree = tempered(checkpoint=path)
    more = lz.extend(tree, model(), draws=160, progressbar=False)
    old, new = (one["tempering"]["log_ratio"] for one in (tree, more))
    assert new.sizes["draw"] == 256
    np.testing.assert_array_equal(new.isel(draw=slice(96)), old)
    assert np.all(np.isfinite(new))
    apart = (more["evidence"]["log_z"] - tree["evidence"]["log_z"]).item()
    assert abs(apart) < 4 * float(tree["evidence"]["mcse"][0])
    # the call that began the run still has what it had
    assert differing(numbers_of(tempered(checkpoint=path)), numbers_of(tree)) == []


def test_what_cannot_be_added_to_is_told(kept: xr.DataTree, tmp_path: Path) -> None:
    """Would catch a traceback from inside, or rows of another kernel."""
    plain = annealed(cores=1)
    with pytest.raises(ValueError, match=r"has no checkpoint.*checkpoint='run.ckpt'"):
        lz.extend(plain, model(), draws=8)
    with pytest.raises(lz.CheckpointError, match=r"^there is no checkpoint at 'nowhere\.ckpt'$"):
        lz.resume("nowhere.ckpt")
    with pytest.raises(TypeError, match="idata is of type str"):
        lz.extend("run.ckpt", model(), draws=8)  # type: ignore[arg-type]
    with pytest.raises(lz.CheckpointError, match="model 'data' 'y'"):
        lz.extend(kept, other_data(), draws=8, progressbar=False)
    with pytest.raises(ValueError, match="draws=1 must be an integer of at least 2"):
        lz.extend(kept, model(), draws=1)
    path = tmp_path / "own.ckpt"
    given: dict[str, Any] = {"compile_kwargs": {"mode": get_mode("FAST_COMPILE")}, **SHORT}
    own = lz.sample_hais(16, 2, model=model(), betas=16, checkpoint=path, **given)
    with pytest.raises(lz.CheckpointError, match="your own kernel, mode or draws"):
        lz.extend(own, model(), draws=8)
    posterior = xr.DataTree.from_dict({"posterior": kept["posterior"].to_dataset()})
    with pytest.raises(ValueError, match="only runs of sample_hais and sample_tempered"):
        lz.extend(posterior, model(), draws=8)
