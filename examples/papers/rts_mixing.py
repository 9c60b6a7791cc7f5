"""Why long runs on a machine of 784 x 500 units disagree: do walkers get about?

The two machines of rts_at_size.py's size are learned by the same steps: one from scikit-learn's
1,500 training digits as they are, one from 20,000 distorted ones. A tempered run by
`lz.sample_tempered` is judged (R-hat of the share of a temperature, round trips of walkers), and
the same machine annealed forward, whatever the status. Reverse particles start at the tempered
run's draws: log Z of both directions above that of the reverse ones alone contradicts itself.

Each machine is a unit of work, kept in ``results/rts_mixing.json`` beside the script;
docs/theory/rts_paper.md says what comes of it.

    uv run examples/papers/rts_mixing.py                         # half an hour
    uv run examples/papers/rts_mixing.py --sweeps 10000 --temperatures 10000
    uv run examples/papers/rts_mixing.py --shown                 # computes nothing
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import logsumexp

import pymc_logz as lz

sys.path.append(str(Path(__file__).parent))

import rts_at_size as sized
import rts_rbm as paper
from digits import large_digits
from units import Results

RESULTS = Path(__file__).parent / "results" / "rts_mixing.json"
SETTINGS = {"hidden": 500, "precision": "float32", "distorted digits": 20_000, "chains": 100}
CONTRASTIVE = "CD-1 alone"


def machine(kind, n_updates, store):
    """The machine learned from digits of a kind, or by CD-1 alone, if it is not kept."""
    if not store.exists():
        rng = np.random.default_rng(0)
        training = (
            large_digits(SETTINGS["distorted digits"], rng)[0] > 0.5
            if kind == "distorted"
            else sized.digits(rng)[0]
        )
        data = training.astype(SETTINGS["precision"])
        share = {"contrastive": 1.0 if kind == CONTRASTIVE else 1 / 3}
        rng = np.random.default_rng(784)
        rbm = paper.learn(data, SETTINGS["hidden"], rng, n_updates, **share)
        parts = (rbm.weights, rbm.visible_bias, rbm.hidden_bias, rbm.base_bias)
        np.savez_compressed(store, *(np.asarray(part, dtype=np.float32) for part in parts))
    with np.load(store) as file:
        return lz.energies.bernoulli_rbm(*(file[name].astype(float) for name in file.files))


def unit(rbm, sweeps, temperatures, seed):
    """What a tempered run and annealing in both directions have to say."""
    began, settings = time.process_time(), {"progressbar": False, "random_seed": seed}
    n = SETTINGS["chains"]
    tree = lz.sample_tempered(
        sweeps, 1, model=rbm, walkers=n, betas=paper.N_LEVELS, tune=10, thin=50, **settings
    )
    tempering = tree["tempering"].to_dataset()
    found = {
        "RTS": sized.estimate(tree, "rts"),
        "rhat": float(np.nanmax(tempering["rhat"])),
        "round trips": int(tempering["round_trips"].sum()),
        "tempered seconds": time.process_time() - began,
    }
    both = lz.sample_hais(
        n, 1, model=rbm, betas=temperatures, direction="both", posterior_draws=tree, **settings
    )
    log_weight = both["weighted_posterior"]["log_weight"].to_numpy().ravel()
    found |= {name: sized.estimate(both, name) for name in ("hais", "hais_reverse", "bar")}
    found["plain mean weight"] = float(logsumexp(log_weight) - np.log(log_weight.size))
    found["sd of log weights"] = float(log_weight.std())
    found["doubts"] = both["evidence"].attrs.get("doubts", "")
    return found | {"seconds": time.process_time() - began}


def main(arguments=None):
    """Compute what is missing, keep it, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", nargs="*", default=["plain", "distorted"])
    parser.add_argument("--updates", type=int, default=5000)
    parser.add_argument("--sweeps", type=int, default=1000)
    parser.add_argument("--temperatures", type=int, default=1000)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--shown", action="store_true", help="compute nothing, show what is kept")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore", lz.EvidenceWarning)  # what is wrong is what is looked at
    results = Results(given.results, SETTINGS)
    for kind in () if given.shown else given.kinds:
        name = f"{kind}, {given.updates} updates, {given.temperatures} temperatures"
        if not results.has(name, given.sweeps, 0):
            store = Path(f"rts_mixing_{kind}_{given.updates}.npz")
            rbm = machine(kind, given.updates, store)
            results.keep(name, given.sweeps, 0, unit(rbm, given.sweeps, given.temperatures, 1))
    print(pd.DataFrame(results["units"]).to_string())


if __name__ == "__main__":
    main()
