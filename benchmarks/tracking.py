"""What `LogZTracker` costs beside the Gibbs sweeps that learning needs anyway.

A machine of 784 visible and 500 hidden units, 25 sweeps of 100 chains between two updates, 100
temperatures: what an update of the tracker takes, per sweep, beside a bare sweep at beta = 1 in
NumPy, which is what persistent contrastive divergence makes. By turns, medians, processor time of
all threads.

    OPENBLAS_NUM_THREADS=1 uv run benchmarks/tracking.py
"""

import os
import sys
import time
from statistics import median

import numpy as np
from boltzmann import N_HIDDEN, N_VISIBLE, random_machine

import pymc_logz as lz

N_CHAINS, N_SWEEPS, N_LEVELS, N_REPEATS = 100, 25, 100, 15


def bare(rbm, visible, n_sweeps, rng):
    """Visible units after so many sweeps at beta = 1."""
    w, b, c = rbm.weights, rbm.visible_bias, rbm.hidden_bias
    for _ in range(n_sweeps):
        hidden = (rng.random((len(visible), len(c))) < 1 / (1 + np.exp(-c - visible @ w))) * 1.0
        visible = (rng.random(visible.shape) < 1 / (1 + np.exp(-b - hidden @ w.T))) * 1.0
    return visible


def by_turns(rbm, n_repeats=N_REPEATS, n_sweeps=N_SWEEPS, n_levels=N_LEVELS):
    """Milliseconds of a sweep, elapsed and of all threads, by side."""
    rng = np.random.Generator(np.random.SFC64(1))
    tracker = lz.LogZTracker(
        rbm,
        betas=n_levels,
        walkers=N_CHAINS,
        draws=n_sweeps,
        thin=n_sweeps,
        tune=2,
        random_seed=1,
        progressbar=False,
    )
    visible = (rng.random((N_CHAINS, len(rbm.visible_bias))) < 0.5) * 1.0
    weights, found = rbm.weights, {"tracker": [], "bare sweeps": []}
    for i in range(n_repeats):
        moved = {"weights": weights * (1 + 1e-4 * i)}
        sides = {
            "tracker": lambda moved=moved: tracker.update(moved),
            "bare sweeps": lambda: bare(rbm, visible, n_sweeps, rng),
        }
        for name, side in sides.items():
            started, worked = time.perf_counter(), time.process_time()
            side()
            taken = time.perf_counter() - started, time.process_time() - worked
            found[name].append([1e3 * each / n_sweeps for each in taken])
    return {
        name: tuple(median(column) for column in zip(*rows, strict=True))
        for name, rows in found.items()
    }


def main(n_repeats=N_REPEATS):
    """Time both and print."""
    before = os.getloadavg()[0]
    found = by_turns(random_machine(N_VISIBLE, N_HIDDEN, np.random.default_rng(0)), n_repeats)
    for name, (elapsed, work) in found.items():
        print(f"{name:12s} {elapsed:.2f} ms a sweep, {work:.2f} ms of processor time")
    print(f"ratio of processor time {found['tracker'][1] / found['bare sweeps'][1]:.2f}")
    print(f"load before and after: {before:.1f}, {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
