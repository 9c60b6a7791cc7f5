"""All estimators of one tempered run, and how fast its rough log Z settle: two Gaussians in 10-d.

The setting of figure 2 of Carlson et al. (2016, arXiv 1603.01912): simulated tempering of a mixture
of two Gaussians in ten dimensions, narrow and far apart in a box. Left, the error of log Z against
the number of iterations, by every estimator, from the same draws of independent chains: they hardly
differ, but for the discretisation error of thermodynamic integration. Right, the warm-up: how far
the guesses of log Z that levels are drawn by are from the truth, when they start at zero, with the
update of the paper (from fresh levels after every 32 iterations), that of Wang and Landau, and the
stochastic approximation of Tan. The first jumps to the truth within a few rounds, and then has the
noise of one round, which is why rounds of `sample_tempered` get longer; the others creep. log Z is
known exactly at every temperature.

Run it with ``uv run examples/tempering/two_gaussians.py``; it saves ``two_gaussians.png``.
"""

import warnings
from dataclasses import replace

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import pymc_logz as lz
from pymc_logz.energies import two_gaussians, two_gaussians_log_z
from pymc_logz.estimators import METHODS, TemperedDraws
from pymc_logz.loop.calls import begun
from pymc_logz.loop.planning import block_for
from pymc_logz.models.preparation import prepare
from pymc_logz.runners.temper import TemperBlock, Walkers, walk
from pymc_logz.tempered.run import place_levels
from pymc_logz.tempered.settings import TemperedSettings
from pymc_logz.tempered.warm_up import CORRECTIONS, make_ladder

N_DIMS, N_LEVELS = 10, 25
N_CHAINS, WALKERS, DRAWS = 20, 32, 2000
SHOWN = {
    "rts": ("RTS", "#2a7f62", "-"),
    "mbar": ("MBAR", "#7a4b94", "-"),
    "ts": ("TS", "#b0483f", "-"),
    "stepping_stone": ("stepping stone", "#8c6d31", "-"),
    "ti_right": ("TI Riemann", "#3f6fb0", ":"),
    "ti_trapezoid": ("TI trapezoid", "#3f6fb0", "--"),
    "ti_corrected": ("TI corrected", "#3f6fb0", "-"),
    "ti_rb": ("TI-RB", "#2a7f62", "--"),
}
RULES = {
    "rts": ("RTS, rounds of 32", "#2a7f62"),
    "wang_landau": ("Wang-Landau", "#b0483f"),
    "stochastic_approximation": ("stochastic approximation", "#7a4b94"),
}


def errors_by_iterations(energy, n_chains, draws, lengths):
    """Errors of log Z of each chain after so many iterations, shape (lengths, chains) by method."""
    tree = lz.sample_tempered(
        draws,
        n_chains,
        model=energy.model,
        walkers=WALKERS,
        betas=N_LEVELS,
        reference="prior",
        thin=draws,
        random_seed=10,
        progressbar=False,
    )
    group = tree["tempering"].to_dataset()
    errors = {name: np.full((len(lengths), n_chains), np.nan) for name in SHOWN}
    for i, length in enumerate(lengths):
        for chain in range(n_chains):
            part = group.isel(chain=chain, draw=slice(length))
            run = TemperedDraws(
                *(part[name].to_numpy() for name in ("level", "log_ratio", "beta")),
                *(part[name].to_numpy() for name in ("log_prior", "log_z_hat")),
            )
            for name in SHOWN:
                errors[name][i, chain] = METHODS[name](run).log_z[-1] - energy.log_z
    return errors


def errors_of_warm_up(energy, n_blocks):
    """Root mean square error over levels of the guesses of log Z, by rule, after each block."""
    settings = TemperedSettings(walkers=WALKERS, betas=N_LEVELS, reference="prior")
    with begun(settings, random_seed=11, progressbar=False) as call:
        rng, prepared = call.rngs.run, prepare(energy.model, call.rngs.checks)
        planned = place_levels(prepared, block_for(prepared, settings, None), call)
    block, plan = planned.block, planned.plan
    walking = TemperBlock(block, N_LEVELS, WALKERS)
    exact = two_gaussians_log_z(plan.betas, N_DIMS)
    first = make_ladder(plan, np.zeros(N_LEVELS))
    errors = {}
    for rule in RULES:
        ladder, correct, found = first, CORRECTIONS[rule](), []
        walkers = walking.start(block.path.sample_reference(rng, WALKERS), rng)
        for _ in range(n_blocks):
            if rule == "rts":
                walkers = Walkers(walkers.state, walking.spread_levels(rng))
            tables = ladder.tables(block.kernel)
            walkers, part = walk(walking, walkers, tables, walking.n_moves, rng)
            ladder = replace(ladder, log_z_hat=correct(ladder.draws(part)))
            found.append(np.sqrt(np.mean((ladder.log_z_hat - exact) ** 2)))
        errors[rule] = np.array(found)
    return walking.n_moves * np.arange(1, n_blocks + 1), errors


def draw(lengths, errors, iterations, warm_up):
    """Both panels on logarithmic axes."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4), layout="constrained")
    for name, (label, color, style) in SHOWN.items():
        rmse = np.sqrt((errors[name] ** 2).mean(axis=1))
        left.plot(lengths, rmse, style, marker="o", ms=3, color=color, label=label)
    left.set(xlabel="iterations", ylabel="RMSE of log Z (nats)", title="one run, every estimator")
    for rule, (label, color) in RULES.items():
        right.plot(iterations, warm_up[rule], color=color, label=label)
    right.set(xlabel="iterations", ylabel="RMSE over levels (nats)", title="warm-up from zero")
    for ax in (left, right):
        ax.set(xscale="log", yscale="log")
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, fontsize=8)
    left.set_xticks(lengths, [str(length) for length in lengths])
    left.minorticks_off()
    return figure


def main(n_chains=N_CHAINS, draws=DRAWS, n_blocks=128):
    """Sample, print the tables, save the picture."""
    # the potential is the model here
    warnings.simplefilter("ignore", lz.EvidenceWarning)
    energy = two_gaussians(N_DIMS)
    lengths = np.unique(np.geomspace(draws / 16, draws, 4).astype(int))
    errors = errors_by_iterations(energy, n_chains, draws, lengths)
    table = {SHOWN[name][0]: np.sqrt((e**2).mean(axis=1)) for name, e in errors.items()}
    print(f"RMSE of log Z over {n_chains} chains of {WALKERS} walkers, by iterations")
    print(pd.DataFrame(table, index=lengths).T.round(3).to_string())
    iterations, warm_up = errors_of_warm_up(energy, n_blocks)
    rows = np.unique(np.geomspace(1, n_blocks, 8).astype(int)) - 1
    columns = {RULES[rule][0]: found[rows] for rule, found in warm_up.items()}
    print("\nWarm-up from zero: root mean square error of log Z over levels, by iterations")
    print(pd.DataFrame(columns, index=iterations[rows]).T.round(3).to_string())
    draw(lengths, errors, iterations, warm_up).savefig("two_gaussians.png", dpi=130)
    print("\nThe picture is in two_gaussians.png")


if __name__ == "__main__":
    main()
