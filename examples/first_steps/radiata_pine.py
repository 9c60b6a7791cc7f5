"""Which of two regressions do 42 specimens of radiata pine support?

Strength is regressed on density, or on density adjusted for resin (Williams 1959). The evidence of
both models is known exactly, so the answer can be checked. Published for this version of the data:
-310.1283 and -301.7046, Bayes factor 4553.65 (Friel & Wyse 2012).

Run it with ``uv run examples/first_steps/radiata_pine.py``; it saves ``radiata_pine.png``.
"""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm

import pymc_logz as lz
from pymc_logz.energies import radiata_pine, radiata_pine_data

COLORS = {"density": "#D55E00", "adjusted": "#0072B2"}
LABELS = {"density": "density", "adjusted": "density adjusted for resin"}


def regression(strength, covariate):
    """Strength on a centred covariate, with the priors of Friel & Wyse (2012)."""
    with pm.Model() as model:
        tau = pm.Gamma("tau", 3, 180_000)
        intercept = pm.Normal("intercept", 3000, tau=0.06 * tau)
        slope = pm.Normal("slope", 185, tau=6 * tau)
        mean = intercept + slope * (covariate - covariate.mean())
        pm.Normal("strength", mean, tau=tau, observed=strength)
    return model


def draw_fit(ax, name, covariate, strength, tree):
    """Data with lines drawn from the posterior."""
    grid = np.linspace(covariate.min(), covariate.max(), 50) - covariate.mean()
    posterior = tree["posterior"].to_dataset().stack(sample=("chain", "draw"))
    lines = posterior["intercept"].values + np.outer(grid, posterior["slope"].values)
    ax.plot(grid + covariate.mean(), lines[:, :150], color=COLORS[name], lw=0.5, alpha=0.12)
    ax.plot(grid + covariate.mean(), lines.mean(axis=1), color=COLORS[name], lw=2)
    ax.scatter(covariate, strength, s=16, color="0.15", zorder=3, linewidths=0)
    ax.set_xlabel(LABELS[name])
    ax.set_title(f"strength on {name} density" if name == "adjusted" else f"strength on {name}")


def draw_evidence(ax, table, exact):
    """Log Z with three standard errors, beside the exact values."""
    for height, name in enumerate(table.index[::-1]):
        row = table.loc[name]
        ax.errorbar(
            row["log_z"], height, xerr=3 * row["mcse"], fmt="o", ms=7, capsize=5, color=COLORS[name]
        )
        ax.plot([exact[name]] * 2, [height - 0.36, height + 0.36], color="0.15", lw=1.5, ls=":")
        text = f"{row['log_z']:.3f} ± {row['mcse']:.3f}\nexact {exact[name]:.3f}"
        place = {"x": row["log_z"], "y": height + 0.42, "ha": "center", "va": "bottom"}
        ax.text(s=text, fontsize=9, **place)
    factor = np.exp(-table["log_bayes_factor"].iloc[-1])
    ax.set_title(f"log evidence: Bayes factor {factor:,.0f}")
    ax.set_yticks([0, 1], table.index[::-1])
    ax.set_xticks([-312, -308, -304, -300])
    ax.set(xlim=(-314, -298), ylim=(-0.6, 2.1), xlabel="log Z (nats)")


def main():
    """Sample both models, print the table, save the picture."""
    data = radiata_pine_data("friel_wyse")
    trees = {}
    for name in ("density", "adjusted"):
        print(f"\nstrength on {LABELS[name]}")
        model = regression(data["strength"], data[name])
        trees[name] = lz.sample_hais(model=model, random_seed=2012)

    table = lz.compare_evidence(trees)
    exact = {name: radiata_pine(name).log_z for name in table.index}
    shown = table[["log_z", "mcse", "log_bayes_factor", "log_bayes_factor_mcse", "probability"]]
    print()
    print(shown.assign(exact_log_z=exact).round(4).to_string())
    factor = lz.bayes_factor(trees["adjusted"], trees["density"])
    exact_factor = exact["adjusted"] - exact["density"]
    print(
        f"\nlog Bayes factor of adjusted against density: {float(factor['log_bayes_factor']):.3f} "
        f"± {float(factor['mcse']):.3f} (exact {exact_factor:.3f}); "
        f"Bayes factor {float(factor['bayes_factor']):.0f} (exact {np.exp(exact_factor):.0f})"
    )

    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    for ax, name in zip(axes[:2], ("density", "adjusted"), strict=True):
        draw_fit(ax, name, data[name], data["strength"], trees[name])
    axes[0].set_ylabel("strength")
    axes[1].sharey(axes[0])
    draw_evidence(axes[2], table, exact)
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig("radiata_pine.png", dpi=130)
    print("\nThe picture is in radiata_pine.png")


if __name__ == "__main__":
    main()
