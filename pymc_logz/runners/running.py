"""Chains as jobs, and how they are run, which changes no bit of what they come to.

A job is a piece of data that whoever has time carries on with, and hands back.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pymc_logz.arguments import as_bytes, check_flag, check_integer, check_positive
from pymc_logz.errors import logger, warn
from pymc_logz.graphs.threads import end_calls, n_processors
from pymc_logz.runners.anneal import Annealed, Plan, Underway, arrived, go_on, start_annealing, stay
from pymc_logz.runners.block import Block
from pymc_logz.runners.moves_of_rows import Report, Work
from pymc_logz.wings import from_wing

if TYPE_CHECKING:
    import os

    import xarray as xr

Task = Callable[[], object]


@dataclass(frozen=True)
class Course:
    """What all chains of a run have in common: it goes to a process once, and is compiled there."""

    block: Any

    @property
    def work(self) -> Work:
        """Where evaluations are counted."""
        return self.block.work

    def compile(self) -> None:
        """Compile now."""
        self.block.compile()

    def counted(self, work: Work) -> Self:
        """The same, counting elsewhere."""
        return replace(self, block=self.block.counted(work))


class Job:
    """One chain: arrays and numbers only, so that it can be sent, stored, and gone on with.

    It has ``n_done``, the moves or iterations made, ``n_total``, those of the whole chain, and
    ``n_evaluations``, those of the model so far.
    """

    def resumed(self, kept: Self) -> Self:
        """A chain as it was kept, to be as long as this one."""
        return kept

    def advance(self, course: Any, report: Report | None) -> tuple[Any, Any]:
        """The chain further on, with the same bits wherever it stops, and draws that it leaves."""
        raise NotImplementedError


def is_done(job: Any) -> bool:
    """Whether a chain is at its end."""
    return job.n_done >= job.n_total


@dataclass(frozen=True)
class AnnealCourse(Course):
    """Moves and their frozen schedule."""

    block: Block
    plan: Plan


@dataclass(frozen=True)
class AnnealJob(Job):
    """Rows of one chain on their way along a plan."""

    start: np.ndarray | None
    """Rows before the first move, shape (n, d); None once they are under way."""
    rng: dict[str, Any]
    """State of the generator of all noise."""
    n_total: int
    """K, the moves of the plan."""
    n_before: int = 0
    """Moves at the plan's own start, before the first weight."""
    underway: Underway | None = None
    data: np.ndarray | None = None
    """What groups of rows bring along, shape (groups, D)."""
    n_evaluations: int = 0

    @property
    def n_done(self) -> int:
        """Moves made along the plan."""
        return 0 if self.underway is None else self.underway.n_moves

    def advance(self, course: AnnealCourse, report: Report | None) -> tuple["AnnealJob", None]:
        """Rows further on; see `Job`."""
        rng, block, plan = generator_at(self.rng), course.block, course.plan
        start, underway = self.start, self.underway
        if self.data is not None:
            rows: Any = start if underway is None else underway.log_weight
            block = block.given(self.data, len(rows))
        if start is not None:
            if self.n_before:
                start = stay(block, plan, start, self.n_before, rng)
            underway = start_annealing(block, plan, start)
        assert underway is not None
        underway = go_on(block, plan, underway, rng, report)
        return replace(self, start=None, rng=state_of(rng), underway=underway), None


def state_of(rng: np.random.Generator) -> dict[str, Any]:
    """State of a generator: numbers and arrays."""
    return dict(rng.bit_generator.state)


def generator_at(state: Mapping[str, Any]) -> np.random.Generator:
    """Generator with this state."""
    bits = getattr(np.random, state["bit_generator"])()
    bits.state = state
    return np.random.Generator(bits)


def run_tasks(
    tasks: Sequence[Task],
    cores: int,
    stop: Callable[[], None] | None = None,
    *,
    at_once: bool = False,
) -> list[object | None]:
    """Results of the tasks in their order, whatever the order they end in.

    An interrupt (Ctrl-C) stops the run and keeps what is finished: unfinished tasks have the result
    None. It is raised again if nothing is finished. On ``cores`` threads, tasks that have begun are
    finished first, unless there is a second interrupt; then ``stop`` makes them end soon (None
    where they cannot). With ``at_once`` they are on threads in any case, the first interrupt makes
    them end soon, and their results are what they have by then.
    """
    if not at_once and (cores == 1 or len(tasks) == 1):
        return _run_here(tasks)
    with ThreadPoolExecutor(min(cores, len(tasks))) as executor:
        futures = [executor.submit(task) for task in tasks]
        try:
            for future in as_completed(futures):
                future.result()
        except KeyboardInterrupt:
            _finish(futures, stop, at_once)
            # also of those that ended while the others were being stopped
            if all(_result_of(future) is None for future in futures):
                raise
    return [_result_of(future) for future in futures]


def _result_of(future: Future) -> object | None:
    """What a task came to; None if it failed, or was never begun."""
    return None if future.cancelled() or future.exception() else future.result()


def finished(results: Sequence[object | None], what: str = "chains") -> list[Any]:
    """Results that are there, after a warning if an interrupt left some out."""
    done = [result for result in results if result is not None]
    if len(done) < len(results):
        warn(
            f"interrupted: {len(done)} of {len(results)} {what} are finished, and only they "
            "are used"
        )
    return done


def _run_here(tasks: Sequence[Task]) -> list[object | None]:
    results: list[object | None] = [None] * len(tasks)
    for i, task in enumerate(tasks):
        try:
            results[i] = task()
        except KeyboardInterrupt:
            if i == 0:
                raise
            logger.warning("Interrupted: %d of %d chains are returned.", i, len(tasks))
            break
    return results


