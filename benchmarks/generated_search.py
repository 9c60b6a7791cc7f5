"""Default calls on models that are drawn anew each time, with log Z known: who is wrong with `ok`.

Run it with ``uv run nox -s search`` or ``uv run benchmarks/generated_search.py``: it draws a seed,
and from it models of all families of ``tests/generated`` in turn, one after the other in this
process, until there are ``--n`` of them or ``--minutes`` are over. The seed is on the first line of
the file of results, JSON lines in ``benchmarks/results``; ``--seed`` repeats a search,
``--resume FILE`` goes on with one that was cut, and ``--resume FILE --n 0`` shows its table.
"""

import argparse
import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from generated import FAMILIES
from generated.search import CALLS, Outcome, searched, table

RESULTS = Path(__file__).parent / "results"


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--family", nargs="+", choices=[*FAMILIES], default=[*FAMILIES])
    parser.add_argument("--calls", nargs="+", choices=[*CALLS], default=["sample_hais", "evidence"])
    parser.add_argument("--n", type=int, default=len(FAMILIES), help="how many models")
    parser.add_argument("--minutes", type=float, default=np.inf, help="when to stop")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds that a call may take")
    parser.add_argument("--seed", type=int, help="of a search to repeat; drawn otherwise")
    parser.add_argument("--results", type=Path, help="file of JSON lines to write")
    parser.add_argument("--resume", type=Path, help="file of a search to go on with")
    return parser.parse_args()


def version() -> str:
    """Commit of the code that is searched."""
    command = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(command, cwd=RESULTS, capture_output=True, text=True)
    return done.stdout.strip()


def read(path: Path) -> tuple[dict, list[Outcome], int]:
    """Settings of a search, its outcomes, and the index of the next model."""
    settings, *lines = [json.loads(line) for line in path.read_text().splitlines()]
    last = max((line["index"] for line in lines), default=0)
    # of a model that was cut between its calls the file has some: it is run again
    whole = sum(line["index"] == last for line in lines) == len(settings["calls"])
    kept = [line for line in lines if whole or line["index"] < last]
    outcomes = [Outcome(**{k: v for k, v in line.items() if k != "index"}) for line in kept]
    return settings, outcomes, last + whole


def main() -> None:
    """Search, and show what was found."""
    given = arguments()
    logging.disable(logging.ERROR)
    found: list[Outcome] = []
    first = 0
    if given.resume:
        path = given.resume
        settings, found, first = read(path)
    else:
        seed = (
            given.seed if given.seed is not None else int(np.random.SeedSequence().entropy % 2**32)
        )
        path = given.results or RESULTS / f"generated_search_{seed}.jsonl"
        settings = {"seed": seed, "families": given.family, "calls": given.calls}
        settings |= {"limit": given.limit, "version": version()}
    records = [settings, *(asdict(one) | {"index": i} for i, one in _indexed(found, settings))]
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    print(f"seed {settings['seed']}, {path}", flush=True)
    end = time.monotonic() + 60 * given.minutes
    with path.open("a") as file:
        for index in range(first, first + given.n):
            if time.monotonic() >= end:
                break
            found += _added(settings, index, lambda line: print(line, file=file, flush=True))
    print("\n".join(table(found)))


def _indexed(found: list[Outcome], settings: dict) -> list[tuple[int, Outcome]]:
    """Each outcome with the index of its model."""
    return [(i // len(settings["calls"]), one) for i, one in enumerate(found)]


def _added(settings: dict, index: int, write: Callable[[str], None]) -> list[Outcome]:
    """Outcomes of one more model, written, and shown where they are wrong."""
    keys = ("seed", "families", "calls")
    outcomes = searched(*(settings[key] for key in keys), index, settings["limit"])
    for one in outcomes:
        write(json.dumps(asdict(one) | {"index": index}))
        if one.is_wrong or one.status.startswith("crashed"):
            numbers = f"{one.log_z:.4f} ± {one.mcse:.4f}, exact {one.exact:.4f} (z {one.z:.1f})"
            print(f"{one.family}-{one.model_seed} {one.call} {one.seed}: {numbers}, {one.status}")
    return outcomes


if __name__ == "__main__":
    main()
