"""How often the error bars of a bridge are right: replicates from exact draws of the posterior.

Run it with ``uv run benchmarks/tables/bridge_coverage.py``: it measures all targets, and writes a
table of ``docs/theory/coverage_tables.txt``, worst first. ``--runs`` is how many replicates of
each.
"""

import argparse
import logging
import sys
import warnings
from pathlib import Path

if __name__ == "__main__":
    sys.path.pop(0)  # this folder, whose coverage.py numba would take for the package
sys.path.append(str(Path(__file__).parents[2] / "tests"))

import numpy as np
from adversary import CASES
from adversary.routes import ROUTES

PAGE = Path(__file__).parents[2] / "docs" / "theory" / "coverage_tables.txt"
BEGIN, END = "<!-- begin bridges -->\n", "<!-- end bridges -->\n"
TARGETS = [
    "beta_binomial",
    "beta_binomial_at_the_edge",
    "gamma_poisson",
    "prior_in_conflict",
    "dirichlet_multinomial",
    "forty_dimensions",
    "exponential_waits",
    "two_even_modes",
    "two_uneven_modes",
]


def main() -> None:
    """Measure, show, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    given = parser.parse_args()
    logging.disable(logging.ERROR)
    rows = [row for name in TARGETS for row in replicates(name, given.runs)]
    rows.sort()
    lines = [
        "| target | estimator | covered | mean z | sd z | status `ok` | mean mcse |",
        "|---|---|---|---|---|---|---|",
        *(line for _, line in rows),
    ]
    print("\n".join(lines))
    before, rest = PAGE.read_text().split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text("".join([before, BEGIN, "\n", "\n".join(lines), "\n\n", END, after]))


def replicates(name: str, n_runs: int) -> list[tuple[float, str]]:
    """Coverage and line of the table of each estimator; of runs whose status is ok."""
    case, route = CASES[name], ROUTES["bridge_of_exact_draws"]
    model, exact = case.build(), float(case.exact())
    found: dict[str, list[tuple[float, float, bool]]] = {}
    for seed in range(n_runs):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            group = route.run(case, model, seed)["evidence"].to_dataset()
        for i, estimator in enumerate(group["estimator"].values):
            one = group.isel(estimator=i)
            ok = str(one["status"].item()) == "ok"
            found.setdefault(str(estimator), []).append(
                (float(one["log_z"]) - exact, float(one["mcse"]), ok)
            )
    rows = []
    for estimator, values in found.items():
        error, mcse, ok = np.array(values).T
        sound = ok.astype(bool)
        z = error[sound] / mcse[sound]
        covered = float(np.mean(np.abs(z) < 1.96)) if sound.any() else np.nan
        cells = (
            f"`{name}`",
            f"`{estimator}`",
            f"{covered:.1%}",
            f"{z.mean():+.2f}",
            f"{z.std():.2f}",
            f"{ok.mean():.1%}",
            f"{mcse[sound].mean():.1g}",
        )
        rows.append((covered, f"| {' | '.join(cells)} |"))
    print(name, [row[1] for row in rows], flush=True)
    return rows


if __name__ == "__main__":
    main()
