"""Log likelihood of a machine while it learns, at the size of figure 5 of the paper on RTS.

Carlson, Stinson, Pakman & Paninski (2016, arXiv 1603.01912), section 4.4: 500 hidden units learn
180 bits of DNA. Between updates 2,000 tempered chains sweep 25 times; their draws are the negative
phase of the gradient, and give log Z on the way. The paper's steps are taken: RMSspectral (Carlson,
Hsieh, Collins, Carin & Cevher, 2015), step 1e-5, after a start by contrastive divergence.

The data are `splice.txt.gz`: 60 letters around each of 3,190 splice junctions, of which the paper's
dna set has made three bits a letter. Their source is "Molecular Biology (Splice-junction Gene
Sequences)", UCI Machine Learning Repository, 1991, doi 10.24432/C5M888 (CC BY 4.0).

    uv run examples/papers/rts_tracking.py             # three hours on one core
    uv run examples/papers/rts_tracking.py --shown     # computes nothing

Every 50 updates the machine is kept in ``rts_tracking.npz``: a script that is stopped goes on from
there, with fresh walkers and no memory of earlier gradients. Numbers are in
``results/rts_tracking.json`` beside the script, the picture in ``rts_tracking.png``.
docs/theory/rts_paper.md says what comes of it.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import gzip
import sys
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import numpy as np
from scipy.special import expit, softmax

import pymc_logz as lz

sys.path.append(str(Path(__file__).parent))

import measured
import rts_rbm as paper
from rts_figures import draw_tracking
from units import Results

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "rts_tracking.json"
N_TRAIN, N_VALIDATION, EVERY = 1400, 600, 50
SIZES = {"hidden": 500, "updates": 8000, "walkers": 2000, "between": 25, "pretrained": 300}
SIZES |= {"step": 1e-5, "kept": 0.99, "alpha": 0.2, "checks": 8, "temperatures": 10_000}
NAMES = ("weights", "visible_bias", "hidden_bias")


def dna(rng):
    """Training and validation rows of 180 bits, three for each of 60 letters."""
    with gzip.open(HERE / "splice.txt.gz", "rt") as file:
        letters = np.array([list(line.strip()) for line in file])
    bits = np.stack([letters == letter for letter in "ACG"], axis=-1).reshape(len(letters), -1)
    bits = rng.permutation(bits.astype(float))
    return bits[:N_TRAIN], bits[N_TRAIN : N_TRAIN + N_VALIDATION]


class RMSSpectral:
    """Steepest ascent in the spectral norm, preconditioned by the size of recent gradients."""

    def __init__(self, step, kept):
        self.step, self.kept, self.squares = step, kept, {}

    def __call__(self, name, gradient):
        """What is added to a matrix or a vector."""
        squares = self.squares.get(name, gradient**2)
        self.squares[name] = squares = self.kept * squares + (1 - self.kept) * gradient**2
        scale = squares**0.25 + 1e-6
        whitened = gradient / scale
        if gradient.ndim == 1:  # the norm of biases is that of their largest entry
            direction = np.sign(whitened) * np.abs(whitened).sum()
        else:
            left, sizes, right = np.linalg.svd(whitened, full_matrices=False)
            direction = sizes.sum() * (left @ right)
        return self.step * direction / scale


def started(sizes, train, store):
    """Machine and number of the next update: as kept, or after contrastive divergence."""
    if store.exists():
        with np.load(store) as file:
            return int(file["update"]), {name: file[name] for name in NAMES}
    rng = np.random.default_rng(180)
    rbm = paper.learn(train, sizes["hidden"], rng, sizes["pretrained"], contrastive=1.0)
    return 0, {name: getattr(rbm, name) for name in NAMES}


def tracker_of(sizes, theta, train, seed):
    """A tracker at a machine, with the paper's prior on levels."""
    bias = lz.energies.base_log_odds(train)
    return lz.LogZTracker(
        lz.energies.bernoulli_rbm(*(theta[name] for name in NAMES), bias),
        betas=paper.N_LEVELS,
        level_prior="exp",
        walkers=sizes["walkers"],
        draws=sizes["between"],
        alpha=sizes["alpha"],
        tune=5,
        thin=5,
        random_seed=seed,
        progressbar=False,
    )


