"""Data rows and models as units of work: the same numbers whoever finds them."""

import signal
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from support.executors import Sends
from support.long_runs import differing, numbers_of

import pymc_logz as lz
from pymc_logz.long_runs import running
from pymc_logz.long_runs.checkpoint import Keeper
from pymc_logz.per_datum import likelihood as per_datum

pytestmark = [
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
    pytest.mark.filterwarnings("ignore::pymc_logz.errors.EvidenceWarning"),
]
DATA = {"y": np.linspace(-2, 2, 14)}


@cache
def one_datum() -> pm.Model:
    with pm.Model() as model:
        z = pm.Normal("z", 0, 1)
        pm.Normal("y", z, 0.5, observed=0.0)
    return model


@cache
def coin(a: float) -> pm.Model:
    with pm.Model() as model:
        pm.Binomial("y", n=20, p=pm.Beta("p", a, a), observed=14)
    return model


@pytest.mark.parametrize("executor", [ThreadPoolExecutor(2), Sends(lost=(2,))])
def test_data_rows_by_others(executor: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Would catch data of another batch, and batches that are left out at the end."""
    monkeypatch.setattr(per_datum, "ROWS_PER_BATCH", 64)
    monkeypatch.setattr(per_datum, "AHEAD", 1)
    options: dict[str, Any] = {"draws": 32, "random_seed": 2, "progressbar": False}
    with executor:
        trees = [
            lz.marginal_log_likelihood(one_datum(), DATA, **options, **how)
            for how in ({"cores": 1}, {"executor": executor})
        ]
    assert differing(*map(numbers_of, trees)) == []
    exact = -0.5 * DATA["y"] ** 2 / 1.25 - 0.5 * np.log(2 * np.pi * 1.25)
    found = trees[1]["evidence"]
    error = (found["log_z"] - exact) / found["mcse"]
    assert np.abs(error).max() < 5


@pytest.mark.slow
def test_models_by_others() -> None:
    """Would catch models that change places, and a seed that depends on who finds which."""
    models = {"narrow": coin(20.0), "flat": coin(1.0)}
    options: dict[str, Any] = {"random_seed": 2, "progressbar": False, "cross_check": False}
    here = lz.evidence_of_models(models, **options)
    assert list(here) == ["narrow", "flat"]
    assert float(here["flat"]["evidence"]["log_z"][0]) == pytest.approx(-np.log(21), abs=0.1)
    sent = Sends(lost=(1,))
    there = lz.evidence_of_models(models, executor=sent, **options)
    assert sent.n == 3
    for name in models:
        assert differing(numbers_of(here[name]), numbers_of(there[name])) == []
    with pytest.raises(TypeError, match=r"models\['b'\] is of type int; give PyMC models, and"):
        lz.evidence_of_models({"a": coin(1.0), "b": 1})
    with pytest.raises(TypeError, match="models is of type list; give PyMC models by name"):
        lz.evidence_of_models(list(models.values()))  # type: ignore[arg-type]


def test_warnings_and_errors_of_others_come_back() -> None:
    """Would catch a warning that nobody sees, and an error that does not say of which model."""
    with pm.Model() as improper:
        pm.Normal("y", pm.Flat("x"), 1, observed=0.0)
    options: dict[str, Any] = {"random_seed": 2, "progressbar": False, "cross_check": False}
    with pytest.raises(lz.ImproperPriorError) as caught:
        lz.evidence_of_models({"bad": improper}, executor=Sends(), **options)
    assert caught.value.__notes__ == ["This was 'bad'."]
    with pm.Model() as with_potential:
        x = pm.Normal("x", 0, 1)
        pm.Normal("y", x, 1, observed=0.0)
        pm.Potential("p", -(x**2))
    with pytest.warns(lz.EvidenceWarning, match="potentials"):
        lz.evidence_of_models({"p": with_potential}, executor=Sends(), **options)


@contextmanager
def stopped_after(n: int, what: str = "store_chain") -> Iterator[None]:
    """Ctrl-C is pressed when so many things were kept."""
    store, calls = getattr(Keeper, what), iter(range(10_000))

    def stored(keeper: Keeper, *args: Any) -> Any:
        made = store(keeper, *args)
        if next(calls) == n:
            raise KeyboardInterrupt
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Keeper, what, stored)
        yield


@pytest.fixture
def many_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several batches, which hand back what they have after every block."""
    monkeypatch.setattr(per_datum, "ROWS_PER_BATCH", 64)
    monkeypatch.setattr(running, "SECONDS", 0.0)


@pytest.mark.usefixtures("many_batches")
@pytest.mark.parametrize("n_stored", [0, 2, 5, 11])
def test_data_rows_that_were_stopped_end_with_the_same_bits(n_stored: int, tmp_path: Path) -> None:
    """Would catch a batch that is lost, or whose number depends on who runs it."""
    path = tmp_path / "rows.ckpt"
    options: dict[str, Any] = {"draws": 32, "random_seed": 2, "progressbar": False}
    model = one_datum()
    whole = numbers_of(lz.marginal_log_likelihood(model, DATA, **options))
    kept = {**options, "checkpoint": path}
    with stopped_after(n_stored), suppress(KeyboardInterrupt):  # raised if no batch is finished
        lz.marginal_log_likelihood(model, DATA, **kept)
    found = lz.resume(path)
    assert (found.method, found.is_finished, found.records) == ("per_datum", False, ("plan",))
    with ThreadPoolExecutor(3) as three:  # which have other portions of the batches at a time
        again = lz.marginal_log_likelihood(model, DATA, executor=three, **kept)
    assert differing(numbers_of(again), whole) == []
    assert lz.resume(path).is_finished
    assert lz.resume(path).share_done == 1.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "Task", lambda *_: pytest.fail("something was run again"))
        again = lz.marginal_log_likelihood(model, DATA, **kept)
    assert differing(numbers_of(again), whole) == []
    other = {"y": DATA["y"] + 1e-9}
    for data, changed, message in (
        (other, {}, "data_rows"),
        (DATA, {"draws": 16}, "'draws': 32 there, 16 here"),
    ):
        with pytest.raises(lz.CheckpointError, match=message):
            lz.marginal_log_likelihood(model, data, **{**kept, **changed})


