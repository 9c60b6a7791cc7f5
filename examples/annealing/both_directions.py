"""Forward is low, reverse is high: log Z caught between the two, on a model where it is known.

A product of 36 Student-t experts has an exact log Z and exact draws. Particles annealed from the
reference underestimate log Z on average, particles annealed back from draws of the target
overestimate it, and both approach it with more temperatures; Bennett's acceptance ratio joins them.
A gap that is wide for the errors says that there are too few temperatures, whatever the status of
either direction.

With a model of your own, draws of ``pm.sample`` take the place of the exact ones.

Run it with ``uv run examples/annealing/both_directions.py``; it saves ``both_directions.png``.
"""

import warnings

import matplotlib

matplotlib.use("Agg")

import arviz as az
import numpy as np
import pandas as pd

import pymc_logz as lz
from pymc_logz.energies import random_filters, student_t_experts

N_DIMS = 36
TEMPERATURES = (25, 50, 100, 200, 400, 800)


def exact_draws(energy, n_draws, rng):
    """Posterior draws in the form that ``pm.sample`` returns."""
    draws = energy.sample_posterior(rng, n_draws)
    return az.from_dict({"posterior": {name: value[None] for name, value in draws.items()}})


def run(energy, n_temperatures, n_draws, rng):
    """Both directions on a linear schedule, in four chains."""
    return lz.sample_hais(
        n_draws,
        4,
        model=energy.model,
        betas=n_temperatures,
        direction="both",
        posterior_draws=exact_draws(energy, 4 * n_draws, rng),
        random_seed=rng,
        progressbar=False,
    )


def summary(trees):
    """Estimates of each schedule by method, and the gap between the two directions."""
    rows = {}
    for tree in trees:
        group = tree["evidence"].to_dataset()
        entries = {str(name): group.sel({"estimator": name}) for name in group["estimator"].values}
        rows[group.attrs["n_temperatures"]] = {
            name: f"{float(entries[name]['log_z']):.3f} ± {float(entries[name]['mcse']):.3f}"
            for name in ("hais", "bar", "hais_reverse")
        } | {"gap": f"{group.attrs['gap']:.3f}"}
    return pd.DataFrame(rows).T.rename_axis("temperatures")


def main():
    """Sample, print the table, save the picture."""
    # the potential is the model here, and the shortest schedules are meant to be too short
    warnings.simplefilter("ignore", lz.EvidenceWarning)
    filters = (random_filters(1, N_DIMS) + 2 * np.eye(N_DIMS)) / 4
    energy = student_t_experts(filters, np.full(N_DIMS, 2.0))
    rng = np.random.default_rng(22)
    trees = [run(energy, n_temperatures, 250, rng) for n_temperatures in TEMPERATURES]
    print(summary(trees).to_string())
    print(f"\nexact log Z {energy.log_z:.4f}")
    lz.plot_sandwich(trees, log_z=energy.log_z, backend="matplotlib").savefig("both_directions.png")
    print("The picture is in both_directions.png")


if __name__ == "__main__":
    main()
