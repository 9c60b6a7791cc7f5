"""Replicates of whole tempered runs on models of known log Z: how often error bars are right.

Run it with ``uv run benchmarks/tables/tempered_coverage.py``: it measures every case and writes the
table of ``docs/theory/coverage_tables.txt``. Names of cases as arguments measure those, and only
print.
"""

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import batched
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.pop(0)  # this folder, whose coverage.py numba would take for the package

import numpy as np

from pymc_logz import EvidenceWarning, energies
from pymc_logz.energies import Energy
from pymc_logz.estimators import METHODS
from pymc_logz.loop.calls import begun
from pymc_logz.loop.planning import block_for
from pymc_logz.models.preparation import prepare
from pymc_logz.runners.running import run_tasks, state_of
from pymc_logz.runners.temper import joined_walk
from pymc_logz.seeds import spawn_generators
from pymc_logz.tempered.chains import TemperCourse, TemperJob, course_of
from pymc_logz.tempered.run import place_levels, warm_up
from pymc_logz.tempered.settings import TemperedSettings

sys.path.append(str(Path(__file__).parents[2] / "tests"))

from support import pymc_models as models
from support.checks import make_rng

PAGE = Path(__file__).parents[2] / "docs" / "theory" / "coverage_tables.txt"
N_RUNS, PER_TABLE = 200, 3
RULES = ("ti_left", "ti_right", "ti_trapezoid", "ti_corrected", "ti_rb")
"""Methods with the error of a rule."""
MARKS = "<!-- begin tempered -->\n", "<!-- end tempered -->\n"


@dataclass(frozen=True)
class Case:
    """An energy, and the settings that it is run with."""

    make: Callable[[], Energy]
    settings: dict[str, Any] = field(default_factory=dict)


CASES = {
    "ridge (2-d)": Case(energies.ridge),
    "poisson_gamma (skewed)": Case(energies.poisson_gamma),
    "skewed_bimodal": Case(energies.skewed_bimodal),
    "two_gaussians (4-d)": Case(lambda: energies.two_gaussians(4), {"draws": 2000}),
    "beta_bernoulli": Case(energies.beta_bernoulli),
    "student_location (heavy tails)": Case(energies.student_location),
    "radiata_pine (3-d)": Case(energies.radiata_pine),
    "linear_regression (4-d)": Case(energies.linear_regression),
    "hierarchy (7-d)": Case(models.uncentred_hierarchy),
}


@dataclass(frozen=True)
class Found:
    """What one method said of log Z in n independent runs of one case."""

    method: str
    error: np.ndarray
    """Log Z minus the exact one, shape (n,); NaN where there is no number."""
    mcse: np.ndarray
    noise: np.ndarray
    """The part of ``mcse`` that is noise alone, shape (n,)."""
    ok: np.ndarray
    """Whether the status is ok, shape (n,)."""

    @property
    def counted(self) -> np.ndarray:
        """Runs that intervals are held to: those with the status ok, and all numbers of a rule."""
        return np.isfinite(self.error) if self.method in RULES else self.ok

    @property
    def z(self) -> np.ndarray:
        """Errors in units of mcse, of the runs that count."""
        return (self.error / self.mcse)[self.counted]

    @property
    def covered(self) -> np.ndarray:
        """Whether the 95% interval of each run that counts covers the exact log Z."""
        return np.abs(self.z) < 1.96

    @property
    def centred_z(self) -> np.ndarray:
        """Errors in units of noise, less what the method is off by on average: a rule's own."""
        error = self.error[self.counted]
        return (error - error.mean()) / self.noise[self.counted]

    def entry(self) -> str:
        """Cell of the table: coverage, mean and standard deviation of z, share of ok."""
        if self.counted.mean() < 0.05:
            return f"– (ok {self.ok.mean():.0%})"
        cell = f"{self.covered.mean():.1%} ({self.z.mean():+.2f}, {self.z.std():.2f})"
        return cell if self.ok.mean() > 0.995 else f"{cell} ok {self.ok.mean():.0%}"


def replicates(name: str, n: int = N_RUNS) -> dict[str, Found]:
    """Independent runs of one chain each on frozen levels, by every method."""
    case = CASES[name]
    energy = case.make()
    settings = TemperedSettings(**{"walkers": 16, "draws": 1000, "chains": n, **case.settings})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvidenceWarning)
        with begun(settings, make_rng("tempered", name), progressbar=False) as call:
            prepared = prepare(energy.model, call.rngs.checks)
            block = block_for(prepared, settings, None)
            walking, rounds = warm_up(place_levels(prepared, block, call), call)
    generators = spawn_generators(make_rng("walks", name), n)
    starts = [walking.path.sample_reference(rng, walking.n_walkers) for rng in generators]
    course = course_of(walking, rounds.ladder, settings)
    tasks = [
        partial(estimates, course, start, settings, rng)
        for start, rng in zip(starts, generators, strict=True)
    ]
    runs = run_tasks(tasks, 2)
    return {
        method: Found(
            method,
            np.array([run[method].log_z for run in runs]) - energy.log_z,
            np.array([run[method].mcse for run in runs]),
            np.array([run[method].details.get("noise", run[method].mcse) for run in runs]),
            np.array([run[method].status == "ok" for run in runs]),
        )
        for method in METHODS
    }


def estimates(
    course: TemperCourse, start: np.ndarray, settings: TemperedSettings, rng: Any
) -> dict:
    """All estimates of one run."""
    job = TemperJob(start, state_of(rng), course.ladder.n_levels, settings.tune, settings.n_kept)
    _, walked = job.advance(course, None)
    walk = joined_walk([walked], settings.n_kept, course.every)
    draws = course.ladder.draws(walk)
    return {name: method(draws).estimate for name, method in METHODS.items()}


def table(found: dict[str, dict[str, Found]]) -> list[str]:
    """Lines of tables of a few targets each, a row for each method."""
    lines = []
    for names in batched(found, PER_TABLE):
        lines += ["| method | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
        for method in METHODS:
            cells = " | ".join(found[name][method].entry() for name in names)
            lines.append(f"| `{method}` | {cells} |")
        lines.append("")
    return lines[:-1]


def main(names: list[str]) -> None:
    """Measure cases and print the table; write the page if they are all of them."""
    lines = table({name: replicates(name) for name in names or CASES})
    print("\n".join(lines))
    if not names:
        before, rest = PAGE.read_text().split(MARKS[0])
        after = rest.split(MARKS[1])[1]
        body = "\n" + "\n".join(lines) + "\n\n"
        PAGE.write_text(before + MARKS[0] + body + MARKS[1] + after)


if __name__ == "__main__":
    main(sys.argv[1:])
