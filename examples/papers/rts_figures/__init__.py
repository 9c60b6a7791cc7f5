"""Pictures and tables of rts_rbm.py, and the file that its numbers are kept in."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

COLOURS = {
    "RTS": "#2a7f62",
    "AIS": "#b0483f",
    "AIS, summed": "#d99a94",
    "RAISE": "#c98a2b",
    "TS": "#3f6fb0",
    "BAR": "#6b6b6b",
    "MBAR": "#7a4b94",
    "TI": "#3f9fb0",
    "TI-RB": "#8c6d31",
}


class Kept(dict[str, Any]):
    """Numbers by name, written to a file as they come."""

    def __init__(self, store: Path) -> None:
        self.store = store
        if store.exists():
            with np.load(store, allow_pickle=True) as file:
                self.update({name: file[name][0] for name in file.files})

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        arrays = {each: np.empty(1, dtype=object) for each in self}
        for each, array in arrays.items():
            array[0] = self[each]
        # a run that is stopped while it writes leaves the file as it was
        unfinished = self.store.with_suffix(".unfinished.npz")
        np.savez_compressed(unfinished, **arrays)
        unfinished.replace(self.store)


def show(number: int, kept: dict[str, Any], hidden: list[int]) -> None:
    """Print the table of a figure, draw it, save it."""
    if number == 1:
        figure = draw_rounds(kept["1"])
    elif number == 3:
        tables = {n: errors(kept[f"3 {n}"], kept[f"truth {n}"]["log_z"]) for n in hidden}
        for n, table in tables.items():
            print(f"\n{n} hidden units, log Z = {kept[f'truth {n}']}\n{table.round(3).to_string()}")
        hard = errors(kept["3 hard"], kept["truth hard"]["log_z"])
        print(f"\n12 hidden units, harder\n{hard.round(3).to_string()}")
        figure = draw_errors(tables)
    elif number == 4:
        table = pd.Series(kept["4"]).unstack(0)
        print(f"\nerrors and seconds by number of temperatures\n{table.round(4).to_string()}")
        figure = draw_temperatures(table)
    else:
        figure = draw_tracking(kept["5"])
    figure.savefig(f"rts_rbm_{number}.png", dpi=130)
    plt.close(figure)
    print(f"The picture is in rts_rbm_{number}.png")


def plain(*axes: Any) -> None:
    """Axes without frames."""
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)


def draw_rounds(found: dict[str, np.ndarray]) -> Any:
    """Figure 1: log Z and shares of 100 temperatures after some of the rounds."""
    figure, axes = plt.subplots(2, 2, figsize=(9, 6), layout="constrained", sharex=True)
    level = np.arange(1, found["exact"].size + 1)
    shades = plt.get_cmap("viridis")(np.linspace(0.85, 0.1, 5))
    titles = {"averaged": "q(k | x) averaged", "counted": "visits counted, plus 0.1"}
    for row, (name, title) in zip(axes, titles.items(), strict=True):
        for shade, i in zip(shades, (0, 1, 3, 5, 7), strict=True):
            row[0].plot(level, found[f"{name}_log_z"][i], color=shade, label=f"round {i + 1}")
            row[1].semilogy(level, found[f"{name}_share"][i], color=shade)
        row[0].plot(level, found["exact"], "k:", label="exact")
        row[1].axhline(1 / level.size, color="k", ls=":")
        row[0].set(title=f"log Z, {title}", ylabel="nats")
        row[1].set(title=f"share of levels, {title}", ylim=(1e-9, 2))
    axes[0, 0].legend(frameon=False, fontsize=8)
    for ax in axes[1]:
        ax.set_xlabel("temperature k")
    plain(*axes.ravel())
    return figure


def errors(found: dict[tuple[str, int], Any], log_z: float) -> pd.DataFrame:
    """Mean error, root mean square error, and its own error, by method and number of sweeps."""
    rows = {}
    for (name, sweeps), values in found.items():
        error = np.asarray(values, dtype=float) - log_z
        error = error[np.isfinite(error)]
        if not error.size:
            continue
        rmse = np.sqrt(np.mean(error**2))
        rows[name, sweeps] = {
            "mean": error.mean(),
            "sd_of_mean": error.std(ddof=1) / np.sqrt(error.size) if error.size > 1 else np.nan,
            "rmse": rmse,
            "n": error.size,
        }
    table = pd.DataFrame(rows).T
    table.index.names = ["method", "sweeps"]
    return table.sort_index()


def draw_errors(tables: dict[int, pd.DataFrame]) -> Any:
    """Figure 3: mean error and root mean square error against sweeps."""
    figure, axes = plt.subplots(
        2, len(tables), figsize=(4 * len(tables), 6.4), layout="constrained", squeeze=False
    )
    for (above, below), (n, table) in zip(axes.T, tables.items(), strict=True):
        for name in table.index.unique("method"):
            of_one = table.xs(name, level="method").sort_index()
            style = {"color": COLOURS[name], "marker": "o", "ms": 3, "lw": 1.2, "label": name}
            sweeps, mean, error = of_one.index, of_one["mean"], of_one["sd_of_mean"]
            above.errorbar(sweeps, mean, 1.96 * error, capsize=2, **style)
            below.loglog(sweeps.to_numpy(), of_one["rmse"].to_numpy(), **style)
        above.axhline(0, color="0.1", lw=0.8)
        above.set(title=f"{n} hidden units", xscale="log")
        below.set_xlabel("Gibbs sweeps of each of 100 chains")
    axes[0, 0].set_ylabel("mean error of log Z, nats")
    axes[1, 0].set_ylabel("root mean square error, nats")
    handles, labels = axes[1, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    plain(*axes.ravel())
    return figure


def draw_temperatures(table: pd.DataFrame) -> Any:
    """Figure 4: errors against the number of temperatures, and what estimates cost."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    for name in ("RTS", "TS", "MBAR", "TI", "TI-RB"):
        style = {"color": COLOURS[name], "marker": "o", "ms": 3, "lw": 1.2, "label": name}
        left.loglog(table.index, table[name], **style)
        right.loglog(table.index, table[f"{name}, seconds"], **style)
    left.set(xlabel="temperatures", ylabel="root mean square error, nats")
    right.set(xlabel="temperatures", ylabel="seconds for one estimate of 10,000 draws")
    left.legend(frameon=False)
    plain(left, right)
    return figure


