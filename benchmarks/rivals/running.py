"""Runs of methods on a target in a process of their own; results as lines of JSON.

The process is a fork of one that has imported the libraries, so that a cold call is what a session
waits for at its first call: compilation, and no imports.
"""

import importlib
import json
import logging
import os
import resource
import signal
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

Record = dict[str, Any]
LEAST_WARM = 3
"""Warm calls, even where they take longer than is enough."""
IMPORTED = ("jax", "nutpie", "dynesty", "nautilus", "pymc.sampling.jax", "pymc_logz")
"""Before the fork; blackjax, which starts JAX, and threads with it, is imported after."""


@dataclass(frozen=True)
class Limits:
    """When to stop."""

    repeats: int
    """Warm calls at most."""
    enough: float
    """Seconds of processor time after which a few warm calls are enough."""
    most: float
    """Seconds of processor time for all calls of one process."""


def cpu_seconds() -> float:
    """Of this process, its threads, and processes that it started and that have ended."""
    return sum(os.times()[:4])


def child(target_name: str, methods: Sequence[str], limits: Limits, lines: Path) -> None:
    """A cold call and warm ones of each method; one line of JSON for each, as soon as it is there.

    Methods that come after another one in the same process find a part of their work done: their
    first call is neither cold nor warm, and only its error counts.
    """
    os.setsid()
    with (lines.with_suffix(".err")).open("w") as said:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
    resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_seconds() + limits.most), -1))
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    from rivals.methods import LONGER, METHODS
    from rivals.targets import target

    if any("blackjax" in name for name in methods):
        importlib.import_module("blackjax")
    made = target(target_name)
    with lines.open("w") as out:
        for k, method in enumerate(methods):
            spent = 0.0
            for seed in range(1, limits.repeats + 2):
                began, cpu = time.perf_counter(), cpu_seconds()
                found = asdict((METHODS | LONGER)[method](made, seed))
                seconds = time.perf_counter() - began + found.pop("seconds_before")
                used = cpu_seconds() - cpu + found.pop("cpu_before")
                first = "first" if k else "cold"
                record = {
                    "target": target_name,
                    "method": method,
                    "seed": seed,
                    "call": "warm" if seed > 1 else first,
                    "dims": made.n_dims,
                    "exact": made.log_z,
                    "seconds": seconds,
                    "cpu_seconds": used,
                    **found,
                }
                out.write(json.dumps(record) + "\n")
                out.flush()
                spent += used if seed > 1 else 0.0
                if spent > limits.enough and seed > LEAST_WARM:
                    break


def measured(target: str, methods: Sequence[str], limits: Limits) -> list[Record]:
    """Records of a cold call and of warm ones, as many as end within the limits."""
    for name in IMPORTED:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "lines"
        process = get_context("fork").Process(target=child, args=(target, methods, limits, lines))
        process.start()
        # a machine that others use, too, gives less than one processor
        process.join(10 * limits.most)
        if process.is_alive():
            os.killpg(process.pid or 0, signal.SIGKILL)
            process.join()
        text = lines.read_text() if lines.exists() else ""
        said = lines.with_suffix(".err")
        last = (said.read_text().strip().splitlines() or ["no message"])[-1]
    records = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
    if process.exitcode:
        killed = process.exitcode in (-signal.SIGXCPU, -signal.SIGKILL)
        what = f"no end within {limits.most:.0f} s of processor time" if killed else last
        # the one that was at work, and those that would have come after it
        done = [method for method in methods if any(r["method"] == method for r in records)]
        missing = [done[-1]] if done else []
        missing += [method for method in methods if method not in done]
        records += [{"target": target, "method": method, "error": what} for method in missing]
    return records
