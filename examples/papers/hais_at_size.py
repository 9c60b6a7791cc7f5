"""Figures 2, 3 and 4 of the paper on HAIS at its own size: 100,000 temperatures, 200 particles.

Sohl-Dickstein & Culpepper (2012, arXiv 1205.1925). Products of 36 Student-t or Laplace experts,
whose filters were learned from image patches (natural_images.py --strips), and the linear model
with a Gaussian prior, along the paper's even ladder from N(0, I) with its step sizes; log Z is
known exactly. Figures 2 and 3 have annealing with a fresh momentum and with a random walk beside
HAIS.
Responses of experts that are far out are counted, and compared with how many there should be.

Each run is a unit of work with a seed of its own, kept in ``results/hais_at_size.json`` beside the
script as soon as it is done: a script that is stopped goes on where it was.

    uv run examples/papers/hais_at_size.py                       # short ladders: minutes
    uv run examples/papers/hais_at_size.py --temperatures 100000 --replicates 8
    uv run examples/papers/hais_at_size.py --shown               # computes nothing

It saves ``hais_at_size.png``; docs/theory/natural_images.md says what comes of it.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import sys
import time
import warnings
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy import stats

import pymc_logz as lz
from pymc_logz.estimators import importance_log_z
from pymc_logz.paths.schedules import linear_betas
from pymc_logz.runners.anneal import Plan, anneal
from pymc_logz.weights import log_mean

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "annealing")]

import natural_images as images
import products_of_experts as comparison
from natural_images_parts import expectation, models
from natural_images_parts.patches import patches
from units import Results

RESULTS = Path(__file__).parent / "results"
PARTS = RESULTS / "natural_images_parts.npz"
SETTINGS = {"particles": 200, "patches of a unit": 10, "parts": "natural_images.py, SMALL"}
EXPERTS = ("experts, Student-t", "experts, Laplace")
LINEAR = "linear, Gaussian"
LONGEST = 100_000
FAR = (10, 30)
"""Responses of experts beyond these are counted: what is out there is what a short ladder lacks."""


def parts_of(name, data):
    """Parameters of a model of 36 experts or variables, learned if they are not kept."""
    kept = dict(np.load(PARTS)) if PARTS.exists() else {}
    found = {key.split(": ")[1]: kept[key] for key in kept if key.startswith(f"{name}: ")}
    if not found:
        found = models.learned(name, models.M, data.training, images.SMALL, {})
        kept |= {f"{name}: {part}": value for part, value in found.items()}
        np.savez_compressed(PARTS, **kept)
    return found


def annealed(block, filters, method, n, rng):
    """One run of the paper's: log Z, what the package says of it, and where its rows end."""
    began, betas = time.process_time(), linear_betas(n)
    kernel = comparison.METHODS[method].kernel
    ones = np.broadcast_to(np.ones(models.M), (betas.size, models.M))
    plan = Plan(betas, np.full(betas.size, kernel.step_size), ones)
    start = block.path.sample_reference(rng, SETTINGS["particles"])
    run = anneal(block, plan, start, rng)
    found = importance_log_z(run.log_weight)
    weight = np.exp(run.log_weight - run.log_weight.max())
    far = np.array([(np.abs(run.position @ filters.T) > u).sum(axis=1) for u in FAR])
    return {
        "log_z": round(log_mean(run.log_weight), 5),
        "mcse": round(found.mcse, 5) if np.isfinite(found.mcse) else None,
        "weight_ess": round(found.weight_ess, 2),
        "khat": round(found.khat, 3) if np.isfinite(found.khat) else None,
        "status": found.status,
        "acceptance": round(float(run.acceptance_rate.mean()), 4),
        "far": (far @ weight / weight.sum()).round(4).tolist(),
        "seconds": round(time.process_time() - began, 2),
    }


def expected_far(name, parts):
    """Expected number of responses beyond `FAR` under a complete set of experts."""
    if name == "experts, Laplace":
        return [models.M * float(np.exp(-u)) for u in FAR]
    lam = np.asarray(models.flow.exponents(parts))
    # (1 + u^2)^-lam is a Student-t of 2 lam - 1 degrees of freedom
    return [float(2 * stats.t(2 * lam - 1).sf(u * np.sqrt(2 * lam - 1)).sum()) for u in FAR]


def study_experts(results, name, data, methods, temperatures, replicates):
    """Figures 2 and 3: what is missing of a product of experts."""
    parts = parts_of(name, data)
    energy = models.energy_of(name, parts, data.test[0])
    results[name] = {"log_z": float(energy.log_z), "far": expected_far(name, parts)}
    for method in methods:
        block = None
        for n in temperatures:
            for i in range(replicates):
                if results.has(f"{name}, {method}", n, i):
                    continue
                if block is None:
                    kernel = comparison.METHODS[method].kernel
                    path = comparison.model_path(
                        comparison.flatten_model(energy.model), comparison.PriorDraws(energy.model)
                    )
                    block = comparison.Block(path, kernel, SETTINGS["particles"])
                    block.compile()
                rng = np.random.Generator(np.random.SFC64([i, n, len(name), len(method)]))
                found = annealed(block, parts["filters"], method, n, rng)
                results.keep(f"{name}, {method}", n, i, found)
                print(name, method, n, i, found, flush=True)


