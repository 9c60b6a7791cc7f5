"""How many temperatures? RTS does not mind, counting and integration do: the error of log Z.

The study of figure 4 of Carlson et al. (2016, arXiv 1603.01912) on a model whose log Z is exact,
the ridge of two probabilities of which only the product is identified. With few temperatures
thermodynamic integration (TI) is wrong by its rule, Rao-Blackwellized (TI-RB) or not. With many,
each is hardly ever visited, so that counting visits (TS) and averages within a temperature (TI)
have nothing to go by. Rao-Blackwellized tempered sampling (RTS) and MBAR use every draw for every
temperature. As in the paper, TS has 0.1 added to every count, and TI fills empty temperatures by
linear interpolation.

Every estimate has the same budget of draws. The draws are exact and independent given the
temperature, so that nothing but the estimators differs.

Run it with ``uv run examples/tempering/number_of_temperatures.py``; it saves
``number_of_temperatures.png``.
"""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.special import gammaln, logsumexp

from pymc_logz.estimators import TemperedDraws, mbar, rts_log_z, ti_rb

N_TRIALS, SUCCESSES = 100, 50
BUDGET, N_REPLICATES = 1000, 120
TEMPERATURES = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
MAX_MBAR = 256  # its cost grows with the square of the number of temperatures
METHODS = {
    "RTS": "#009E73",
    "TS": "#D55E00",
    "MBAR": "#CC79A7",
    "TI": "#0072B2",
    "TI-RB": "#E69F00",
}
GRID = np.linspace(0, 1, 20_002)[1:-1]
LOG_RATIO = (
    gammaln(N_TRIALS + 1)
    - gammaln(SUCCESSES + 1)
    - gammaln(N_TRIALS - SUCCESSES + 1)
    + SUCCESSES * np.log(GRID)
    + (N_TRIALS - SUCCESSES) * np.log1p(-GRID)
)
# the product of two uniform probabilities has the density -log(w)
LOG_PRIOR = np.log(-np.log(GRID)) - np.log(GRID.size)


def ladder(n):
    """Temperatures denser near the prior, and exact log Z at each (on the grid)."""
    betas = np.linspace(0, 1, n) ** 3
    return betas, np.array([logsumexp(LOG_PRIOR + beta * LOG_RATIO) for beta in betas])


def exact_draws(betas, log_z, n_runs, rng):
    """Runs of independent draws with uniform levels: levels and log ratios, shape (runs, draws)."""
    level = rng.integers(betas.size, size=(n_runs, BUDGET))
    log_ratio = np.empty(level.shape)
    for k, beta in enumerate(betas):
        here = level == k
        law = np.cumsum(np.exp(LOG_PRIOR + beta * LOG_RATIO - log_z[k]))
        place = np.searchsorted(law, rng.random(here.sum()) * law[-1])
        log_ratio[here] = LOG_RATIO[np.minimum(place, law.size - 1)]
    return level, log_ratio


def estimates(run, with_mbar):
    """Log Z at beta = 1 by each method."""
    counts, ends = run.visits + 0.1, [0, -1]
    log_count = np.log(counts[ends] / counts.sum())
    sums = np.bincount(run.level.ravel(), run.log_ratio.ravel(), run.n_levels)
    seen = run.visits > 0
    mean = np.interp(run.betas, run.betas[seen], sums[seen] / run.visits[seen])
    return {
        "RTS": rts_log_z(run)[-1],
        "TS": np.diff(run.log_z_hat[0][ends] + log_count).item(),
        "MBAR": mbar(run).log_z[-1] if with_mbar else np.nan,
        "TI": np.trapezoid(mean, run.betas),
        "TI-RB": ti_rb(run).log_z[-1],
    }


def study(temperatures, n_replicates, rng):
    """RMSE of log Z by method, one row per number of temperatures."""
    rows = {}
    for n in temperatures:
        betas, log_z = ladder(n)
        levels, log_ratios = exact_draws(betas, log_z, n_replicates, rng)
        # MBAR is slow: a tenth of the replicates, as in the paper
        slow = max(1, n_replicates // 10) if n <= MAX_MBAR else 0
        found = [
            estimates(
                TemperedDraws(level[None], log_ratio[None], betas, np.zeros(n), log_z), i < slow
            )
            for i, (level, log_ratio) in enumerate(zip(levels, log_ratios, strict=True))
        ]
        errors = pd.DataFrame(found) - (log_z[-1] - log_z[0])
        rows[n] = np.sqrt((errors**2).mean())
    return pd.DataFrame(rows).T.rename_axis("temperatures")


def draw(table):
    """RMSE against the number of temperatures, on logarithmic axes."""
    figure, ax = plt.subplots(figsize=(6.5, 4.2), layout="constrained")
    for method, color in METHODS.items():
        known = table[method].dropna()
        ax.plot(known.index, known, "o-", ms=4, color=color, label=method)
    ax.set(xscale="log", yscale="log", xlabel="temperatures", ylabel="RMSE of log Z (nats)")
    ax.set_title(f"{BUDGET} draws, however many temperatures")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    return figure


def main(temperatures=TEMPERATURES, n_replicates=N_REPLICATES):
    """Measure, print the table, save the picture."""
    table = study(temperatures, n_replicates, np.random.default_rng(4))
    print(f"RMSE of log Z over {n_replicates} runs of {BUDGET} draws (MBAR: a tenth of the runs)")
    print(table.round(3).to_string(na_rep=""))
    draw(table).savefig("number_of_temperatures.png", dpi=130)
    print("\nThe picture is in number_of_temperatures.png")


if __name__ == "__main__":
    main()
