"""Calls on threads of their own, of code that hangs, fails, or calls itself."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from subprocess import PIPE

import numpy as np
import pytest

from pymc_logz.graphs.threads import Calls, Threads, calls_limited, end_calls

HANGS = """
import ctypes, sys
import pymc as pm
import pytensor.tensor as pt
from pytensor.compile.ops import wrap_py
import pymc_logz as lz
from pymc_logz.graphs.numpy_linker import numpy_mode

@wrap_py(itypes=[pt.dscalar], otypes=[pt.dscalar])
def never_ends(x):
    print("hangs", flush=True)
    while True:  # C code, which Python cannot interrupt, and which an interrupt may end early
        ctypes.CDLL(None).sleep(3600)

with pm.Model() as model:
    pm.Potential("likelihood", never_ends(pm.Normal("x")))
kwargs = {"mode": numpy_mode()} if sys.argv[1] == "numpy" else None
lz.sample_hais(model=model, random_seed=1, progressbar=False, compile_kwargs=kwargs)
"""


@pytest.mark.usefixtures("interrupts")
@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
@pytest.mark.parametrize("backend", ["jax", "numpy"])
def test_ctrl_c_ends_a_call_whose_box_hangs(backend):
    """Would catch a main thread that waits in compiled code, and an exit that waits or crashes."""
    command = [sys.executable, "-c", HANGS, backend]
    with subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "hangs\n"
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=300)  # a second or two, on an idle machine
        finally:
            process.kill()
    assert "KeyboardInterrupt: interrupted while" in said
    assert (
        "never_ends}, an Op of the model, has not finished; it stays on a separate thread" in said
    )
    assert "Fatal" not in said
    assert process.returncode in (1, 130, -signal.SIGINT)


TIME_LIMIT = """
import ctypes, sys
import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.compile.ops import wrap_py
import pymc_logz as lz

n_calls = 0

@wrap_py(itypes=[pt.dscalar], otypes=[pt.dscalar])
def hangs(x):
    global n_calls
    n_calls += 1
    while n_calls > int(sys.argv[1]):
        ctypes.CDLL(None).sleep(3600)
    return np.asarray(-x**2)

with pm.Model() as model:
    pm.Potential("likelihood", hangs(pm.Normal("x")))
given = {"betas": [0, 0.5, 1], "time_limit": 2.0, "random_seed": 1, "progressbar": False}
lz.sample_tempered(200, model=model, walkers=8, **given)
"""


@pytest.mark.parametrize(("n_calls", "said"), [(0, "hangs"), (12_000, "chains")])
def test_a_box_that_hangs_is_given_up_and_python_ends(n_calls, said):
    """Would catch a pilot that waits for ever, and a crash at the exit where chains were left."""
    command = [sys.executable, "-c", TIME_LIMIT, str(n_calls)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert re.search(rf"(Unanswered|Timeout)Error: .*{said}.* did not respond", ended.stderr)
    assert "Fatal" not in ended.stderr
    assert ended.returncode == 1


def test_a_call_that_takes_too_long_ends_alone():
    """Would catch a limit that counts calls that wait for their turn, or that ends other calls."""
    calls, never, waits = Calls(1, patience=0.1), threading.Event(), Calls(1, patience=0.1)
    with calls_limited(None, 0.5):
        chains = Threads(2)
        slow = [chains.submit(calls.each, "a box", time.sleep, [0.2] * 4) for _ in range(2)]
        for chain in slow:
            chain.result()
        other = chains.submit(waits.each, "another box", lambda i: time.sleep(0.3), range(5))
        with pytest.raises(
            TimeoutError, match=r"a box did not respond within time_limit=0\.5 seconds"
        ):
            calls.each("a box", lambda _: never.wait(), [None])
        assert other.result() == [None] * 5
    with pytest.raises(TimeoutError), calls_limited(2, 5.0), calls_limited(None, 0.2):
        calls.each("a box", lambda _: never.wait(), [None])
    assert calls.each("a box", lambda x: x + 1, [1, 2]) == [2, 3]
    never.set()


def test_what_hangs_in_a_thread_of_a_chain_is_ended_from_outside():
    """Would catch chains that are waited for although they never end, and what they leave."""
    calls, hangs, never = Calls(1, patience=0.1), threading.Event(), threading.Event()

    def wait_for_ever(_):
        hangs.set()
        never.wait()

    chain = Threads(1).submit(calls.each, "a box", wait_for_ever, [None])
    hangs.wait()
    end_calls([chain])
    with pytest.raises(RuntimeError, match="interrupted while a box was computing"):
        chain.result()
    assert calls.each("a box", lambda x: x + 1, [1, 2]) == [2, 3]
    never.set()


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_in_any_thread_reaches_the_one_that_waits():
    """Would catch a wait that only a signal to its own thread ends."""
    calls, never = Calls(1, patience=0.1), threading.Event()

    def interrupt(_):
        os.kill(os.getpid(), signal.SIGINT)
        never.wait()

    with pytest.raises(KeyboardInterrupt):
        calls.each("a box", interrupt, [None])
    never.set()


def test_a_box_may_call_a_model_with_a_box_and_raise():
    """Would catch a thread that waits for itself, and an error that stops what comes later."""
    calls = Calls(1)
    inner = calls.each("a box", lambda x: calls.each("a box", np.sqrt, [x])[0], [4.0, 9.0])
    assert inner == [2.0, 3.0]
    with pytest.raises(ZeroDivisionError):
        Calls(2).each("a box", lambda x: 1 / x, [1, 0, 2])