def _finish(futures: Sequence[Future], stop: Callable[[], None] | None, at_once: bool) -> None:
    """Wait for tasks that have begun, and start no other; see `run_tasks`."""
    begun = [future for future in futures if not future.cancel()]
    n_left = sum(not future.done() for future in begun)
    if stop is not None and at_once:
        stop()
        logger.warning("Interrupted: chains stop here; the draws made so far are returned.")
    elif n_left:
        again = "" if stop is None else "; press Ctrl-C again to drop them"
        logger.warning("Interrupted: finishing %d of %d chains%s.", n_left, len(futures), again)
    try:
        wait(begun)
    except KeyboardInterrupt:
        if stop is None:
            raise
        stop()
        end_calls(begun)


@dataclass
class Outcome:
    """A chain: where it is, and the parts of its draws, the first one first."""

    job: Any
    parts: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Running:
    """Threads of this process run chains, and nothing is kept: more is in `long_runs.running`."""

    cores: int = 1
    calls_at_once: int | None = None
    """Calls of one Op that threads may make at a time; None is one for each processor."""
    executor: Any = None
    """Any ``concurrent.futures.Executor``; None is threads of this process."""
    time_limit: float | None = None
    """Seconds without an answer after which a run is given up."""
    max_memory: int | None = None
    """Bytes of a process that chains may take to compute moves."""
    keeper: Any = None
    """What keeps the run, if anything does."""
    checkpoint: Path | None = None
    """Where a run is to be kept."""

    @property
    def n_workers(self) -> int:
        """How many chains are run at a time."""
        return self.cores

    def refuse(self, where: str, *names: str) -> None:
        """Raise a ValueError if one of these options is given where it does not apply."""
        for name in names:
            if getattr(self, name, None) is not None:
                raise ValueError(f"{name} does not apply {where}")

    @contextmanager
    def kept(self, settings: Any, *of_what: Any, **arrays: np.ndarray | None) -> Iterator[Self]:
        """The same while a run is kept, if it is."""
        yield self

    def noted(self, tree: "xr.DataTree") -> "xr.DataTree":
        """A tree that says where its run is kept, if it is."""
        if self.checkpoint is not None:
            tree.attrs["checkpoint"] = str(self.checkpoint.absolute())
        return tree

    def run(
        self,
        name: str,
        course: Any,
        jobs: Sequence[Any],
        report: Report | None = None,
        names: Sequence[str] | None = None,
    ) -> list[Outcome | None]:
        """All chains at their ends; None for those that an interrupt has left without draws."""
        # names are those of chains, the same in every call, where no one call has all of them
        if names is None:
            names = [f"{name}.chain-{i}" for i in range(len(jobs))]
        stopped = Event()

        def reported(n_moves: int) -> bool:
            if report is not None:
                report(n_moves)
            return stopped.is_set()

        tasks = [
            partial(naming, name, partial(run_to_end, course, job, reported))
            for name, job in zip(names, jobs, strict=True)
        ]
        return run_tasks(  # type: ignore[return-value]
            tasks, self.cores, stopped.set, at_once=getattr(course, "keeps_parts", False)
        )


def running_for(
    random_seed: Any,
    chains: int = 1,
    executor: Any = None,
    checkpoint: "str | os.PathLike | None" = None,
    time_limit: float | None = None,
    max_memory: Any = None,
    check_reproducible: bool = False,
    cores: int | None = None,
) -> tuple[Running, Any]:
    """How chains are run, by arguments of `pymc_logz.sample_hais`; and a seed, maybe a kept one."""
    check_integer(1, chains=chains)
    how: dict[str, Any] = {"calls_at_once": cores, "max_memory": as_bytes(max_memory)}
    if cores is None:
        cores = min(chains, n_processors())
    elif executor is not None:
        raise ValueError(
            f"cores={cores!r} has no effect here: it sets the number of threads of this process, "
            "but executor runs the chains; leave it out"
        )
    else:
        check_integer(1, cores=cores)
    check_positive("seconds", one=True, time_limit=time_limit)
    check_flag(check_reproducible=check_reproducible)
    how["cores"] = cores
    if not check_reproducible and (executor, checkpoint, time_limit) == (None,) * 3:
        return Running(**how), random_seed
    how |= {
        "executor": executor,
        "time_limit": time_limit,
        "check_reproducible": check_reproducible,
    }
    return from_wing("begin_long_run")(checkpoint, random_seed, **how)


def naming[Made](name: str, make: Callable[[], Made]) -> Made:
    """What is made; an error says of what it was."""
    try:
        return make()
    except Exception as error:
        error.add_note(f"This was {name!r}.")
        raise


def run_to_end(course: Any, job: Job, report: Report | None) -> Outcome | None:
    """A chain at its end; or where the report ends it, if it has left draws behind."""
    job, part = job.advance(course, report)
    if not is_done(job) and part is None:
        return None
    return Outcome(job, [] if part is None else [part])


def anneal_each(
    name: str,
    course: AnnealCourse,
    starts: Sequence[np.ndarray],
    generators: Sequence[np.random.Generator],
    running: Running,
    report: Report | None = None,
    n_before: int = 0,
) -> list[Annealed | None]:
    """Rows of independent chains at the end of a plan, None if not there; generators move on."""
    k = course.plan.n_temperatures
    jobs = [
        AnnealJob(start, state_of(rng), k, n_before)
        for start, rng in zip(starts, generators, strict=True)
    ]
    outcomes = running.run(name, course, jobs, report)
    for rng, one in zip(generators, outcomes, strict=True):
        if one is not None:
            rng.bit_generator.state = one.job.rng
    return [None if one is None else arrived(course.plan, one.job.underway) for one in outcomes]
