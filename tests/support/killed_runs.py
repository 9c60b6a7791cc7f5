"""A program that runs a method again and again, kills it at random moments, and lets it end.

``python -m support.killed_runs METHOD KILLS SEED FOLDER`` writes the numbers of the run that came
to its end to ``FOLDER/found.npz``, and those of one that was never stopped to ``whole.npz`` there.
Each run is a fork of a process that has imported and compiled everything, so that what is killed is
the run itself. Nothing here may start a thread: the mode is not JAX.
"""

import json
import os
import shutil
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np

from pymc_logz.long_runs import running
from support.long_runs import METHODS, OTHERS, numbers_of


def run(method: str, target: Path, **options: Any) -> None:
    """In a process of its own: run, write, end."""
    tree = {**METHODS, **OTHERS}[method](
        compile_kwargs={"mode": "FAST_COMPILE"}, cores=1, **options
    )
    part = target.with_suffix(".part.npz")
    np.savez(part, **{name.replace("/", "|"): array for name, array in numbers_of(tree).items()})
    os.rename(part, target)


def forked(method: str, target: Path, **options: Any) -> int:
    """Process that runs it."""
    if pid := os.fork():
        return pid
    try:
        run(method, target, **options)
    except BaseException as error:
        traceback.print_exception(error)
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def killed(pid: int, after: float) -> bool:
    """Whether a process was still there to be killed after so many seconds."""
    deadline = time.monotonic() + after
    while time.monotonic() < deadline:
        if os.waitpid(pid, os.WNOHANG) != (0, 0):
            return False
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return True


def forget(path: Path, found: Path) -> None:
    """Let the next run begin at the start."""
    shutil.rmtree(path, ignore_errors=True)
    found.unlink(missing_ok=True)


def main(method: str, kills: str, seed: str, folder: str) -> None:
    """Kill it so often, at moments spread over all of the run; then let it end."""
    running.SECONDS = 0.0
    rng, home = np.random.default_rng(int(seed)), Path(folder)
    path, found = home / "run.ckpt", home / "found.npz"
    run(method, home / "whole.npz")
    started = time.monotonic()
    first = forked(method, found, checkpoint=path)
    assert os.waitpid(first, 0)[1] == 0, "it cannot even run"
    alone = time.monotonic() - started
    forget(path, found)
    n_killed, n_ended, at = 0, 0, []
    while n_killed < int(kills):
        pid = forked(method, found, checkpoint=path)
        if killed(pid, after := float(rng.uniform(0.05, 0.7) * alone)):
            n_killed += 1
            at.append(round(after, 2))
        else:  # it was done: from the start again
            n_ended += 1
            forget(path, found)
    status = os.waitpid(forked(method, found, checkpoint=path), 0)[1]
    print(json.dumps({"killed": n_killed, "at": at, "ended": n_ended, "alone": alone}))
    sys.exit(status != 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
