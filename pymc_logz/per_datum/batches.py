"""Data rows in batches, each of which is a unit of work."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from pymc_logz.estimators import LogZEstimate, importance_log_z
from pymc_logz.hais.settings import HaisSettings
from pymc_logz.runners.anneal import Annealed, Plan
from pymc_logz.runners.block import Block
from pymc_logz.runners.jobs import AnnealCourse, AnnealJob, Enough, state_of
from pymc_logz.runners.progress import report_count
from pymc_logz.seeds import spawn_generators

AHEAD = 4
"""Batches for each worker whose starts are drawn at a time."""


@dataclass(frozen=True)
class PerDatumSettings(HaisSettings):
    """What `pymc_logz.marginal_log_likelihood` was asked for; see there."""

    method: ClassVar[str] = "per_datum"


@dataclass(frozen=True)
class BatchResult:
    """What is kept of a batch."""

    estimates: list[LogZEstimate]
    """One per data row."""
    annealed: Annealed
    """Statistics along the ladder; the rows themselves are dropped."""


@dataclass(frozen=True)
class BatchJob:
    """Particles of a batch of data rows on their way, and in the end what they come to."""

    job: AnnealJob | None
    """None once they are there."""
    n_total: int
    """Moves of the plan."""
    result: BatchResult | None = None
    n_evaluations: int = 0

    @property
    def n_done(self) -> int:
        """Moves made."""
        return self.n_total if self.job is None else self.job.n_done

    def resumed(self, kept: "BatchJob") -> "BatchJob":
        """A batch as it was kept."""
        return kept

    def advance(
        self, course: AnnealCourse, enough: Enough | None, report: Any = None
    ) -> tuple["BatchJob", None]:
        """Particles further on; of those that are there only the estimates are left."""
        assert self.job is not None
        assert self.job.data is not None
        n_data = len(self.job.data)
        job, _ = self.job.advance(course, enough, report)
        if job.n_done < job.n_total:
            return replace(self, job=job), None
        return replace(self, job=None, result=reduced(job.result(course.plan), n_data)), None


def run_batches(
    block: Block,
    plan: Plan,
    batches: list[np.ndarray],
    settings: HaisSettings,
    rng: np.random.Generator,
    progress: Any,
) -> list[BatchResult | None]:
    """Anneal fresh particles for each batch, with a generator of its own; None if interrupted."""
    n_parts, k = len(batches), plan.n_temperatures
    line = f"Annealing: {k} temperature{'s' if k > 1 else ''}, {n_parts} batches"
    report = report_count(progress, line, n_parts * k, f"fewer draws than {settings.draws}")

    generators, ends = spawn_generators(rng, n_parts), np.cumsum([len(data) for data in batches])
    names = [
        f"data-rows-{end - len(data)}-to-{end - 1}.chain-{i}"
        for i, (data, end) in enumerate(zip(batches, ends, strict=True))
    ]
    course, results = AnnealCourse(block, plan), list[BatchResult | None]()
    # no more starts at a time than keep workers busy
    n_ahead = AHEAD * settings.how.n_workers
    for first in range(0, n_parts, n_ahead):
        part = slice(first, first + n_ahead)
        jobs = []
        for data, rng in zip(batches[part], generators[part], strict=True):
            start = block.path.sample_reference(rng, len(data) * settings.draws)
            jobs.append(BatchJob(AnnealJob(start, state_of(rng), k, data=data), k))
        try:
            found = settings.how.run("batches", course, jobs, report, names[part])
        except KeyboardInterrupt:
            if not results:
                raise
            break
        results += [None if one is None else one.job.result for one in found]
        if None in results:  # interrupted
            break
    return results + [None] * (n_parts - len(results))


def reduced(annealed: Annealed, n_data: int) -> BatchResult:
    """What is kept of a batch of so many data rows."""
    weights, nothing = annealed.log_weight.reshape(n_data, -1), np.empty(0)
    return BatchResult(
        [importance_log_z(log_weight, method="hais") for log_weight in weights],
        annealed._replace(
            position=nothing, log_reference=nothing, log_ratio=nothing, log_weight=nothing
        ),
    )
