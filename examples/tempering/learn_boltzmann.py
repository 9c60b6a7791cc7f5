"""The likelihood of a Boltzmann machine while it is being learned, by tracking its log Z.

Maximum likelihood moves the parameters of an unnormalised model by the difference of two means: of
the data, and of the model itself. Tempered walkers give the second mean, and log Z for nothing:
``lz.LogZTracker`` carries walkers and log Z from one set of parameters to the next, so that the
likelihood of training and held-out data is known at every step (Carlson et al. 2016, section 4.4
and figure 5, arXiv 1603.01912). Here the machine is small enough to sum log Z exactly, the training
set is small enough to be learned by heart, and the held-out likelihood says when to stop.

Run it with ``uv run examples/tempering/learn_boltzmann.py``; it saves ``learn_boltzmann.png``.
"""

import warnings

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import pymc_logz as lz
from pymc_logz.energies import gaussian_rbm, gaussian_rbm_log_z

N_VISIBLE, N_HIDDEN = 8, 12
N_TRAIN, N_TEST, N_STEPS, RATE = 30, 2000, 250, 0.08


def make_data(rng):
    """Visible units of a machine with three hidden units: training set and held-out set."""
    weights = rng.normal(0, 1.2, (N_VISIBLE, 3))
    truth = gaussian_rbm(weights, rng.normal(0, 0.5, N_VISIBLE), np.array([-1.0, -2.0, -1.5]))
    v = truth.sample_posterior(rng, N_TRAIN + N_TEST)["v"]
    return v[:N_TRAIN], v[N_TRAIN:]


def log_f(v, theta):
    """Log of the unnormalised density of visible units (n, d), shape (n,)."""
    hidden = np.logaddexp(0, theta["hidden_bias"] + v @ theta["weights"]).sum(axis=1)
    return hidden - ((v - theta["visible_bias"]) ** 2).sum(axis=1) / 2


def mean_gradient(v, weight, theta):
    """Mean of the gradient of log f over weighted visible units."""
    hidden = 1 / (1 + np.exp(-(theta["hidden_bias"] + v @ theta["weights"])))
    return {
        "weights": (v * weight[:, None]).T @ hidden,
        "visible_bias": weight @ (v - theta["visible_bias"]),
        "hidden_bias": weight @ hidden,
    }


def draws_of(tree):
    """All draws of the walkers, and the weights that make them stand for the model."""
    group = tree["tempered_posterior"].to_dataset()
    log_weight = group["log_weight"].to_numpy().ravel()
    return group["v"].to_numpy().reshape(-1, N_VISIBLE), np.exp(
        log_weight - np.logaddexp.reduce(log_weight)
    )


def learn(train, test, n_steps, rng):
    """Gradient ascent; one row of results per step, and the tracker."""
    theta = {
        "weights": rng.normal(0, 0.2, (N_VISIBLE, N_HIDDEN)),
        "visible_bias": train.mean(axis=0),
        "hidden_bias": np.zeros(N_HIDDEN),
    }
    settings = {"walkers": 512, "alpha": 0.1, "level_prior": "exp", "random_seed": rng}
    tracker = lz.LogZTracker(gaussian_rbm(**theta).model, **settings)
    even, tree, rows = np.full(len(train), 1 / len(train)), tracker.update(), []
    for _ in range(n_steps):
        of_data, of_model = (
            mean_gradient(v, weight, theta) for v, weight in ((train, even), draws_of(tree))
        )
        theta = {name: theta[name] + RATE * (of_data[name] - of_model[name]) for name in theta}
        tree = tracker.update(theta)
        fit = {"train": log_f(train, theta).mean(), "test": log_f(test, theta).mean()}
        log_z = {"log_z": tracker.log_z, "mcse": tracker.mcse, "exact": gaussian_rbm_log_z(**theta)}
        rows.append(fit | log_z)
    return pd.DataFrame(rows, index=pd.RangeIndex(1, n_steps + 1, name="step")), tracker


def draw(table, tracker):
    """Likelihoods as tracked and exact; errors of log Z with their interval."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for name, color in (("train", "#009E73"), ("test", "#CC79A7")):
        left.plot(table[name] - table["log_z"], color=color, lw=1.2, label=f"{name}, tracked")
        left.plot(table[name] - table["exact"], ":", color="0.1", lw=1.2)
    best = (table["test"] - table["log_z"]).idxmax()
    left.axvline(best, color="0.6", lw=1)
    left.set(xlabel="step", ylabel="nats per datum", title="mean log likelihood, exact dotted")
    left.legend(frameon=False)
    error = table["log_z"] - table["exact"]
    right.fill_between(table.index, -1.96 * table["mcse"], 1.96 * table["mcse"], color="0.87")
    alone = tracker.tree["evidence"].to_dataset().sel({"estimator": "rts"})["log_z"].to_numpy()[2:]
    right.plot(
        table.index, alone - table["exact"], color="#D55E00", lw=0.6, label="each step alone"
    )
    right.plot(error, color="#009E73", lw=1.2, label="tracked, 95% interval grey")
    right.axhline(0, color="0.1", lw=0.8)
    right.set(xlabel="step", ylabel="nats", title="error of log Z")
    right.legend(frameon=False)
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    return figure


def main(n_steps=N_STEPS):
    """Learn, print the table, save the picture."""
    # the potential is the model here
    warnings.simplefilter("ignore", lz.EvidenceWarning)
    rng = np.random.default_rng(5)
    train, test = make_data(rng)
    table, tracker = learn(train, test, n_steps, rng)
    shown = table.assign(
        train=table["train"] - table["log_z"], test=table["test"] - table["log_z"]
    ).rename(columns={"train": "log p(train)", "test": "log p(test)"})
    print(shown.iloc[:: max(1, n_steps // 10)].round(3).to_string())
    z = (table["log_z"] - table["exact"]) / table["mcse"]
    print(f"\nerror of log Z in units of mcse: root mean square {np.sqrt((z**2).mean()):.2f}")
    best = (table["test"] - table["log_z"]).idxmax()
    print(f"the held-out likelihood is highest at step {best}")
    draw(table, tracker).savefig("learn_boltzmann.png", dpi=130)
    print("The picture is in learn_boltzmann.png")


if __name__ == "__main__":
    main()
