"""How often did the rate of accidents in coal mines change: never, once or twice?

Explosions in British coal mines were counted for 112 years. Their rate is constant, or changes once
or twice, at years that are not known: discrete variables beside continuous rates. Each model's log
Z can be written as a sum over those years, so that the table at the end has exact values beside
those of ``lz.evidence``.

One year is summed out by itself. Two have 12,544 values together, which is too many, so that they
move by Gibbs sampling while the rates move by Hamiltonian dynamics.

Run it with ``uv run examples/discrete/coal_mining.py``; it saves ``coal_mining.png``.
"""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
from scipy.special import gammaln, logsumexp

import pymc_logz as lz
from pymc_logz.energies.conjugate import COAL_MINING

COUNTS = np.array(COAL_MINING)
N = COUNTS.size
YEARS = np.arange(N)
COLORS = ["#2a7f62", "#7a4b94"]


def changes(n_changes):
    """Yearly counts whose rate changes so many times."""
    with pm.Model() as model:
        rate = pm.Exponential("rate", 1.0, shape=n_changes + 1)
        passed = 0
        if n_changes:
            last = pm.DiscreteUniform("last", 0, N - 1, shape=n_changes)
            passed = (last[:, None] < YEARS).sum(axis=0)
        pm.Poisson("counts", rate[passed], observed=COUNTS)
    return model


def exact_log_z(n_changes):
    """Rates integrated in closed form, then a sum over the years after which they change."""
    total = np.concatenate([[0], np.cumsum(COUNTS)])

    def log_g(first, end):
        """Log marginal probability of the counts of some years that have one rate."""
        s, n = total[end] - total[first], end - first
        return gammaln(1 + s) - (1 + s) * np.log1p(n)

    constant = gammaln(COUNTS + 1).sum()
    ends = np.arange(1, N + 1)
    if n_changes == 0:
        return float(log_g(0, N) - constant)
    if n_changes == 1:
        terms = log_g(0, ends) + log_g(ends, N)
    else:
        first, second = np.sort(np.stack(np.meshgrid(ends, ends)), axis=0)
        terms = log_g(0, first) + log_g(first, second) + log_g(second, N)
    return float(logsumexp(terms) - n_changes * np.log(N) - constant)


def compare(numbers=(0, 1, 2), **settings):
    """Trees of the models, and a table of their log Z beside the exact ones."""
    trees = {
        n: lz.evidence(changes(n), random_seed=1, progressbar=False, **settings) for n in numbers
    }
    rows = {}
    for n, tree in trees.items():
        group = tree["evidence"]
        rows[n] = {
            "log Z": float(group["log_z"][0]),
            "error": float(group["mcse"][0]),
            "exact": exact_log_z(n),
            "status": str(group["status"][0].item()),
            "years": group.attrs.get("summed_out", "moved" if n else "none"),
        }
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("changes")
    weight = np.exp(table["log Z"] - table["log Z"].max())
    return trees, table.assign(probability=weight / weight.sum())


def plot(trees):
    """Counts with the mean rate of each model, above the years of the changes."""
    figure, (top, bottom) = plt.subplots(
        2, 1, figsize=(7, 4.6), sharex=True, height_ratios=[3, 1.4], layout="constrained"
    )
    calendar = 1851 + YEARS
    top.bar(calendar, COUNTS, color="0.85", width=1.0)
    for n, color in zip((1, 2), COLORS, strict=True):
        posterior = trees[n]["posterior"].to_dataset().stack(sample=("chain", "draw"))
        last, rate = posterior["last"].to_numpy(), posterior["rate"].to_numpy()
        passed = (YEARS[:, None, None] > last).sum(axis=1)
        mean = np.take_along_axis(rate, passed, axis=0).mean(axis=1)
        label = f"{n} change{'s' * (n > 1)}"
        top.plot(calendar, mean, color=color, label=label)
        share = np.bincount(last.ravel(), minlength=N) / last.shape[1]
        bottom.step(calendar, share, where="mid", color=color, label=label)
    top.set_ylabel("accidents in a year")
    top.legend(frameon=False)
    bottom.set(xlabel="year", ylabel="P(last year\nof a rate)")
    return figure


def main():
    """Print the table, and save the picture."""
    trees, table = compare()
    print(table.to_string(float_format="{:.3f}".format))
    plot(trees).savefig("coal_mining.png", dpi=150)


if __name__ == "__main__":
    main()
