"""In-paintings at the constrained HMC paper's size: 28 by 28 pixels, a code of 50 numbers.

Graham & Storkey (2017, arXiv 1605.07826), section 7.3 and figure 4: the top quarter of a digit is
observed exactly. The auto-encoder learns scikit-learn's digits, distorted and 28 by 28 pixels
large, for MNIST; the rest is examples/constrained/inpainting.py with other sizes. The paper
compares with HMC on the code given its likelihood, here it is NUTS, and finds them "similar" at
equal run time: what is kept is effective draws per second of the code's worst entry.

Each held-out digit is a unit of work, kept in ``results/inpainting_at_size.json`` beside the
script. It saves ``inpainting_at_size.png``; docs/theory/constrained.md says what comes of it.

    uv run examples/papers/inpainting_at_size.py                 # five minutes
    uv run examples/papers/inpainting_at_size.py --digits 10
    uv run examples/papers/inpainting_at_size.py --shown         # computes nothing
"""

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

import pymc_logz as lz

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "constrained")]

import inpainting as experiment
from digits import SIDE, large_digits
from units import Results

RESULTS = Path(__file__).parent / "results" / "inpainting_at_size.json"
SETTINGS = {
    "code": 50,
    "hidden": 100,
    "training digits": 20_000,
    "steps": 600,
    "draws": 300,
    "tune": 100,
    "chains": 4,
}
OURS, THEIRS = "ConstrainedHMC", "NUTS with the likelihood"


def at_size():
    """Set the sizes of the example to those of the paper."""
    experiment.SIDE, experiment.N_PIXELS = SIDE, SIDE**2
    experiment.N_CODE, experiment.N_HIDDEN = SETTINGS["code"], SETTINGS["hidden"]


def pixels(rows, rng):
    """Grey levels with uniform noise within a level, as in the example, in (0, 1)."""
    return (np.round(16 * rows) + rng.random(rows.shape)) / experiment.LEVELS


def auto_encoder(store):
    """Weights, learned if they are not kept, and held-out digits (297, 784)."""
    rng = np.random.default_rng(7)
    training, held_out = (pixels(rows, rng) for rows in large_digits(20_000, rng))
    if not store.exists():
        started = time.process_time()
        weights = experiment.train(training, SETTINGS["steps"], rate=2e-3)
        print(f"learned in {time.process_time() - started:.0f} s", flush=True)
        np.savez_compressed(store, *(np.asarray(part, dtype=np.float32) for part in weights))
    with np.load(store) as file:
        return [file[name].astype(float) for name in file.files], held_out


def compared(image, weights):
    """Both samplers on the top quarter of one digit: trees by name."""
    seen = np.arange(SIDE**2 // 4)
    settings = {name: SETTINGS[name] for name in ("draws", "tune", "chains")}
    return {
        OURS: experiment.constrained(experiment.simulator(image, seen, weights), **settings),
        THEIRS: experiment.sample(experiment.with_likelihood(image, seen, weights), **settings),
    }


def draw(image, trees):
    """In-paintings by both, NUTS thinned to the run time of the other."""
    seen = np.arange(SIDE**2 // 4)
    seconds = [tree["posterior"].attrs["sampling_time"] for tree in trees.values()]
    most = SETTINGS["draws"] // experiment.N_SHOWN
    every = {OURS: 1, THEIRS: int(np.clip(round(seconds[0] / seconds[1]), 1, most))}
    figure, axes = plt.subplots(
        1, 3, figsize=(12, 3.4), width_ratios=[3, 8, 8], layout="constrained"
    )
    images = {"seen": image[None]} | {
        f"{name}, 1 draw in {every[name]}": experiment.in_paintings(tree, image, seen, every[name])
        for name, tree in trees.items()
    }
    for ax, (title, shown) in zip(axes, images.items(), strict=True):
        columns = 1 if len(shown) == 1 else experiment.N_COLUMNS
        ax.imshow(experiment.mosaic(shown, seen, columns, zoom=2), interpolation="none")
        ax.set_title(title, fontsize=10)
        ax.axis("off")
    return figure


def main(arguments=None):
    """Learn, sample what is missing, keep it, print the table, draw the last digit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--digits", type=int, default=3)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--weights", type=Path, default=Path("inpainting_at_size.npz"))
    parser.add_argument("--shown", action="store_true", help="compute nothing, show what is kept")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore", lz.EvidenceWarning)
    results = Results(given.results, SETTINGS)
    at_size()
    if not given.shown:
        weights, held_out = auto_encoder(given.weights)
        for i in range(given.digits):
            if results.has(OURS, SIDE, i):
                continue
            trees = compared(held_out[i], weights)
            apart = experiment.disagreement(*trees.values(), SIDE**2 // 4)
            for name, tree in trees.items():
                found = experiment.efficiency(tree) | {f"{k} apart": v for k, v in apart.items()}
                results.keep(name, SIDE, i, {k: float(f"{v:.4g}") for k, v in found.items()})
            figure = draw(held_out[i], trees)
            figure.savefig("inpainting_at_size.png", dpi=150)
            plt.close(figure)
    print(pd.DataFrame(results["units"]).to_string())


if __name__ == "__main__":
    main()
