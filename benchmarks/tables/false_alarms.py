"""How often a sound log Z of an ordinary model has a status other than ok.

Run it with ``uv run benchmarks/tables/false_alarms.py --page``: it runs a call with its defaults on
the models of the gallery, ``--seeds`` times each, and writes a table of
``docs/theory/adversary.md``. Where log Z is not known, the median of all runs of the model takes
its place. ``--results`` names a file of JSON lines from which a run that was cut continues. Names
of models choose among them; by default it is all 30 of ``ordinary_models.py``, or with ``--known``
those whose log Z is known and that take no minutes.
"""

import argparse
import json
import logging
import sys
import tempfile
import time
import warnings
from dataclasses import asdict, replace
from pathlib import Path

if __name__ == "__main__":
    sys.path.pop(0)  # this folder, whose coverage.py numba would take for the package
sys.path.append(str(Path(__file__).parents[2] / "tests"))
sys.path.append(str(Path(__file__).parents[1]))

import numpy as np
from adversary.routes import Outcome, judged
from gallery import MODELS
from generated.search import CALLS
from tables.wrong_numbers import PAGE, read, write_table

DEAR = {"random_walk", "local_level", "many_rows", "stochastic_volatility"}
"""They take longer than all others together."""
KNOWN = [name for name, entry in MODELS.items() if entry.exact is not None and name not in DEAR]


def main() -> None:
    """Run what is not in the file of results yet, and show the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[[], *MODELS], metavar="name")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--known", action="store_true", help="only models with a known log Z")
    parser.add_argument("--call", choices=[*CALLS], default="sample_hais")
    parser.add_argument("--results", type=Path, help="file of JSON lines to continue")
    parser.add_argument("--page", action="store_true", help=f"write the table into {PAGE.name}")
    given = parser.parse_args()
    logging.disable(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        path = given.results or Path(folder) / "results.jsonl"
        done = {(one.case, one.seed) for one in read(path) if one.route == given.call}
        with path.open("a") as file:
            for name in given.names or (KNOWN if given.known else MODELS):
                calls = [seed for seed in range(given.seeds) if (name, seed) not in done]
                for one in outcomes(name, given.call, calls):
                    file.write(json.dumps(asdict(one)) + "\n")
                    file.flush()
        found = [one for one in read(path) if one.route == given.call]
    lines = table([judged_again(one, found) for one in found])
    print("\n".join(lines))
    if given.page:
        write_table("alarms", lines)


def outcomes(name: str, call: str, seeds: list[int]) -> list[Outcome]:
    """What a call says of one model, by seed; it is built and compiled once."""
    if not seeds:
        return []
    entry = MODELS[name]
    model, exact = entry.build(), float(entry.exact()) if entry.exact else np.nan
    found = []
    for seed in seeds:
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = CALLS[call](model, seed)
        first = tree["evidence"].to_dataset().isel(estimator=0)
        log_z, mcse = float(first["log_z"]), float(first["mcse"])
        status = str(first["status"].item())
        verdict = judged(log_z, mcse, status, exact)
        seconds = time.perf_counter() - start
        estimator = str(first["estimator"].item())
        found.append(
            Outcome(name, call, seed, verdict, estimator, log_z, mcse, exact, status, seconds)
        )
    return found


def judged_again(one: Outcome, found: list[Outcome]) -> Outcome:
    """An outcome, judged by the median of its model's runs where log Z is not known."""
    if np.isfinite(one.exact):
        return one
    exact = float(np.nanmedian([other.log_z for other in found if other.case == one.case]))
    return replace(one, exact=exact, verdict=judged(one.log_z, one.mcse, one.status, exact))


def table(found: list[Outcome]) -> list[str]:
    """A sentence, and a line for each model that had another status than ok, or a wrong number."""
    z = {one: abs(one.log_z - one.exact) / one.mcse for one in found if one.mcse > 0}
    worst = max(z, key=lambda one: z[one])
    accused = [one for one in found if one.status != "ok"]
    alarms = sum(one.verdict == "false alarm" for one in accused)
    lines = [
        f"{len(found)} runs of {len({one.case for one in found})} models: {len(accused)} statuses "
        f"other than `ok`, {alarms} of them false alarms. The largest error is {z[worst]:.1f} "
        f"stated ones (`{worst.case}`).",
        "",
        "| model | runs | false alarms | wrong | statuses |",
        "|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(one.case for one in found):
        own = [one for one in found if one.case == name]
        told = ", ".join(f"`{s}`" for s in dict.fromkeys(one.status for one in own) if s != "ok")
        counts = [sum(one.verdict == what for one in own) for what in ("false alarm", "wrong")]
        if told or any(counts):
            cells = [f"`{name}`", len(own), *counts, told]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return lines if len(lines) > 4 else lines[:1]


if __name__ == "__main__":
    main()
