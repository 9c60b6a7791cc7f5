"""Effective draws per second of the Lotka-Volterra rates: ABC, NUTS, and constrained HMC.

The simulator and the priors are those of Graham & Storkey (2017), section 7.1, arXiv 1605.07826;
all 100 populations are observed, or the prey of every fifth step only. ABC has a uniform ball of
radius epsilon. Its chains are the rows of NumPy arrays, drop their first quarter, and start at
exact posterior draws, as NUTS does; the step of ABC MCMC is the one of several that moves furthest
in a pilot. Neither is counted as time. NUTS samples the model with its likelihood written down,
populations that were not observed included, and where there are such the model relaxed to a
Gaussian tolerance too. Seconds are warm-up and sampling, without compilation; ESS is that of the
worst log rate; an ESS about the number of chains, 32 for ABC, says no more than where they started.
The share accepted is that of proposals, for slice sampling of simulations.

Run it with ``uv run benchmarks/abc_posteriors.py``, or with ``quick`` for a tenth of the draws.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import logging
import sys
import time
import warnings
from pathlib import Path

import arviz as az
import numpy as np
import pymc as pm

import pymc_logz as lz

sys.path.append(str(Path(__file__).parent))

from likelihood_free import samplers
from likelihood_free.simulators import Simulator

NAMES = ("prey growth", "predation", "predator death", "predator growth")
RADII = {False: (1000.0, 100.0, 10.0), True: (100.0, 10.0, 1.0)}
TOLERANCES = (10.0, 1.0)
N_REJECTION, ROWS, UPDATES = 1_000_000, 32, 12_000
CHAINS, DRAWS, TUNE = 4, 500, 300
STEPS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)


def show(method, epsilon, accepted, log_rates, seconds, ess):
    """Print one row of the table; log rates are chains (chains, draws, 4), ESS is 0 for none."""
    rates = np.exp(log_rates.reshape(-1, len(NAMES)))
    spread = zip(rates.mean(axis=0), rates.std(axis=0), strict=True) if ess else ()
    cells = [f"{mean:.4g} ± {sd:.2g}" for mean, sd in spread] or ["none"] * len(NAMES)
    cells += [f"{ess:.0f}", f"{seconds:.1f}", f"{ess / seconds:.3g}"]
    print(f"| {method} | {epsilon} | {accepted:.2g} |", " | ".join(cells), "|", flush=True)


def worst_ess(log_rates):
    """Effective number of draws of the worst rate; none if no chain ever moved."""
    if not np.any(np.diff(log_rates, axis=1)):
        return 0
    return float(np.min(az.ess(log_rates, chain_axis=0, draw_axis=1)))


def by_rejection(simulator, n, rng):
    """Rows of the table for ABC rejection: one run, every radius."""
    start = time.perf_counter()
    u, distances = samplers.rejection(
        simulator.output, simulator.observed, len(simulator.free), simulator.n_noise, n, rng
    )
    seconds = time.perf_counter() - start
    for radius in RADII[simulator.prey_only]:
        hit = distances < radius
        log_rates = (u[hit] + simulator.prior_mean)[None]
        show("ABC rejection", f"{radius:g}", hit.mean(), log_rates, seconds, hit.sum())


def by_mcmc(simulator, start, radius, updates, rng):
    """Row of the table for ABC MCMC."""
    kernel = samplers.ball(simulator.observed, radius)

    def run(draws, step):
        return samplers.abc_mcmc(simulator.output, kernel, start, draws, draws // 3, step, rng)

    def jump(step):
        return np.mean(np.sum(np.diff(run(150, step).u, axis=1) ** 2, axis=2))

    step = max(STEPS, key=jump)
    begin = time.perf_counter()
    draws = run(int(0.75 * updates), step)
    seconds = time.perf_counter() - begin
    log_rates = draws.u + simulator.prior_mean
    show("ABC MCMC", f"{radius:g}", draws.accepted, log_rates, seconds, worst_ess(log_rates))


def by_slice(simulator, start, radius, updates, rng):
    """Row of the table for elliptical slice sampling; its updates take several simulations each."""
    kernel, n = samplers.ball(simulator.observed, radius), updates // 8
    begin = time.perf_counter()
    draws = samplers.elliptical_slice(simulator.output, kernel, start, int(0.75 * n), n // 4, rng)
    seconds = time.perf_counter() - begin
    log_rates = draws.u + simulator.prior_mean
    show(
        "elliptical slice", f"{radius:g}", draws.accepted, log_rates, seconds, worst_ess(log_rates)
    )


def by_pymc(method, epsilon, model, draws, **settings):
    """Row of the table for ``pm.sample``, and its tree."""
    settings = {"chains": CHAINS, "cores": 1, "random_seed": 1, "progressbar": False} | settings
    tree = pm.sample(draws, tune=TUNE, model=model, nuts_sampler="pymc", **settings)
    stats = tree["sample_stats"].to_dataset()
    accepted = stats["acceptance_rate" if "acceptance_rate" in stats else "mean_tree_accept"]
    log_rates = np.log(tree["posterior"]["z"].to_numpy())
    seconds, ess = tree["posterior"].attrs["sampling_time"], worst_ess(log_rates)
    show(method, epsilon, float(accepted.mean()), log_rates, seconds, ess)
    return tree


def exact_draws(tree, n, rng):
    """Some of the posterior draws: rates (n, 4) and noise (n, n_steps, 2)."""
    posterior = tree["posterior"].to_dataset()
    draws = [posterior[name].to_numpy() for name in ("z", "noise")]
    draws = [part.reshape(-1, *part.shape[2:]) for part in draws]
    rows = rng.choice(len(draws[0]), n, replace=False)
    return [part[rows] for part in draws]


def compare(simulator, share):
    """Print the table of one simulator."""
    rng = np.random.default_rng(1)
    updates, draws = int(share * UPDATES), int(share * DRAWS)
    model = simulator.model()
    with model:
        step = lz.ConstrainedHMC()
        # its functions are compiled when they are first called
        pm.sample(1, tune=1, chains=1, step=step, progressbar=False, quiet=True)
    tree = by_pymc("ConstrainedHMC", "exact", model, draws, step=step)
    z, noise = exact_draws(tree, ROWS, rng)
    initvals = [{"z": z[i], "noise": noise[i]} for i in range(CHAINS)]
    rates_only = [{"z": values["z"]} for values in initvals]
    likelihood = simulator.with_likelihood()
    by_pymc("NUTS, likelihood", "exact", likelihood, draws, initvals=rates_only)
    for tolerance in TOLERANCES if simulator.prey_only else ():
        relaxed = lz.relax(model, tolerance)
        by_pymc("NUTS, relaxed", f"{tolerance:g}", relaxed, draws, initvals=initvals)
    start = np.log(z) - simulator.prior_mean, noise.reshape(ROWS, -1)
    for method in (by_slice, by_mcmc):
        for radius in RADII[simulator.prey_only]:
            method(simulator, start, radius, updates, rng)
    by_rejection(simulator, int(share * N_REJECTION), rng)


def main(size="full"):
    """Print a table for all populations, and one for some of the prey."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    for prey_only in (False, True):
        simulator = Simulator(prey_only=prey_only)
        print(
            f"\n{simulator.observed.size} numbers observed of {simulator.n_noise}; rates", end=" "
        )
        print(", ".join(f"{value:g}" for value in simulator.setting.truth))
        print("| method | epsilon | accepted |", " | ".join(NAMES), "| ESS | seconds | ESS/s |")
        print("|---" * 10 + "|")
        compare(simulator, {"full": 1.0, "quick": 0.1}[size])


if __name__ == "__main__":
    main(*sys.argv[1:])
