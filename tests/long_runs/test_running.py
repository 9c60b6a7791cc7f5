"""Chains that others carry on with: the same outcome whatever happens to whoever does the work."""

import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pymc_logz.errors import EvidenceWarning, WorkersLostError
from pymc_logz.long_runs import records, running, workers
from pymc_logz.long_runs.checkpoint import Keeper
from pymc_logz.long_runs.running import LongRunning
from pymc_logz.long_runs.workers import Store, Task
from pymc_logz.runners.moves_of_rows import Work
from pymc_logz.runners.running import Running, generator_at, running_for, state_of


@dataclass(frozen=True)
class Sum:
    """A chain that adds up random numbers, eight at a time."""

    rng: dict[str, Any]
    n_total: int
    n_done: int = 0
    value: Any = 0.0
    n_evaluations: int = 0

    def resumed(self, kept: "Sum") -> "Sum":
        return kept

    def advance(self, course: "Sums", report: Any) -> tuple["Sum", np.ndarray]:
        rng, done, made, value = generator_at(self.rng), self.n_done, [], float(self.value)
        while done < self.n_total:
            course.happens(done)
            made.append(rng.normal(size=8) + course.shift)
            value += made[-1].sum()
            done += 8
            course.work.add(8)
            if report is not None and report(8):
                break
        now = replace(self, rng=state_of(rng), n_done=done, value=np.asarray(value))
        return now, np.concatenate(made)


@dataclass(frozen=True)
class Sums:
    """What they have in common."""

    shift: float = 0.5
    happens: Callable[[int], None] = lambda done: None
    work: Any = None
    keeps_parts = False

    def compile(self) -> None:
        pass

    def counted(self, work: Work) -> "Sums":
        return replace(self, work=work)


def jobs(n: int = 3) -> list[Sum]:
    return [Sum(state_of(np.random.Generator(np.random.SFC64(i))), 80) for i in range(n)]


def outcome(how: Running, course: Sums | None = None, n: int = 3) -> tuple[Any, ...]:
    """Sums, numbers, evaluations, and what was reported."""
    course, told = replace(course or Sums(), work=Work()), []
    found = how.run("sums", course, jobs(n), told.append)
    values = [None if one is None else float(one.job.value) for one in found]
    numbers = [None if one is None else np.concatenate(one.parts) for one in found]
    return values, numbers, course.work.done, sum(told)


