"""Whole runs by processes and by a cluster: the bits of one that ran here, workers dying or not."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest
from support.long_runs import METHODS, differing, model, numbers_of

import pymc_logz as lz
from pymc_logz.long_runs import running

pytestmark = [
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
    pytest.mark.filterwarnings("ignore::pymc_logz.errors.EvidenceWarning"),  # runs are short
]


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains hand back what they have after every block."""
    monkeypatch.setattr(running, "SECONDS", 0.0)


@pytest.fixture(scope="module")
def pool() -> Iterator[Executor]:
    """A process that was started afresh."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        yield executor


@cache
def here(method: str) -> dict[str, np.ndarray]:
    """Numbers of a run in this process."""
    return numbers_of(METHODS[method](cores=1))


@pytest.mark.parametrize("method", ["annealed", "tempered"])
def test_a_process_comes_to_the_same_bits(method: str, pool: Executor) -> None:
    """Would catch a model that is another one after it has travelled, and draws made elsewhere."""
    found = METHODS[method](executor=pool, check_reproducible=True)
    assert differing(numbers_of(found), here(method)) == []


def test_evaluations_are_counted_wherever_they_are_made(pool: Executor) -> None:
    """Would catch a cost that lacks what workers did."""
    trees = [METHODS["annealed"](**options) for options in ({"cores": 2}, {"executor": pool})]
    counts = [
        {name: tree["evidence"].attrs[name] for name in tree["evidence"].attrs if "row_" in name}
        for tree in trees
    ]
    assert counts[0] == counts[1]
    assert counts[0]["run_row_gradients"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 8])
def test_any_number_of_processes(n: int) -> None:
    """Would catch a bit that depends on who did what."""
    with ProcessPoolExecutor(n, mp_context=get_context("spawn")) as executor:
        for method, run in METHODS.items():
            assert differing(numbers_of(run(executor=executor)), here(method)) == []


@pytest.mark.slow
def test_a_pool_whose_worker_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Would catch a run that ends, or has other bits, when a process of its pool dies."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        keep, n_answers = running._Drive._keep, iter(range(10_000))

        def kill_half_way(drive: Any, *args: Any) -> None:
            keep(drive, *args)
            if next(n_answers) == 9:
                for process in list(executor._processes.values())[:1]:
                    os.kill(process.pid, signal.SIGKILL)

        monkeypatch.setattr(running._Drive, "_keep", kill_half_way)
        found = METHODS["annealed"](executor=executor)
    assert next(n_answers) > 9
    assert differing(numbers_of(found), here("annealed")) == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_dask_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Would catch a cluster that has other bits, with all of its workers or with one killed."""
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    )
    with cluster, distributed.Client(cluster) as client:
        executor = client.get_executor()
        for method in ("annealed", "tempered"):
            found = METHODS[method](executor=executor)
            assert differing(numbers_of(found), here(method)) == []
        keep, n_answers = running._Drive._keep, iter(range(10_000))

        def kill_half_way(drive: Any, *args: Any) -> None:
            keep(drive, *args)
            if next(n_answers) == 9:
                os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)

        monkeypatch.setattr(running._Drive, "_keep", kill_half_way)
        found = METHODS["annealed"](executor=executor)
        assert next(n_answers) > 9
        assert differing(numbers_of(found), here("annealed")) == []


@pytest.mark.slow
def test_sandwich_takes_an_executor(pool: Executor) -> None:
    """Would catch an argument that is taken and not used."""
    options: dict[str, Any] = {"betas": 24, "random_seed": 3, "progressbar": False}
    trees = [
        lz.sandwich(model(), 32, 2, **options, **how) for how in ({"cores": 1}, {"executor": pool})
    ]
    assert differing(*map(numbers_of, trees)) == []
