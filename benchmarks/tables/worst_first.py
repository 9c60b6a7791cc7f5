"""Coverage of all estimators: those that are worst, and a line for each method.

Run it with ``uv run benchmarks/tables/worst_first.py`` after any of the scripts that measure:
``coverage.py``, ``tempered_coverage.py``, ``bridge_coverage.py`` and ``discrete_coverage.py``. It
reads their tables and writes two of ``docs/theory/coverage.md``.
"""

import re
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

if __name__ == "__main__":
    sys.path.pop(0)  # this folder, whose coverage.py numba would take for the package

THEORY = Path(__file__).parents[2] / "docs" / "theory"
PAGE, TABLES = THEORY / "coverage.md", THEORY / "coverage_tables.txt"
ENDS = "hais_reverse"
"""An end of a sandwich, never ok: its status says which."""
CELL = re.compile(
    r"(?P<covered>[\d.]+)% \((?P<mean>[-+][\d.]+), (?P<sd>[\d.]+)\)(?: ok (?P<ok>\d+)%)?"
)


class Covered(NamedTuple):
    """Runs of one estimator on one target."""

    covered: float
    """Share of the intervals of 95% with the exact value, in percent."""
    estimator: str
    target: str
    mean_z: str
    sd_z: str
    ok: str
    """Share of the runs with the status ok, in percent."""

    def row(self) -> str:
        """Line of the table."""
        cells = f"{self.covered:.1f}% | `{self.estimator}` | {self.target}"
        return f"| {cells} | {self.mean_z} | {self.sd_z} | {self.ok} |"


def cells(page: Path, mark: str) -> list[list[str]]:
    """Cells of the lines of a page's tables between marks, headers included."""
    text = page.read_text().split(f"<!-- begin {mark} -->")[1].split(f"<!-- end {mark} -->")[0]
    lines = [line for line in text.splitlines() if line.startswith("|") and "|---" not in line]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def of_columns(page: Path, mark: str) -> Iterator[Covered]:
    """From a table that has a line for each target and estimator."""
    header, *lines = cells(page, mark)
    at = {name.strip("`"): i for i, name in enumerate(header)}
    target, estimator = header[0], header[1]
    for line in lines:
        covered = line[at["covered"]].rstrip("%")
        if covered != "–":
            name, ok = line[at[estimator]].strip("`"), line[at["status `ok"]]
            found = name, line[at[target]].strip("`"), line[at["mean z"]], line[at["sd z"]], ok
            yield Covered(float(covered), *found)


def of_matrix() -> Iterator[Covered]:
    """From the tables of tempered runs, which have a line for each estimator."""
    targets: list[str] = []
    for method, *line in cells(TABLES, "tempered"):
        if method == "method":
            targets = line
            continue
        for target, cell in zip(targets, line, strict=True):
            if found := CELL.match(cell):
                name = method.strip("`")
                ok = f"{found['ok'] or 100}%"
                about = f"{target}, tempered", found["mean"], found["sd"], ok
                yield Covered(float(found["covered"]), name, *about)


def by_method(known: list[Covered]) -> list[str]:
    """Lines of the table of methods, in alphabetical order."""
    lines = [
        "| estimator | targets | lowest coverage | median | highest | status `ok`, lowest |",
        "|---|---|---|---|---|---|",
    ]
    for name in sorted({one.estimator for one in known}):
        own = [one for one in known if one.estimator == name]
        covered = sorted(one.covered for one in own)
        middle = statistics.median(covered)
        ok = min(float(one.ok.rstrip("%")) for one in own)
        ends = f"{covered[0]:.1f}% | {middle:.1f}% | {covered[-1]:.1f}%"
        lines.append(f"| `{name}` | {len(own)} | {ends} | {ok:.0f}% |")
    return lines


def write_table(mark: str, lines: list[str]) -> None:
    """Replace what the page has between the marks of a table, and print it."""
    begin, end = f"<!-- begin {mark} -->\n", f"<!-- end {mark} -->\n"
    before, rest = PAGE.read_text().split(begin)
    PAGE.write_text(before + begin + "\n" + "\n".join(lines) + "\n\n" + end + rest.split(end)[1])
    print("\n".join(lines))


def main(shown: int = 12) -> None:
    """Write the lines of the lowest coverage, and those of the methods."""
    columns = [(TABLES, "runs"), (PAGE, "discrete"), (TABLES, "bridges")]
    known = [one for page, mark in columns for one in of_columns(page, mark)] + [*of_matrix()]
    write_table("methods", by_method(known))
    counted = sorted(one for one in known if one.estimator != ENDS)
    within = sum(93 <= one.covered <= 97 for one in counted)
    below = sum(one.covered < 93 for one in counted)
    targets = len({one.target.removesuffix(", tempered") for one in counted})
    first = (
        f"{len(counted)} pairs of an estimator and a target, {targets} targets: {within} within "
        f"93% to 97%, {below} below, {len(counted) - within - below} above. The lowest {shown}:"
    )
    head = [
        "| covered | estimator | target | mean z | sd z | status `ok` |",
        "|---|---|---|---|---|---|",
    ]
    write_table("worst", [first, "", *head, *(one.row() for one in counted[:shown])])


if __name__ == "__main__":
    main()