def draw_tracking(found: dict[str, np.ndarray], what: str = "digit") -> Any:
    """Figure 5: log likelihoods while learning, tracked and by annealing."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    tracked, checks = found["tracked"], found["checks"]
    for i, (name, colour) in enumerate((("training", "#2a7f62"), ("held out", "#7a4b94"))):
        left.plot(tracked[:, i], color=colour, lw=1.2, label=f"{name}, RTS")
        left.plot(checks[:, 0], checks[:, i + 1], "o", color=colour, ms=4, label=f"{name}, AIS")
    best = int(tracked[:, 1].argmax())
    left.axvline(best, color="0.6", lw=1)
    left.set(xlabel="update", ylabel=f"nats per {what}", title="mean log likelihood")
    left.legend(frameon=False, fontsize=8)
    at = checks[:, 0].astype(int)
    right.plot(at, tracked[at, 2] - checks[:, 3], "o-", color="#b0483f", ms=4)
    right.axhline(0, color="0.1", lw=0.8)
    right.set(xlabel="update", ylabel="nats", title="log Z, tracked less AIS")
    plain(left, right)
    print(f"\nthe held-out log likelihood is highest at update {best}")
    table = pd.DataFrame(checks, columns=["update", "training, AIS", "held out, AIS", "log Z, AIS"])
    print(table.assign(tracked=tracked[at, 2]).round(2).to_string(index=False))
    return figure
