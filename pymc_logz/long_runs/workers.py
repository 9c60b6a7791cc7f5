"""Workers of a run, threads or those of a user's executor, and how jobs travel to them."""

import copy
import io
import multiprocessing
import pickle
import sys
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Future,
    ThreadPoolExecutor,
    wait,
)
from concurrent.futures.process import ProcessPoolExecutor
from dataclasses import replace
from functools import cached_property, partial
from itertools import filterfalse
from typing import Any

import numpy as np
from pytensor.graph.op import Op

from pymc_logz.errors import WorkersLostError, logger
from pymc_logz.graphs.functions import Kept
from pymc_logz.graphs.threads import Threads, UnansweredError, end_calls, n_processors
from pymc_logz.long_runs.identity import digest_of
from pymc_logz.models.cache import kept_for
from pymc_logz.models.flat import FlatModel
from pymc_logz.models.prior import PriorDraws
from pymc_logz.paths.geometric import no_draws
from pymc_logz.runners.moves_of_rows import MovesOfRows, Work


def check_executor(executor: Any) -> None:
    """Raise an error for what is no executor, or forks a process in which JAX has threads."""
    if executor is None:
        return
    if not callable(getattr(executor, "submit", None)):
        raise TypeError(
            f"executor is of type {type(executor).__name__}; give a concurrent.futures.Executor, "
            "such as ThreadPoolExecutor(4), ProcessPoolExecutor(4, mp_context="
            "multiprocessing.get_context('spawn')) or dask's Client.get_executor()"
        )
    context = getattr(executor, "_mp_context", None) or multiprocessing
    forks = isinstance(executor, ProcessPoolExecutor) and context.get_start_method() == "fork"
    if forks and "jax" in sys.modules:
        raise ValueError(
            f"executor={type(executor).__name__} forks this process, and forks of a process that "
            "has loaded JAX may hang for ever; start processes afresh: ProcessPoolExecutor(2, "
            "mp_context=multiprocessing.get_context('spawn'))"
        )


def n_workers(executor: Any) -> int:
    """How many workers an executor seems to have: as often is a course sent along at first."""
    for name in ("_max_workers", "num_workers"):
        if isinstance(found := getattr(executor, name, None), int):
            return found
    client = getattr(executor, "_client", None)  # of dask
    if client is not None and callable(getattr(client, "ncores", None)):
        return max(1, len(client.ncores()))
    return n_processors()


