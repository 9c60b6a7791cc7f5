"""Table and picture of what was measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from rivals.methods import LONGER, METHODS, OURS
from rivals.running import Record
from rivals.targets import TARGETS

COLORS = {True: "#0072B2", False: "#D55E00"}
MEASURE = "evidence"
"""The one call that all others are measured by."""


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
    """Of all processors, mean of warm calls: one that compiles for another shape counts."""
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
        for method in (*METHODS, *LONGER):
            runs = [r for r in records if (r["target"], r["method"]) == (target, method)]
            done = [r for r in runs if "error" not in r]
            warm = [r for r in done if r["call"] == "warm" and np.isfinite(r["log_z"])]
            if not warm:
                continue
            cold = [r["cpu_seconds"] for r in done if r["call"] == "cold"]
            # errors of the first call are as good as any
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
                    seconds=float(np.mean([r["cpu_seconds"] for r in warm])),
                    cold=float(np.median(cold)) if cold else np.nan,
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
        cold = f"{row.cold:.3g}" if np.isfinite(row.cold) else ""
        lines.append(
            f"| {row.target} | {row.dims} | `{row.method}` | {row.rmse:.3g} | {stated} "
            f"| {row.n_runs} | {row.seconds:.3g} | {cold} | {cost} | {row.price:.2g} |"
        )
    found = {(row.target, row.method) for row in rows}
    ends: dict[str, list[str]] = {}
    for r in failed:
        after = " after the runs in the table" * ((r["target"], r["method"]) in found)
        ends.setdefault(f"`{r['method']}`: {r['error'][:90]}{after}", []).append(r["target"])
    said = [f"{what} ({', '.join(targets)})" for what, targets in sorted(ends.items())]
    note = "\n\nWithout an end: " + "; ".join(said) + "." if said else ""
    return "\n".join(lines) + note


@dataclass(frozen=True)
class Match:
    """The one call on a target, and what it is compared with."""

    measure: Row
    ours: Row
    """The best of ours, the one call included."""
    peers: list[Row]
    """The best first."""

    def ahead(self, row: Row) -> tuple[float, float, float]:
        """Price of a row over that of the one call, and a 90% interval of it.

        Errors are taken for normal with mean zero, so the ratio of mean squares has an F law.
        """
        ratio = row.price / self.measure.price
        law = stats.f(row.n_runs, self.measure.n_runs)
        return ratio, ratio / law.ppf(0.95), ratio / law.ppf(0.05)


def matches(rows: Sequence[Row]) -> list[Match]:
    """One for each target on which the one call and a peer were measured."""
    found = []
    for target in TARGETS:
        here = [row for row in rows if row.target == target and row.method in METHODS]
        here.sort(key=lambda row: row.price)
        ours = [row for row in here if row.method in OURS]
        peers = [row for row in here if row.method not in OURS]
        measure = [row for row in ours if row.method == MEASURE]
        if measure and peers:
            found.append(Match(measure[0], ours[0], peers))
    return found


def at_an_error(rows: Sequence[Row]) -> str:
    """Calls with about the same small error, in Markdown; each price over that of ours."""
    lines = [
        "| target | method | RMSE of log Z | stated error | runs | warm, CPU s | MSE × s "
        "| times ours |",
        "|---|---|---|---|---|---|---|---|",
    ]
    longer = [row for row in rows if row.method in LONGER]
    for row in longer:
        ours = [o.price for o in longer if (o.target, o.method) == (row.target, next(iter(LONGER)))]
        stated = f"{row.claimed:.2g}" if np.isfinite(row.claimed) else ""
        times = short(row.price / ours[0]) if ours else ""
        lines.append(
            f"| {row.target} | `{row.method}` | {row.rmse:.2g} | {stated} | {row.n_runs} "
            f"| {row.seconds:.2g} | {row.price:.2g} | {times} |"
        )
    return "\n".join(lines)


def short(ratio: float) -> str:
    """Two digits, or a whole number."""
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2g}"


def summary(rows: Sequence[Row]) -> str:
    """Who is ahead on how many targets, and by how much."""
    lines = [
        "| target (d) | RMSE, CPU s | nearest peer | times ahead (90%) | of `sample_smc` "
        "| best of ours |",
        "|---|---|---|---|---|---|",
    ]
    found = matches(rows)
    for match in found:
        measure, peer = match.measure, match.peers[0]
        ratio, low, high = map(short, match.ahead(peer))
        smc = [match.ahead(row)[0] for row in match.peers if row.method == "pm.sample_smc"]
        lines.append(
            f"| {measure.target} ({measure.dims}) | {measure.rmse:.2g}, {measure.seconds:.2g} "
            f"| `{peer.method}` | {ratio} ({low} to {high}) | {short(smc[0]) if smc else ''} "
            f"| `{match.ours.method}`, {short(peer.price / match.ours.price)} |"
        )
    said = []
    for name, ours in (("`lz.evidence`", "measure"), ("The best of our four calls", "ours")):
        prices = [getattr(match, ours).price for match in found]
        ahead = sum(m.peers[0].price > price for m, price in zip(found, prices, strict=True))
        far = sum(
            row.price >= 50 * price
            for match, price in zip(found, prices, strict=True)
            for row in match.peers
            if row.method == "pm.sample_smc"
        )
        said.append(
            f"{name} is ahead of every peer on {ahead} of {len(found)} targets, and at least 50 "
            f"times ahead of `sample_smc` on {far}."
        )
    return "\n".join([*lines, "", *said])


def draw(rows: Sequence[Row], file: Path) -> None:
    """Price of each method over that of the one call: one line for each target."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    found = matches(rows)
    methods = [m for m in METHODS if m != MEASURE and any(row.method == m for row in rows)]
    markers = dict(zip(methods, "sDPov^<>dhpX8", strict=False))
    size = (8.6, 1.9 + 0.42 * len(found))
    figure, ax = plt.subplots(figsize=size, layout="constrained")
    ax.axvline(1, color=COLORS[True], lw=2, zorder=1)
    for k, match in enumerate(found):
        ax.axhline(-k, color="0.92", lw=1, zorder=0)
        _, low, high = match.ahead(match.peers[0])
        ax.plot([low, high], [-k, -k], color=COLORS[False], lw=1.5, alpha=0.6, zorder=1.5)
        for row in rows:
            if row.target == match.measure.target and row.method in methods:
                ratio, ours = match.ahead(row)[0], row.method in OURS
                ax.plot(ratio, -k, markers[row.method], **style(ours))
    names = [f"{match.measure.target} ({match.measure.dims})" for match in found]
    ax.set_yticks([-k for k in range(len(found))], names)
    label = "mean square error × CPU seconds, over that of lz.evidence(model)"
    ax.set(xscale="log", xlabel=f"{label}: right of the line is worse")
    for method in methods:
        ax.plot([], [], markers[method], label=method, **style(method in OURS))
    ax.plot([], [], color=COLORS[True], lw=2, label="evidence")
    figure.legend(frameon=False, ncols=4, loc="outside upper center", fontsize=9)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    figure.savefig(file, dpi=130)
    plt.close(figure)


def style(ours: bool) -> dict[str, Any]:
    """Of a dot: ours are filled."""
    face = COLORS[True] if ours else "white"
    return {"mfc": face, "mec": COLORS[ours], "ms": 6.5, "mew": 1.3, "zorder": 2 + ours}
