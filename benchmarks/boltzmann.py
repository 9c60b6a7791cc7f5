"""Sweeps per second of a tempered restricted Boltzmann machine, beside plain NumPy.

784 visible and 500 hidden units with random weights, 100 temperatures, 100 chains that move at
once, each at its own temperature; levels are drawn anew after each sweep (simulated tempering, as
Carlson et al. 2016, section 4.2, arXiv 1603.01912). Both sides compute in double precision, draw
all random numbers by NumPy's SFC64, and take turns; medians are compared. NumPy's matrix products
use as many threads as OPENBLAS_NUM_THREADS says, JAX as many as there are cores: run it for both

    OPENBLAS_NUM_THREADS=1 uv run benchmarks/boltzmann.py
    OPENBLAS_NUM_THREADS=2 uv run benchmarks/boltzmann.py

Two matrix products of 39 million multiplications each are most of a sweep, whoever computes them;
their share of NumPy's time is printed, too. Processor time, of all threads together, hardly depends
on what else the machine does; divided by the number of cores it is the least time that a sweep can
take. log Z by RTS from both sides must agree.
"""

import os
import sys
import time
from dataclasses import replace
from statistics import median

import numpy as np

from pymc_logz.energies import bernoulli_rbm
from pymc_logz.estimators import TemperedDraws, rts
from pymc_logz.kernels import BlockGibbs
from pymc_logz.loop.frozen import fixed_plan
from pymc_logz.runners.block import Block
from pymc_logz.runners.temper import TemperBlock, walk
from pymc_logz.tempered.warm_up import climb, make_ladder, run_rounds

N_VISIBLE, N_HIDDEN, N_LEVELS, N_CHAINS = 784, 500, 100, 100
N_SWEEPS, N_REPEATS, TUNE = 200, 7, 16


def random_machine(n_visible, n_hidden, rng):
    """Weights as weak as those of a machine that has begun to learn."""
    weights = rng.normal(0, 1 / np.sqrt(n_visible + n_hidden), (n_visible, n_hidden))
    return bernoulli_rbm(weights, rng.normal(0, 0.5, n_visible), rng.normal(0, 0.5, n_hidden))


class Package:
    """Walkers of the package, warmed up."""

    def __init__(self, rbm, n_levels, n_chains, rng):
        block = Block(rbm.path, BlockGibbs(), n_chains)
        self.block = TemperBlock(block, n_levels, n_chains)
        plan = fixed_plan(block, np.linspace(0, 1, n_levels))
        ladder = make_ladder(plan, np.zeros(n_levels))
        start = rbm.path.sample_reference(rng, n_chains)
        walkers, rough = climb(self.block, ladder, start, 1, rng)
        ladder = replace(ladder, log_z_hat=rough)
        rounds = run_rounds(self.block, ladder, walkers, rng, length=TUNE, target_accept=0.8)
        self.ladder, self.walkers, self.rng = rounds.ladder, walkers, rng

    def sweep(self, n):
        """Levels and log ratios (chains, n)."""
        tables = self.ladder.tables(BlockGibbs())
        self.walkers, done = walk(self.block, self.walkers, tables, n, self.rng, every=n)
        return done.level.T, done.log_ratio.T


class Plain:
    """The same in NumPy."""

    def __init__(self, rbm, ladder, rng, n_chains):
        self.rbm, self.rng = rbm, rng
        self.betas, self.log_pseudo_prior = ladder.betas, ladder.log_prior - ladder.log_z_hat
        self.level = rng.integers(self.betas.size, size=n_chains)
        self.visible = (rng.random((n_chains, len(rbm.visible_bias))) < 0.5).astype(float)
        self.products = 0.0

    def product(self, left, right):
        """A matrix product, timed."""
        started = time.perf_counter()
        found = left @ right
        self.products += time.perf_counter() - started
        return found

    def sweep(self, n):
        """Levels and log ratios (chains, n)."""
        rbm, rng, v = self.rbm, self.rng, self.visible
        w, b, c, base = rbm.weights, rbm.visible_bias, rbm.hidden_bias, rbm.base_bias
        scale = np.logaddexp(0, base).sum() + len(c) * np.log(2)
        levels, ratios = [], []
        for _ in range(n):
            beta = self.betas[self.level][:, None]
            odds = beta * (c + self.product(v, w))
            h = (rng.random(odds.shape) < 1 / (1 + np.exp(-odds))).astype(float)
            field = b - base + self.product(h, w.T)
            odds = base + beta * field
            v = (rng.random(odds.shape) < 1 / (1 + np.exp(-odds))).astype(float)
            ratio = (v * field).sum(axis=1) + h @ c + scale
            levels.append(self.level)
            ratios.append(ratio)
            log_q = ratio[:, None] * self.betas + self.log_pseudo_prior
            q = np.exp(log_q - log_q.max(axis=1, keepdims=True))
            below = np.cumsum(q / q.sum(axis=1, keepdims=True), axis=1)[:, :-1]
            self.level = (rng.random(len(v))[:, None] > below).sum(axis=1)
        self.visible = v
        return np.stack(levels, axis=1), np.stack(ratios, axis=1)


def side_by_side(rbm, n_levels, n_chains, n_sweeps, n_repeats):
    """Sweeps a second, processor time of one, log Z, and the share of NumPy's products."""
    first, second = (np.random.Generator(np.random.SFC64(seed)) for seed in (1, 2))
    package = Package(rbm, n_levels, n_chains, first)
    plain = Plain(rbm, package.ladder, second, n_chains)
    rates, work, parts = ({"package": [], "NumPy": []} for _ in range(3))
    sides = {"package": package, "NumPy": plain}
    for side in sides.values():
        side.sweep(n_sweeps)
    plain.products, total = 0.0, 0.0
    for _ in range(n_repeats):
        for name, side in sides.items():
            started, worked = time.perf_counter(), time.process_time()
            parts[name].append(side.sweep(n_sweeps))
            taken = time.perf_counter() - started
            work[name].append((time.process_time() - worked) / n_sweeps)
            rates[name].append(n_sweeps / taken)
            total += taken * (name == "NumPy")
    log_z = {}
    for name, pieces in parts.items():
        level, ratio = (np.concatenate(arrays, axis=1) for arrays in zip(*pieces, strict=True))
        ladder = package.ladder
        draws = TemperedDraws(level, ratio, ladder.betas, ladder.log_prior, ladder.log_z_hat)
        log_z[name] = rts(draws).estimate
    speed, work = (
        {name: median(values) for name, values in each.items()} for each in (rates, work)
    )
    return speed, work, log_z, plain.products / total


def main(n_sweeps=N_SWEEPS, n_repeats=N_REPEATS):
    """Time both and print."""
    before = os.getloadavg()
    rbm = random_machine(N_VISIBLE, N_HIDDEN, np.random.default_rng(0))
    speed, work, log_z, share = side_by_side(rbm, N_LEVELS, N_CHAINS, n_sweeps, n_repeats)
    for name, rate in speed.items():
        print(
            f"{name:8s} {rate:7.1f} sweeps per second of {N_CHAINS} chains, "
            f"{1e3 * work[name]:.2f} ms of processor time each, {log_z[name]}"
        )
    most = os.cpu_count() * work["NumPy"] / work["package"]
    print(f"ratio {speed['package'] / speed['NumPy']:.2f}, on an idle machine {most:.2f} at most")
    print(f"load before and after: {before[0]:.1f}, {os.getloadavg()[0]:.1f}")
    print(f"matrix products take {share:.0%} of NumPy's time")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