@pytest.mark.usefixtures("many_batches")
def test_data_rows_within_memory_and_run_again() -> None:
    """Would catch data that are not those of the portion of rows, and a check that is ignored."""
    options: dict[str, Any] = {"draws": 32, "random_seed": 2, "progressbar": False, "cores": 1}
    one, two = (
        lz.marginal_log_likelihood(one_datum(), DATA, **options, **how)["evidence"]["log_z"]
        for how in ({}, {"max_memory": 8000, "check_reproducible": True})
    )
    np.testing.assert_allclose(one, two, rtol=1e-9)


def test_an_error_names_the_data_rows() -> None:
    """Would catch an error of one datum out of many that does not say of which."""
    with pm.Model() as model:
        z = pm.Normal("z", 0, 1)
        pm.Normal("y", z, 0.5, observed=0.0)
    fails = {"y": np.array([0.0, np.nan, 1.0])}
    with pytest.raises(ValueError, match="NaN"):
        lz.marginal_log_likelihood(model, fails, progressbar=False)


@pytest.mark.usefixtures("no_look_from_prior")
def test_a_sandwich_that_was_stopped_ends_with_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Would catch data that are simulated anew, and reverse rows that start elsewhere."""
    monkeypatch.setattr(running, "SECONDS", 0.0)
    model, path = coin(2.0), tmp_path / "sandwich.ckpt"
    options: dict[str, Any] = {"draws": 16, "chains": 2, "betas": 40, "progressbar": False}

    def run(**more: Any) -> Any:
        return lz.sandwich(model, random_seed=3, **options, **more)

    whole = numbers_of(run())
    for n_stored in (2, 3):
        with stopped_after(n_stored), suppress(KeyboardInterrupt):  # raised if no chain is done
            run(checkpoint=path)
        assert not lz.resume(path).is_finished
    again = run(checkpoint=path)
    assert differing(numbers_of(again), whole) == []
    with pytest.raises(
        lz.CheckpointError, match="simulated data, which a checkpoint does not store"
    ):
        lz.extend(again, model, draws=8)
    with pytest.raises(lz.CheckpointError, match="model 'data' 'y'"):
        lz.sample_hais(
            **{**options, "tune": 256, "direction": "both"},
            model=model,
            random_seed=3,
            checkpoint=path,
        )


MODELS: dict[str, Any] = {"random_seed": 2, "progressbar": False, "betas": 40, "draws": 32}


@pytest.mark.usefixtures("no_look_from_prior")
def test_models_that_were_stopped_end_with_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Would catch a model that is run again once it is done, or is not gone on with."""
    monkeypatch.setattr(running, "SECONDS", 0.0)
    models, path = {"narrow": coin(20.0), "flat/1": coin(1.0)}, tmp_path / "models.ckpt"
    whole = lz.evidence_of_models(models, **MODELS)

    def run(**more: Any) -> Any:
        return lz.evidence_of_models(models, checkpoint=path, **{**MODELS, **more})

    with stopped_after(3), pytest.raises(KeyboardInterrupt):
        run()
    assert 0 < lz.resume(path).share_done < 1
    with (
        stopped_after(20),
        pytest.warns(lz.EvidenceWarning, match="1 of 2 models are done"),
    ):
        assert list(run()) == ["narrow"]
    kept = lz.resume(path)
    assert (kept.method, kept.is_finished) == ("evidence_of_models", False)
    assert kept.records == ("tree-0",)
    assert any(name.startswith("model-1: forward") for name in kept.chains)
    found = run(executor=Sends())
    assert lz.resume(path).is_finished
    for trees in (found, run()):
        assert list(trees) == list(models)
        for name, tree in trees.items():
            assert differing(numbers_of(tree), numbers_of(whole[name])) == []
            for group in ("/", "/evidence"):
                assert tree[group].attrs.keys() >= whole[name][group].attrs.keys()
    more = lz.extend(found["flat/1"], models["flat/1"], draws=32, progressbar=False)
    assert more["weighted_posterior"].sizes["draw"] == 64
    others = {"narrow": coin(20.0), "flat/1": coin(1.5)}
    for other, changed, message in (
        (others, {}, "model 'flat/1' 'log density'"),
        (dict(reversed(models.items())), {}, "order"),
        (models, {"draws": 16}, "settings 'draws': 32 there, 16 here"),
    ):
        with pytest.raises(lz.CheckpointError, match=message):
            lz.evidence_of_models(other, checkpoint=path, **{**MODELS, **changed})


