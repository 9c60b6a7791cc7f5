"""Errors of the posterior mean of a pose against time: figure 3(a) of the constrained HMC paper.

Graham & Storkey (2017, arXiv 1605.07826), section 7.2: a person seen by two cameras, three scenes
drawn from the prior, ten runs of each method. `lz.ConstrainedHMC` conditions on the pictures by the
generator, noise included; HMC as the paper has it, a path of fixed length, and NUTS are given the
likelihood. All chains start at draws of the prior. The prior of the 46 angles is that of
``examples/constrained/pose.py``, written by hand, where the paper learned one from motion capture.

Time is that of the processor, from the end of the warm-up on. Runs are kept in
``results/pose_at_size.json`` beside the script as they are done; what is there is not computed
again. It saves ``pose_at_size.png``.

    uv run examples/papers/pose_at_size.py            # forty minutes of one processor
    uv run examples/papers/pose_at_size.py --shown    # computes nothing
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

import pymc_logz as lz

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "constrained")]

import pose as experiment
from units import Results

STORE = Path(__file__).parent / "results" / "pose_at_size.json"
SETTINGS = {
    "scenes": [1, 2, 3],
    "runs": 10,
    "seconds": [0.3, 0.6, 1.0, 2.0, 3.0, 6.0, 10.0],
    "tune": {"ConstrainedHMC": 150, "HMC": 1000, "NUTS": 1000},
}
COLOURS = {"ConstrainedHMC": "#2a7f62", "HMC": "#b0483f", "NUTS": "#3f6fb0"}
STEPS = {"ConstrainedHMC": lz.ConstrainedHMC, "HMC": pm.HamiltonianMC, "NUTS": pm.NUTS}
MOST_DRAWS = 50_000


class Clock:
    """Callback of ``pm.sample`` that notes when draws came, and ends the run in time."""

    def __init__(self, limit):
        self.limit, self.warm = limit, time.process_time()
        self.spent = []

    def __call__(self, trace, draw):
        now = time.process_time()
        if draw.tuning:
            self.warm = now
            return
        self.spent.append(now - self.warm)
        if self.spent[-1] > self.limit:
            raise KeyboardInterrupt


def sampled(model, step, start, tune, seed, limit, draws=MOST_DRAWS):
    """Joints (draws, 19, 3) of a chain, when each came, and seconds of its warm-up."""
    began, clock = time.process_time(), Clock(limit)
    tree = pm.sample(
        draws,
        tune=tune,
        step=step,
        initvals=start,
        random_seed=seed,
        callback=clock,
        model=model,
        chains=1,
        cores=1,
        progressbar=False,
        compute_convergence_checks=False,
        quiet=True,
    )
    joints = tree["posterior"]["joints"].to_numpy()[0]
    n = min(len(joints), len(clock.spent))
    return joints[:n], np.array(clock.spent[:n]), clock.warm - began


def starts(model, seed):
    """A draw of the prior for each free variable."""
    free = model.free_RVs
    values = pm.draw(free, random_seed=seed)
    return {rv.name: value for rv, value in zip(free, values, strict=True)}


def errors(joints, spent, truth):
    """Error in centimetres of the mean of all draws up to each of the times."""
    found = []
    for limit in SETTINGS["seconds"]:
        n = max(1, int((spent <= limit).sum()))
        found.append(round(float(experiment.rmse(joints[:n].mean(axis=0), truth)), 3))
    return found


def compute(results, scene):
    """Runs of a scene that are missing, methods taking turns."""
    missing = [
        (run, name)
        for run in range(SETTINGS["runs"])
        for name in COLOURS
        if not results.has(name, scene, run)
    ]
    if not missing:
        return
    truth, data = experiment.true_scene(scene)
    exact, ordinary = experiment.generator(data), experiment.hierarchical(data)
    limit = SETTINGS["seconds"][-1]
    steps = {}
    for name in dict.fromkeys(name for _, name in missing):
        model = exact if name == "ConstrainedHMC" else ordinary
        with model:
            # ours is compiled by its first run, and tuned anew by each
            steps[name] = STEPS[name]() if name == "ConstrainedHMC" else None
            sampled(model, steps[name] or STEPS[name](), None, 2, 1, limit, draws=2)
    for run, name in missing:
        model = exact if name == "ConstrainedHMC" else ordinary
        with model:
            step = steps[name] or STEPS[name]()
        # constrained chains find a point with the pictures from draws of the prior by themselves
        start = None if name == "ConstrainedHMC" else starts(ordinary, 1000 * scene + run)
        tune, seed = SETTINGS["tune"][name], 1000 * scene + run
        joints, spent, warm_up = sampled(model, step, start, tune, seed, limit)
        found = {"rmse": errors(joints, spent, truth), "draws": len(joints)}
        results.keep(name, scene, run, found | {"warm-up": round(warm_up, 2)})
        print(name, scene, run, found, flush=True)


def of_method(results, name, scene):
    """Errors of all runs of a method in a scene, shape (runs, times)."""
    units = results["units"]
    runs = (f"{name} {scene} {run}" for run in range(SETTINGS["runs"]))
    return np.array([units[key]["rmse"] for key in runs if key in units])


def three_errors(found):
    """Three standard errors of the mean of runs (n, times)."""
    return 3 * found.std(axis=0, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else 0 * found[0]


def table(results):
    """Mean errors at the end, and three standard errors, as in the figure."""
    rows = {}
    for scene in SETTINGS["scenes"]:
        for name in COLOURS:
            found = of_method(results, name, scene)
            if not len(found):
                continue
            start = f"{name} {scene} "
            own = [unit for key, unit in results["units"].items() if key.startswith(start)]
            three = three_errors(found)
            rows[f"scene {scene}, {name}"] = {
                "runs": len(found),
                "draws": int(np.median([unit["draws"] for unit in own])),
                "warm-up, s": float(np.median([unit["warm-up"] for unit in own])),
                **{
                    f"{limit:g} s": f"{mean:.1f} ± {error:.1f}"
                    for limit, mean, error in zip(
                        SETTINGS["seconds"], found.mean(axis=0), three, strict=True
                    )
                },
            }
    return pd.DataFrame(rows).T


def draw(results):
    """Figure 3(a): mean errors over runs against seconds, with three standard errors."""
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained", sharey=True)
    for ax, scene in zip(axes, SETTINGS["scenes"], strict=True):
        for name, colour in COLOURS.items():
            found = of_method(results, name, scene)
            if len(found) < 2:
                continue
            mean, three = found.mean(axis=0), three_errors(found)
            ax.plot(SETTINGS["seconds"], mean, color=colour, label=name)
            ax.fill_between(
                SETTINGS["seconds"],
                np.maximum(mean - three, 1e-3),
                mean + three,
                color=colour,
                alpha=0.2,
                lw=0,
            )
        ax.set(xscale="log", yscale="log", ylim=(1, 40), title=f"scene {scene}", xlabel="seconds")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("error of the mean (cm)")
    axes[0].legend(frameon=False, fontsize=8)
    return figure


def main(arguments=None):
    """Compute what is missing, keep it, print the table, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=STORE)
    parser.add_argument("--shown", action="store_true", help="compute nothing, show what is kept")
    given = parser.parse_args(arguments)
    results = Results(given.results, SETTINGS)
    if not given.shown:
        for scene in SETTINGS["scenes"]:
            compute(results, scene)
    print(table(results).to_string())
    figure = draw(results)
    figure.savefig("pose_at_size.png", dpi=130)
    plt.close(figure)


if __name__ == "__main__":
    main()
