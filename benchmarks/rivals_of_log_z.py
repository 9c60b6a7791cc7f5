"""Ours against what one would use instead, on 14 targets whose log Z is known.

Each method runs with default settings in a process of its own, cold and then warm. Lines of JSON
are kept, so that a run can be cut and continued; then come a table and a picture, which the page
``docs/about/benchmarks.md`` shows.

Run it with ``uv run benchmarks/rivals_of_log_z.py``; ``--quick`` takes three targets and two
repeats, ``--report`` only makes the page from what is kept.
"""

import argparse
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rivals.methods import LONGER, METHODS, TOGETHER
from rivals.report import at_an_error, draw, rows_of, short, summary, table
from rivals.running import Limits, measured
from rivals.targets import TARGETS
from rivals_of_estimators import table as of_estimators
from side_by_side.processes import Results

HERE = Path(__file__).parent
KEPT = HERE / "results" / "rivals.jsonl"
PAGE = HERE.parent / "docs" / "about" / "benchmarks.md"
PICTURE = HERE.parent / "docs" / "_static" / "benchmarks.png"
BEGIN, END = "<!-- begin rivals -->", "<!-- end rivals -->"
ESTIMATORS = """The same 16,000 tempered draws given to pymbar and to our estimators
(`benchmarks/rivals_of_estimators.py`, four seeds each). MBAR has one answer, so the numbers agree;
our errors know autocorrelation."""
LEVEL_SETS = """Mici has no log Z, so what counts is effective draws per second of processor
time: a stochastic predator-prey simulator of 104 inputs, its output observed exactly
(`benchmarks/constrained.py`)."""
AT_AN_ERROR = """On small targets a default call is mostly fixed costs. Here a small error is asked
for, `lz.evidence(model, target_mcse=0.01)`, beside SMC with enough particles for about the same
error."""
ALL_NUMBERS = """All numbers, of every method on every target, and what did not end in time, are in
{download}`benchmarks.json`."""
NO_LEVEL_SETS = """Not measured in this run. An earlier one, whose table alone was kept, had 100
to 110 times as many effective draws per second as the best of four settings of Mici
([from Mici](../coming_from/mici.md))."""
ALT = "Mean square error times seconds of each method over that of lz.evidence, by target"
EVERY = METHODS | LONGER
SMALL = ("ridge", "shells_2", "shells_5", "laplace_experts_6", "student_t_experts_6")
"""Targets of calls to an error of 0.01: those on which defaults are, or may be, behind."""
QUICK = ("ridge", "pine_density", "hierarchical_normal")
PACKAGES = ("pymc-logz", "pymc", "pytensor", "jax", "blackjax", "dynesty", "nautilus-sampler")
PACKAGES += ("nutpie", "mici", "pymbar", "numpy")


def asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--methods", nargs="+", choices=EVERY, default=list(EVERY))
    parser.add_argument("--repeats", type=int, default=20, help="warm calls of each at most")
    enough = "seconds after which three warm calls of one are enough"
    parser.add_argument("--enough", type=float, default=5.0, help=enough)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for all calls of one")
    parser.add_argument("--results", type=Path, default=KEPT)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--report", action="store_true")
    return parser.parse_args(arguments)


def processor() -> str:
    """Name of the processor, where Linux tells it."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def where() -> str:
    """Machine and versions."""
    found = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    machine = f"{os.cpu_count()} cores ({processor()}), {platform.system()} {platform.machine()}"
    return f"{machine}, Python {platform.python_version()}: " + ", ".join(found)


def constrained_table(file: Path) -> str:
    """Effective draws per second on a level set, of ours and of Mici."""
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    lines = [
        "| numbers observed | sampler | draws | ESS of the worst rate | R-hat | ESS / s |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r['observed']} | {r['sampler']} | {r['draws']:,} | {r['ESS']:,.0f} | {r['R-hat']:.2f} "
        f"| {short(r['ESS / s'])} |"
        for r in rows
    ]
    return "\n".join(lines) if rows else NO_LEVEL_SETS


def write_page(results: Results, page: Path) -> None:
    """Put the picture and the tables between the two marks of the page."""
    rows = rows_of(results.records)
    failed = [record for record in results.records if "error" in record]
    kept = {"rows": [asdict(row) for row in rows], "without an end": failed}
    # NaN is no JSON: what a method does not state is null
    kept = json.loads(json.dumps(kept), parse_constant=lambda _: None)
    page.with_suffix(".json").write_text(json.dumps(kept, indent=0) + "\n", encoding="utf-8")
    text = page.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    places = [record["where"] for record in results.records if "where" in record]
    parts = [
        BEGIN,
        f"![{ALT}](../_static/benchmarks.png)",
        summary(rows),
        ALL_NUMBERS,
        "## At an error of 0.01",
        AT_AN_ERROR,
        at_an_error(rows),
        "## Estimators: pymbar",
        ESTIMATORS,
        of_estimators(Results(HERE / "results" / "estimators.jsonl").records),
        "## Level sets: Mici",
        LEVEL_SETS,
        constrained_table(HERE / "results" / "constrained.jsonl"),
        "## Machine",
        "Measured on " + "; and on ".join(dict.fromkeys(places)) + ".",
        END,
    ]
    page.write_text(head + "\n\n".join(parts) + rest.split(END)[1], encoding="utf-8")
    draw(rows, PICTURE)


def groups(methods: Sequence[str]) -> list[list[str]]:
    """Methods that run in one process together, and the others one by one."""
    together = [[name for name in group if name in methods] for group in TOGETHER]
    alone = [[name] for name in methods if not any(name in group for group in together)]
    return [group for group in together if group] + alone


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is missing, and report."""
    args = asked(arguments)
    args.results.parent.mkdir(exist_ok=True)
    results = Results(args.results)
    if args.quick:
        args.targets, args.repeats = list(QUICK), 2
    limits = Limits(args.repeats, args.enough, args.limit)
    # a method after the other on one target, so that a slow hour of the machine is slow for all
    for target in [] if args.report else args.targets:
        methods = [one for one in args.methods if one not in LONGER or target in SMALL]
        for group in groups(methods):
            done = {r["method"] for r in results.records if r["target"] == target}
            if done >= set(group):
                continue
            records = measured(target, group, limits)
            records[0]["where"] = where()
            results.add(records)
            for last in {r["method"]: r for r in records}.values():
                print(target, last["method"], last.get("error") or last["log_z"], flush=True)
    rows = rows_of(results.records)
    print(summary(rows))
    print(table(rows, [record for record in results.records if "error" in record]))
    if args.page.exists() and BEGIN in args.page.read_text(encoding="utf-8"):
        write_page(results, args.page)


if __name__ == "__main__":
    main()
