"""The paper's 170-second job: 100,000 temperatures and 200 particles in 36 dimensions.

Sohl-Dickstein & Culpepper (2012), section 5, arXiv 1205.1925, on a product of Student-t experts
with the paper's step size. The job is timed whole, as a user would run it. Beside it stands a plain
NumPy version of the paper's algorithm; it is timed on shorter ladders, in turn with the package on
the same ladders, and medians are compared. The log weights of those runs give log Z twice, which
must agree. Run with ``uv run benchmarks/long_annealing.py``.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sys
import time
import warnings
from statistics import median

import numpy as np

import pymc_logz as lz
from pymc_logz.energies import random_filters, student_t_experts
from pymc_logz.estimators import importance_log_z
from pymc_logz.models.flat import flatten_model, model_path
from pymc_logz.models.prior import PriorDraws
from pymc_logz.paths.schedules import linear_betas
from pymc_logz.runners.anneal import Plan, anneal
from pymc_logz.runners.block import Block

N_DIMS, N_PARTICLES, N_TEMPERATURES = 36, 200, 100_000
N_CHUNK, N_REPEATS = 1000, 15
STEP_SIZE = 0.2
KERNEL = lz.kernels.Hamiltonian(step_size=STEP_SIZE, scale=1.0)
FILTERS = (random_filters(1, N_DIMS) + 2 * np.eye(N_DIMS)) / 4
EXPONENTS = np.full(N_DIMS, 2.0)


def paper_hais(filters, exponents, n_temperatures, n_particles, step_size, rng):
    """Log weights (n_particles,) by the paper's algorithm, with sqrt(gamma) in its step 4.

    Section 2.3: drift, kick, drift; accept or flip; refresh. The reference is N(0, I), the target's
    energy is ``sum over l of lambda_l log(1 + (F_l x)**2)``. Energies at the current point are
    kept, so a step evaluates one gradient (in the middle) and one energy (at the end).
    """
    d = len(filters)
    gamma = 1 - 0.5**step_size
    log_z_reference = d / 2 * np.log(2 * np.pi)

    def energies(x):
        u = x @ filters.T
        return 0.5 * (x * x).sum(axis=1), np.log1p(u * u) @ exponents

    def force(x, beta):
        u = x @ filters.T
        return -(1 - beta) * x - beta * ((2 * exponents * u / (1 + u * u)) @ filters)

    x, v = rng.standard_normal((2, n_particles, d))
    reference, target = energies(x)
    log_weight = np.full(n_particles, log_z_reference)
    for n in range(1, n_temperatures + 1):
        log_weight += (reference - target) / n_temperatures
        if n == n_temperatures:
            break
        beta = n / n_temperatures
        half = x + 0.5 * step_size * v
        end_v = v + step_size * force(half, beta)
        end_x = half + 0.5 * step_size * end_v
        end_reference, end_target = energies(end_x)
        gain = (1 - beta) * (reference - end_reference) + beta * (target - end_target)
        gain += 0.5 * ((v * v).sum(axis=1) - (end_v * end_v).sum(axis=1))
        accepted = np.log1p(-rng.random(n_particles)) < gain
        x = np.where(accepted[:, None], end_x, x)
        v = np.where(accepted[:, None], end_v, -v)
        reference = np.where(accepted, end_reference, reference)
        target = np.where(accepted, end_target, target)
        v = np.sqrt(1 - gamma) * v + np.sqrt(gamma) * rng.standard_normal((n_particles, d))
    return log_weight


def package_hais(energy, n_temperatures):
    """Function from a generator to log weights, compiled once."""
    path = model_path(flatten_model(energy.model), PriorDraws(energy.model))
    block = Block(path, KERNEL, N_PARTICLES)
    block.compile()
    betas = linear_betas(n_temperatures)
    plan = Plan(betas, np.full(betas.size, STEP_SIZE), np.ones((betas.size, N_DIMS)))

    def log_weight(rng):
        start = path.sample_reference(rng, N_PARTICLES)
        return anneal(block, plan, start, rng).log_weight

    return log_weight


def side_by_side(energy, n_chunk, n_repeats):
    """Both versions in turn: log Z of each, and median seconds per temperature."""
    log_weight = package_hais(energy, n_chunk)
    runs = {
        "package": (log_weight, np.random.Generator(np.random.SFC64(1))),
        "plain NumPy": (
            lambda rng: paper_hais(FILTERS, EXPONENTS, n_chunk, N_PARTICLES, STEP_SIZE, rng),
            np.random.default_rng(2),
        ),
    }
    log_weight(np.random.default_rng(0))
    weights, times = {name: [] for name in runs}, {name: [] for name in runs}
    for _ in range(n_repeats):
        for name, (function, rng) in runs.items():
            began = time.perf_counter()
            weights[name].append(function(rng))
            times[name].append((time.perf_counter() - began) / n_chunk)
    estimates = {name: importance_log_z(np.array(rows)) for name, rows in weights.items()}
    return estimates, {name: median(each) for name, each in times.items()}


def whole_job(energy, n_temperatures):
    """The job through the public function: the group evidence, and seconds."""
    began = time.perf_counter()
    tree = lz.sample_hais(
        N_PARTICLES,
        1,
        model=energy.model,
        betas=n_temperatures,
        kernel=KERNEL,
        random_seed=1,
        progressbar=False,
    )
    return tree["evidence"], time.perf_counter() - began


def main(n_temperatures=N_TEMPERATURES, n_chunk=N_CHUNK, n_repeats=N_REPEATS):
    """Print the tables."""
    warnings.simplefilter("ignore")
    energy = student_t_experts(FILTERS, EXPONENTS)
    evidence, total = whole_job(energy, n_temperatures)
    sampling = evidence.attrs["sampling_time"]
    estimates, times = side_by_side(energy, n_chunk, n_repeats)
    plain, package = times["plain NumPy"], times["package"]
    (first, second) = estimates.values()
    z = (first.log_z - second.log_z) / np.hypot(first.mcse, second.mcse)
    print(f"{N_DIMS}-d Student-t experts, {N_PARTICLES} particles, step size {STEP_SIZE}")
    print(f"\nThe job, {n_temperatures:,} temperatures (the paper: about 170 s)\n")
    print("| from the call to the result (s) | of it annealing (s) | us per temperature |")
    print("|---|---|---|")
    print(f"| {total:.1f} | {sampling:.1f} | {1e6 * sampling / n_temperatures:.0f} |")
    print(
        f"\nlog Z {float(evidence['log_z'][0]):.4f} +- {float(evidence['mcse'][0]):.4f}, "
        f"exact {energy.log_z:.4f}"
    )
    print(
        f"\nIn turn, {n_repeats} ladders of {n_chunk:,} temperatures each; the last column is the "
        f"median times {n_temperatures:,}\n"
    )
    print("| version | log Z | mcse | median us per temperature | whole job (s) |")
    print("|---|---|---|---|---|")
    for name, estimate in estimates.items():
        print(
            f"| {name} | {estimate.log_z:.3f} | {estimate.mcse:.3f} | {times[name] * 1e6:.0f} "
            f"| {times[name] * n_temperatures:.1f} |"
        )
    print(f"\nplain NumPy / package: {plain / package:.2f}")
    print(f"difference of log Z over its error: {z:+.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
