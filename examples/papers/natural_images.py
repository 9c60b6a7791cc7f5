"""Six models of natural image patches and their log likelihoods: the paper on HAIS.

Sohl-Dickstein & Culpepper (2012, arXiv 1205.1925) learn models of 16 by 16 patches, and find out by
Hamiltonian annealed importance sampling how likely test patches are under each. Here the patches
are cut from photographs that come with scikit-image and scikit-learn, other ones for training, for
choosing sizes, and for testing (log intensity, mean subtracted, the 36 leading principal components
of training patches, whitened). With ``--strips`` they are from strips of two photographs, as those
of hais_at_size.py.

1. (figure 1) Filters and bases, as images.
2. (figures 2 and 3) Log likelihoods of 36 Student-t and Laplace experts against the number of
   temperatures: HAIS, the same step with a fresh momentum, a Gaussian random walk; exact values are
   known.
3. (figure 4) The same of HAIS for the linear model with a Gaussian prior.
4. (figure 5) Log likelihoods against the number of experts.
5. Table 1, with errors; and bases of zero, whose log likelihood is known whatever the prior.

Products of experts learn by minimum probability flow with L-BFGS, the mean-covariance RBM by
persistent chains (mcrbm_learning.py says why), generative models by expectation maximization with
our Hamiltonian kernel in the E step.

Run it with ``uv run examples/papers/natural_images.py``, an hour on two cores; with ``--paper`` for
the paper's numbers of experts, temperatures and particles, hours. Numbers are kept in
``natural_images.npz``, and what is there is drawn again, not computed: ``--figures 4 5`` chooses.
Log likelihoods of each test patch are kept in ``results/natural_images.json`` beside the script.
It saves ``natural_images_1.png`` and so on. docs/theory/natural_images.md says what comes of it.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import numpy as np
from scipy import stats

import pymc_logz as lz

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "annealing")]

import natural_images_parts.figures as figures
import products_of_experts as comparison
from natural_images_parts import models
from natural_images_parts.expectation import NOISE
from natural_images_parts.patches import PHOTOGRAPHS, Patches, patches
from units import Results

RESULTS = Path(__file__).parent / "results"
SMALL = {
    "experts": (36, 54, 72, 144),
    "mcRBM": (36, 72, 144, 432),
    "updates": 6000,
    "bilinear": (45,),  # 36 and 9 latent variables
    "flow": 60,
    "rounds": 60,
    "moves": 3,
    "draws": 16,
    "replicates": 24,
    "temperatures": (100, 300, 1000, 3000),
}
PAPER = SMALL | {
    "experts": (36, 72, 108, 144, 216),
    "mcRBM": (72, 144, 288, 432),
    "updates": 10_000,
    "bilinear": (98,),
    "flow": 200,
    "rounds": 200,
    "draws": 200,
    "replicates": 32,
    "temperatures": (100, 1000, 10_000, 100_000),
}
LADDERS = {
    "HAIS": np.array([100, 300, 900]),
    "full refreshment": np.array([100, 300, 900]),
    "random walk": np.array([1000, 3000, 9000]),
}
OF_TABLE = ("1", "5", "table")


def sizes_of(name: str, sizes: dict) -> tuple[int, ...]:
    """Numbers of experts or latent variables that a model is learned with."""
    if name.startswith("experts"):
        return sizes["experts"]
    return sizes[name] if name in ("mcRBM", "bilinear") else (models.M,)


def learned(kept: dict, data: Patches, name: str, n: int, sizes: dict) -> models.Parts:
    """Parameters of a model, learned if they are not kept."""
    key = f"parts {name} {n}"
    if key not in kept:
        linear = (
            learned(kept, data, "linear, Laplace", models.M, sizes) if name == "bilinear" else None
        )
        started = time.perf_counter()
        kept[key] = models.learned(name, n, data.training, sizes, linear)
        print(f"{name}, {n}: learned in {time.perf_counter() - started:.0f} s", flush=True)
    return kept[key]


def judged(kept: dict, data: Patches, name: str, n: int, sizes: dict, results: Results) -> dict:
    """Log likelihood of test patches under a model, computed if it is not kept."""
    key = f"likelihood {name} {n}"
    parts = learned(kept, data, name, n, sizes)
    if key not in kept:
        started = time.perf_counter()
        validation = data.validation if len(data.validation) else None
        found = models.likelihood(name, parts, data.test, validation)
        seconds = time.perf_counter() - started
        kept[key] = {**found, "exact": models.exact(name, parts, data.test), "seconds": seconds}
        print(f"{name}, {n}: {found['mean']:.2f} nats, {seconds:.0f} s", flush=True)
    if not results.has(name, n, 0):
        found = kept[key]
        numbers = ("mean", "validation", "mcse", "standard_error", "exact", "seconds")
        rounded = {
            one: round(found[one], 4) for one in numbers if np.isfinite(found.get(one, np.nan))
        }
        log_p = found["log_p"].round(3).tolist()
        results.keep(name, n, 0, {**rounded, "status": found["status"], "log_p": log_p})
    return kept[key]


def converging(parts: models.Parts, name: str, data: Patches, sizes: dict) -> dict:
    """Figures 2 and 3: curves of each method by kind of step size, and what log Z makes of data."""
    energy = models.energy_of(name, parts, data.test[0])
    n, found = sizes["replicates"], {}
    for method, ladder in LADDERS.items():
        rng = np.random.Generator(np.random.SFC64(2012))
        asked = replace(comparison.METHODS[method], temperatures=ladder, n_batches=1)
        block = comparison.compiled(energy, asked.kernel, n)
        best = comparison.best_step_size(block, asked, max(1, n // 4), rng)
        for kind, step_size in (("paper", asked.kernel.step_size), ("best", best)):
            curve = comparison.measure(block, asked, step_size, energy.log_z, n, rng)
            found.setdefault(kind, {})[method] = curve
    for curves in found.values():
        curves["rmse"] = comparison.compare(curves, np.random.default_rng(1))
    return {**found, "exact": models.exact(name, parts, data.test)}


def linear_converging(parts: models.Parts, data: Patches, sizes: dict) -> dict:
    """Figure 4: log likelihood of the linear Gaussian model by number of temperatures."""
    name = "linear, Gaussian"
    # the paper's even ladder, and one that is dense where data are far more likely than the prior
    powers = {"even": 1, "dense near 0": 4}
    keys = [(ladder, n) for n in sizes["temperatures"] for ladder in powers]
    ladders = [np.linspace(0, 1, n + 1) ** powers[ladder] for ladder, n in keys]
    log_p = models.annealed(name, parts, data.test, sizes["draws"], ladders)
    found = {key: float(each.mean()) for key, each in zip(keys, log_p, strict=True)}
    return {"found": found, "exact": models.exact(name, parts, data.test)}


def of_nothing(data: Patches, sizes: dict) -> dict:
    """Bases of zero: log likelihoods of generative models, and the exact one (eq. 41)."""
    square, rng = np.eye(models.M), np.random.default_rng(41)
    none = {"bases": np.zeros((models.M, models.M)), "first": square}
    none["second"] = rng.uniform(size=(models.M, 9))
    exact = stats.norm(0, NOISE).logpdf(data.test).sum(axis=1).mean()
    found = {
        name: float(models.annealed(name, none, data.test, 4, [np.linspace(0, 1, 31)])[0].mean())
        for name in models.GENERATIVE
    }
    return {**found, "exact": exact}


def study(kept: dict, data: Patches, number: str, sizes: dict, results: Results) -> None:
    """Whatever a figure needs and is not kept yet."""
    if number in OF_TABLE:
        for name in models.PAPER:
            for n in sizes_of(name, sizes):
                judged(kept, data, name, n, sizes, results)
    elif number in ("2", "3") and number not in kept:
        name = {"2": "experts, Student-t", "3": "experts, Laplace"}[number]
        parts = learned(kept, data, name, models.M, sizes)
        kept[number] = converging(parts, name, data, sizes)
    elif number == "4" and number not in kept:
        parts = learned(kept, data, "linear, Gaussian", models.M, sizes)
        kept[number] = linear_converging(parts, data, sizes)
    elif number == "0" and number not in kept:
        kept[number] = of_nothing(data, sizes)


def main(arguments=None):
    """Compute what is missing, keep it, print tables, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--paper", action="store_true", help="the paper's sizes")
    parser.add_argument(
        "--strips", action="store_true", help="patches of strips of two photographs"
    )
    parser.add_argument("--figures", nargs="*", default=["0", "4", "3", "2", "table", "5", "1"])
    given = parser.parse_args(arguments)
    # potentials are the models here, and short ladders are what is being looked at
    warnings.simplefilter("ignore", lz.EvidenceWarning)
    started, data = time.perf_counter(), patches(strips=given.strips)
    stem = "natural_images" + "_strips" * given.strips + "_paper" * given.paper
    store, sizes = Path(f"{stem}.npz"), PAPER if given.paper else SMALL
    kept = figures.Kept(store)
    folder = RESULTS if stem == "natural_images" else Path()
    settings = {"photographs": "strips of china and flower" if given.strips else PHOTOGRAPHS}
    results = Results(folder / f"{stem}.json", json.loads(json.dumps(settings)))
    print(f"numbers are kept in {store}")
    for number in given.figures:
        study(kept, data, number, sizes, results)
        figures.show(number, kept, data)
    print(f"{time.perf_counter() - started:.0f} seconds")


if __name__ == "__main__":
    main()