@pytest.mark.usefixtures("interrupts")
def test_a_model_that_ctrl_c_cuts_short_is_not_kept_as_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Would catch a tree of half of the chains that the next call takes for all of them."""
    models, path = {"one": coin(1.0), "two": coin(2.0)}, tmp_path / "models.ckpt"
    # chains so long that the others are at work while one is kept
    settings = {**MODELS, "betas": 1000}
    options = {**settings, "cores": 1, "checkpoint": path}
    store, is_first = Keeper.store_chain, iter([True])

    def stored(keeper: Keeper, name: str, job: Any, part: Any) -> None:
        store(keeper, name, job, part)
        if job.n_done == job.n_total and next(is_first, False):
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Keeper, "store_chain", stored)
    with pytest.warns(lz.EvidenceWarning, match="interrupted"):
        found = lz.evidence_of_models(models, **options)
    assert list(found) == ["one"]
    assert 1 <= found["one"]["posterior"].sizes["chain"] < 4
    whole = lz.evidence_of_models(models, **settings)
    for name, tree in lz.evidence_of_models(models, **options).items():
        assert differing(numbers_of(tree), numbers_of(whole[name])) == []


def test_models_with_exact_observations_are_kept_too(tmp_path: Path) -> None:
    """Would catch a checkpoint that is handed to pm.sample, and a tree that does not come back."""
    with pm.Model(coords={"who": ["a", "b"]}) as simulator:
        v = pm.Normal("v", dims="who")
        n = pm.Normal("n")
        lz.ExactObservation("y", v.sum() + n, observed=pm.Data("seen", 1.0))
    path = tmp_path / "models.ckpt"
    options = {"random_seed": 2, "progressbar": False, "checkpoint": path, "cross_check": False}
    options |= {"draws": 100, "tune": 50, "chains": 2, "cores": 1}
    one = lz.evidence_of_models({"it": simulator}, **options)["it"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pm, "sample", lambda **_: pytest.fail("it was run again"))
        two = lz.evidence_of_models({"it": simulator}, **options)["it"]
    assert differing(numbers_of(one), numbers_of(two)) == []
    assert list(two["posterior"]["who"].to_numpy()) == ["a", "b"]
    with simulator:
        pm.set_data({"seen": 2.0})
    with pytest.raises(lz.CheckpointError, match="'data' 'seen'"):
        lz.evidence_of_models({"it": simulator}, **options)


def test_a_point_null_is_kept_too(tmp_path: Path) -> None:
    """Would catch a refusal of a model without free variables, or one taken for another."""
    options = {"random_seed": 2, "progressbar": False, "checkpoint": tmp_path / "models.ckpt"}
    for _ in range(2):
        null = lz.evidence_of_models({"null": pm.do(coin(20.0), {"p": 0.5})}, **options)["null"]
        assert float(null["evidence"]["log_z"][0]) == pytest.approx(stats.binom(20, 0.5).logpmf(14))
    with pytest.raises(lz.CheckpointError, match="model 'null'"):
        lz.evidence_of_models({"null": pm.do(coin(20.0), {"p": 0.6})}, **options)
