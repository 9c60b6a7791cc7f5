"""Cost of an annealing step against one bare evaluation of the path, on every backend.

The 36-dimensional product of Student-t experts with 200 particles. A bare evaluation is one call
that returns both log densities and both gradients of all particles; a step adds the noise, the
leapfrog update, the Metropolis decision and the weights. Run with ``uv run benchmarks/engine.py``.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time
import warnings
from functools import partial
from statistics import median

import numpy as np
import pytensor.tensor as pt

from pymc_logz.energies import random_filters, student_t_experts
from pymc_logz.graphs.compiling import compile_function
from pymc_logz.kernels import Hamiltonian
from pymc_logz.models.flat import flatten_model, model_path
from pymc_logz.models.prior import PriorDraws
from pymc_logz.runners.anneal import Plan, anneal
from pymc_logz.runners.block import Block

N_DIMS, N_ROWS, N_STEPS, N_REPEATS = 36, 200, 960, 9


def time_of(function):
    """Median seconds of a call, the first one not counted."""
    function()
    times = []
    for _ in range(N_REPEATS):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return median(times)


def call(evaluate, start):
    """One bare evaluation, waited for."""
    return [np.asarray(out) for out in evaluate.call(start)]


def main():
    """Print the table."""
    warnings.simplefilter("ignore")
    filters = random_filters(1, N_DIMS)
    model = student_t_experts(filters, np.full(N_DIMS, 2.0)).model
    flat = flatten_model(model)
    path = model_path(flat, PriorDraws(model))
    rng = np.random.Generator(np.random.SFC64(1))
    start = path.sample_reference(rng, N_ROWS)
    plan = Plan(
        np.linspace(0, 1, N_STEPS + 1), np.full(N_STEPS + 1, 0.2), np.ones((N_STEPS + 1, N_DIMS))
    )
    rows = pt.matrix("rows", dtype="float64", shape=(None, N_DIMS))
    bare, step, compile_time = {}, {}, {}
    for mode in ("JAX", "NUMBA", "CVM"):
        evaluate = compile_function([rows], path.evaluate(rows), {"mode": mode})
        bare[mode] = time_of(partial(call, evaluate, start))
        began = time.perf_counter()
        block = Block(path, Hamiltonian(step_size=0.2, scale=1.0), N_ROWS, {"mode": mode})
        run = partial(anneal, block, plan, start, rng)
        run()
        compile_time[mode] = time.perf_counter() - began
        step[mode] = time_of(run) / N_STEPS
    fastest = min(bare.values())
    print(f"{N_DIMS}-d Student-t experts, {N_ROWS} particles, median microseconds")
    print("| backend | bare evaluation | step | step / fastest bare | compile (s) |")
    print("|---|---|---|---|---|")
    for mode in bare:
        ratio = step[mode] / fastest
        print(
            f"| {mode} | {bare[mode] * 1e6:.0f} | {step[mode] * 1e6:.0f} | {ratio:.2f} "
            f"| {compile_time[mode]:.1f} |"
        )


if __name__ == "__main__":
    main()
