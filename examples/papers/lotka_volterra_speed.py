"""Effective draws per second of predator-prey rates: figure 2(c) of the constrained HMC paper.

Graham & Storkey (2017, arXiv 1605.07826), section 7.1: 104 inputs of a simulator whose 100 outputs
are observed. ABC has a uniform ball of radius epsilon and elliptical slices of the rates and of the
noise in turn; `lz.ConstrainedHMC` needs no radius. Ten runs of each.

No chain starts at a draw of the posterior. Constrained chains start from prior draws, as ever. ABC
chains start from the nearest of prior draws, and the radius shrinks to epsilon while chains that
are too far are replaced by others, which no one chain could do; a burn-in at epsilon follows. All
that can be given to ABC is given to it: the simulator is plain NumPy, all chains of all runs are
simulated at once, and effective draws are those of each chain by itself, as CODA has them (a
spectral density at zero by an autoregression), which does not count what a chain never found. R-hat
of the chains of a run stands beside it.

Runs are kept in ``results/lotka_volterra_speed.json`` beside the script as they are done; what is
there is not computed again. It saves ``lotka_volterra_speed.png``.

    uv run examples/papers/lotka_volterra_speed.py            # six minutes of one processor
    uv run examples/papers/lotka_volterra_speed.py --shown    # computes nothing
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import sys
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
from scipy.linalg import solve_toeplitz

import pymc_logz as lz
from pymc_logz.manifold.abc_chains import sliced

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "constrained")]

import lotka_volterra as experiment
from units import Results

STORE = Path(__file__).parent / "results" / "lotka_volterra_speed.json"
SETTINGS = {
    "runs": 10,
    "prior draws": 200_000,
    "ABC chains of a run": 8,
    "burn-in": 500,
    "updates": {"100": 2000, "10": 2000},
    "kept within": 0.8,
    "chains": 2,
    "tune": 300,
    "draws": 1000,
}
RADII = (100, 10)
OURS = "ConstrainedHMC"
N_RATES, N_INPUTS = 4, 4 + 2 * experiment.N_STEPS


def distances(inputs, data):
    """How far outputs are from the data, shape (n,), of standard normal inputs (n, 104)."""
    rates = np.exp(inputs[:, :N_RATES].T - 2.0)
    noise = np.ascontiguousarray(inputs[:, N_RATES:].T)
    prey, predators = np.repeat(experiment.START[:, None], len(inputs), axis=1)
    square = np.zeros(len(inputs))
    with np.errstate(all="ignore"):
        for t, (seen_prey, seen_predators) in enumerate(data):
            met = prey * predators
            prey, predators = (
                prey + rates[0] * prey - rates[1] * met + noise[2 * t],
                predators - rates[2] * predators + rates[3] * met + noise[2 * t + 1],
            )
            square += (prey - seen_prey) ** 2 + (predators - seen_predators) ** 2
        return np.where(np.isfinite(square), np.sqrt(square), np.inf)


class Slices:
    """Elliptical slices of many chains in a ball around the data that may shrink."""

    def __init__(self, data, rng, chains, prior_draws):
        self.data, self.rng = data, rng
        self.n_simulations = 0
        near, far = np.empty((0, N_INPUTS)), np.empty(0)
        for _ in range(prior_draws // 10_000):
            rows = np.concatenate([near, rng.normal(size=(10_000, N_INPUTS))])
            distance = np.concatenate([far, self.distances(rows[len(near) :])])
            nearest = np.argsort(distance)[:chains]
            near, far = rows[nearest], distance[nearest]
        self.rows, self.distance, self.radius = near, far, far.max()

    def distances(self, rows):
        """Distances, counted."""
        self.n_simulations += len(rows)
        return distances(rows, self.data)

    def level(self, rows):
        """Log density over that of the prior: zero in the ball."""
        distance = self.distances(rows)
        return np.where(distance <= self.radius, 0.0, -np.inf), distance

    def update(self):
        """One slice of the rates and one of the noise."""
        height = np.zeros(len(self.rows))
        for start, stop in ((0, N_RATES), (N_RATES, N_INPUTS)):
            group = np.arange(N_INPUTS)
            group = (group >= start) & (group < stop)
            ellipse = np.zeros(stop - start), np.ones(stop - start)
            now = height, self.distance
            self.rows, height, self.distance = sliced(
                self.rows, now, group, ellipse, self.level, self.rng
            )

    def shrink(self, radius, share):
        """Down to a radius, with most of the chains inside at each step and the others replaced."""
        n = 0
        while self.radius > radius:
            self.radius = max(radius, np.quantile(self.distance, share))
            inside = np.flatnonzero(self.distance <= self.radius)
            if not inside.size:
                raise RuntimeError(f"no chain within {self.radius:.3g}")
            outside = np.flatnonzero(self.distance > self.radius)
            taken = self.rng.choice(inside, outside.size)
            self.rows[outside], self.distance[outside] = self.rows[taken], self.distance[taken]
            self.update()
            n += 1
        return n

    def walk(self, n):
        """Log rates of so many updates, shape (chains, n, 4)."""
        found = np.empty((len(self.rows), n, N_RATES))
        for i in range(n):
            self.update()
            found[:, i] = self.rows[:, :N_RATES]
        return found - 2.0


def effective_size(x):
    """Effective draws of one chain, as CODA has them: by an autoregression chosen by AIC."""
    x = x - x.mean()
    n, most = x.size, int(10 * np.log10(x.size))
    covariance = np.array([x[: n - k] @ x[k:] for k in range(most + 1)]) / n
    if covariance[0] <= 0:
        return 0.0
    best, spectrum = np.inf, np.nan
    for order in range(most + 1):
        part = (
            solve_toeplitz(covariance[:order], covariance[1 : order + 1]) if order else np.empty(0)
        )
        left = covariance[0] - part @ covariance[1 : order + 1]
        if left <= 0:
            break
        criterion = n * np.log(left) + 2 * order
        if criterion < best:
            best = criterion
            spectrum = left * n / (n - order - 1) / (1 - part.sum()) ** 2
    return float(min(n * x.var(ddof=1) / spectrum, n))


def summary(log_rates, seconds, warm_up):
    """What is kept of a run, of log rates (chains, draws, 4)."""
    import arviz as az
    import xarray as xr

    data = xr.Dataset({"z": (("chain", "draw", "rate"), log_rates)})
    sizes = [[effective_size(chain[:, k]) for k in range(N_RATES)] for chain in log_rates]
    return {
        "ess": np.sum(sizes, axis=0).round(2).tolist(),
        "rhat": az.rhat(data)["z"].to_numpy().round(4).tolist(),
        "mean": log_rates.mean(axis=(0, 1)).round(4).tolist(),
        "sd": log_rates.std(axis=(0, 1)).round(4).tolist(),
        "seconds": round(seconds, 3),
        "warm-up": round(warm_up, 3),
    }


def ours(results, data):
    """Runs of constrained HMC that are missing."""
    missing = [i for i in range(SETTINGS["runs"]) if not results.has(OURS, 0, i)]
    if not missing:
        return
    settings = {"chains": SETTINGS["chains"], "cores": 1, "progressbar": False}
    settings |= {"compute_convergence_checks": False, "quiet": True}
    with experiment.simulator(data):
        step = lz.ConstrainedHMC()
        pm.sample(2, tune=2, step=step, random_seed=1, **settings)  # compiles
        for i in missing:
            spent = []
            for draws in (2, SETTINGS["draws"]):
                began = time.process_time()
                tree = pm.sample(draws, tune=SETTINGS["tune"], step=step, random_seed=i, **settings)
                spent.append(time.process_time() - began)
            log_rates = np.log(tree["posterior"]["z"].to_numpy())
            results.keep(OURS, 0, i, summary(log_rates, spent[1] - spent[0], spent[0]))
            print(OURS, i, results["units"][f"{OURS} 0 {i}"], flush=True)


def abc(results, data, radius):
    """All runs of ABC within a radius, which are simulated at once, if they are missing."""
    name, runs = "ABC slices", SETTINGS["runs"]
    if results.has(name, radius, runs - 1):
        return
    began = time.process_time()
    rng = np.random.default_rng([2017, radius])
    slices = Slices(data, rng, runs * SETTINGS["ABC chains of a run"], SETTINGS["prior draws"])
    print(f"nearest prior draws: {slices.distance.min():.0f} to {slices.distance.max():.0f}")
    n = slices.shrink(float(radius), SETTINGS["kept within"])
    for _ in range(SETTINGS["burn-in"]):
        slices.update()
    warm_up, before = time.process_time() - began, slices.n_simulations
    print(f"within {radius} after {n} updates, {warm_up:.0f} s with the burn-in", flush=True)
    log_rates = slices.walk(SETTINGS["updates"][str(radius)])
    seconds = time.process_time() - began - warm_up
    for i, part in enumerate(np.split(log_rates, runs)):
        found = summary(part, seconds / runs, warm_up / runs)
        found["simulations"] = (slices.n_simulations - before) // runs
        results.keep(name, radius, i, found)
    print(name, radius, results["units"][f"{name} {radius} 0"], flush=True)


def per_second(results):
    """Effective draws per second of each rate and run, shape (runs, 4), by method and radius."""
    found = {}
    for key, unit in results["units"].items():
        name, radius, _ = key.rsplit(" ", 2)
        found.setdefault((name, int(radius)), []).append(np.array(unit["ess"]) / unit["seconds"])
    return {key: np.array(rows) for key, rows in found.items()}


def table(results):
    """Means over runs, and three standard errors, as in the figure."""
    rows = {}
    for (name, radius), rates in per_second(results).items():
        units = [results["units"][f"{name} {radius} {i}"] for i in range(len(rates))]
        error = 3 * rates.std(axis=0, ddof=1) / np.sqrt(len(rates)) if len(rates) > 1 else rates[0]
        row = {
            of: f"{mean:.4g} ± {three:.2g}"
            for of, mean, three in zip(experiment.NAMES, rates.mean(axis=0), error, strict=True)
        }
        row["runs"] = len(rates)
        row["largest R-hat"] = max(max(unit["rhat"]) for unit in units)
        row["seconds"] = round(sum(unit["seconds"] for unit in units), 1)
        rows[name if name == OURS else f"{name}, epsilon {radius}"] = row
    return pd.DataFrame(rows).T


def draw(results):
    """Figure 2(c): bars for each rate, with three standard errors."""
    figure, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
    colours = {(OURS, 0): "#3f6fb0", ("ABC slices", 100): "#2a7f62", ("ABC slices", 10): "#b0483f"}
    found = per_second(results)
    for j, key in enumerate(one for one in (*colours,) if one in found):
        rates = found[key]
        error = 3 * rates.std(axis=0, ddof=1) / np.sqrt(len(rates))
        label = key[0] if key[0] == OURS else f"{key[0]}, $\\epsilon$ = {key[1]}"
        where = np.arange(N_RATES) + 0.27 * (j - 1)
        ax.bar(where, rates.mean(axis=0), 0.25, yerr=error, color=colours[key], label=label)
    ax.set(yscale="log", ylabel="effective draws per second", xticks=range(N_RATES))
    ax.set_xticklabels(experiment.NAMES)
    ax.legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0, 1), ncols=3)
    ax.spines[["top", "right"]].set_visible(False)
    return figure


def main(arguments=None):
    """Compute what is missing, keep it, print the table, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=STORE)
    parser.add_argument("--shown", action="store_true", help="compute nothing, show what is kept")
    given = parser.parse_args(arguments)
    results, data = Results(given.results, SETTINGS), experiment.simulated_data()
    if not given.shown:
        ours(results, data)
        for radius in RADII:
            abc(results, data, radius)
    print(table(results).to_string())
    figure = draw(results)
    figure.savefig("lotka_volterra_speed.png", dpi=130)
    plt.close(figure)


if __name__ == "__main__":
    main()
