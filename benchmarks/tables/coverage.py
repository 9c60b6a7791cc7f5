"""Replicates of whole runs on models of known log Z: how often their error bars are right.

Run it with ``uv run benchmarks/tables/coverage.py``: it measures every case and writes the tables
of ``docs/theory/coverage_tables.txt`` and ``coverage.md``. Names of cases as arguments measure
those, and only print.
"""

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pymc_logz import EvidenceWarning, energies
from pymc_logz.energies import Energy
from pymc_logz.estimators import LogZEstimate, importance_log_z
from pymc_logz.hais.run import Chains, Directions, estimates_of, run_chains
from pymc_logz.hais.settings import HaisSettings
from pymc_logz.loop.calls import Call
from pymc_logz.loop.frozen import Planned
from pymc_logz.loop.planning import block_for, plan_run
from pymc_logz.models.flat import unconstrain
from pymc_logz.models.preparation import Prepared, prepare
from pymc_logz.runners.anneal import Annealed, Plan
from pymc_logz.runners.running import Running
from pymc_logz.seeds import Generators, generators_from, spawn_generators

sys.path.append(str(Path(__file__).parents[2] / "tests"))

from support import pymc_models as models
from support.checks import make_rng

N_ROWS = 256
LAWS = (1, 2, 3, 4), (0.3, 0.5, 0.6, 0.7, 0.8, 0.9)
METHODS = ["hais", "hais_reverse", "bar"]
PAGE = Path(__file__).parents[2] / "docs" / "theory" / "coverage.md"
TABLES = PAGE.with_name("coverage_tables.txt")
HEADER = """\
| model | method | temperatures | mean z | sd z | covered | status `ok` | mean mcse |
|---|---|---|---|---|---|---|---|"""
HEADER_OF_LAWS = """\
| distribution of the weights | status `ok` | covered, of these | `ok` and not covered |
|---|---|---|---|"""


@dataclass(frozen=True)
class Case:
    """An energy, and the settings that it is run with."""

    make: Callable[[], Energy]
    settings: dict[str, Any] = field(default_factory=dict)
    n: int = 400
    """Number of runs."""


def experts(d: int) -> np.ndarray:
    """Well-conditioned filters: nearly singular ones need a long run."""
    return energies.random_filters(1, d) + 2 * np.eye(d)


BOTH = {"direction": "both"}
LAPLACE = {"reference": "laplace"} | BOTH
# power: betas of this shape, where the adaptive ladder is longer than a table can afford
CASES = {
    "beta_bernoulli": Case(energies.beta_bernoulli, BOTH),
    "poisson_gamma (skewed)": Case(energies.poisson_gamma, BOTH),
    "skewed_bimodal": Case(energies.skewed_bimodal, BOTH),
    "student_location (heavy tails)": Case(energies.student_location, BOTH),
    "ridge (2-d)": Case(energies.ridge, BOTH),
    "radiata_pine (3-d)": Case(energies.radiata_pine, BOTH),
    "linear_regression (4-d)": Case(energies.linear_regression),
    "two_gaussians (4-d)": Case(
        lambda: energies.two_gaussians(4), {"betas": np.linspace(0, 1, 1501) ** 4}, 200
    ),
    "hierarchy (7-d)": Case(models.uncentred_hierarchy, BOTH),
    "laplace_experts (36-d)": Case(
        lambda: energies.laplace_experts(experts(36)), {"betas": np.linspace(0, 1, 1001)}, 200
    ),
    "student_t_experts (36-d)": Case(
        lambda: energies.student_t_experts(experts(36), np.linspace(3, 5, 36)),
        {"betas": np.linspace(0, 1, 2001) ** 2},
        200,
    ),
    "beta_bernoulli from laplace": Case(energies.beta_bernoulli, LAPLACE),
    "poisson_gamma from laplace": Case(energies.poisson_gamma, LAPLACE),
    "student_location from laplace": Case(energies.student_location, LAPLACE),
    "radiata_pine from laplace": Case(energies.radiata_pine, LAPLACE),
    "hierarchy from laplace": Case(models.uncentred_hierarchy, LAPLACE),
    "radiata_pine, ladder too short": Case(
        energies.radiata_pine, {"betas": np.linspace(0, 1, 9) ** 5}
    ),
}


@dataclass(frozen=True)
class Replicates:
    """Estimates of one method in n independent runs of one case."""

    case: str
    method: str
    n_temperatures: int
    error: np.ndarray
    """Log Z minus the exact one, shape (n,); NaN where there is no number."""
    mcse: np.ndarray
    ok: np.ndarray
    """Whether the status is ok, or that of a reverse run from exact starts, shape (n,)."""

    @property
    def z(self) -> np.ndarray:
        """Errors in units of mcse, of the runs whose status is ok."""
        return (self.error / self.mcse)[self.ok]

    @property
    def covered(self) -> np.ndarray:
        """Whether the 95% interval of each run whose status is ok covers the exact log Z."""
        return np.abs(self.z) < 1.96

    def row(self) -> str:
        """Line of the table."""
        z = "– | – | –"
        if self.ok.mean() > 0.05:
            z = f"{self.z.mean():+.2f} | {self.z.std():.2f} | {self.covered.mean():.1%}"
        shares = f"{self.ok.mean():.1%} | {np.nanmean(self.mcse):.3f}"
        return f"| {self.case} | `{self.method}` | {self.n_temperatures} | {z} | {shares} |"


