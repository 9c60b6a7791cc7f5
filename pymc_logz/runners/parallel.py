"""Independent chains, each one unit of work, on as many threads as asked for."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed

import numpy as np

Task = Callable[[], object]


def spawn_generators(rng: np.random.Generator, n: int) -> list[np.random.Generator]:
    """N independent generators; the i-th does not depend on n."""
    seed = np.random.SeedSequence(rng.integers(2**63, size=4).tolist())
    # SFC64 draws normals a fifth faster than NumPy's default, and noise is most of the cost
    return [np.random.Generator(np.random.SFC64(child)) for child in seed.spawn(n)]


def run_tasks(tasks: Sequence[Task], cores: int) -> list[object | None]:
    """Results of the tasks in their order, whatever the order they end in.

    An interrupt (Ctrl-C) stops the run and keeps what is finished: unfinished tasks have the
    result None. It is raised again if nothing is finished.
    """
    if cores == 1 or len(tasks) == 1:
        return _run_here(tasks)
    results: list[object | None] = [None] * len(tasks)
    with ThreadPoolExecutor(min(cores, len(tasks))) as executor:
        futures = {executor.submit(task): i for i, task in enumerate(tasks)}
        try:
            for future in as_completed(futures):
                results[futures[future]] = future.result()
        except KeyboardInterrupt:
            _stop(executor, list(futures))
            for future, i in futures.items():
                # also those that ended while the others were being stopped
                if not future.cancelled() and future.exception() is None:
                    results[i] = future.result()
            if all(result is None for result in results):
                raise
    return results


def _run_here(tasks: Sequence[Task]) -> list[object | None]:
    results: list[object | None] = [None] * len(tasks)
    for i, task in enumerate(tasks):
        try:
            results[i] = task()
        except KeyboardInterrupt:
            if i == 0:
                raise
            break
    return results


def _stop(executor: Executor, futures: list[Future]) -> None:
    for future in futures:
        future.cancel()
    executor.shutdown(wait=True, cancel_futures=True)
