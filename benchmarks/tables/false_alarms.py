"""How often a sound log Z of an ordinary model has a status other than ok.

Run it with ``uv run benchmarks/tables/false_alarms.py --page``: it runs ``sample_hais`` with its
defaults on the models of the gallery whose log Z is known, and writes a table of
``docs/theory/adversary.md``. ``--results`` names a file of JSON lines from which a run that was cut
continues. Names of models choose among them.
"""

import argparse
import json
import logging
import sys
import tempfile
import time
import warnings
from dataclasses import asdict
from pathlib import Path

if __name__ == "__main__":
    sys.path.pop(0)  # this folder, whose coverage.py numba would take for the package
sys.path.append(str(Path(__file__).parents[2] / "tests"))
sys.path.append(str(Path(__file__).parents[1]))

from adversary.routes import Outcome, judged
from gallery import MODELS
from tables.wrong_numbers import PAGE, read, write_table

import pymc_logz as lz

DEAR = {"random_walk", "local_level", "many_rows", "stochastic_volatility"}
"""Left out: they take longer than all others together."""
KNOWN = [name for name, entry in MODELS.items() if entry.exact is not None and name not in DEAR]


def main() -> None:
    """Run what is not in the file of results yet, and show the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[[], *KNOWN], metavar="name")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--results", type=Path, help="file of JSON lines to continue")
    parser.add_argument("--page", action="store_true", help=f"write the table into {PAGE.name}")
    given = parser.parse_args()
    logging.disable(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        path = given.results or Path(folder) / "results.jsonl"
        done = {(one.case, one.seed) for one in read(path)}
        with path.open("a") as file:
            for name in given.names or KNOWN:
                calls = [seed for seed in range(given.seeds) if (name, seed) not in done]
                for one in outcomes(name, calls):
                    file.write(json.dumps(asdict(one)) + "\n")
                    file.flush()
        found = read(path)
    lines = table(found)
    print("\n".join(lines))
    if given.page:
        write_table("alarms", lines)


def outcomes(name: str, seeds: list[int]) -> list[Outcome]:
    """What ``sample_hais`` says of one model, by seed; it is built and compiled once."""
    if not seeds:
        return []
    entry = MODELS[name]
    assert entry.exact is not None
    model, exact = entry.build(), float(entry.exact())
    found = []
    for seed in seeds:
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = lz.sample_hais(model=model, random_seed=seed, progressbar=False, cores=1)
        first = tree["evidence"].to_dataset().isel(estimator=0)
        log_z, mcse = float(first["log_z"]), float(first["mcse"])
        status = str(first["status"].item())
        verdict = judged(log_z, mcse, status, exact)
        seconds = time.perf_counter() - start
        found.append(
            Outcome(name, "sample_hais", seed, verdict, "hais", log_z, mcse, exact, status, seconds)
        )
    return found


def table(found: list[Outcome]) -> list[str]:
    """Lines of the table, models with alarms first."""
    rows = []
    for name in dict.fromkeys(one.case for one in found):
        own = [one for one in found if one.case == name]
        z = [abs(one.log_z - one.exact) / one.mcse for one in own if one.mcse > 0]
        other = [one for one in own if one.status != "ok"]
        alarms = sum(one.verdict == "false alarm" for one in own)
        told = ", ".join(f"`{status}`" for status in dict.fromkeys(one.status for one in other))
        wrong = sum(one.verdict == "wrong" for one in own)
        largest = f"{max(z):.1f}" if z else "–"
        rows.append(
            (alarms, f"| `{name}` | {len(own)} | {alarms} | {wrong} | {largest} | {told} |")
        )
    rows.sort(key=lambda row: -row[0])
    total = sum(alarms for alarms, _ in rows)
    return [
        f"{total} false alarms in {len(found)} runs of {len(rows)} models.",
        "",
        "| model | runs | false alarms | wrong | largest error, in stated ones | statuses |",
        "|---|---|---|---|---|---|",
        *(line for _, line in rows),
    ]


if __name__ == "__main__":
    main()
