"""Parameters and evidence of a stochastic predator-prey simulator, without a likelihood.

The simulator takes four rates and one standard normal number per population and step. Its output is
observed exactly, so the posterior lives on the inputs that give that output: 104 inputs under 100
constraints. ``lz.ConstrainedHMC()`` samples there, ``lz.bridge_sampling`` gives log p(y), with no
tolerance in either. The setting is that of Graham & Storkey (2017), section 7.1, arXiv 1605.07826.

This simulator happens to have a likelihood that can be written down, since all states are observed:
an ordinary model and HAIS check the number. The Bayes factor tells whether the two populations need
to know of each other.

Run it with ``uv run examples/constrained/lotka_volterra.py``; it saves ``lotka_volterra.png``.
"""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
from scipy import stats

import pymc_logz as lz

START = np.array([100.0, 100.0])
RATES = np.array([0.4, 0.005, 0.05, 0.001])
N_STEPS = 50
NAMES = ("prey growth", "predation", "predator death", "predator growth")


def next_state(noise, state, z):
    """Populations one step on (Euler-Maruyama with a step of 1)."""
    prey, predators = state[..., 0], state[..., 1]
    return pt.stack(
        [
            prey + z[0] * prey - z[1] * prey * predators + noise[..., 0],
            predators - z[2] * predators + z[3] * prey * predators + noise[..., 1],
        ],
        axis=-1,
    )


def simulated_data():
    """What the paper observes: populations after each of 50 steps, shape (50, 2)."""
    noise = np.random.RandomState(1234).normal(size=(N_STEPS, 2))
    states = [START]
    for step in noise:
        prey, predators = states[-1]
        eaten = prey * predators
        change = np.array(
            [RATES[0] * prey - RATES[1] * eaten, -RATES[2] * predators + RATES[3] * eaten]
        )
        states.append(states[-1] + change + step)
    return np.array(states[1:])


def rates(interaction):
    """Rates with their priors; without interaction two of them are zero."""
    free = pm.LogNormal("z", -2.0, 1.0, shape=4 if interaction else 2)
    if interaction:
        return free
    return pt.stack([free[0], 0.0, free[1], 0.0])


def simulator(data, interaction=True):
    """The simulator with its output observed exactly."""
    with pm.Model(coords={"step": range(N_STEPS), "of": ["prey", "predators"]}) as model:
        z = rates(interaction)
        noise = pm.Normal("noise", dims=("step", "of"))
        states = pytensor.scan(
            next_state,
            sequences=[noise],
            outputs_info=[pt.constant(START)],
            non_sequences=[z],
            return_updates=False,
        )
        lz.ExactObservation("populations", states, data, dims=("step", "of"))
    return model


def with_likelihood(data, interaction=True):
    """The same model with the likelihood written down."""
    before = np.concatenate([START[None], data[:-1]])
    with pm.Model() as model:
        mean = next_state(np.zeros((N_STEPS, 2)), before, rates(interaction))
        pm.Normal("populations", mean, 1.0, observed=data)
    return model


def fit(model, draws=500, chains=4, seed=1):
    """Posterior and log Z of a simulator."""
    with model:
        tree = pm.sample(
            draws,
            tune=300,
            chains=chains,
            cores=1,
            step=lz.ConstrainedHMC(),
            random_seed=seed,
            progressbar=False,
        )
    return lz.bridge_sampling(tree, model, random_seed=seed)


def summary(trees, checks):
    """log Z of each simulator, and what the likelihood gives."""
    rows = {}
    for name, tree in trees.items():
        ours, check = (
            one["evidence"].to_dataset().isel(estimator=0) for one in (tree, checks[name])
        )
        rows[name] = {
            "log_z": float(ours["log_z"]),
            "mcse": float(ours["mcse"]),
            "status": str(ours["status"].values),
            "log_z_hais": float(check["log_z"]),
            "mcse_hais": float(check["mcse"]),
        }
    return pd.DataFrame(rows).T


def draw(data, tree, table):
    """Populations, posterior of the rates over the prior, and the evidence."""
    figure, axes = plt.subplots(
        1, 6, figsize=(14, 3.2), layout="constrained", width_ratios=[2, 1, 1, 1, 1, 1.2]
    )
    steps = np.arange(N_STEPS + 1)
    for i, (name, color) in enumerate((("prey", "#009E73"), ("predators", "#D55E00"))):
        axes[0].plot(steps, np.r_[START[i], data[:, i]], color=color, label=name)
    axes[0].set(xlabel="step", title="observed exactly")
    axes[0].legend(frameon=False)
    prior = stats.lognorm(1.0, scale=np.exp(-2.0))
    z = tree["posterior"]["z"].to_numpy().reshape(-1, 4)
    for i, ax in enumerate(axes[1:5]):
        ax.hist(z[:, i], 30, density=True, color="#CC79A7", alpha=0.75)
        ax.axvline(RATES[i], color="0.15", lw=1.2)
        ax.set(title=NAMES[i], yticks=[])
        ax.ticklabel_format(axis="x", style="sci", scilimits=(-2, 2))
        ax.locator_params(axis="x", nbins=3)
        low, high = np.quantile(z[:, i], [0.001, 0.999])
        print(f"{NAMES[i]}: prior mass of the range shown {prior.cdf(high) - prior.cdf(low):.1g}")
    axes[5].errorbar(
        table["log_z"].astype(float),
        np.arange(len(table)),
        xerr=2 * table["mcse"].astype(float),
        fmt="o",
        color="0.15",
    )
    axes[5].set(yticks=np.arange(len(table)), yticklabels=list(table.index), title="log evidence")
    axes[5].margins(x=0.15, y=0.6)
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    return figure


def main():
    """Fit both simulators, print the table and the Bayes factor, save the picture."""
    data = simulated_data()
    trees, checks = {}, {}
    for name, interaction in (("interaction", True), ("none", False)):
        trees[name] = fit(simulator(data, interaction))
        checks[name] = lz.sample_hais(
            model=with_likelihood(data, interaction), random_seed=1, progressbar=False
        )
    table = summary(trees, checks)
    print(table.to_string())
    print(lz.compare_evidence(trees).to_string())
    print(
        pd.DataFrame(
            {
                "true": RATES,
                "mean": trees["interaction"]["posterior"]["z"].mean(("chain", "draw")).to_numpy(),
                "sd": trees["interaction"]["posterior"]["z"].std(("chain", "draw")).to_numpy(),
            },
            index=NAMES,
        ).to_string()
    )
    draw(data, trees["interaction"], table).savefig("lotka_volterra.png", dpi=130)
    print("\nThe picture is in lotka_volterra.png")


if __name__ == "__main__":
    main()
