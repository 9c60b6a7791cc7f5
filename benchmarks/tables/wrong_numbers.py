"""The standing search for wrong numbers: all its models, by all routes, with several seeds.

Run it with ``uv run benchmarks/tables/wrong_numbers.py --page``: it writes the tables of
``docs/theory/adversary.md``. ``--results`` names a file of JSON lines from which a run that was cut
continues; ``--part 0/2`` takes every second model only. Names of models choose among them.
"""

import argparse
import json
import logging
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from datetime import date
from pathlib import Path

if __name__ == "__main__":
    sys.path.pop(0)  # this folder, whose coverage.py numba would take for the package
sys.path.append(str(Path(__file__).parents[2] / "tests"))

from adversary import CASES
from adversary.routes import ROUTES, Outcome, searched

PAGE = Path(__file__).parents[2] / "docs" / "theory" / "adversary.md"
FAULTS = ("wrong", "crashed")
COLUMNS = ("wrong", "crashed", "right", "doubted", "false alarm", "no number", "refused", "slow")


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[[], *CASES], metavar="name")
    parser.add_argument("--routes", nargs="+", choices=[*ROUTES], default=[*ROUTES])
    parser.add_argument("--seeds", type=int, help="of each route; else as many as it has")
    parser.add_argument("--part", default="0/1", help="which of how many parts of the models")
    parser.add_argument("--results", type=Path, help="file of JSON lines to continue")
    parser.add_argument("--page", action="store_true", help=f"write the tables into {PAGE.name}")
    return parser.parse_args()


def read(path: Path) -> list[Outcome]:
    """Outcomes that a file holds."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [Outcome(**json.loads(line)) for line in lines]


def main() -> None:
    """Run what is not in the file of results yet, and show it all."""
    given = arguments()
    logging.disable(logging.ERROR)
    i, n = (int(number) for number in given.part.split("/"))
    names = (given.names or list(CASES))[i::n]
    with tempfile.TemporaryDirectory() as folder:
        path = given.results or Path(folder) / "results.jsonl"
        done = {(one.case, one.route, one.seed) for one in read(path)}
        cases = {name: CASES[name] for name in names}
        routes = {name: ROUTES[name] for name in given.routes}
        with path.open("a") as file:
            for one in searched(cases, routes, given.seeds, done):
                file.write(json.dumps(asdict(one)) + "\n")
                file.flush()
                if one.verdict in FAULTS:
                    print(one, flush=True)
        found = read(path)
    tables = {"routes": by_route(found), "faults": faults(found), "needles": needles(found)}
    print("\n\n".join("\n".join(lines) for lines in tables.values()))
    if given.page:
        for name, lines in tables.items():
            write_table(name, lines)


def by_route(found: list[Outcome]) -> list[str]:
    """Lines of the table of routes, without the needles."""
    known = [one for one in found if not CASES[one.case].needle]
    rows = [
        f"Run on {date.today():%-d %B %Y}: {len({one.case for one in known})} models, "
        f"{len({(one.case, one.route, one.seed) for one in known}):,} calls.",
        "",
        "| route | models | seeds | calls | numbers | " + " | ".join(COLUMNS) + " |",
        "|---|---|---|---|---|" + "---|" * len(COLUMNS),
    ]
    for name in ROUTES:
        own = [one for one in known if one.route == name]
        if own:
            rows.append(_row(f"`{name}`", own))
    return [*rows, _row("all", known)]


def _row(name: str, found: list[Outcome]) -> str:
    counts = Counter(one.verdict for one in found)
    calls = {(one.case, one.route, one.seed) for one in found}
    numbers = sum(bool(one.estimator) for one in found)
    seeds = max(sum(call[:2] == pair for call in calls) for pair in {call[:2] for call in calls})
    cells = [name, len({one.case for one in found}), seeds, len(calls), numbers]
    return "| " + " | ".join(map(str, [*cells, *(counts[one] for one in COLUMNS)])) + " |"


def faults(found: Iterable[Outcome]) -> list[str]:
    """Lines of the table of all that is wrong with a clean status, or crashed."""
    own = [one for one in found if one.verdict in FAULTS and not CASES[one.case].needle]
    return _listed(own) if own else ["None."]


def needles(found: Iterable[Outcome]) -> list[str]:
    """Lines of the table of known exceptions, one for each model that was wrong."""
    own = [one for one in found if one.verdict in FAULTS and CASES[one.case].needle]
    lines = ["| model | exact | furthest number with `ok` | routes |", "|---|---|---|---|"]
    for case in dict.fromkeys(one.case for one in own):
        same = [one for one in own if one.case == case]
        worst = max(same, key=lambda one: abs(one.log_z - one.exact))
        routes = ", ".join(f"`{route}`" for route in dict.fromkeys(one.route for one in same))
        number = f"{worst.log_z:.2f} ± {worst.mcse:.2g}"
        lines.append(f"| `{case}` | {round(worst.exact, 2) + 0.0:.2f} | {number} | {routes} |")
    return lines if own else ["None."]


def _listed(found: list[Outcome]) -> list[str]:
    """One line for each model and route, with the worst number of all estimators and seeds."""
    rows = ["| model | route | seeds | estimators | worst | exact | |", "|---|" + "---|" * 6]
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for one in found:
        groups.setdefault((one.case, one.route), []).append(one)
    for (case, route), own in groups.items():
        seeds = ", ".join(str(seed) for seed in sorted({one.seed for one in own}))
        names = ", ".join(f"`{name}`" for name in dict.fromkeys(one.estimator for one in own))
        worst = max(own, key=lambda one: abs(one.log_z - one.exact) / (one.mcse or 1e-300))
        number = f"{worst.log_z:.5g} ± {worst.mcse:.2g}" if worst.estimator else "–"
        status = worst.status.replace("|", "\\|")
        rows.append(
            f"| `{case}` | `{route}` | {seeds} | {names if worst.estimator else '–'} | {number} | "
            f"{worst.exact:.5g} | {status[:120]} |"
        )
    return rows


def write_table(name: str, lines: list[str]) -> None:
    """Replace what the page has between the marks of a table."""
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->\n"
    before, rest = PAGE.read_text().split(begin)
    after = rest.split(end)[1]
    PAGE.write_text("".join([before, begin, "\n", "\n".join(lines), "\n\n", end, after]))


if __name__ == "__main__":
    main()
