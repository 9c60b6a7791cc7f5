"""Independent chains, each one unit of work, on threads of this process."""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from typing import Any

from pymc_logz.errors import warn
from pymc_logz.graphs.threads import end_calls, n_processors

Task = Callable[[], object]
logger = logging.getLogger("pymc.pymc_logz")


def run_tasks(
    tasks: Sequence[Task],
    cores: int,
    stop: Callable[[], None] | None = None,
    *,
    at_once: bool = False,
) -> list[object | None]:
    """Results of the tasks in their order, whatever the order they end in.

    An interrupt (Ctrl-C) stops the run and keeps what is finished: unfinished tasks have the result
    None. It is raised again if nothing is finished. On ``cores`` threads, tasks that have begun are
    finished first, unless there is a second interrupt; then ``stop`` makes them end soon (None
    where they cannot). With ``at_once`` they are on threads in any case, the first interrupt makes
    them end soon, and their results are what they have by then.
    """
    if not at_once and (cores == 1 or len(tasks) == 1):
        return _run_here(tasks)
    results: list[object | None] = [None] * len(tasks)
    with ThreadPoolExecutor(min(cores, len(tasks))) as executor:
        futures = {executor.submit(task): i for i, task in enumerate(tasks)}
        try:
            for future in as_completed(futures):
                results[futures[future]] = future.result()
        except KeyboardInterrupt:
            _finish(list(futures), stop, at_once)
            for future, i in futures.items():
                # also those that ended while the others were being stopped
                if not future.cancelled() and future.exception() is None:
                    results[i] = future.result()
            if all(result is None for result in results):
                raise
    return results


def default_cores(cores: int | None, chains: int, executor: Any = None) -> int:
    """A thread per chain, as long as there are processors, unless the user says otherwise."""
    if executor is not None and cores is not None:
        raise ValueError(
            f"cores={cores!r} is read by nothing: it is for threads of this process, and executor "
            "runs the chains; leave it out"
        )
    return min(chains, n_processors()) if cores is None else cores


def finished(results: Sequence[object | None], what: str = "chains") -> list[Any]:
    """Results that are there, after a warning if an interrupt left some out."""
    done = [result for result in results if result is not None]
    if len(done) < len(results):
        warn(
            f"interrupted: {len(done)} of {len(results)} {what} are finished, and only they "
            "are used"
        )
    return done


def _run_here(tasks: Sequence[Task]) -> list[object | None]:
    results: list[object | None] = [None] * len(tasks)
    for i, task in enumerate(tasks):
        try:
            results[i] = task()
        except KeyboardInterrupt:
            if i == 0:
                raise
            logger.warning("Interrupted: keeping %d of %d chains.", i, len(tasks))
            break
    return results


def _finish(futures: Sequence[Future], stop: Callable[[], None] | None, at_once: bool) -> None:
    """Wait for tasks that have begun, and start no other; see `run_tasks`."""
    begun = [future for future in futures if not future.cancel()]
    n_left = sum(not future.done() for future in begun)
    if stop is not None and at_once:
        stop()
        logger.warning("Interrupted: chains end here, and the draws that they have are kept.")
    elif n_left:
        again = "" if stop is None else "; press Ctrl-C again to drop them"
        logger.warning("Interrupted: finishing %d of %d chains%s.", n_left, len(futures), again)
    try:
        wait(begun)
    except KeyboardInterrupt:
        if stop is None:
            raise
        stop()
        end_calls(begun)
