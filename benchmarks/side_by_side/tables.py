"""Tables of what the methods said and cost, and how far that is from the goals."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

Record = dict[str, Any]
OURS = ("sample_hais", "evidence")
# those that give an error with their log Z
WITH_ERRORS = ("bridge", *OURS)
SHOWN = ("pm.sample", "bridge", "pm.sample_smc", *OURS)
# as in the tests: with some 300 distances in a table, larger ones are no accident
FARTHEST = 4.0
LARGEST_MCSE = 0.05
LARGEST_RATIO = 3.0
SHARE = 17 / 20
PRECISE = 0.9
"""Of the calls of a model: what one false alarm in ten leaves."""
COLUMNS = (
    "model",
    "method",
    "cold s",
    "warm s",
    "evaluations",
    "log Z",
    "mcse",
    "status",
    "off exact",
    "apart",
    "note",
)


@dataclass(frozen=True)
class Compared:
    """All that is known of one model."""

    name: str
    records: list[Record]

    def of(self, method: str, call: str) -> Record:
        """What one call gave; empty if it never ended."""
        found = [r for r in self.records if (r["method"], r["call"]) == (method, call)]
        return found[-1] if found else {}

    def calls(self, method: str) -> list[Record]:
        """What all of its calls gave."""
        return [r for r in self.records if r["method"] == method]

    def typical(self, method: str, what: str) -> float | None:
        """Median over its calls; None unless all have it."""
        found = [r.get(what) for r in self.calls(method) if "error" not in r]
        return float(np.median(found)) if found and None not in found else None

    @cached_property
    def exact(self) -> float | None:
        """Exact log Z, if there is one."""
        return self.of("exact", "cold").get("log_z")

    def off(self, method: str) -> float | None:
        """Largest distance from the exact log Z, in errors of the method."""
        if self.exact is None:
            return None
        return _largest(
            abs(r["log_z"] - self.exact) / max(r["mcse"], 1e-12)
            for r in self.calls(method)
            if _is_estimate(r)
        )

    def apart(self, method: str) -> float | None:
        """Largest distance from another method with an error, in their joint errors."""
        pairs = [pair for pair in combinations(WITH_ERRORS, 2) if method in pair]
        return _largest(self._distance(*pair, call) for pair in pairs for call in ("cold", "warm"))

    def _distance(self, first: str, second: str, call: str) -> float | None:
        a, b = self.of(first, call), self.of(second, call)
        if not (_is_estimate(a) and _is_estimate(b)):
            return None
        return abs(a["log_z"] - b["log_z"]) / max(np.hypot(a["mcse"], b["mcse"]), 1e-12)

    def disagreements(self) -> list[str]:
        """Methods that are farther from the exact value, or another, than errors explain."""
        found = [f"{m} off by {d:.1f}" for m in WITH_ERRORS if (d := self.off(m) or 0) > FARTHEST]
        for first, second in combinations(WITH_ERRORS, 2):
            apart = _largest(self._distance(first, second, call) for call in ("cold", "warm"))
            if apart and apart > FARTHEST:
                found.append(f"{first} and {second} {apart:.1f} apart")
        return found

    def ratio(self, method: str, what: str, call: str) -> float | None:
        """Cost of a method in units of that of ``pm.sample``."""
        ours, theirs = (self.of(m, call).get(what) for m in (method, "pm.sample"))
        return ours / theirs if ours is not None and theirs else None

    def ratios(self, method: str) -> dict[str, float | None]:
        """Its costs in units of those of ``pm.sample``; evaluations are medians over seeds."""
        ours, theirs = (self.typical(m, "evaluations") for m in (method, "pm.sample"))
        return {
            "evaluations": ours / theirs if ours is not None and theirs else None,
            "cold": self.ratio(method, "seconds", "cold"),
            "warm": self.ratio(method, "seconds", "warm"),
        }

    def cpu_ratios(self, method: str) -> list[float | None]:
        """Processor time in units of that of ``pm.sample``, cold and warm."""
        return [self.ratio(method, "cpu_seconds", call) for call in ("cold", "warm")]

    def is_precise(self, method: str) -> bool:
        """Whether nearly all calls ended well, with an error that is small enough."""
        good = [
            _is_estimate(r) and r["status"] == "ok" and r["mcse"] <= LARGEST_MCSE
            for r in self.calls(method)
        ]
        return bool(good) and sum(good) >= PRECISE * len(good)

    def rows(self) -> list[list[str]]:
        """Lines of the table of all methods."""
        return [self._row(method) for method in SHOWN if self.of(method, "cold")]

    def _row(self, method: str) -> list[str]:
        cold, warm = self.of(method, "cold"), self.of(method, "warm")
        note = cold.get("error") or warm.get("error") or cold.get("detail", "")
        status = cold.get("status", "")
        if warm.get("status", status) != status:
            status += f", {warm['status']}"
        return [
            self.name,
            method,
            _text(cold.get("seconds"), ".1f"),
            _text(warm.get("seconds"), ".1f"),
            _text(cold.get("evaluations"), ",d"),
            _text(cold.get("log_z"), ".3f"),
            _text(cold.get("mcse"), ".3f"),
            status,
            _text(self.off(method), ".1f"),
            _text(self.apart(method), ".1f"),
            note[:90],
        ]


def _is_estimate(record: Record) -> bool:
    return record.get("log_z") is not None and "mcse" in record


def _largest(values: Iterable[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return max(there, default=None)


def _text(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def aligned(header: Iterable[str], rows: list[list[str]]) -> str:
    """Lines of equal columns, as Markdown."""
    table = [list(header), *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |"
        for row in table
    ]
    return "\n".join([lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:]])


def comma_separated(compared: list[Compared]) -> str:
    """The table of all methods as comma-separated values."""
    rows = [row for model in compared for row in model.rows()]
    quoted = [[f'"{cell}"' if "," in cell else cell for cell in row] for row in rows]
    return "\n".join(",".join(row) for row in [list(COLUMNS), *quoted]) + "\n"


PAGE_HEADER = (
    "model",
    "exact",
    "bridge",
    "`sample_hais`",
    "first call, s",
    "second call, s",
    "1,000 gradients",
)


def page_table(compared: list[Compared]) -> str:
    """Table of the documentation: one line a model; costs of pm.sample and sample_hais."""
    rows, methods = [], ("pm.sample", "sample_hais")
    for model in compared:
        numbers = [_number(model.of(method, "cold")) for method in ("bridge", "sample_hais")]
        seconds = [
            " / ".join(_text(model.of(m, call).get("seconds"), ".1f") or "–" for m in methods)
            for call in ("cold", "warm")
        ]
        gradients = " / ".join(_thousands(model.typical(m, "evaluations")) for m in methods)
        rows.append([f"`{model.name}`", _text(model.exact, ".3f"), *numbers, *seconds, gradients])
    return aligned(PAGE_HEADER, rows)


def _number(record: Record) -> str:
    """log Z with its error, and the status unless it is ok."""
    if not _is_estimate(record):
        return "none"
    status = "" if record["status"] == "ok" else f" `{record['status']}`"
    return f"{record['log_z']:.3f} ± {record['mcse']:.3f}{status}"


def _thousands(value: float | None) -> str:
    return "–" if value is None else f"{value / 1000:.0f}"


def by_model(records: list[Record], names: Iterable[str]) -> list[Compared]:
    """Records by model, in the order of the names; models without records are left out."""
    found = [Compared(name, [r for r in records if r["model"] == name]) for name in names]
    return [model for model in found if model.records]


def cost_table(compared: list[Compared], method: str) -> str:
    """Costs of one of our methods in units of those of ``pm.sample``, one line a model."""
    rows = []
    for model in (model for model in compared if model.of(method, "cold")):
        costs = [*model.ratios(method).values(), *model.cpu_ratios(method)]
        ratios = [_text(value, ".2f") for value in costs]
        both = [model.of(method, call) for call in ("cold", "warm")]
        mcse = _text(_largest(record.get("mcse") for record in both), ".3f")
        rows.append([model.name, *ratios, mcse, "yes" if is_within(model, method) else ""])
    header = [method, "evaluations", "cold", "warm", "cold CPU", "warm CPU", "mcse", "within"]
    return aligned(header, rows)


def is_within(model: Compared, method: str) -> bool:
    """Whether a method meets the goal on a model: no cost above that of ``pm.sample``."""
    ratios = model.ratios(method).values()
    return model.is_precise(method) and all(r is not None and r <= 1 for r in ratios)


def summary(compared: list[Compared]) -> str:
    """The goals, and how far we are from them."""
    lines = [
        "Goals: 17 of 20 within the evaluations and the time of the default pm.sample at an error "
        f"of at most {LARGEST_MCSE}, none above {LARGEST_RATIO:.0f} times; all methods agree."
    ]
    for method in OURS:
        tried = [model for model in compared if model.of(method, "cold")]
        if not tried:
            continue
        within = sum(is_within(model, method) for model in tried)
        parts = [
            f"{sum((m.ratios(method)[what] or np.inf) <= 1 for m in tried)} in {what}"
            for what in ("evaluations", "cold", "warm")
        ]
        precise = sum(model.is_precise(method) for model in tried)
        above = [m.name for m in tried if _is_above(m, method)]
        lines.append(
            f"{method}: {within} of {len(tried)} within all (goal {SHARE * len(tried):.1f}); "
            f"{', '.join(parts)}; {precise} ok at that error ({_calls_not_ok(tried, method)}); "
            f"above {LARGEST_RATIO:.0f} times or without an end: {', '.join(above) or 'none'}"
        )
    lines += [f"{m.name}: {', '.join(found)}" for m in compared if (found := m.disagreements())]
    if len(lines) and not any(model.disagreements() for model in compared):
        lines.append("all pairs of methods agree, and with the exact values")
    return "\n".join(lines)


def _calls_not_ok(tried: list[Compared], method: str) -> str:
    calls = [record for model in tried for record in model.calls(method)]
    return f"{sum(r.get('status') != 'ok' for r in calls)} of {len(calls)} calls not ok"


def _is_above(model: Compared, method: str) -> bool:
    """Whether some cost is more than three times that of ``pm.sample``, or a call never ended."""
    if any("error" in record for record in model.records if record["method"] == method):
        return True
    return any(ratio > LARGEST_RATIO for ratio in model.ratios(method).values() if ratio)
