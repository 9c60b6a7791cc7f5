"""Workers of a run: threads of this process, or those of whatever executor a user gives."""

import logging
import multiprocessing
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    wait,
)
from concurrent.futures.process import ProcessPoolExecutor
from typing import Any

from pymc_logz.errors import WorkersLostError

logger = logging.getLogger("pymc.pymc_logz")


def check_executor(executor: Any) -> None:
    """Raise an error for what is no executor, or forks a process in which JAX has threads.

    A TypeError is raised if it has no method ``submit``; a ValueError if its processes would be
    forks of one that has loaded JAX.
    """
    if executor is None:
        return
    if not callable(getattr(executor, "submit", None)):
        raise TypeError(
            f"executor is of type {type(executor).__name__}; give a concurrent.futures.Executor, "
            "such as ThreadPoolExecutor(4), ProcessPoolExecutor(4, mp_context="
            "multiprocessing.get_context('spawn')) or dask's Client.get_executor()"
        )
    if start_method(executor) == "fork" and "jax" in sys.modules:
        raise ValueError(
            f"executor={type(executor).__name__} forks this process, and forks of a process that "
            "has loaded JAX may hang for ever; start processes afresh: ProcessPoolExecutor(2, "
            "mp_context=multiprocessing.get_context('spawn'))"
        )


def start_method(executor: Any) -> str | None:
    """How a pool of processes starts them; None if it is something else."""
    if not isinstance(executor, ProcessPoolExecutor):
        return None
    context = getattr(executor, "_mp_context", None) or multiprocessing
    method: str = context.get_start_method()
    return method


def n_workers(executor: Any) -> int:
    """How many workers an executor seems to have: as often is a course sent along at first."""
    for name in ("_max_workers", "num_workers"):
        if isinstance(found := getattr(executor, name, None), int):
            return found
    client = getattr(executor, "_client", None)  # of dask
    if client is not None and callable(getattr(client, "ncores", None)):
        return max(1, len(client.ncores()))
    return os.cpu_count() or 1


class Threads(Executor):
    """So many threads that do not keep the interpreter alive, as one that hangs would."""

    def __init__(self, n: int) -> None:
        self._max_workers = n
        self._queue: queue.SimpleQueue[tuple[Future, Callable[[], Any]] | None]
        self._queue = queue.SimpleQueue()
        for _ in range(n):
            threading.Thread(target=self._work, daemon=True).start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        """As of any executor."""
        future: Future = Future()
        self._queue.put((future, lambda: fn(*args, **kwargs)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let threads end when they have done what there is; nobody waits for them."""
        for _ in range(self._max_workers):
            self._queue.put(None)

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            future, task = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(task())
            except BaseException as error:
                future.set_exception(error)


class Workers:
    """Workers to whom tasks are given, those of workers that were lost again.

    They are the user's executor, or as many threads of this process as ``cores``. ``again`` submits
    the task of this name once more, and ``note`` is added to an error of a task.
    """

    def __init__(
        self, executor: Any, cores: int, again: Callable[[str], None], note: str = ""
    ) -> None:
        self._given, self._again, self._note = executor, again, note
        self._now: Any = Threads(cores) if executor is None else executor
        self._pending: dict[Future, tuple[str, int]] = {}
        self.n, self.n_losses = n_workers(self._now), 0
        self.hanging: list[str] = []
        """Tasks of which nothing was heard in time."""

    def submit(self, name: str, task: Callable[[], Any]) -> None:
        """Give a task to whoever is free."""
        try:
            future: Future = self._now.submit(task)
        except BrokenExecutor as error:
            future = Future()
            future.set_exception(error)
        self._pending[future] = name, self.n_losses

    def answers(self, time_limit: float | None = None) -> Iterator[tuple[str, Any]]:
        """What comes of all tasks by name, also of those that are submitted in the meantime.

        It ends early where nothing comes within so many seconds. A WorkersLostError is raised if
        workers were lost too often.
        """
        while self._pending:
            done, _ = wait(list(self._pending), time_limit, FIRST_COMPLETED)
            if not done:
                self.hanging = [name for name, _ in self._pending.values()]
                return
            # an error ends the run: answers that came along with it are not lost
            for future in sorted(done, key=lambda one: _error_of(one) is not None):
                name, n_losses = self._pending.pop(future)
                error = _error_of(future)
                if error is None:
                    yield name, future.result()
                elif is_loss(error):
                    if n_losses == self.n_losses:  # else its pool is replaced already
                        self._replace_lost(error)
                    self._again(name)
                else:
                    error.add_note(f"This was {name!r}. {self._note}".rstrip())
                    raise error

    def answers_there(self) -> Iterator[tuple[str, Any]]:
        """Answers that have come, after an interrupt."""
        for future in [one for one in self._pending if one.done() and _error_of(one) is None]:
            yield self._pending.pop(future)[0], future.result()

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *_: object) -> None:
        for future in self._pending:
            future.cancel()
        if self.hanging and isinstance(self._now, ProcessPoolExecutor):
            for process in list((getattr(self._now, "_processes", None) or {}).values()):
                process.kill()
        if self._now is not self._given:
            self._now.shutdown(wait=False, cancel_futures=True)

    def _replace_lost(self, error: BaseException, most: int = 3) -> None:
        """See to it that there are workers again."""
        self.n_losses += 1
        if self.n_losses > most:
            raise WorkersLostError(
                f"workers were lost {self.n_losses} times, the last time with {error!r}: the model "
                "itself seems to end the processes that evaluate it (memory, or a library that "
                "crashes); give max_memory=, or run it without executor to see what it does"
            ) from error
        logger.warning("A worker was lost (%r); its work is done again.", error)
        if isinstance(self._now, ProcessPoolExecutor):
            old, self._now = self._now, _same_pool(self._now)
            if old is not self._given:
                old.shutdown(wait=False, cancel_futures=True)


def _error_of(future: Future) -> BaseException | None:
    return CancelledError() if future.cancelled() else future.exception()


def is_loss(error: BaseException) -> bool:
    """Whether a task failed because of whoever did it, not because of what it does."""
    # the class of dask's error for a task whose workers have all died, wherever it is defined
    return isinstance(error, BrokenExecutor | CancelledError) or type(error).__name__ in (
        "KilledWorker",
        "FutureCancelledError",
        "FuturesCancelledError",
    )


def _same_pool(pool: ProcessPoolExecutor) -> ProcessPoolExecutor:
    """A new pool like one whose processes are gone."""
    given: dict[str, Any] = {
        "max_workers": getattr(pool, "_max_workers", None),
        "mp_context": getattr(pool, "_mp_context", None),
        "initializer": getattr(pool, "_initializer", None),
        "initargs": getattr(pool, "_initargs", ()),
    }
    return ProcessPoolExecutor(**given)