@pytest.fixture(scope="module")
def expected() -> tuple[Any, ...]:
    return outcome(Running())


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains hand back what they have after every block."""
    monkeypatch.setattr(running, "SECONDS", 0.0)


def check(found: tuple[Any, ...], expected: tuple[Any, ...]) -> None:
    np.testing.assert_equal(found, expected)


class Sent(Executor):
    """Runs tasks as if each were sent to one of several processes that have stores of their own.

    Parameters
    ----------
    n
        How many processes.
    lost
        Numbers of submissions whose worker dies on them.
    breaks
        Whether the pool dies with its worker.
    """

    def __init__(self, n: int = 2, lost: tuple[int, ...] = (), breaks: bool = False) -> None:
        self.stores = [Store() for _ in range(n)]
        self.lost, self.breaks, self.n_submitted, self.n_courses = lost, breaks, 0, 0
        self._max_workers = n

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        assert isinstance(fn, Task)
        future: Future = Future()
        which, self.n_submitted = self.n_submitted % len(self.stores), self.n_submitted + 1
        if self.n_submitted in self.lost:
            self.stores[which] = Store()  # whoever comes in its place knows nothing
            future.set_exception(BrokenExecutor("a worker died"))
            return future
        make, given = fn.__reduce__()
        self.n_courses += bool(given[2])
        try:
            future.set_result(make(*given)(store=self.stores[which]))
        except Exception as error:
            future.set_exception(error)
        return future


@pytest.mark.parametrize("n", [1, 2, 8])
def test_threads_come_to_the_same(n: int, expected: tuple[Any, ...]) -> None:
    """Would catch a chain that depends on where it was interrupted, or who went on with it."""
    with ThreadPoolExecutor(n) as executor:
        check(outcome(LongRunning(executor=executor)), expected)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_course_is_sent_about_once_to_each_process(n: int, expected: tuple[Any, ...]) -> None:
    """Would catch a model that goes along with every task, or is missing."""
    executor = Sent(n)
    check(outcome(LongRunning(executor=executor)), expected)
    assert executor.n_submitted >= 30
    assert n <= executor.n_courses <= 2 * n


def test_a_process_that_has_lost_its_course_is_sent_it_again(expected: tuple[Any, ...]) -> None:
    """Would catch a replaced worker that fails for want of the model."""

    class Forgets(Sent):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future:
            if self.n_submitted == 9:
                self.stores = [Store(), Store()]
            return super().submit(fn, *args, **kwargs)

    executor = Forgets()
    check(outcome(LongRunning(executor=executor)), expected)
    assert executor.n_courses >= 4


def test_lost_workers_cost_nothing_but_their_last_seconds(
    expected: tuple[Any, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """Would catch a chain that ends, starts anew or counts twice when its worker dies."""
    with caplog.at_level("WARNING"):
        check(outcome(LongRunning(executor=Sent(lost=(1, 7, 12)))), expected)
    assert "its work is done again" in caplog.text


def test_workers_that_die_again_and_again_are_told(expected: tuple[Any, ...]) -> None:
    """Would catch a run that goes on for ever with a model that ends its processes."""
    with pytest.raises(WorkersLostError, match="the model seems to crash the processes"):
        outcome(LongRunning(executor=Sent(lost=tuple(range(1, 100)))))


def test_an_error_of_the_model_comes_out_as_it_is(tmp_path: Path) -> None:
    """Would catch an error that is taken for a lost worker, or says nothing of what is kept."""

    def fail(done: int) -> None:
        if done == 40:
            raise ArithmeticError("no such number")

    how = LongRunning(time_limit=60.0)
    with pytest.raises(ArithmeticError, match="no such number") as caught:
        outcome(how, Sums(happens=fail))
    assert "chain" in caught.value.__notes__[0]
    assert "with checkpoint= the progress would have been stored" in caught.value.__notes__[0]


def test_what_hangs_is_given_up() -> None:
    """Would catch a run that waits for ever, and finished chains that are lost with it."""
    hang = threading.Event()
    slow: dict[str, Any] = {"time_limit": 0.3, "cores": 4}
    try:
        with pytest.raises(TimeoutError, match=r"time_limit=0.3 seconds.*the likelihood hangs"):
            outcome(LongRunning(**slow), Sums(happens=lambda done: hang.wait()))  # type: ignore[func-returns-value,arg-type]
        started = iter(range(100))

        def one_hangs(done: int) -> None:
            if done == 0 and next(started) == 0:
                hang.wait()

        with pytest.warns(EvidenceWarning, match="what was not finished is left out"):
            values, *_ = outcome(LongRunning(**slow), Sums(happens=one_hangs))
        assert sorted(value is None for value in values) == [False, False, True]
    finally:
        hang.set()


def test_an_interrupt_keeps_what_is_finished_and_stored(
    tmp_path: Path, expected: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Would catch a Ctrl-C after which the run starts anew, or ends with other bits."""
    path = tmp_path / "run.ckpt"
    monkeypatch.setattr(records, "PREFIX", "")  # since the chains are of these tests

    class Interrupted(Sent):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future:
            if self.n_submitted == 14:
                raise KeyboardInterrupt
            return super().submit(fn, *args, **kwargs)

    with Keeper.opened(path, {}) as keeper, pytest.raises(KeyboardInterrupt):
        outcome(LongRunning(executor=Interrupted(), keeper=keeper))
    with Keeper.opened(path, {}) as keeper:
        sent = Sent()
        check(outcome(LongRunning(executor=sent, keeper=keeper)), expected)
        assert sent.n_submitted <= 22, "nothing is done twice"
    with Keeper.opened(path, {}) as keeper:
        check(outcome(LongRunning(executor=Sent(lost=(1, 2, 3, 4, 5)), keeper=keeper)), expected)


def test_bits_that_are_not_the_same_are_told() -> None:
    """Would catch a check of reproducibility that cannot fail."""
    outcome(LongRunning(check_reproducible=True))
    with pytest.warns(EvidenceWarning, match="a different result when it is repeated"):
        LongRunning(check_reproducible=True).run("sums", Drifting(), jobs(), None)


class Drifting:
    """A course that is another one each time it is looked at."""

    happens, work, keeps_parts = staticmethod(lambda done: None), Work(), False

    def __init__(self) -> None:
        self.n_looks = 0

    @property
    def shift(self) -> float:
        self.n_looks += 1
        return 1e-12 * self.n_looks

    def compile(self) -> None:
        pass

    def counted(self, work: Work) -> "Drifting":
        return self


def test_executors_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Would catch a pool that hangs for ever because it forks a process with threads of JAX."""
    with pytest.raises(TypeError, match=r"executor is of type int; give a concurrent.futures"):
        LongRunning(executor=4)
    monkeypatch.setitem(workers.sys.modules, "jax", object())
    fork = ProcessPoolExecutor(1, mp_context=get_context("fork"))
    with fork, pytest.raises(ValueError, match=r"forks.*mp_context=.*spawn"):
        LongRunning(executor=fork)
    monkeypatch.delitem(workers.sys.modules, "jax")
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as fork:
        before_jax = LongRunning(executor=fork)
        with before_jax.kept({}, None, None):
            pass
        monkeypatch.setitem(workers.sys.modules, "jax", object())  # compiling loads it
        with pytest.raises(ValueError, match="forks"), before_jax.kept({}, None, None):
            pass
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as spawn:
        LongRunning(executor=spawn)
    with pytest.raises(ValueError, match="cores=2 has no effect here"):
        running_for(1, 4, fork, cores=2)


def test_own_threads_do_not_keep_the_interpreter_alive() -> None:
    """Would catch a thread that hangs, and the process with it."""
    before = set(threading.enumerate())
    threads, never = workers.Threads(1), threading.Event()
    threads.submit(never.wait)
    new = set(threading.enumerate()) - before
    assert len(new) == 1
    assert all(thread.daemon for thread in new)
    never.set()
    threads.shutdown()