class Workers:
    """Workers, an executor or as many threads as ``cores``, to whom tasks are given.

    ``again`` submits the task of this name once more; ``note`` is added to an error of a task.
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
        """What comes of all tasks, also of later ones; it ends where nothing does for so long."""
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
                elif isinstance(error, UnansweredError):
                    self.hanging = [name, *(other for other, _ in self._pending.values())]
                    return
                elif is_loss(error):
                    if n_losses == self.n_losses:  # else its pool is replaced already
                        self._replace_lost(error)
                    self._again(name)
                else:
                    error.add_note(f"This was {name!r}. {self._note}".rstrip())
                    raise error

    def finished_answers(self) -> Iterator[tuple[str, Any]]:
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
        hangs_here = self.hanging and isinstance(self._now, ThreadPoolExecutor)
        if self._pending and (hangs_here or isinstance(self._now, Threads)):
            # compiled code that runs on while Python ends crashes it; Ops that hang are left behind
            end_calls(self._pending, 2.0 if self.hanging else 10.0)
        if self._now is not self._given:
            self._now.shutdown(wait=False, cancel_futures=True)

    def _replace_lost(self, error: BaseException) -> None:
        """See to it that there are workers again."""
        self.n_losses += 1
        if self.n_losses > 3:
            raise WorkersLostError(
                f"workers were lost {self.n_losses} times, the last time with {error!r}: the model "
                "seems to crash the processes that evaluate it (out of memory, or a library that "
                "crashes); give max_memory=, or run it without executor to see what it does"
            ) from error
        logger.warning("A worker was lost (%r); its work is done again.", error)
        if isinstance(old := self._now, ProcessPoolExecutor):
            names = ("mp_context", "initializer", "initargs", "max_workers")
            self._now = ProcessPoolExecutor(**{name: getattr(old, f"_{name}") for name in names})
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


class Part:
    """What cloudpickle takes, sent to a process once; parts that it holds travel apart."""

    def __init__(self, thing: Any) -> None:
        self.thing, self.token = thing, uuid.uuid4().hex

    @cached_property
    def pickles(self) -> Mapping[str, bytes]:
        """The part as bytes, and those that it holds, which are not in there and come first."""
        import cloudpickle

        thing, held, ops = self.thing, dict[str, Part](), list[Op]()

        class Pickler(cloudpickle.Pickler):
            def persistent_id(self, obj: Any) -> str | None:
                if isinstance(obj, PriorDraws) and obj is not thing:  # compiled where they arrive
                    draws = obj
                    columns = None if obj.columns is None else tuple(obj.columns.tolist())
                    obj = kept_for(draws.model).get((Part, columns), lambda: Part(copy.copy(draws)))
                if not isinstance(obj, Part):
                    return None
                held[obj.token] = obj
                return obj.token

            def reducer_override(self, obj: Any) -> Any:
                if obj is not thing and isinstance(obj, MovesOfRows):
                    return _reduced_moves(obj)
                if obj is not thing and isinstance(obj, FlatModel):
                    return _reduced_model(obj)
                if isinstance(obj, Op):
                    ops.append(obj)
                return super().reducer_override(obj)

        file = io.BytesIO()
        try:
            Pickler(file).dump(thing)
        except Exception as error:
            for op in filterfalse(_can_be_pickled, reversed(ops)):  # it failed at the last ones
                raise TypeError(
                    f"executor= sends the model to other processes, and {op}, an Op of the model, "
                    f"cannot be pickled ({error}); leave executor out, and threads of this process "
                    "run the chains, or have the Op make what cannot be pickled when it is first "
                    "called"
                ) from error
            raise
        pickles = {k: v for part in held.values() for k, v in part.pickles.items()}
        return {**pickles, self.token: file.getvalue()}


def _can_be_pickled(thing: Any) -> bool:
    import cloudpickle

    try:
        cloudpickle.dumps(thing)
    except Exception:
        return False
    return True


def _reduced_moves(moves: MovesOfRows) -> tuple[Any, ...]:
    """Moves on a path with values of its own, and draws of the reference where they are needed."""
    path = moves.given_path
    key = (Part, type(moves), *moves.settings, moves.n_rows, moves.most_rows)
    part = path.made_once(key, lambda: Part(_bare(moves)))
    draws = path.sample_reference if moves.draws_reference else no_draws
    pairs = enumerate(zip(path.values, part.thing.given_path.values, strict=True))
    own = {i: new for i, (new, old) in pairs if new is not old and digest_of(new) != digest_of(old)}
    return _along, (part, own, draws)


def _bare(moves: MovesOfRows) -> MovesOfRows:
    """Moves without what is compiled, and without draws of the reference."""
    path = replace(moves.given_path, sample_reference=no_draws)
    bare = moves.changed(given_path=path, work=Work())
    for compiled in ("compiled", "path"):
        vars(bare).pop(compiled, None)
    return bare


def _along(
    moves: MovesOfRows, changed: Mapping[int, np.ndarray], draws: Callable[..., np.ndarray]
) -> MovesOfRows:
    values = [changed.get(i, value) for i, value in enumerate(moves.given_path.values)]
    return moves.along(values, sample_reference=draws)


def _reduced_model(flat: FlatModel) -> tuple[Any, ...]:
    """The densities of a model and the values of its data."""
    bare = partial(replace, flat, model=None, observed=None, values=(), summed=None, kept=Kept())
    part = flat.kept.get(Part, lambda: Part(bare()))
    return partial(replace, values=flat.values), (part,)


class Store:
    """Parts that have arrived in a process; of more than ``most``, the longest unused go."""

    def __init__(self, most: int = 16) -> None:
        self._kept: OrderedDict[str, Any] = OrderedDict()
        self._most, self._lock = most, threading.RLock()

    def take_in(self, pickles: Mapping[str, bytes]) -> None:
        """Unpack what is not there yet."""
        store = self

        class Unpickler(pickle.Unpickler):
            def persistent_load(self, token: str) -> Any:
                return store.get(token)

        with self._lock:
            for token, contents in pickles.items():
                if token not in self._kept:
                    self._kept[token] = Unpickler(io.BytesIO(contents)).load()
            while len(self._kept) > max(self._most, len(pickles)):
                self._kept.popitem(last=False)

    def get(self, token: str) -> Any:
        """A part; None if it is not there."""
        with self._lock:
            if token in self._kept:
                self._kept.move_to_end(token)
            return self._kept.get(token)


HERE = Store()
"""What has arrived in this process."""


type Answer = tuple[Any, Any]
"""A job further on, and the draws that it has left, if any."""


class Task:
    """A job to be carried on with for so many seconds, here or elsewhere.

    Only if it is to it takes the course along; the answer of a process without it is None.
    """

    def __init__(self, course: Part, job: Any, seconds: float, takes_course: bool) -> None:
        self.course, self.job, self.seconds, self.takes_course = course, job, seconds, takes_course

    def __call__(self) -> Answer:
        """Do it in the process that it was made in."""
        return run_job_for(self.course.thing, self.job, self.seconds)

    def __reduce__(self) -> tuple[Any, ...]:
        pickles = dict(self.course.pickles) if self.takes_course else {}
        return partial, (run_job_remotely, self.course.token, pickles, self.job, self.seconds)


def run_job_remotely(
    token: str, pickles: Mapping[str, bytes], job: Any, seconds: float, store: Store = HERE
) -> Answer | None:
    """A job carried on with in another process, if the course is there."""
    store.take_in(pickles)
    course = store.get(token)
    return None if course is None else run_job_for(course, job, seconds)


def run_job_for(course: Any, job: Any, seconds: float) -> Answer:
    """A job after so many seconds of work at least, or at its end; compiling does not count."""
    course.compile()
    work, deadline = Work(), time.monotonic() + seconds
    job, part = job.advance(course.counted(work), lambda _: time.monotonic() >= deadline)
    return replace(job, n_evaluations=job.n_evaluations + work.done), part
