"""Work is done where it was compiled: other processes ask, whatever way they were started."""

import gc
import multiprocessing
import os
import subprocess
import sys
import threading
import time
import weakref
from multiprocessing.connection import Client
from typing import Any

import cloudpickle
import pytest

from pymc_logz.step_methods.sources import Source

pytestmark = [
    # threads of JAX, alive since some test before, make fork warn
    pytest.mark.filterwarnings("ignore:.*fork.*:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Teller(Source):
    """Tells which process answers, how often it did, and what it was asked."""

    def __init__(self, on_jax: bool) -> None:
        super().__init__()
        self.on_jax, self.n_asked = on_jax, 0

    def answer(self, message: Any) -> Any:
        if message == "fail":
            raise LookupError(message)
        self.n_asked += 1
        return os.getpid(), self.n_asked, message

    def uses_jax(self) -> bool:
        return self.on_jax


def in_a_fork(source: Source, *messages: Any) -> Any:
    """What a forked process is answered."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()

    def ask() -> None:
        try:
            there.send([source.ask(message) for message in messages])
        except Exception as error:
            there.send(error)

    process = context.Process(target=ask)
    process.start()
    answers = here.recv()
    process.join()
    return process.pid, answers


def in_a_fresh_process(pickled: bytes) -> list[str]:
    """Number of a fresh process, and of the one that answers it."""
    code = """if True:
        import cloudpickle, os, sys
        source = cloudpickle.loads(sys.stdin.buffer.read())
        print(os.getpid(), source.ask("x")[0])
    """
    done = subprocess.run([sys.executable, "-c", code], input=pickled, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().split()


@pytest.mark.parametrize("on_jax", [False, True])
def test_it_answers_its_own_process(on_jax: bool) -> None:
    """Would catch a detour without need, and threads where no process needs them."""
    before = set(threading.enumerate())
    source = Teller(on_jax).opened()
    assert source.ask("x") == (os.getpid(), 1, "x")
    assert source._client is None
    # threads of other tests may end meanwhile
    assert len(set(threading.enumerate()) - before) == on_jax


def test_a_fork_asks_only_with_jax() -> None:
    """Would catch JAX called in a fork, which hangs, and chains on NUMBA that share one process."""
    pid, answers = in_a_fork(Teller(True).opened(), "x", "y")
    assert answers == [(os.getpid(), 1, "x"), (os.getpid(), 2, "y")]
    assert pid != os.getpid()
    pid, [answer] = in_a_fork(Teller(False).opened(), "x")
    assert answer[0] == pid


def test_askers_do_not_see_each_other() -> None:
    """Would catch chains that thrash, or use, what is remembered of another one's last answer."""
    source = Teller(True).opened()
    assert source.ask("x")[1] == 1
    for _ in range(2):
        assert in_a_fork(source, "x", "y")[1][-1][1] == 3
    assert source.n_asked == 1


def test_errors_arrive() -> None:
    """Would catch a process that waits for ever, or goes on, after an error in another one."""
    source = Teller(True).opened()
    _, error = in_a_fork(source, "fail")
    assert isinstance(error, LookupError)
    assert in_a_fork(source, "x")[1] == [(os.getpid(), 1, "x")]


def test_a_fresh_process_asks_too() -> None:
    """Would catch chains that compile again where the process that has compiled is there."""
    source = Teller(True).opened()
    pid, answering = in_a_fresh_process(cloudpickle.dumps(source))
    assert int(answering) == os.getpid() != int(pid)


def test_a_pickle_that_outlives_its_process_answers_itself() -> None:
    """Would catch a step method in a file that looks for a process of last week."""
    pickled = cloudpickle.dumps(Teller(True).opened())
    gc.collect()
    pid, answering = in_a_fresh_process(pickled)
    assert pid == answering


def test_strangers_are_not_answered() -> None:
    """Would catch a server that anyone on the machine can talk to, or that gives up after one."""
    source = Teller(True).opened()
    assert source._way is not None
    with pytest.raises((multiprocessing.AuthenticationError, OSError, EOFError)):
        Client(source._way[0], authkey=b"no key").recv()
    assert in_a_fork(source, "x")[1] == [(os.getpid(), 1, "x")]


def test_a_server_ends_with_its_source() -> None:
    """Would catch threads, and compiled functions, that are kept as long as the process lives."""
    before = set(threading.enumerate())
    source = Teller(True).opened()
    assert set(threading.enumerate()) - before
    assert source._way is not None
    gone = weakref.ref(source)
    with Client(source._way[0], authkey=source._way[1]) as asker:
        asker.send("x")
        assert asker.recv()[1] == 1
    del source
    gc.collect()
    assert gone() is None
    until = time.monotonic() + 10.0
    while set(threading.enumerate()) - before and time.monotonic() < until:
        time.sleep(0.01)
    assert not set(threading.enumerate()) - before
