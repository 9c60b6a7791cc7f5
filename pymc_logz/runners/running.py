"""How chains are run, which changes no bit of what they come to."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np

from pymc_logz.errors import warn
from pymc_logz.graphs.parcels import Part
from pymc_logz.runners.anneal import Annealed
from pymc_logz.runners.checkpoint import Keeper
from pymc_logz.runners.crew import Crew, check_executor, is_loss
from pymc_logz.runners.executor import finished, run_tasks
from pymc_logz.runners.jobs import (
    AnnealCourse,
    AnnealJob,
    Answer,
    Course,
    Errand,
    Job,
    Lacking,
    all_of,
    is_done,
    state_of,
)
from pymc_logz.runners.packing import leaves
from pymc_logz.runners.records import fields_of
from pymc_logz.runners.work import Work

SECONDS = 2.0
"""Of work between two times that a chain hands back what it has: it is what a kill can lose, and
all that is sent to and fro is small beside it."""

APART = ("rng", "n_evaluations")
"""Of a chain, what is no result of it."""

Report = Callable[[int], None]


@dataclass(frozen=True)
class Running:
    """Who runs the chains of a run, and what is kept of them on the way."""

    executor: Any = None
    """Any ``concurrent.futures.Executor``; None is threads of this process."""
    cores: int = 1
    """How many threads."""
    checkpoint: Path | None = None
    """Where a run is to be kept."""
    seed: Mapping[str, Any] | None = None
    """State of the generator that it is begun with, if it is kept."""
    keeper: Keeper | None = None
    """What keeps it, once it is known what it is a run of."""
    time_limit: float | None = None
    """Seconds without an answer after which a run is given up."""
    max_memory: int | None = None
    """Bytes of a process that chains may take to compute moves."""
    check_reproducible: bool = False
    """Whether one chain is run again here, and compared."""
    seconds: float | None = field(default_factory=lambda: SECONDS)

    def __post_init__(self) -> None:
        check_executor(self.executor)

    @property
    def is_plain(self) -> bool:
        """Whether chains run in threads of this process, each from its start to its end."""
        return self.executor is None and self.keeper is None and self.time_limit is None

    def refuse(self, where: str, *names: str) -> None:
        """Raise a ValueError if one of these was asked for where it does not apply."""
        for name in names:
            if getattr(self, name) is not None:
                raise ValueError(
                    f"{name} does not apply {where}: leave it out, or run sample_hais for each of "
                    "the two with it, and compare_evidence"
                )

    def noted[Tree](self, tree: Tree) -> Tree:
        """A tree that says where its run is kept, if it is."""
        if self.checkpoint is not None:
            tree.attrs["checkpoint"] = str(self.checkpoint.absolute())  # type: ignore[attr-defined]
        return tree

    def run(
        self,
        name: str,
        course: Course,
        jobs: Sequence[Any],
        report: Report | None = None,
        names: Sequence[str] | None = None,
    ) -> list["Outcome | None"]:
        """All chains at their ends; None for those that an interrupt has left out.

        Parameters
        ----------
        name
            Of these chains among all of the run.
        course
            What they have in common.
        jobs
            Where they start.
        report
            Told of moves or iterations made.
        names
            Of each, the same in every call, where no one call has all of them.
        """
        if names is None:
            if self.keeper is not None:
                name = self.keeper.numbered(name)
            names = [f"{name}.chain-{i}" for i in range(len(jobs))]
        if self.is_plain:
            told = _UntilDropped(report)
            tasks = [
                partial(naming, name, partial(_to_the_end, course, job, told))
                for name, job in zip(names, jobs, strict=True)
            ]
            outcomes: list[Any] = run_tasks(tasks, self.cores, told.dropped.set)
        else:
            outcomes = _Drive(self, names, course, jobs, report).run()
        if self.keeper is not None and any(one is None for one in outcomes):
            self.keeper.is_whole = False
        if self.check_reproducible and outcomes[0] is not None:
            check_same(name, outcomes[0], _to_the_end(course.counted(Work()), jobs[0], None))
        return outcomes


class _Dropped(Exception):
    """Ends a chain that is not wanted any more."""


@dataclass(frozen=True)
class _UntilDropped:
    """Report of chains on threads, which ends them after the block that they are in."""

    report: Report | None
    dropped: Event = field(default_factory=Event)

    def __call__(self, n_done: int) -> None:
        if self.dropped.is_set():
            raise _Dropped
        if self.report is not None:
            self.report(n_done)


@dataclass
class Outcome:
    """A chain: where it is, and the parts of its draws, the first one first."""

    job: Any
    parts: list[Any] = field(default_factory=list)


def check_same(name: str, one: Outcome, again: Outcome) -> None:
    """Warn if a chain that was run again has other bits."""
    differs = [
        i
        for i, pair in enumerate(zip(_arrays(one), _arrays(again), strict=False))
        if pair[0].tobytes() != pair[1].tobytes()
    ]
    if differs or len(_arrays(one)) != len(_arrays(again)):
        warn(
            f"the first chain of {name!r} has other bits when it is run again in this process: "
            "workers have other versions of the libraries, or another kind of processor. The "
            "numbers are as good as any, but no other run will repeat them"
        )


def _arrays(outcome: Outcome) -> list[np.ndarray]:
    """All that a chain came to, its parts joined."""
    parts = zip(*map(leaves, outcome.parts), strict=True)
    state = fields_of(outcome.job) or {}
    kept = [_arrays_in(state[name]) for name in sorted(state) if name not in APART]
    return [*(np.concatenate(part) for part in parts), *(one for some in kept for one in some)]


def _arrays_in(value: Any) -> list[np.ndarray]:
    """All numbers of nested records, in their order."""
    value = list(fields.values()) if (fields := fields_of(value)) is not None else value
    value = [value[key] for key in sorted(value)] if isinstance(value, Mapping) else value
    if isinstance(value, tuple | list):
        return [array for part in value for array in _arrays_in(part)]
    return [] if value is None else [np.asarray(value)]


def naming[Made](name: str, make: Callable[[], Made]) -> Made:
    """What is made; an error says of what it was."""
    try:
        return make()
    except Exception as error:
        error.add_note(f"This was {name!r}.")
        raise


def _to_the_end(course: Course, job: Job, report: Report | None) -> Outcome:
    job, part = job.advance(course, None, report)
    return Outcome(job, [] if part is None else [part])


class _Drive:
    """Chains that are carried on with by a crew until all are done; arguments as of `Running.run`.

    This process alone keeps and stores what they are: workers have nothing to lose but the work of
    a few seconds.
    """

    def __init__(
        self,
        how: Running,
        names: Sequence[str],
        course: Course,
        jobs: Sequence[Any],
        report: Report | None,
    ) -> None:
        self.how, self.names, self.course, self.report = how, names, Part(course), report
        self.outcomes = [self._restored(i, job) for i, job in enumerate(jobs)]
        self.crew = Crew(how.executor, min(how.cores, len(jobs)))
        self.pending: dict[Future, tuple[int, int]] = {}
        self.to_send = self.crew.n_workers

    def run(self) -> list[Outcome | None]:
        """Outcomes in the order of the chains."""
        done, _ = all_of([one.job for one in self.outcomes])
        if self.report is not None and done:
            self.report(done)
        hanging = False
        try:
            for i, one in enumerate(self.outcomes):
                if not is_done(one.job):
                    self._submit(i)
            hanging = not self._finish()
        except KeyboardInterrupt:
            self._take_what_is_there()
            ends = [is_done(one.job) for one in self.outcomes]
            # of a run that is kept nothing is lost by an end here, before what would come next
            if not any(ends) or (all(ends) and self.how.keeper is not None):
                raise
        finally:
            for future in self.pending:
                future.cancel()
            self.crew.stop(hanging=hanging)
        if hanging:
            self._give_up()
        return [one if is_done(one.job) else None for one in self.outcomes]

    def _finish(self) -> bool:
        """Whether all chains came to their ends, rather than to the time limit."""
        patience = self.how.time_limit
        while self.pending:
            done, _ = wait(list(self.pending), patience, FIRST_COMPLETED)
            if not done:
                return False
            # an error ends the run: answers that came along with it are not lost
            for future in sorted(done, key=lambda one: _error_of(one) is not None):
                self._take(future)
        return True

    def _take_what_is_there(self) -> None:
        """Answers that have come, after an interrupt."""
        for future in [one for one in self.pending if one.done() and _error_of(one) is None]:
            i, _ = self.pending.pop(future)
            if not isinstance(answer := future.result(), Lacking):
                self._keep(i, answer)

    def _take(self, future: Future) -> None:
        """What came of one errand, and the next one of the same chain."""
        i, n_losses = self.pending.pop(future)
        error = _error_of(future)
        if error is not None and is_loss(error):
            if n_losses == self.crew.n_losses:  # else its pool is replaced already
                self.crew.replace_lost(error)
                self.to_send = self.crew.n_workers
            self._submit(i)
            return
        if error is not None:
            error.add_note(f"This was {self.names[i]!r}. {self._kept()}")
            raise error
        answer = future.result()
        if isinstance(answer, Lacking):
            self._submit(i, takes_course=True)
            return
        self._keep(i, answer)
        if not is_done(answer.job):
            self._submit(i)

    def _submit(self, i: int, *, takes_course: bool = False) -> None:
        takes_course = takes_course or self.to_send > 0
        self.to_send -= 1
        job = self.outcomes[i].job
        errand = Errand(self.course, job, self.how.seconds, takes_course)
        self.pending[self.crew.submit(errand)] = i, self.crew.n_losses

    def _keep(self, i: int, answer: Answer) -> None:
        one = self.outcomes[i]
        before, now = one.job, answer.job
        one.job = now
        if answer.part is not None:
            one.parts.append(answer.part)
        self.course.thing.work.add(now.n_evaluations - before.n_evaluations)
        if self.how.keeper is not None:
            self.how.keeper.store_chain(self.names[i], now, answer.part)
        if self.report is not None and now.n_done > before.n_done:
            self.report(now.n_done - before.n_done)

    def _restored(self, i: int, job: Any) -> Outcome:
        """A chain as it was kept, or at its start."""
        if self.how.keeper is None:
            return Outcome(job)
        kept = self.how.keeper.chain(self.names[i])
        if kept is None:
            return Outcome(job)
        self.course.thing.work.add(kept[0].n_evaluations)
        return Outcome(job.resumed(kept[0]), kept[1])

    def _give_up(self) -> None:
        limit = self.how.time_limit
        names = [self.names[i] for i, _ in self.pending.values()]
        told = ", ".join(map(repr, names[:4])) + (", and others" if len(names) > 4 else "")
        sentence = f"nothing was heard of {told} within time_limit={limit} seconds"
        if not any(is_done(one.job) for one in self.outcomes):
            raise TimeoutError(
                f"{sentence}, and none is finished: the likelihood hangs, or is slower than that "
                f"for one block of moves. {self._kept()}"
            )
        warn(f"{sentence}, and what was not finished is left out")

    def _kept(self) -> str:
        """What is not lost, in a sentence."""
        if self.how.keeper is None:
            return "Nothing is kept: checkpoint= would have kept what was done."
        return f"What was done is in {str(self.how.keeper.path)!r}: the same call goes on from it."


def _error_of(future: Future) -> BaseException | None:
    return CancelledError() if future.cancelled() else future.exception()


def anneal_all(
    name: str,
    course: AnnealCourse,
    starts: Sequence[np.ndarray],
    generators: Sequence[np.random.Generator],
    running: Running,
    report: Report | None = None,
    n_before: int = 0,
) -> list[Annealed]:
    """Rows of independent chains at the end of a plan, those of chains that came there.

    Parameters
    ----------
    name
        Of these chains.
    course
        Moves and plan.
    starts
        Rows that chains start at, shape (n, d) each.
    generators
        One for each chain, which is moved on.
    running
        Who runs them.
    report
        Told of moves made.
    n_before
        Moves at the plan's start before the first weight.
    """
    k = course.plan.n_temperatures
    jobs = [
        AnnealJob(start, state_of(rng), k, n_before)
        for start, rng in zip(starts, generators, strict=True)
    ]
    outcomes = finished(running.run(name, course, jobs, report))
    for rng, one in zip(generators, outcomes, strict=False):
        rng.bit_generator.state = one.job.rng
    return [one.job.result(course.plan) for one in outcomes]
