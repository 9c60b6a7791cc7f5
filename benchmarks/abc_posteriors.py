"""Effective draws per second of the Lotka-Volterra rates: ABC, NUTS, and constrained HMC.

The simulator and the priors are those of Graham & Storkey (2017), section 7.1, arXiv 1605.07826;
all 100 populations are observed, or the prey of every fifth step only. ABC has a uniform ball of
radius epsilon (``lz.abc_rejection``, ``lz.abc_mcmc``, ``lz.abc_slice``). Its chains, 512 at once,
start at exact posterior draws, as NUTS does; their seconds are all that the call takes. NUTS
samples the model with its likelihood written down, populations that were not observed included, and
where there are such the model relaxed to a Gaussian tolerance too; its seconds are warm-up and
sampling, without compilation. ESS is that of the worst log rate; one about the number of chains,
512 for ABC, says no more than where they started. The histograms of the first table are drawn in
``abc_posteriors.png``, as in the paper's figure 2.

Run it with ``uv run benchmarks/abc_posteriors.py``, or with ``quick`` for a tenth of the draws.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import logging
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pymc as pm

import pymc_logz as lz

sys.path.append(str(Path(__file__).parent))

from likelihood_free.simulators import Simulator

NAMES = ("prey growth", "predation", "predator death", "predator growth")
RADII = {False: (1000.0, 100.0, 10.0), True: (100.0, 10.0, 1.0)}
TOLERANCES = (10.0, 1.0)
N_REJECTION, ROWS, UPDATES = 1_000_000, 512, 400
CHAINS, DRAWS, TUNE = 4, 500, 300


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


def by_rejection(model, simulator, n):
    """Rows of the table for ABC rejection: a run for every radius."""
    for radius in RADII[simulator.prey_only]:
        start = time.perf_counter()
        try:
            tree = lz.abc_rejection(model, radius, n, random_seed=1)
        except lz.ModelError:  # none accepted
            show("ABC rejection", f"{radius:g}", 0.0, np.empty((1, 0, 4)), 1.0, 0)
            continue
        log_rates = np.log(tree["posterior"]["z"].to_numpy())
        share = tree["evidence"].attrs["accepted_share"]
        seconds = time.perf_counter() - start
        show("ABC rejection", f"{radius:g}", share, log_rates, seconds, log_rates.shape[1])


def by_chains(sampler, model, tree, radius, draws):
    """Row of the table for ABC MCMC or elliptical slices from exact draws; the tree."""
    name = {lz.abc_mcmc: "ABC MCMC", lz.abc_slice: "elliptical slice"}[sampler]
    begin = time.perf_counter()
    found = sampler(
        model, radius, ["z"], draws, tune=draws // 3, chains=ROWS, start=tree, random_seed=1
    )
    seconds = time.perf_counter() - begin
    log_rates = np.log(found["posterior"]["z"].to_numpy())
    accepted = float(found["sample_stats"]["accepted"].mean())
    show(name, f"{radius:g}", accepted, log_rates, seconds, worst_ess(log_rates))
    return found


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
    z, noise = exact_draws(tree, CHAINS, rng)
    initvals = [{"z": z[i], "noise": noise[i]} for i in range(CHAINS)]
    rates_only = [{"z": values["z"]} for values in initvals]
    likelihood = simulator.with_likelihood()
    by_pymc("NUTS, likelihood", "exact", likelihood, draws, initvals=rates_only)
    for tolerance in TOLERANCES if simulator.prey_only else ():
        relaxed = lz.relax(model, tolerance)
        by_pymc("NUTS, relaxed", f"{tolerance:g}", relaxed, draws, initvals=initvals)
    shown = {"exact": tree}
    for radius in RADII[simulator.prey_only]:
        name = f"epsilon = {radius:g}"
        found = by_chains(lz.abc_slice, model, tree, radius, updates // 8)
        if radius < max(RADII[simulator.prey_only]):  # which fits into no picture with the others
            shown[name] = found
        by_chains(lz.abc_mcmc, model, tree, radius, updates)
    by_rejection(model, simulator, int(share * N_REJECTION))
    return shown


def draw(simulator, trees):
    """The paper's figure 2: histograms of the log rates, and populations that were accepted."""
    figure, axes = plt.subplots(len(trees), 5, figsize=(12, 1.9 * len(trees)), layout="constrained")
    log_rates = {
        name: np.log(tree["posterior"]["z"].to_numpy()).reshape(-1, len(NAMES))
        for name, tree in trees.items()
    }
    for j, (title, truth) in enumerate(zip(NAMES, simulator.setting.truth, strict=True)):
        everywhere = np.concatenate([values[:, j] for values in log_rates.values()])
        bins = np.linspace(*np.quantile(everywhere, [0.001, 0.999]), 60)
        for ax, values in zip(axes[:, j], log_rates.values(), strict=True):
            ax.hist(values[:, j], bins, color="#3f6fb0", density=True)
            ax.axvline(np.log(truth), color="#b0483f", lw=1)
            ax.set_yticks([])
        axes[0, j].set_title(f"log {title}", fontsize=9)
    times = np.arange(1, simulator.setting.n_steps + 1)
    for ax, first, (name, tree) in zip(axes[:, 4], axes[:, 0], trees.items(), strict=True):
        first.set_ylabel(name, fontsize=9)
        z, noise = exact_draws(tree, 3, np.random.default_rng(1))
        u = np.log(z) - simulator.prior_mean
        states = replace(simulator, prey_only=False).output(u, noise.reshape(len(u), -1))
        for one in states.reshape(len(u), -1, 2):
            ax.plot(times, one[:, 0], color="#2a7f62", lw=0.7, alpha=0.7)
            ax.plot(times, one[:, 1], color="#c98a2b", lw=0.7, alpha=0.7)
        ax.plot(times, simulator.setting.states, "k.", ms=1.5)
    axes[0, 4].set_title("prey and predators; data black", fontsize=9)
    figure.savefig("abc_posteriors.png", dpi=130)


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
        trees = compare(simulator, {"full": 1.0, "quick": 0.1}[size])
        if not prey_only:
            draw(simulator, trees)


if __name__ == "__main__":
    main(*sys.argv[1:])
