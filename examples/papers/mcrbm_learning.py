"""The mean-covariance RBM learned by persistent chains of HMC, and why it is behind on patches.

Ranzato & Hinton (2010) learn it so; Sohl-Dickstein & Culpepper (2012, arXiv 1205.1925, table 1) by
minimum probability flow, as natural_images.py does. Here gradients are means over the patches less
means over persistent chains, which a trajectory of HMC moves on after each step of Adam. Patches
are those of natural_images.py; log likelihoods of test patches are by `lz.sample_hais`.

The covariance part of the energy sees (C x)**2 / (|x|**2 + 1/2), so that it depends on the
direction of a patch and hardly on its length. What it costs a model whose length is that of a
normal law is exact, and printed: log density of the lengths of test patches under the best such
law, less that under a log-normal law fitted to the same training patches.

Each size is a unit of work, kept in ``results/mcrbm_learning.json`` beside the script.

    uv run examples/papers/mcrbm_learning.py                # minutes
    uv run examples/papers/mcrbm_learning.py --units 72 144 288 432 --updates 20000
    uv run examples/papers/mcrbm_learning.py --shown        # computes nothing
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import sys
import time
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jax.flatten_util import ravel_pytree
from scipy import stats

import pymc_logz as lz

sys.path.append(str(Path(__file__).parent))

from natural_images_parts import flow, models
from natural_images_parts.patches import patches
from units import Results

RESULTS = Path(__file__).parent / "results" / "mcrbm_learning.json"
PARTS = RESULTS.parent / "natural_images_parts.npz"  # which hais_at_size.py keeps
SETTINGS = {"chains": 500, "batch": 500, "leapfrog steps": 10, "rate": 0.003}
NAME = "mcRBM, persistent HMC"
TARGET = 0.8  # acceptance rate that the step size is led to


def learned(n, data, n_updates, seed):
    """Parameters after so many steps of Adam, with mean acceptance and step size of the chains."""
    rng = np.random.default_rng([seed, n])
    start = {k: jnp.asarray(v) for k, v in models.start_of_mcrbm(n, rng).items()}
    flat, unravel = ravel_pytree(start)

    def mean_energy(flat, x):
        return flow.mcrbm(unravel(flat), x).mean()

    @jax.jit
    def update(state, batch, momentum, uniform, rate, i):
        flat, chains, step, first, second = state
        energy = lambda x: flow.mcrbm(unravel(flat), x)  # noqa: E731
        force = jax.grad(lambda x: -energy(x).sum())

        def leapfrog(_, now):
            x, v = now
            x = x + step * v
            return x, v + step * force(x)

        v = momentum + 0.5 * step * force(chains)
        there, v = jax.lax.fori_loop(0, SETTINGS["leapfrog steps"], leapfrog, (chains, v))
        v = v - 0.5 * step * force(there)
        change = energy(chains) - energy(there) + 0.5 * (momentum**2 - v**2).sum(axis=1)
        accepted = jnp.log(uniform) < change
        chains = jnp.where(accepted[:, None], there, chains)
        share = jnp.minimum(1, jnp.exp(change)).mean()
        step = step * jnp.exp(0.02 * (share - TARGET))
        gradient = jax.grad(mean_energy)(flat, batch) - jax.grad(mean_energy)(flat, chains)
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        scaled = first / (1 - 0.9**i) / (jnp.sqrt(second / (1 - 0.999**i)) + 1e-8)
        return (flat - rate * scaled, chains, step, first, second), share

    chains = data[rng.choice(len(data), SETTINGS["chains"], replace=False)]
    state = (flat, jnp.asarray(chains), 0.1, jnp.zeros_like(flat), jnp.zeros_like(flat))
    average, shares = np.zeros(flat.size), []
    for i in range(1, n_updates + 1):
        batch = data[rng.integers(len(data), size=SETTINGS["batch"])]
        momentum, uniform = rng.normal(size=chains.shape), rng.random(len(chains))
        rate = SETTINGS["rate"] * (1 - i / (n_updates + 1))
        state, share = update(state, batch, momentum, uniform, rate, float(i))
        shares.append(float(share))
        if 4 * i > 3 * n_updates:  # of the last quarter, which noise moves about
            average += np.asarray(state[0])
    average /= sum(4 * i > 3 * n_updates for i in range(1, n_updates + 1))
    parts = {k: np.asarray(v) for k, v in unravel(jnp.asarray(average)).items()}
    return parts, float(np.mean(shares)), float(state[2])


def unit(n, data, n_updates, seed):
    """A size: learned, and the log likelihood of test patches and of as many training patches."""
    began = time.process_time()
    parts, acceptance, step_size = learned(n, data.training, n_updates, seed)
    seconds = time.process_time() - began
    found = models.likelihood("mcRBM", parts, data.test)
    log_z = -float(np.asarray(flow.mcrbm(parts, data.test)).mean()) - found["mean"]
    training = -float(np.asarray(flow.mcrbm(parts, data.training)).mean()) - log_z
    return {
        "log likelihood": round(found["mean"], 3),
        "mcse": round(found["mcse"], 3),
        "standard error": round(found["standard_error"], 3),
        "status": found["status"],
        "training": round(training, 3),
        "log_p": found["log_p"].round(3).tolist(),
        "acceptance": round(acceptance, 3),
        "step size": round(step_size, 4),
        "seconds": round(seconds, 1),
    }


def lengths(data):
    """Mean log density of the lengths of test patches under two laws fitted to training patches."""
    training, test = (np.linalg.norm(rows, axis=1) for rows in (data.training, data.test))
    normal = stats.chi(models.M, scale=np.sqrt((training**2).mean() / models.M))
    free = stats.lognorm(np.log(training).std(), scale=np.exp(np.log(training).mean()))
    each = [law.logpdf(test) for law in (normal, free)]
    return {
        "normal": float(each[0].mean()),
        "log-normal": float(each[1].mean()),
        "lost": (each[1] - each[0]).round(3).tolist(),
    }


def of_experts(data):
    """Exact log likelihood of each test patch under complete products of experts that are kept."""
    found, kept = {}, np.load(PARTS)
    for name, energy in (
        ("experts, Laplace", flow.laplace),
        ("experts, Student-t", flow.student_t),
    ):
        own = [key for key in kept.files if key.startswith(f"{name}: ")]
        parts = {key.split(": ")[1]: kept[key] for key in own}
        if not parts:
            continue
        log_z = float(models.energy_of(name, parts, data.test[0]).log_z)
        found[name] = (-np.asarray(energy(parts, data.test)) - log_z).round(3).tolist()
    return found


def main(arguments=None):
    """Learn what is missing, keep it, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--units", type=int, nargs="*", default=[72, 144])
    parser.add_argument("--updates", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=2010)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--shown", action="store_true", help="compute nothing, show what is kept")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore", lz.EvidenceWarning)  # potentials are the models here
    results = Results(given.results, SETTINGS)
    if not given.shown:
        data = patches()
        results["lengths"], results["experts"] = lengths(data), of_experts(data)
        results.write()
        for n in given.units:
            name = f"{NAME}, {given.updates} updates"
            if not results.has(name, n, given.seed):
                results.keep(name, n, given.seed, unit(n, data, given.updates, given.seed))
    rows = {
        key: {name: value for name, value in one.items() if name != "log_p"}
        for key, one in results["units"].items()
    }
    print(pd.DataFrame(rows).T.to_string())
    lost = np.array(results["lengths"]["lost"])
    for name, log_p in results.get("experts", {}).items():
        print(f"36 {name}: {np.mean(log_p):.2f} nats")
    print(f"a normal law of lengths loses {lost.mean():.2f} ± {stats.sem(lost):.2f} nats a patch")


if __name__ == "__main__":
    main()