def exact_of_patches(parts, test):
    """Log likelihood of each patch under the linear Gaussian model."""
    covariance = parts["bases"] @ parts["bases"].T + expectation.NOISE**2 * np.eye(models.M)
    return stats.multivariate_normal(np.zeros(models.M), covariance).logpdf(test)


def study_linear(results, data, temperatures, units):
    """Figure 4: what is missing of the linear model, ten test patches at a time.

    Along the longest ladders a unit is one patch, which takes half a minute of processor time.
    """
    parts = parts_of(LINEAR, data)
    for n in temperatures:
        some = SETTINGS["patches of a unit"] if n < LONGEST else 1
        for i in range(units):
            if results.has(LINEAR, n, i):
                continue
            test = data.test[some * i : some * (i + 1)]
            began = time.process_time()
            (log_p,) = models.annealed(
                LINEAR, parts, test, SETTINGS["particles"], [linear_betas(n)], seed=[4, n, i]
            )
            seconds = time.process_time() - began
            off = log_p - exact_of_patches(parts, test)
            results.keep(LINEAR, n, i, {"off": off.tolist(), "seconds": seconds})
            print(LINEAR, n, i, off.mean(), seconds, flush=True)


def table(results):
    """Errors by model, method and number of temperatures; a unit of the linear model has many."""
    rows = {}
    for key, unit in results["units"].items():
        name, n, _ = key.rsplit(" ", 2)
        rows.setdefault((name, int(n)), []).append(unit)
    found = {}
    for (name, n), units in sorted(rows.items()):
        if name == LINEAR:
            off, status = np.concatenate([unit["off"] for unit in units]), ""
        else:
            exact = results[name.rsplit(", ", 1)[0]]["log_z"]
            off = np.array([unit["log_z"] - exact for unit in units])
            status = models.said(np.array([unit["status"] for unit in units]))
        found[name, n] = {
            "runs": off.size,
            "mean error": off.mean(),
            "sd": off.std(ddof=1) if off.size > 1 else np.nan,
            "rmse": np.sqrt((off**2).mean()),
            "status": status,
            "seconds": np.median([unit["seconds"] for unit in units]),
        }
        if "far" in units[0]:
            seen = np.mean([unit["far"] for unit in units], axis=0)
            lacking = np.array(results[name.rsplit(", ", 1)[0]]["far"]) - seen
            found[name, n] |= {
                f"lacks beyond {u}": one for u, one in zip(FAR, lacking, strict=True)
            }
    return pd.DataFrame(found).T


def draw(shown):
    """Errors of log Z against the number of temperatures, with twice their errors."""
    figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
    for name, rows in shown.groupby(level=0):
        n = rows.index.get_level_values(1).to_numpy(dtype=float)
        mean, sd = (rows[key].to_numpy(dtype=float) for key in ("mean error", "sd"))
        error = 2 * np.nan_to_num(sd) / np.sqrt(rows["runs"].to_numpy(dtype=float))
        ax.errorbar(n, mean, error, marker="o", ms=4, lw=1.2, capsize=2, label=name)
    ax.axhline(0, color="0.2", lw=0.8)
    ax.set(xscale="log", xlabel="temperatures", ylabel="mean error of log Z (nats)")
    ax.set_yscale("symlog", linthresh=0.5)
    ax.legend(frameon=False, fontsize=8)
    ax.spines[["top", "right"]].set_visible(False)
    return figure


def main(arguments=None):
    """Compute what is missing, keep it, print a table, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--temperatures", type=int, nargs="*", default=[1000, 10_000])
    parser.add_argument("--replicates", type=int, default=10)
    parser.add_argument("--methods", nargs="*", default=["HAIS", "full refreshment", "random walk"])
    parser.add_argument("--models", nargs="*", default=[*EXPERTS, LINEAR])
    parser.add_argument("--results", type=Path, default=RESULTS / "hais_at_size.json")
    parser.add_argument("--shown", action="store_true", help="compute nothing, show what is kept")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore", lz.EvidenceWarning)  # potentials are the models here
    results = Results(given.results, SETTINGS)
    if not given.shown:
        data = patches(strips=True)
        for name in given.models:
            if name == LINEAR:
                study_linear(results, data, given.temperatures, given.replicates)
            else:
                study_experts(
                    results, name, data, given.methods, given.temperatures, given.replicates
                )
    shown = table(results)
    print(shown.to_string())
    figure = draw(shown)
    figure.savefig("hais_at_size.png", dpi=130)
    plt.close(figure)


if __name__ == "__main__":
    main()
