"""Runs of a method in a process of its own, with a time limit; results as lines of JSON."""

import argparse
import json
import logging
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from side_by_side.tables import OURS

Record = dict[str, Any]
EXACT = "exact"
CALLS = ("cold", "warm")
MORE = 8
"""Further calls of ours, for evaluations and errors: their seconds are not compared."""


class Results:
    """Lines of JSON in a file, so that a long run can be cut and continued."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self.records: list[Record] = [json.loads(line) for line in lines]

    def add(self, records: Iterable[Record]) -> None:
        """Keep records, in the file too."""
        with self.path.open("a") as file:
            for record in records:
                self.records.append(record)
                file.write(json.dumps(record) + "\n")

    def has(self, model: str, method: str) -> bool:
        """Whether this was measured already."""
        return any((r["model"], r["method"]) == (model, method) for r in self.records)


def measured(model: str, method: str, limit: float) -> list[Record]:
    """Records of all calls, of as many as came to an end within the limit (s)."""
    command = [sys.executable, "-m", "side_by_side.processes", model, method]
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
    whole = [line for line in out.splitlines() if line.startswith("{") and line.endswith("}")]
    records = [json.loads(line) for line in whole]
    if process.returncode:
        missing = CALLS[min(len([r for r in records if r["method"] == method]), 1)]
        what = (err.strip().splitlines() or ["no message"])[-1]
        records.append({"method": method, "call": missing, "error": what})
    return [{"model": model, **record} for record in records]


def child(model_name: str, method: str) -> None:
    """Call a method on a model again and again; print a record of each as soon as it is there."""
    # only here: the parent needs no PyMC
    from gallery import MODELS

    from side_by_side.methods import METHODS

    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    entry = MODELS[model_name]
    if method == EXACT:
        began = time.perf_counter()
        found = {"method": EXACT, "call": "cold", "log_z": entry.exact and entry.exact()}
        print(json.dumps({**found, "seconds": time.perf_counter() - began}), flush=True)
        return
    model = entry.build()
    names = [*CALLS, *["more"] * MORE] if method in OURS else CALLS
    for seed, name in enumerate(names):
        for call in METHODS[method](model, seed):
            print(json.dumps({**call.record(), "call": name}), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("method")
    given = parser.parse_args()
    child(given.model, given.method)
