"""A program that runs a method again and again, kills it at random moments, and lets it end.

``python -m support.killed_runs METHOD KILLS SEED FOLDER`` writes the numbers of the run that came
to its end to ``FOLDER/found.npz``, and those of one that was never stopped to ``whole.npz`` there.
Each run is a fork of a process that has imported everything and started nothing, which saves the
seconds of importing it each time.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from pymc_logz.runners import running
from support.long_runs import METHODS, numbers_of


def run(method: str, target: Path, **options: Any) -> None:
    """In a process of its own: run, write, end."""
    tree = METHODS[method](**options)
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
        print(repr(error), file=sys.stderr, flush=True)
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


def main(method: str, kills: str, seed: str, folder: str) -> None:
    """Kill it so often, at moments spread over all of the run; then let it end."""
    running.SECONDS = 0.0
    rng, home = np.random.default_rng(int(seed)), Path(folder)
    path, found = home / "run.zarr", home / "found.npz"
    started = time.monotonic()
    assert os.waitpid(forked(method, home / "whole.npz"), 0)[1] == 0, "it cannot even run"
    alone = time.monotonic() - started
    n_killed, n_ended, at = 0, 0, []
    while n_killed < int(kills):
        pid = forked(method, found, checkpoint=path)
        if killed(pid, after := float(rng.uniform(0.1, 1.5) * alone)):
            n_killed += 1
            at.append(round(after, 2))
        else:  # it was done: from the start again
            n_ended += 1
            os.system(f"rm -rf {path} {found}")
    status = os.waitpid(forked(method, found, checkpoint=path), 0)[1]
    print(json.dumps({"killed": n_killed, "at": at, "ended": n_ended, "alone": alone}))
    sys.exit(status != 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
