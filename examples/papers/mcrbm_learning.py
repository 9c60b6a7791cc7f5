"""The mean-covariance RBM: two energies, and four ways to learn it, on patches of photographs.

Sohl-Dickstein & Culpepper (2012, arXiv 1205.1925) print a covariance part of the energy that sees
``(C x)**2 / (|x|**2 + 1/2)``, and say that the energy is from Ranzato and Hinton's (2010) released
code. That code divides ``|x|**2`` by the number of visible units first. With it units see the
length of a patch where its mean square is not much above 1/2; with the printed one hardly, as
``|x|**2`` is 36 on average. Filters that are six times as long at first have as much of an effect
on patches of average length with the printed energy as the others with that of the code.

Ranzato and Hinton learn by persistent chains of HMC, Sohl-Dickstein and Culpepper by minimum
probability flow. Here is the flow; chains with one step size, and with step sizes over two orders
of magnitude; and such chains from where the flow ends. Student-t experts learn by the same ways,
for comparison. Patches are those of natural_images.py, log likelihoods are by `lz.sample_hais`.
Energies of patches, chains and draws of `lz.sample_hais` say whether chains have got about: then
all three are alike.

Each size is a unit of work, kept in ``results/mcrbm_learning.json`` beside the script.

    uv run examples/papers/mcrbm_learning.py                # 72 units, all of the table: minutes
    uv run examples/papers/mcrbm_learning.py --ways chains --energies "mean square" --units 432
    uv run examples/papers/mcrbm_learning.py --shown        # computes nothing
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import sys
import time
import warnings
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pandas as pd
from scipy import stats

import pymc_logz as lz

sys.path.append(str(Path(__file__).parent))

from natural_images_parts import chains, flow, models
from natural_images_parts.patches import PHOTOGRAPHS, patches
from units import Results

RESULTS = Path(__file__).parent / "results" / "mcrbm_learning.json"
SETTINGS = {
    "chains": chains.N_CHAINS,
    "batch": chains.BATCH,
    "leapfrog steps": chains.N_STEPS,
    "rate": chains.RATE,
    "rounds of flow": 60,
    "photographs": PHOTOGRAPHS,
}
ENERGIES = {
    "mean square": True,
    "sum of squares": False,
    "sum of squares from long filters": False,
    "Student-t experts": None,
}
EXPERTS = "experts, Student-t"
WAYS = ("chains", "one step size", "flow", "flow, chains")


def energy_of(name):
    """The energy of rows; whether the denominator has the mean square, None for experts."""
    mean_square = ENERGIES[name]
    of = EXPERTS if mean_square is None else "mcRBM"
    return models.rows_energy(of, mean_square), mean_square


def learned(n, data, name, way, n_updates, seed):
    """Parameters, and what chains have to say."""
    rng = np.random.default_rng([seed, n])
    energy, mean_square = energy_of(name)
    experts = mean_square is None
    start = models.start_of_experts(EXPERTS, n, rng) if experts else models.start_of_mcrbm(n, rng)
    if "long filters" in name:
        start["C"] *= np.sqrt(models.M)
    said = {}
    if way.startswith("flow"):
        given = {part: jnp.asarray(value) for part, value in start.items()}
        start = flow.learn(energy, given, data, rng, SETTINGS["rounds of flow"])
    if way != "flow":
        spread = 0.0 if way == "one step size" else chains.SPREAD
        start, said = chains.learn(energy, start, data, rng, n_updates, spread)
    return start, said


def unit(n, data, name, way, n_updates, seed):
    """A size: learned, log likelihoods of patches, energies of patches, chains and draws."""
    began = time.process_time()
    parts, said = learned(n, data.training, name, way, n_updates, seed)
    seconds = time.process_time() - began
    energy, mean_square = energy_of(name)
    of = EXPERTS if mean_square is None else "mcRBM"
    model = models.energy_of(of, parts, data.test[0], mean_square).model
    tree = lz.sample_hais(models.DRAWS, model=model, random_seed=1, progressbar=False)
    entry = tree["evidence"].to_dataset().isel(estimator=0)
    log_z = float(entry["log_z"])
    log_p = {part: -np.asarray(energy(parts, getattr(data, part))) - log_z for part in PHOTOGRAPHS}
    draws = tree["posterior"]["x"].to_numpy().reshape(-1, models.M)
    found = {
        "log likelihood": float(log_p["test"].mean()),
        "mcse": float(entry["mcse"]),
        "standard error": float(stats.sem(log_p["test"])),
        "validation": float(log_p["validation"].mean()),
        "training": float(log_p["training"].mean()),
        "energy of data": -float(log_p["training"].mean()) - log_z,
        **{one: said[one] for one in said if one != "chains"},
        "energy of draws": float(np.asarray(energy(parts, draws)).mean()),
        "short, data": short(data.training),
        "short, chains": short(said["chains"]) if said else None,
        "short, draws": short(draws),
        "seconds": seconds,
    }
    rounded = {one: value if value is None else round(value, 3) for one, value in found.items()}
    status = str(entry["status"].item())
    return {**rounded, "status": status, "log_p": log_p["test"].round(3).tolist()}


def short(rows):
    """Share of rows with a mean square below 1/10."""
    return float(((rows**2).mean(axis=1) < 0.1).mean())


def main(arguments=None):
    """Learn what is missing, keep it, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--units", type=int, nargs="*", default=[72])
    parser.add_argument("--updates", type=int, default=6000)
    parser.add_argument("--energies", nargs="*", default=list(ENERGIES), choices=ENERGIES)
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=WAYS)
    parser.add_argument("--seed", type=int, default=2010)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--shown", action="store_true", help="compute nothing, show what is kept")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore", lz.EvidenceWarning)  # potentials are the models here
    results = Results(given.results, json.loads(json.dumps(SETTINGS)))
    if not given.shown:
        data = patches()
        every = [(n, one, way) for n in given.units for one in given.energies for way in given.ways]
        for n, one, way in every:
            name = f"{one}, {way}, {0 if way == 'flow' else given.updates} updates"
            if not results.has(name, n, given.seed):
                found = unit(n, data, one, way, given.updates, given.seed)
                results.keep(name, n, given.seed, found)
                print(name, n, found["log likelihood"], found["status"], flush=True)
    rows = {
        key: {name: value for name, value in one.items() if name != "log_p"}
        for key, one in results["units"].items()
    }
    print(pd.DataFrame(rows).T.to_string())


if __name__ == "__main__":
    main()
