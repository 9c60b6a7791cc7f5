"""Runs of a method on a target in a process of its own; results as lines of JSON."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def child(target_name: str, method: str, repeats: int) -> None:
    """A cold call and warm ones; one line of JSON for each, as soon as it is there."""
    import logging

    # what a library prints must not get between the lines of JSON
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    from rivals.methods import METHODS
    from rivals.targets import target

    made = target(target_name)
    for seed in range(1, repeats + 2):
        began, cpu = time.perf_counter(), os.times()
        found = METHODS[method](made, seed)
        used = [now - before for now, before in zip(os.times()[:4], cpu[:4], strict=True)]
        record = {
            "target": target_name,
            "method": method,
            "seed": seed,
            "call": "warm" if seed > 1 else "cold",
            "dims": made.n_dims,
            "exact": made.log_z,
            "seconds": time.perf_counter() - began,
            "cpu_seconds": sum(used),
            **asdict(found),
        }
        out.write(json.dumps(record) + "\n")
        out.flush()


def measured(target: str, method: str, repeats: int, limit: float) -> list[Record]:
    """Records of a cold call and of warm ones, as many as end within the limit (s)."""
    command = [sys.executable, "-m", "rivals.running", target, method, str(repeats)]
    places = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    env = {"OPENBLAS_NUM_THREADS": "1", **os.environ, "PYTHONPATH": os.pathsep.join(places)}
    process = subprocess.Popen(
        command,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, _ = process.communicate()
        err = f"no end within {limit:.0f} s"
    records = [json.loads(line) for line in out.splitlines() if line.endswith("}")]
    if process.returncode:
        what = (err.strip().splitlines() or ["no message"])[-1]
        records.append({"target": target, "method": method, "error": what})
    return records


if __name__ == "__main__":
    child(sys.argv[1], sys.argv[2], int(sys.argv[3]))