def replicates(name: str) -> list[Replicates]:
    """Runs of a case along one frozen plan, each with rows of its own; one entry per method."""
    case = CASES[name]
    energy, n = case.make(), case.n
    settings = HaisSettings(draws=N_ROWS, chains=n, running=Running(cores=2), **case.settings)
    with warnings.catch_warnings():
        # each run that is not to be trusted warns
        warnings.simplefilter("ignore", EvidenceWarning)
        rngs = generators_from(make_rng("plan", name))
        prepared = prepare(energy.model, rngs.checks)
        block = block_for(prepared, settings, None)
        planned = plan_run(prepared, block, settings, rngs.pilot)
        generators = spawn_generators(make_rng("rows", name), n)
        forward = run_chains(planned, generators, N_ROWS, settings.running, report=None)
        if settings.direction == "both":
            starts = exact_rows(prepared, energy, n)
            runs = [
                both_directions(planned, settings, run, start, rng)
                for rng, run, start in zip(generators, forward, starts, strict=True)
            ]
        else:
            runs = [Directions([run], planned.reference) for run in forward]
    estimates = [estimates_of(run) for run in runs]
    return [
        gather(
            name,
            energy,
            planned.plan,
            [one for run in estimates for one in run if one.method == method],
        )
        for method in sorted({one.method for one in estimates[0]}, key=METHODS.index)
    ]


def exact_rows(prepared: Prepared, energy: Energy, n: int) -> np.ndarray:
    """Unconstrained draws of the posterior for n runs, shape (n, rows, d)."""
    draws = models.exact_draws(energy, make_rng("starts", energy.name), n * N_ROWS)
    return unconstrain(prepared.flat, draws["posterior"].to_dataset()).reshape(n, N_ROWS, -1)


def both_directions(
    planned: Planned,
    settings: HaisSettings,
    run: Annealed,
    start: np.ndarray,
    rng: np.random.Generator,
) -> Directions:
    """A forward run together with a reverse run from its own exact draws."""
    call = Call(settings, Generators(rng, rng, rng))
    reverse = Chains(call, start).back(planned, [run])
    return Directions([run], planned.reference, reverse, exact_starts=True)


def gather(case: str, energy: Energy, plan: Plan, found: list[LogZEstimate]) -> Replicates:
    """Estimates of one method as arrays."""
    return Replicates(
        case,
        found[0].method,
        plan.n_temperatures,
        np.array([one.log_z for one in found]) - energy.log_z,
        np.array([one.mcse for one in found]),
        np.array([one.status in ("ok", "upper_end") for one in found]),
    )


def law_rows(n_rows: int = 1024, n: int = 1000) -> list[str]:
    """Lines of the table of statuses: weights of mean one, log-normal and Pareto."""
    rng = make_rng("laws")
    laws = {
        **{f"log-normal, variance {v}": rng.normal(-v / 2, v**0.5, (n, n_rows)) for v in LAWS[0]},
        **{f"Pareto, shape {k}": k * rng.exponential(size=(n, n_rows)) for k in LAWS[1]},
    }
    rows = []
    for name, log_weight in laws.items():
        log_z = np.log1p(-float(name.split()[-1])) if name.startswith("Pareto") else 0.0
        found = [importance_log_z(one + log_z) for one in log_weight]
        one = Replicates(
            name,
            "importance",
            1,
            np.array([estimate.log_z for estimate in found]),
            np.array([estimate.mcse for estimate in found]),
            np.array([estimate.status == "ok" for estimate in found]),
        )
        shares = (one.ok.mean(), one.covered.mean(), np.sum(~one.covered) / n)
        rows.append(f"| {name} | " + " | ".join(f"{share:.0%}" for share in shares) + " |")
    return rows


def write_table(page: Path, name: str, lines: list[str]) -> None:
    """Replace what a page has between the marks of a table."""
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->\n"
    before, rest = page.read_text().split(begin)
    after = rest.split(end)[1]
    page.write_text("".join([before, begin, "\n", "\n".join(lines), "\n\n", end, after]))


def main(names: list[str]) -> None:
    """Measure cases and print their rows; write the page if they are all of them."""
    rows = [one.row() for name in names or CASES for one in replicates(name)]
    print("\n".join(rows))
    if not names:
        write_table(TABLES, "runs", [HEADER, *rows])
        write_table(PAGE, "laws", [HEADER_OF_LAWS, *law_rows()])


if __name__ == "__main__":
    main(sys.argv[1:])
