"""From two fitted models to a decision: does the second drug give more sleep than the first?

Ten patients took both drugs; the data are the differences in hours of sleep (Student 1908). One
model says that the drugs do the same, the other gives the standardised effect a Cauchy prior: the
Bayesian t-test of Rouder et al. (2009, doi 10.3758/PBR.16.2.225), whose published Bayes factor for
these data is 17.259.

The steps: fit both models with ``pm.sample``; log Z of each posterior by bridge sampling; the Bayes
factor, and how it depends on the width of the prior; predictions averaged over both models; what
follows for the next patient.

The prior 1 / sigma of the textbook does not integrate to one, so it has no log Z: it is refused. A
uniform prior of log sigma on a wide interval takes its place in both models. Its width drops out of
the Bayes factor, since both of them pay for it alike.

Run it with ``uv run examples/comparing/sleep.py``; it saves ``sleep.png``.
"""

import matplotlib

matplotlib.use("Agg")

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pymc as pm

import pymc_logz as lz

HOURS = np.array([1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4])
WIDTH = np.sqrt(0.5)
WIDTHS = np.geomspace(0.1, 500, 61)
COLORS = {"same": "0.45", "differs": "#2a7f62", "averaged": "#b5542f"}
COST = 0.5
"""Hours of sleep that the side effects of the second drug are worth."""


def same() -> pm.Model:
    """No difference between the drugs."""
    with pm.Model() as model:
        log_sigma = pm.Uniform("log_sigma", np.float64(-10), np.float64(10))
        pm.Normal("hours", np.float64(0), pm.math.exp(log_sigma), observed=HOURS)
    return model


def differs(width: float = WIDTH) -> pm.Model:
    """A difference of `delta` standard deviations."""
    with pm.Model() as model:
        width = pm.Data("width", np.float64(width))
        log_sigma = pm.Uniform("log_sigma", np.float64(-10), np.float64(10))
        delta = pm.Cauchy("delta", np.float64(0), width)
        sigma = pm.math.exp(log_sigma)
        pm.Normal("hours", delta * sigma, sigma, observed=HOURS)
    return model


def fit(model: pm.Model, seed: int):
    """Posterior, its log Z, and predictions for further patients."""
    tree = pm.sample(
        2000, chains=4, cores=1, model=model, random_seed=seed, progressbar=False, target_accept=0.9
    )
    tree = lz.evidence(tree, model, random_seed=seed)
    predictions = pm.sample_posterior_predictive(
        tree, model=model, random_seed=seed, progressbar=False
    )
    tree["posterior_predictive"] = predictions["posterior_predictive"]
    return tree


def predicted(tree) -> np.ndarray:
    """Gains of the next patient."""
    return tree["posterior_predictive"]["hours"].to_numpy().ravel()


def draw_effect(ax, tree):
    """Prior and posterior of the standardised effect."""
    grid = np.linspace(-1, 4, 400)
    prior = 1 / (np.pi * WIDTH * (1 + (grid / WIDTH) ** 2))
    ax.plot(grid, prior, color="0.6", lw=1.5)
    ax.hist(
        tree["posterior"]["delta"].to_numpy().ravel(),
        bins=60,
        density=True,
        color=COLORS["differs"],
        alpha=0.45,
    )
    ax.annotate("prior", (-0.95, 0.36), color="0.4")
    ax.annotate("posterior", (1.9, 0.6), color=COLORS["differs"])
    ax.set(xlabel="effect in standard deviations", yticks=[], title="The model that differs")


def draw_sensitivity(ax, tree, other):
    """Bayes factor against the width of the prior."""
    group = tree["sensitivity"].to_dataset()
    log_factor = group["log_z"] - float(other["evidence"]["log_z"][0])
    ax.plot(group["width"], np.exp(log_factor), color=COLORS["differs"], lw=2)
    ax.axhline(1, color="0.5", lw=1)
    ax.axvline(WIDTH, color="0.5", lw=1, ls="--")
    ax.set(xscale="log", yscale="log", xlabel="width of the prior of the effect")
    ax.set_title("Bayes factor against no difference")
    ax.annotate("a vague prior\nfavours no difference", (6, 0.1), color="0.3")


def draw_predictions(ax, trees, averaged):
    """What the next patient gains, by model and averaged."""
    gains = {name: predicted(tree) for name, tree in trees.items()}
    gains["averaged"] = averaged
    for height, (name, values) in enumerate(gains.items()):
        low, high = np.quantile(values, [0.05, 0.95])
        ax.plot([low, high], [height, height], color=COLORS[name], lw=5, solid_capstyle="butt")
        ax.plot(values.mean(), height, "o", color="white", mec=COLORS[name], ms=9, mew=2)
        ax.text(low, height + 0.17, name, color=COLORS[name])
    ax.axvline(COST, color="0.3", lw=1, ls=":")
    ax.text(COST + 0.08, -0.42, "cost", color="0.3")
    ax.set(xlabel="gain of the next patient (hours)", yticks=[], ylim=(-0.6, 2.6))
    ax.set_title("Predictions: mean and 90% interval")


def main() -> None:
    """Print the way from two posteriors to a decision, and draw it."""
    models = {"same": same(), "differs": differs()}
    trees = {name: fit(model, seed) for seed, (name, model) in enumerate(models.items(), start=1)}
    table = lz.compare_evidence(trees)
    print(table[["log_z", "mcse", "log_bayes_factor", "probability", "estimator", "status"]])
    factor = lz.bayes_factor(trees["differs"], trees["same"])
    error = float(factor["bayes_factor"] * factor["mcse"])
    print(f"\nBF10 = {float(factor['bayes_factor']):.2f} ± {error:.2f} (published: 17.259)")

    trees["differs"] = lz.evidence_sensitivity(
        trees["differs"], models["differs"], {"width": WIDTHS}
    )
    group = trees["differs"]["sensitivity"].to_dataset()
    change = np.exp(group["log_z"] - float(trees["same"]["evidence"]["log_z"][0]))
    for width, value in zip(WIDTHS[::12], change.to_numpy()[::12], strict=True):
        print(f"prior width {width:8.2f}: BF10 = {value:.3g}")

    weights = lz.model_weights(trees)
    mixed = az.weight_predictions([trees[name] for name in weights.index], weights=weights)
    averaged = mixed["posterior_predictive"]["hours"].to_numpy().ravel()
    gain = averaged.mean()
    print(f"\nmodel probabilities: {weights.round(3).to_dict()}")
    print(f"averaged gain {gain:.2f} h, cost {COST} h, P(gain > 0) = {np.mean(averaged > 0):.2f}")
    print(f"decision: {'prescribe the second drug' if gain > COST else 'stay with the first'}")

    figure, axes = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
    draw_effect(axes[0], trees["differs"])
    draw_sensitivity(axes[1], trees["differs"], trees["same"])
    draw_predictions(axes[2], trees, averaged)
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig("sleep.png", dpi=150)


if __name__ == "__main__":
    main()
