"""Processors of this process, threads that an interrupt need not wait for, and PyMC's forks."""

import os
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Executor, Future, wait
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from functools import cache
from queue import SimpleQueue
from typing import Any

from pymc_logz.errors import logger

_under_way: dict[threading.Event, str] = {}
"""What is being called, by what ends it early."""
_limits: list[tuple[float, float]] = []
"""Calls at once, and seconds without an answer, that runs under way allow."""


class UnansweredError(TimeoutError):
    """Nothing was heard of a call for as long as a run allows."""


@contextmanager
def calls_limited(at_once: int | None, seconds: float | None) -> Iterator[None]:
    """So many calls at a time, and seconds without an answer, are allowed; None is no limit."""
    limit = at_once or float("inf"), seconds or float("inf")
    # for all threads: those that call Ops are not those that a run was begun in
    _limits.append(limit)
    try:
        yield
    finally:
        _limits.remove(limit)


def n_processors() -> int:
    """How many processors this process may use, of which containers allow few of a machine's."""
    if sys.version_info >= (3, 13):
        return os.process_cpu_count() or 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Threads(Executor):
    """So many threads that do not keep the interpreter alive, as one that hangs would."""

    def __init__(self, n: int) -> None:
        self._max_workers = n
        self._queue: SimpleQueue[tuple[Future, Callable[[], Any]] | None] = SimpleQueue()
        self.threads = [threading.Thread(target=self._work, daemon=True) for _ in range(n)]
        for thread in self.threads:
            thread.start()

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
            del item, future, task  # what they keep alive, until the next one comes


class Calls:
    """Calls of code that may hang, on so many threads.

    An interrupt leaves behind what has not come to an end so many seconds later. Code that has
    endless ``patience`` may also take as long as it likes, whatever a run allows.
    """

    def __init__(self, n: int, patience: float = 1.0) -> None:
        self._n, self._patience = n, patience
        self._starting = threading.Lock()
        self._threads: dict[tuple[int, int], Threads] = {}
        self._heard = 0.0

    @property
    def n_at_once(self) -> int:
        """On how many threads calls are made now."""
        return int(min([self._n, *(at_once for at_once, _ in _limits)]))

    def each[Row, Found](
        self, what: str, function: Callable[[Row], Found], rows: Sequence[Row]
    ) -> list[Found]:
        """Values of a function for each of several rows.

        ``what`` the function calls is named where it hangs. A KeyboardInterrupt, or a RuntimeError
        in threads that are not interrupted themselves, is raised while it is still computing; so is
        an UnansweredError if no thread has computed a value for as long as runs allow.
        """
        n, threads = self._started()
        if threading.current_thread() in threads.threads:
            return [function(row) for row in rows]
        left, found, stop = iter(enumerate(rows)), list[Any](rows), threading.Event()

        def some() -> None:
            for i, row in left:
                if stop.is_set():
                    return
                found[i] = function(row)
                self._heard = time.monotonic()

        self._heard = time.monotonic()
        _under_way[stop] = what
        futures: list[Future] = []
        try:
            for _ in rows[:n]:
                futures += [threads.submit(copy_context().run, some)]
            done = self._waited(futures, stop)
        except BaseException as error:
            # what waits for a call that is not answered hears of that by what is raised here
            ended = [stop] if isinstance(error, UnansweredError) else _under_way
            try:
                end_calls(futures, self._patience, ended)
            finally:  # also if there is another interrupt
                if not all(future.done() for future in futures):
                    self._leave(threads, what)
            raise
        finally:
            stop.set()
            del _under_way[stop]
        for future in done:
            future.result()
        return found

    def _started(self) -> tuple[int, Threads]:
        with self._starting:
            # a process that was forked has none of the threads
            key = os.getpid(), (n := self.n_at_once)
            if key not in self._threads:
                self._threads[key] = Threads(n)
            return n, self._threads[key]

    def _waited(self, futures: Collection[Future], stop: threading.Event) -> set[Future]:
        """Futures that are done: all, or one that failed among them."""
        while not stop.is_set():
            # in short waits: another thread may be told of the interrupt, which Python raises here
            done, pending = wait(futures, 0.1, FIRST_EXCEPTION)
            if not pending or any(future.exception() for future in done):
                return done
            seconds = min((seconds for _, seconds in _limits), default=float("inf"))
            if time.monotonic() - self._heard > max(seconds, self._patience):
                raise UnansweredError(
                    f"{_under_way[stop]} did not respond within time_limit={seconds:g} "
                    "seconds: it hangs, or one call takes longer than that"
                )
        raise RuntimeError(f"interrupted while {_under_way[stop]} was computing")

    def _leave(self, threads: Threads, what: str) -> None:
        """Later calls have threads of their own."""
        with self._starting:
            others = {key: one for key, one in self._threads.items() if one is not threads}
            is_left, self._threads = len(others) == len(self._threads), others
        if is_left:
            return
        logger.warning(
            "%s has not finished; it stays on a separate thread and may run until Python exits.",
            what,
        )
        threads.shutdown()


def end_calls(
    futures: Collection[Future],
    seconds: float = float("inf"),
    ended: Collection[threading.Event] = _under_way,
) -> None:
    """End calls that are under way, and those that follow, until these futures are done."""
    while True:
        for stop in list(ended):
            stop.set()
        if not wait(futures, 0.1).not_done or (seconds := seconds - 0.1) < 0:
            return


ONE_AT_A_TIME = Calls(1)
"""Of code that threads may not share: always by the same thread."""
AT_ONCE = Calls(n_processors())
FOR_MAIN = Calls(1, float("inf"))
"""Of compiled code, which ends when the calls that it makes do: the main thread hears of an
interrupt only where it runs Python itself. Left behind it would crash Python's exit."""


@cache
def silence_fork_warnings() -> None:
    """From now on PyMC's chains are forked without JAX's warning."""
    # it warns at each fork that a deadlock is likely, which is so where the forked process calls
    # JAX. PyMC starts no such process by fork, unless it is told to, of which it warns itself; and
    # step methods of this package that need JAX ask the process that has compiled, or refuse. So
    # for chains of `pm.sample` it is a false alarm, and is heard as before at any other fork
    if not hasattr(os, "register_at_fork"):
        return
    import jax

    jax.devices()  # JAX's own hook comes with them
    hushed = ExitStack()

    def before() -> None:
        if _starts_a_chain():
            hushed.enter_context(warnings.catch_warnings())
            warnings.filterwarnings(
                "ignore", message=r"os\.fork\(\) was called", category=RuntimeWarning
            )

    # hooks run in the reverse order of their registration: before that of JAX, which was first
    os.register_at_fork(before=before, after_in_parent=hushed.close, after_in_child=hushed.close)


def _starts_a_chain() -> bool:
    """Whether PyMC is starting a process for a chain just now."""
    return any(
        frame.f_globals.get("__name__") == "pymc.sampling.parallel"
        and "step_method" in frame.f_locals
        for frame, _ in traceback.walk_stack(None)
    )
