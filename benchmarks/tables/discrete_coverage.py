"""Replicates of default runs on models of whole numbers with a known log Z: are error bars right?

Run it with ``uv run benchmarks/tables/discrete_coverage.py``: it measures every case and writes the
table of discrete models in ``docs/theory/coverage.md``. Names of cases as arguments measure those,
and replace only their rows. Each replicate is a whole call with a seed of its own; whole numbers
move, and all else is as by default. The model is compiled once.
"""

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import pymc_logz as lz
from pymc_logz import energies

PAGE = Path(__file__).parents[2] / "docs" / "theory" / "coverage.md"
MARKS = "<!-- begin discrete -->\n", "<!-- end discrete -->\n"
COLUMNS = (
    *("model", "call", "runs", "covered", "mean z", "sd z", "mean mcse", "largest error"),
    *("in mcse", "status `ok`"),
)
HEADER = f"| {' | '.join(COLUMNS)} |\n" + "|---" * len(COLUMNS) + "|"
N_RUNS = 200


def small_machine() -> energies.BinaryEnergy:
    """The restricted Boltzmann machine of 12 x 8 units whose log Z is 14.37919794."""
    i, j = np.arange(1, 13), np.arange(1, 9)
    weights = 0.9 * np.sin(1 + np.outer(i, j))
    return energies.bernoulli_rbm(weights, 0.1 * np.cos(i), 0.2 * np.sin(j))


CASES: dict[str, Callable[[], Any]] = {
    "thinned_poisson": energies.thinned_poisson,
    "labelled_mixture": energies.labelled_mixture,
    "bernoulli_rbm 12 x 8": small_machine,
    "ising_torus 4 x 4, 0.3": lambda: energies.ising_torus((4, 4), coupling=0.3),
    "coal_mining": energies.coal_mining,
}
CALLS = {"sample_hais": lz.sample_hais, "sample_tempered": lz.sample_tempered}
CHAINS = {("coal_mining", "sample_tempered"): 1, ("labelled_mixture", "sample_tempered"): 1}
"""Where a default run of four chains takes too long for a table."""


@dataclass(frozen=True)
class Replicates:
    """What n calls said."""

    error: np.ndarray
    """Log Z minus the exact one, shape (n,)."""
    mcse: np.ndarray
    ok: np.ndarray

    def row(self, case: str, call: str) -> str:
        """Line of the table: z and intervals of runs whose status is ok, errors of all."""
        z = (self.error / self.mcse)[self.ok]
        chains = f", `chains={CHAINS[case, call]}`" if (case, call) in CHAINS else ""
        return (
            f"| {case} | `{call}`{chains} | {len(self.ok)} | {np.mean(np.abs(z) < 1.96):.1%} | "
            f"{z.mean():+.2f} | {z.std():.2f} | {self.mcse.mean():.4f} | "
            f"{np.abs(self.error).max():.3f} | {np.abs(z).max():.1f} | {self.ok.mean():.1%} |"
        )


def replicates(case: str, call: str) -> Replicates:
    """Calls on one model."""
    energy, found = CASES[case](), []
    model = getattr(energy, "model", energy)
    how: dict[str, Any] = {"chains": CHAINS[case, call]} if (case, call) in CHAINS else {}
    if model is not energy:
        how["sum_out"] = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lz.EvidenceWarning)
        for seed in range(N_RUNS):
            tree = CALLS[call](model=model, random_seed=5000 + seed, progressbar=False, **how)
            first = tree["evidence"].to_dataset().isel(estimator=0)
            found.append((float(first["log_z"]), float(first["mcse"]), first["status"] == "ok"))
    log_z, mcse, ok = map(np.array, zip(*found, strict=True))
    return Replicates(log_z - energy.log_z, mcse, ok.astype(bool))


def write_row(case: str, call: str, row: str) -> None:
    """Replace a row of the page, in the order of the cases; the others stay."""
    before, rest = PAGE.read_text().split(MARKS[0])
    inside, after = rest.split(MARKS[1])
    rows = [line for line in inside.splitlines() if line.startswith("|")][2:]
    starts = {(one, other): f"| {one} | `{other}`" for one in CASES for other in CALLS}
    kept = {
        key: line for key, start in starts.items() for line in rows if line.startswith(start)
    } | {(case, call): row}
    table = "\n".join([HEADER, *(kept[key] for key in starts if key in kept)])
    PAGE.write_text(f"{before}{MARKS[0]}\n{table}\n\n{MARKS[1]}{after}")


def main(names: list[str]) -> None:
    """Measure cases, print their rows, and write them to the page."""
    for case in names or CASES:
        for call in CALLS:
            row = replicates(case, call).row(case, call)
            print(row, flush=True)
            write_row(case, call, row)


if __name__ == "__main__":
    main(sys.argv[1:])