def learned(sizes, results, store, last=None, every=EVERY):
    """Go on learning up to an update, keeping what is tracked."""
    train, validation = dna(np.random.default_rng(0))
    first, theta = started(sizes, train, store)
    ascend, even = RMSSpectral(sizes["step"], sizes["kept"]), np.full(len(train), 1 / len(train))
    tracker = tracker_of(sizes, theta, train, [5, first])
    rows, between = [], sizes["updates"] // sizes["checks"]
    for update in range(
        first, min(last if last is not None else sizes["updates"], sizes["updates"]) + 1
    ):
        begun = time.process_time()
        draws = tracker.update(theta)["tempered_posterior"].to_dataset()
        seconds = time.process_time() - begun
        rbm, log_z = tracker.model, tracker.log_z
        fits = [float(rbm.log_visible(data).mean()) for data in (train, validation)]
        rows.append([*(fit - log_z for fit in fits), log_z, seconds])
        if update % between == 0 and not results.has("AIS", update, 0):
            results.keep("AIS", update, 0, annealed(rbm, fits, sizes, update))
            alone = bare(rbm, sizes, np.random.default_rng(update))
            results.keep("sweeps alone", update, 0, {"seconds": alone})
        weight = softmax(draws["log_weight"].to_numpy().ravel())
        visible = draws["visible"].to_numpy().reshape(len(weight), -1).astype(float)
        pairs = zip(
            NAMES,
            paper.gradient(rbm, train, even),
            paper.gradient(rbm, visible, weight),
            strict=True,
        )
        theta = {
            name: theta[name] + ascend(name, of_data - of_model)
            for name, of_data, of_model in pairs
        }
        if (update + 1) % every == 0 or update == sizes["updates"]:
            # in this order: a block that was kept without its machine is made again
            block = {"rows": np.round(rows, 4).tolist()}
            results.keep("tracked", update + 1 - len(rows), 0, block)
            np.savez(store, update=update + 1, **theta)
            print(f"update {update}: {np.round(rows[-1], 3)}", flush=True)
            rows = []


def bare(rbm, sizes, rng):
    """Seconds of processor time of as many Gibbs sweeps in NumPy, and nothing else."""
    begun = time.process_time()
    visible = (rng.random((sizes["walkers"], len(rbm.visible_bias))) < 0.5).astype(float)
    for _ in range(sizes["between"]):
        hidden = rng.random((len(visible), sizes["hidden"])) < expit(
            rbm.hidden_bias + visible @ rbm.weights
        )
        visible = rng.random(visible.shape) < expit(rbm.visible_bias + hidden @ rbm.weights.T)
    return time.process_time() - begun


def annealed(rbm, fits, sizes, seed):
    """Log likelihoods and log Z by annealing 100 particles, as the paper checks them."""
    begun = time.process_time()
    tree = lz.sample_hais(
        paper.N_CHAINS,
        1,
        model=rbm,
        betas=sizes["temperatures"],
        random_seed=seed,
        progressbar=False,
    )
    found = tree["evidence"].to_dataset().isel(estimator=0)
    log_z, mcse = float(found["log_z"]), float(found["mcse"])
    seconds = time.process_time() - begun
    values = {"log_z": log_z, "mcse": mcse, "status": found["status"].item(), "seconds": seconds}
    return values | {"training": fits[0] - log_z, "held out": fits[1] - log_z}


def read(results):
    """What was tracked (updates, 4) and checked (checks, 4), in the order of updates."""
    tracked, checks = measured.tracked(measured.by_size(results))
    rows = [(at, one["training"], one["held out"], one["log_z"]) for at, one in checks]
    return {"tracked": tracked, "checks": np.array([row for row in rows if row[0] < len(tracked)])}


def main(arguments=None):
    """Learn on from where it was, and draw what there is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--last", type=int, help="update to stop at")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--machine", type=Path, default=Path("rts_tracking.npz"))
    parser.add_argument("--shown", action="store_true", help="compute nothing, show what is kept")
    given = parser.parse_args(arguments)
    results = Results(given.results, SIZES)
    if not given.shown:
        learned(SIZES, results, given.machine, given.last)
    draw_tracking(read(results), "row").savefig("rts_tracking.png", dpi=130)


if __name__ == "__main__":
    main()
