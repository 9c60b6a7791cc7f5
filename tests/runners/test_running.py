"""Independent tasks: their order, the same bits on any number of cores, interrupts."""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from support.checks import make_rng
from support.paths_with_exact_draws import N_ROWS, TARGETS, compiled_block

from pymc_logz.kernels import Hamiltonian
from pymc_logz.paths.schedules import linear_betas
from pymc_logz.runners.anneal import anneal
from pymc_logz.runners.running import run_tasks
from pymc_logz.seeds import spawn_generators

Task = Callable[[], object]


def run_or_none(tasks: list[Task], cores: int) -> list[object | None]:
    """Results; none at all if the interrupt gets out, which would end pytest itself."""
    try:
        return run_tasks(tasks, cores)
    except KeyboardInterrupt:
        return []


def slow_first(i: int) -> int:
    time.sleep(0.02 * (4 - i))
    return i


@pytest.mark.parametrize("cores", [1, 2, 4])
def test_results_keep_the_order_of_tasks(cores: int) -> None:
    """Catches results in the order in which tasks end."""
    assert run_tasks([partial(slow_first, i) for i in range(4)], cores) == [0, 1, 2, 3]


def test_cores_do_not_change_the_result() -> None:
    """Catches state shared between chains: a generator, a buffer, a compiled function's storage."""
    target, block = TARGETS["gaussian"], compiled_block("gaussian", Hamiltonian())
    plan = target.plan(linear_betas(40), 0.8)

    def runs(cores: int) -> list[object | None]:
        generators = spawn_generators(make_rng("chains"), 3)
        return run_tasks(
            [
                partial(anneal, block, plan, target.sample(rng, 0.0, N_ROWS), rng)
                for rng in generators
            ],
            cores,
        )

    for one, two in zip(runs(1), runs(2), strict=True):
        np.testing.assert_array_equal(one.log_weight, two.log_weight)
        np.testing.assert_array_equal(one.position, two.position)


def test_generators_are_independent_and_do_not_depend_on_their_number() -> None:
    """Catches chains with the same noise, and seeds that change when a chain is added."""
    three, five = (
        [generator.standard_normal(4) for generator in spawn_generators(make_rng("spawn"), n)]
        for n in (3, 5)
    )
    np.testing.assert_array_equal(three, five[:3])
    assert len({draws[0] for draws in five}) == 5


def test_an_interrupt_keeps_what_is_finished(
    interrupt: Task, caplog: pytest.LogCaptureFixture
) -> None:
    """Catches an interrupt that throws away the chains before it, or is not answered."""
    with caplog.at_level(logging.WARNING, logger="pymc.pymc_logz"):
        assert run_or_none([lambda: 1, lambda: 2, interrupt, lambda: 4], 1) == [1, 2, None, None]
    assert caplog.messages == ["Interrupted: 2 of 4 chains are returned."]


def test_an_interrupt_keeps_what_is_finished_on_threads(interrupt: Task) -> None:
    """Catches finished chains lost on threads, and tasks started after the interrupt."""
    done = threading.Event()

    def finished() -> int:
        done.set()
        return 1

    def late_interrupt() -> object:
        done.wait()
        time.sleep(0.1)
        return interrupt()

    started = []
    waiting = [partial(started.append, i) for i in range(20)]
    busy = [partial(time.sleep, 0.4)] * 3
    assert run_or_none([finished, late_interrupt, *busy, *waiting], 2)[:2] == [1, None]
    assert len(started) < 20


def test_an_interrupt_keeps_tasks_that_end_while_stopping(interrupt: Task) -> None:
    """Catches results that were waited for, and then thrown away."""
    running = threading.Event()

    def ends_later() -> int:
        running.set()
        time.sleep(0.2)
        return 2

    def interrupt_while_running() -> object:
        running.wait()
        return interrupt()

    assert run_or_none([lambda: 1, interrupt_while_running, ends_later], 3) == [1, None, 2]


@pytest.mark.parametrize("cores", [1, 2])
def test_an_interrupt_with_nothing_finished_is_raised(cores: int, interrupt: Task) -> None:
    """Catches an empty result in place of the user's Ctrl-C."""
    with pytest.raises(KeyboardInterrupt):
        run_tasks([interrupt, interrupt], cores)


@pytest.mark.parametrize("cores", [1, 2])
def test_an_error_in_a_task_is_raised(cores: int) -> None:
    """Catches a chain that fails in silence."""

    def fail() -> object:
        raise ArithmeticError("a chain failed")

    with pytest.raises(ArithmeticError, match="a chain failed"):
        run_tasks([lambda: 1, fail], cores)


def press_after(seconds: float) -> threading.Timer:
    """Ctrl-C, as from a keyboard, in a while."""
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    return timer


@pytest.mark.usefixtures("interrupts")
def test_a_second_interrupt_drops_what_runs(caplog: pytest.LogCaptureFixture) -> None:
    """Catches seconds of silence after Ctrl-C, and a second one that loses finished chains."""
    dropped = threading.Event()

    def long() -> int:
        if dropped.wait(20.0):
            raise RuntimeError("dropped")
        return 2

    timers = [press_after(0.3), press_after(0.9)]
    begun, started = time.time(), time.monotonic()
    with caplog.at_level(logging.WARNING, logger="pymc.pymc_logz"):
        assert run_tasks([lambda: 1, long, long], 3, dropped.set) == [1, None, None]
    assert time.monotonic() - started < 10.0
    [said] = caplog.records
    assert said.message == (
        "Interrupted: finishing 2 of 3 chains; press Ctrl-C again to drop them."
    )
    assert said.created - begun < 0.3 + 1.0, "it answers within a second"
    for timer in timers:
        timer.join()


@pytest.mark.usefixtures("interrupts")
def test_one_interrupt_ends_what_keeps_its_draws(caplog: pytest.LogCaptureFixture) -> None:
    """Catches a chain on this thread that loses its draws, and a wait for its end."""
    stopped, started = threading.Event(), []

    def walks() -> int:
        started.append(1)
        return 2 if stopped.wait(20.0) else 3

    timer, begun = press_after(0.3), time.monotonic()
    with caplog.at_level(logging.WARNING, logger="pymc.pymc_logz"):
        assert run_tasks([walks, walks], 1, stopped.set, at_once=True) == [2, None]
    assert time.monotonic() - begun < 10.0
    assert started == [1]
    assert caplog.messages == ["Interrupted: chains stop here; the draws made so far are returned."]
    timer.join()
