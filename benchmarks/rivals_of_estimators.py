"""pymbar and our estimators, given the same reduced potentials of the same tempered draws.

Draws are of ``lz.sample_tempered`` on targets whose log Z is known, thinned to 16,000 so that they
are nearly independent, as pymbar's errors ask for. Lines of JSON are kept in
``benchmarks/results/estimators.jsonl``; ``rivals_of_log_z.py --report`` puts a table on the page
of benchmarks.

Run it with ``uv run benchmarks/rivals_of_estimators.py``.
"""

import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rivals.targets import TARGETS
from side_by_side.processes import Record, Results

import pymc_logz as lz
from pymc_logz.estimators import TemperedDraws, mbar, rts

KEPT = Path(__file__).parent / "results" / "estimators.jsonl"
CHOSEN = ("ridge", "pine_density", "shells_5", "student_t_experts_6", "hierarchical_normal")
N_SEEDS, N_DRAWS = 4, 16_000


def thinned(tree: Any) -> TemperedDraws:
    """Every so-manieth iteration of all walkers of a run."""
    group = tree["tempering"].to_dataset()
    step = max(1, group["level"].size // N_DRAWS)
    level, ratio = (
        group[name].transpose("chain", "walker", "draw").to_numpy()[..., ::step]
        for name in ("level", "log_ratio")
    )
    rows = (-1, level.shape[-1])
    names = ("log_prior", "log_z_hat")
    return TemperedDraws(
        level.reshape(rows),
        ratio.reshape(rows),
        group["beta"].to_numpy(),
        *(group[name].to_numpy() for name in names),
    )


def by_pymbar(draws: TemperedDraws) -> tuple[float, float]:
    """log Z and its error of pymbar's MBAR."""
    import pymbar

    order = np.argsort(draws.level.ravel(), kind="stable")
    reduced = -draws.betas[:, None] * draws.log_ratio.ravel()[order]
    solved = pymbar.MBAR(reduced, draws.visits, solver_protocol="robust")
    found = solved.compute_free_energy_differences()
    return float(-found["Delta_f"][0, -1]), float(found["dDelta_f"][0, -1])


def by_ours(estimator: Callable[[TemperedDraws], Any]) -> Callable[..., tuple[float, float]]:
    """log Z and its error of an estimator of `pymc_logz.estimators`."""

    def run(draws: TemperedDraws) -> tuple[float, float]:
        curve = estimator(draws)
        return float(curve.log_z[-1]), float(curve.mcse[-1])

    return run


ESTIMATORS = {"rts": by_ours(rts), "mbar": by_ours(mbar), "pymbar.MBAR": by_pymbar}


def records_of(name: str, seed: int) -> list[Record]:
    """What each estimator says of one run; second calls are timed, for pymbar compiles."""
    energy = TARGETS[name]()
    tree = lz.sample_tempered(model=energy.model, random_seed=seed, progressbar=False)
    draws, records = thinned(tree), []
    for method, estimate in ESTIMATORS.items():
        estimate(draws)
        began = sum(os.times()[:4]), time.perf_counter()
        log_z, mcse = estimate(draws)
        records.append(
            {
                "target": name,
                "seed": seed,
                "method": method,
                "levels": draws.betas.size,
                "draws": draws.level.size,
                "exact": energy.log_z,
                "log_z": log_z,
                "mcse": mcse,
                "cpu_seconds": sum(os.times()[:4]) - began[0],
                "seconds": time.perf_counter() - began[1],
            }
        )
    return records


def table(records: list[Record]) -> str:
    """One line in Markdown for each target."""
    lines = [
        "| target | levels | draws | RMSE of rts, mbar, pymbar | stated errors | largest distance "
        "of mbar from pymbar | CPU ms: rts, mbar, pymbar |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in CHOSEN:
        here = [record for record in records if record["target"] == name]
        lines += [line_of(name, here)] if here else []
    return "\n".join(lines)


def line_of(name: str, here: list[Record]) -> str:
    """Line of a target; where an estimator refused to give a number, over the others."""

    def column(key: str) -> np.ndarray:
        """Numbers by method and seed."""
        return np.array([[r[key] for r in here if r["method"] == m] for m in ESTIMATORS])

    log_z = column("log_z")
    errors = np.sqrt(np.nanmean((log_z - here[0]["exact"]) ** 2, axis=1))
    stated, cost = (np.nanmedian(column(key), axis=1) for key in ("mcse", "cpu_seconds"))
    apart = np.nanmax(np.abs(log_z[1] - log_z[2]))
    counts = zip(ESTIMATORS, np.isnan(log_z).sum(axis=1), strict=True)
    refused = "".join(f"; {m} gave no number {n} of {log_z.shape[1]} times" for m, n in counts if n)
    columns = [", ".join(f"{v:.3f}" for v in values) for values in (errors, stated)]
    return (
        f"| {name} | {here[0]['levels']} | {here[0]['draws']:,} | {columns[0]}{refused} "
        f"| {columns[1]} | {apart:.1g} | {', '.join(f'{1000 * v:.0f}' for v in cost)} |"
    )


def main() -> None:
    """Measure what is missing, and print the table."""
    warnings.simplefilter("ignore")
    KEPT.parent.mkdir(exist_ok=True)
    results = Results(KEPT)
    for name in CHOSEN:
        for seed in range(1, N_SEEDS + 1):
            if not any((r["target"], r["seed"]) == (name, seed) for r in results.records):
                results.add(records_of(name, seed))
    print(table(results.records))


if __name__ == "__main__":
    main()
