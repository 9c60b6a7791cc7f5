"""A program that says how much memory a run takes: ``... BOUND MODE``.

It prints, as JSON, by how many bytes the process grew at most while 1,024 particles moved on 20,000
rows of data, and their log weights.
"""

import json
import os
import sys
import threading
from pathlib import Path

import numpy as np
import pymc as pm

import pymc_logz as lz

N_DATA, N_PARTICLES = 20_000, 1024
KERNEL = lz.kernels.Hamiltonian(step_size=0.02, scale=1.0)


def model() -> pm.Model:
    """Logistic regression."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(N_DATA, 3))
    y = rng.random(N_DATA) < 1 / (1 + np.exp(-x @ [0.2, -0.1, 0.0]))
    with pm.Model() as model:
        slopes = pm.Normal("slopes", 0, 1, shape=3)
        pm.Bernoulli("y", logit_p=x @ slopes, observed=y.astype(int))
    return model


def resident() -> int:
    """Bytes that the process has in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class Peak:
    """Largest size of the process while it is in use."""

    def __enter__(self) -> "Peak":
        self.before = self.most = resident()
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()
        return self

    def watch(self) -> None:
        while not self.is_over.wait(0.001):
            self.most = max(self.most, resident())

    def __exit__(self, *_: object) -> None:
        self.is_over.set()
        self.thread.join()


def main(bound: str, mode: str) -> None:
    """Run with one row at a time, and then with as many as are allowed, which is watched."""
    of_data, options = model(), {"betas": 3, "kernel": KERNEL, "cores": 1, "progressbar": False}

    def run(draws: int, limit: str | None) -> np.ndarray:
        given = {"random_seed": 1, "max_memory": limit, "compile_kwargs": {"mode": mode}}
        tree = lz.sample_hais(draws, 1, model=of_data, **given, **options)
        return tree["weighted_posterior"]["log_weight"].to_numpy()

    run(8, "6 MB")
    with Peak() as peak:
        log_weight = run(N_PARTICLES, None if bound == "none" else bound)
    print(json.dumps({"grew": peak.most - peak.before, "log_weight": log_weight.ravel().tolist()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
