"""Calls on threads of their own, of code that hangs, fails, or calls itself."""

import os
import signal
import subprocess
import sys
import threading
from subprocess import PIPE

import numpy as np
import pytest

from pymc_logz.graphs.threads import Calls, Threads, end_calls

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
