"""Table and picture of what was measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rivals.methods import METHODS, OURS
from rivals.running import Record
from rivals.targets import TARGETS

COLORS = {True: "#0072B2", False: "#D55E00"}


@dataclass(frozen=True)
class Row:
    """A method on a target."""

    target: str
    method: str
    dims: int
    exact: float
    rmse: float
    n_runs: int
    seconds: float
    """Of all processors, median of warm calls."""
    cold: float
    evaluations: float
    claimed: float
    """Median of the errors that the method states."""

    @property
    def price(self) -> float:
        """Mean square error times CPU seconds."""
        return self.rmse**2 * self.seconds


def rows_of(records: Sequence[Record]) -> list[Row]:
    """One row for each method and target that has warm calls with a number."""
    rows = []
    for target in TARGETS:
        for method in METHODS:
            runs = [r for r in records if (r["target"], r["method"]) == (target, method)]
            done = [r for r in runs if "error" not in r]
            warm = [r for r in done if r["call"] == "warm" and np.isfinite(r["log_z"])]
            if not warm:
                continue
            # errors of the cold call are as good as any
            numbers = [r for r in done if np.isfinite(r["log_z"])]
            errors = np.array([r["log_z"] - r["exact"] for r in numbers])
            costs = [r["evaluations"] for r in warm if r["evaluations"]]
            rows.append(
                Row(
                    target=target,
                    method=method,
                    dims=warm[0]["dims"],
                    exact=warm[0]["exact"],
                    rmse=float(np.sqrt(np.mean(errors**2))),
                    n_runs=len(numbers),
                    seconds=float(np.median([r["cpu_seconds"] for r in warm])),
                    cold=float(np.median([r["cpu_seconds"] for r in done if r["call"] == "cold"])),
                    evaluations=float(np.median(costs)) if costs else np.nan,
                    claimed=float(np.median([r["mcse"] for r in warm])),
                )
            )
    return rows


def table(rows: Sequence[Row], failed: Sequence[Record]) -> str:
    """All rows in Markdown, and what did not come to an end."""
    lines = [
        "| target | d | method | RMSE of log Z | stated error | runs | warm, CPU s | cold, CPU s | "
        "evaluations | MSE × s |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cost = f"{row.evaluations:,.0f}" if np.isfinite(row.evaluations) else ""
        stated = f"{row.claimed:.3g}" if np.isfinite(row.claimed) else ""
        lines.append(
            f"| {row.target} | {row.dims} | `{row.method}` | {row.rmse:.3g} | {stated} "
            f"| {row.n_runs} | {row.seconds:.3g} | {row.cold:.3g} | {cost} | {row.price:.2g} |"
        )
    ends = [f"`{r['method']}` on {r['target']}: {r['error'][:120]}" for r in failed]
    note = "\n\nWithout a result: " + "; ".join(ends) + "." if ends else ""
    return "\n".join(lines) + note


def summary(rows: Sequence[Row]) -> str:
    """Who is ahead on how many targets, and by how much."""
    lines = [
        "| target | d | best of ours | best peer | times ahead | times ahead of `sample_smc` |"
    ]
    lines.append("|---|---|---|---|---|---|")
    ahead = far = n_targets = 0
    for target in TARGETS:
        here = [row for row in rows if row.target == target]
        ours = [row for row in here if row.method in OURS]
        peers = [row for row in here if row.method not in OURS]
        if not ours or not peers:
            continue
        n_targets += 1
        best, peer = (min(group, key=lambda row: row.price) for group in (ours, peers))
        ratio = peer.price / best.price
        smc = [row.price / best.price for row in peers if row.method == "pm.sample_smc"]
        ahead, far = ahead + (ratio > 1), far + bool(smc and smc[0] >= 50)
        lines.append(
            f"| {target} | {best.dims} | `{best.method}` | `{peer.method}` | {ratio:.3g} "
            f"| {f'{smc[0]:.3g}' if smc else ''} |"
        )
    lines.append(
        f"\nAhead of every peer on {ahead} of {n_targets} targets, at least 50 times ahead of "
        f"`sample_smc` on {far}."
    )
    return "\n".join(lines)


def draw(rows: Sequence[Row], file: Path) -> None:
    """Mean square error times seconds, one line for each target, one dot for each method."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    targets = [name for name in TARGETS if any(row.target == name for row in rows)]
    methods = [name for name in METHODS if any(row.method == name for row in rows)]
    markers = dict(zip(methods, "osDv^<>Phd"[: len(methods)], strict=False))
    size = (8.4, 1.4 + 0.42 * len(targets))
    figure, ax = plt.subplots(figsize=size, layout="constrained")
    for k, target in enumerate(targets):
        ax.axhline(-k, color="0.9", lw=1, zorder=0)
        for row in rows:
            if row.target == target:
                ours = row.method in OURS
                style = {"ms": 8 if ours else 6.5, "mew": 1.3, "zorder": 3 if ours else 2}
                face = COLORS[True] if ours else "white"
                edge = COLORS[ours]
                ax.plot(row.price, -k, markers[row.method], mfc=face, mec=edge, **style)
    names = {row.target: f"{row.target} ({row.dims})" for row in rows}
    ax.set_yticks([-k for k in range(len(targets))], [names[name] for name in targets])
    ax.set(
        xscale="log",
        xlabel="mean square error of log Z × CPU seconds of a warm run (less is better)",
    )
    for method in methods:
        ours = method in OURS
        face, edge = (COLORS[True] if ours else "white"), COLORS[ours]
        ax.plot([], [], markers[method], mfc=face, mec=edge, label=method)
    figure.legend(frameon=False, ncols=4, loc="outside upper center", fontsize=9)
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, dpi=120)
    plt.close(figure)
