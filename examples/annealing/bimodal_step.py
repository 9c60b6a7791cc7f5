"""Four NUTS chains that disagree about a posterior with two modes, and HAIS in their place.

Three events were counted. Either the process is quiet, prior Gamma(2, 2), or it is busy, prior
Gamma(40, 4). Both explain the count, so the posterior of the rate has two skewed modes of unequal
mass. Mass and log Z are known exactly: each half of the prior is conjugate.

A NUTS chain crosses rarely, and each has its own idea of the masses. ``lz.HAIS()`` is a step method
for the same ``pm.sample``: it proposes ends of annealed trajectories, which fall into the modes in
proportion, and what it proposes gives log Z as well.

Run it with ``uv run examples/annealing/bimodal_step.py``; it saves ``bimodal_step.png``.
"""

import matplotlib

matplotlib.use("Agg")

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
from scipy import stats

import pymc_logz as lz

COUNT = 3
SHAPES, RATES = np.array([2.0, 40.0]), np.array([2.0, 4.0])
CUT = 5.5  # between the modes
COLORS = ["#E69F00", "#009E73", "#CC79A7", "#D55E00"]


def two_explanations():
    """One count from a process that is either quiet or busy."""
    with pm.Model() as model:
        kinds = pm.Gamma.dist(alpha=SHAPES, beta=RATES)
        rate = pm.Mixture("rate", w=[0.5, 0.5], comp_dists=kinds)
        pm.Poisson("events", rate, observed=COUNT)
    return model


def exact_posterior():
    """Mass of the two halves of the prior given the count, their distributions, and log Z."""
    z = 0.5 * stats.nbinom(SHAPES, RATES / (RATES + 1)).pmf(COUNT)
    return z / z.sum(), stats.gamma(SHAPES + COUNT, scale=1 / (RATES + 1)), np.log(z.sum())


def sample(model, draws=1000, seed=2):
    """The same call of pm.sample with NUTS and with HAIS."""
    settings = {"draws": draws, "chains": 4, "cores": 1, "random_seed": seed, "progressbar": False}
    with model:
        nuts = pm.sample(nuts_sampler="pymc", **settings)
        hais = pm.sample(step=lz.HAIS(), **settings)
    return {"NUTS": nuts, "HAIS": lz.evidence(hais)}


def summary(trees):
    """R-hat, mass of the busy mode, and log Z of each sampler beside the exact values."""
    mass, laws, log_z = exact_posterior()
    rows = {}
    for name, tree in trees.items():
        busy = (tree["posterior"]["rate"] > CUT).astype(float)
        rows[name] = {
            "r_hat": float(az.rhat(tree["posterior"]["rate"].to_dataset())["rate"]),
            "busy": float(busy.mean()),
            "busy_mcse": float(az.mcse(busy.to_dataset())["rate"]),
            "busy_exact": float(mass @ laws.sf(CUT)),
            "log_z": np.nan,
            "log_z_mcse": np.nan,
            "log_z_exact": log_z,
        }
        if "evidence" in tree.children:
            entry = tree["evidence"].to_dataset().isel(estimator=0)
            rows[name] |= {"log_z": float(entry["log_z"]), "log_z_mcse": float(entry["mcse"])}
    return pd.DataFrame(rows).T


def draw_chains(ax, tree, title):
    """What each chain takes the posterior for, and the posterior."""
    mass, laws, _ = exact_posterior()
    grid = np.linspace(0.01, 13, 400)
    ax.fill_between(grid, laws.pdf(grid[:, None]) @ mass, color="0.87", label="exact")
    for chain, color in zip(tree["posterior"]["rate"].to_numpy(), COLORS, strict=True):
        ax.hist(chain, np.linspace(0, 13, 53), density=True, histtype="step", color=color)
    ax.set(title=title, xlabel="rate", ylim=(0, 0.65))
    ax.legend(frameon=False)


def draw_shares(ax, trees):
    """Share of the draws so far that are in the busy mode, one line per chain."""
    mass, laws, _ = exact_posterior()
    for name, style in (("NUTS", ":"), ("HAIS", "-")):
        busy = trees[name]["posterior"]["rate"].to_numpy() > CUT
        share = np.cumsum(busy, axis=1) / np.arange(1, busy.shape[1] + 1)
        for i, color in enumerate(COLORS):
            label = name if i == 0 else None
            ax.plot(share[i], style, color=color, lw=1.6, label=label)
    ax.axhline(float(mass @ laws.sf(CUT)), color="0.15", lw=1, label="exact")
    ax.set(title="share in the busy mode", xlabel="draw", ylim=(0, 1.2))
    ax.legend(frameon=False, ncols=3, loc="upper center")


def main():
    """Sample, print the table, save the picture."""
    trees = sample(two_explanations())
    table = summary(trees)
    print(table.round(4).to_string())
    for name, tree in trees.items():
        share = (tree["posterior"]["rate"] > CUT).mean("draw").to_numpy()
        print(f"{name}: share in the busy mode, chain by chain: {np.round(share, 3)}")

    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    for ax, name in zip(axes[:2], ("NUTS", "HAIS"), strict=True):
        draw_chains(ax, trees[name], f"{name}, four chains: R-hat {table.loc[name, 'r_hat']:.3f}")
    axes[0].set_ylabel("density")
    draw_shares(axes[2], trees)
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig("bimodal_step.png", dpi=130)
    print("\nThe picture is in bimodal_step.png")


if __name__ == "__main__":
    main()
