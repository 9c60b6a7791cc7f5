"""Chains that are run by any executor, kept as they go, given up, or run twice and compared."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from pymc_logz.errors import warn
from pymc_logz.long_runs.checkpoint import Keeper, begun_with, check_path, refusal
from pymc_logz.long_runs.identity import (
    DENSITY,
    REQUEST,
    SEED,
    as_text,
    departing,
    digest_of,
    identity_of_call,
    log_densities,
    points_of,
    request_of,
)
from pymc_logz.long_runs.records import fields_of
from pymc_logz.long_runs.workers import Answer, Part, Task, Workers, check_executor, n_workers
from pymc_logz.models.context import is_model
from pymc_logz.runners.arrays import leaves
from pymc_logz.runners.moves_of_rows import MovesOfRows, Report, Work
from pymc_logz.runners.running import (
    Course,
    Outcome,
    Running,
    generator_at,
    is_done,
    run_to_end,
    state_of,
)
from pymc_logz.seeds import random_generator
from pymc_logz.trees.chains import progress_in

SECONDS = 2.0
"""Of work between two times that a chain hands back what it has: it is what a kill can lose, and
all that is sent to and fro is small beside it."""


def begin_long_run(
    checkpoint: Any, random_seed: Any, **how: Any
) -> tuple["LongRunning", np.random.Generator | Any]:
    """How chains are run, and a seed: that of the checkpoint where none is given."""
    if checkpoint is None:
        return LongRunning(**how), random_seed
    path = check_path(checkpoint)
    is_kept = random_seed is None and path.exists()
    state = begun_with(path, SEED) if is_kept else state_of(random_generator(random_seed))
    rng = generator_at(state)
    return LongRunning(checkpoint=path, seed=state_of(rng), **how), rng


@dataclass(frozen=True)
class LongRunning(Running):
    """Who runs the chains of a run, and what is kept of them on the way."""

    seed: Mapping[str, Any] | None = None
    """State of the generator that it is begun with, if it is kept."""
    check_reproducible: bool = False
    """Whether one chain is run again here, and compared."""

    def __post_init__(self) -> None:
        check_executor(self.executor)

    @property
    def n_workers(self) -> int:
        """How many chains are run at a time."""
        return self.cores if self.executor is None else n_workers(self.executor)

    @contextmanager
    def kept(self, settings: Any, *of_what: Any, **arrays: np.ndarray | None) -> Iterator[Self]:
        """The same while a run is kept, if it is.

        ``settings`` and ``of_what`` are as in `identity_of_call`, ``arrays`` what the run is given
        beside them: draws that reverse rows start from, say.
        """
        check_executor(self.executor)  # again, as compiling may have loaded JAX
        block = of_what[1]
        if isinstance(self.executor, ProcessPoolExecutor) and isinstance(block, MovesOfRows):
            Part(Course(block)).pickles  # noqa: B018
        if self.checkpoint is None:
            yield self
            return
        given = {name: digest_of(one) for name, one in arrays.items() if one is not None}
        identity = {**identity_of_call(settings, *of_what), **given}
        begun = {SEED: self.seed, REQUEST: {} if given else request_of(settings, of_what[1])}
        with Keeper.opened(self.checkpoint, identity, begun) as keeper:
            _check_densities(keeper, of_what[0])
            yield replace(self, keeper=keeper)
            if keeper.is_complete:
                keeper.write("finished", True)

    def run(
        self,
        name: str,
        course: Any,
        jobs: Sequence[Any],
        report: Report | None = None,
        names: Sequence[str] | None = None,
    ) -> list[Outcome | None]:
        """As of `Running`, by whoever works, and kept."""
        if names is None:
            name = name if self.keeper is None else self.keeper.numbered(name)
            names = [f"{name}.chain-{i}" for i in range(len(jobs))]
        if self.executor is self.keeper is self.time_limit is None:
            outcomes = super().run(name, course, jobs, report, names)
        else:
            outcomes = _Drive(self, names, course, jobs, report).run()
        if self.keeper is not None and None in outcomes:
            self.keeper.is_complete = False
        first = outcomes[0]
        if self.check_reproducible and first is not None and is_done(first.job):
            check_same(name, first, run_to_end(course.counted(Work()), jobs[0], None))
        return outcomes


def _check_densities(keeper: Keeper, what: Any) -> None:
    """Refuse a model that has other log densities than when it was first run, but for noise."""
    models = what if isinstance(what, Mapping) else {"": getattr(what, "model", None)}
    for i, (name, model) in enumerate(models.items()):
        if not is_model(model) or not model.free_RVs:
            continue
        kept = keeper.read(f"{DENSITY}-{i}")
        rows, there = kept or (points_of(model), None)
        here = log_densities(model, rows)
        if there is None:
            keeper.write(f"{DENSITY}-{i}", (rows, here))
        elif here is not None and departing(there, here[None]).any():
            again = [one for _ in range(7) if (one := log_densities(model, rows)) is not None]
            if (apart := departing(there, np.stack([here, *again]))).any():
                at, of = int(np.argmax(apart)), f"model {name!r}" if name else "model"
                found = f"{there[at]:.8g} there, {here[at]:.8g} here"
                raise refusal(keeper.path, [f"{of} 'log density' at one point: {found}"])


def check_same(name: str, one: Outcome, again: Outcome | None) -> None:
    """Warn if a chain that was run again has another result."""
    if again is None or _results(one) != _results(again):
        warn(
            f"the first chain of {name!r} gives a different result when it is repeated in this "
            "process, because workers have other library versions or another kind of processor. "
            "The result is valid, but it cannot be reproduced bit for bit"
        )


def _results(outcome: Outcome) -> Any:
    """All that a chain came to, its parts joined."""
    parts = [np.concatenate(part) for part in zip(*map(leaves, outcome.parts), strict=True)]
    results = {"parts": parts, **(fields_of(outcome.job) or {})}
    return as_text({k: one for k, one in results.items() if k not in ("rng", "n_evaluations")})


class _Drive:
    """Chains that workers carry on with until all are done.

    This process alone keeps and stores what they are: workers have nothing to lose but seconds.
    """

    def __init__(
        self,
        how: LongRunning,
        names: Sequence[str],
        course: Any,
        jobs: Sequence[Any],
        report: Report | None,
    ) -> None:
        self.how, self.course, self.report = how, Part(course), report or (lambda n_done: None)
        self.outcomes = {
            name: self._restored(name, job) for name, job in zip(names, jobs, strict=True)
        }
        self.workers = Workers(how.executor, min(how.cores, len(jobs)), self._submit, self._kept())
        self.n_losses, self.to_send = 0, self.workers.n

    def run(self) -> list[Outcome | None]:
        """Outcomes in the order of the chains."""
        if done := sum(one.job.n_done for one in self.outcomes.values()):
            self.report(done)
        with self.workers:
            try:
                for name, one in self.outcomes.items():
                    if not is_done(one.job):
                        self._submit(name)
                for name, answer in self.workers.answers(self.how.time_limit):
                    self._take(name, answer)
            except KeyboardInterrupt:
                for name, answer in self.workers.finished_answers():
                    self._keep(name, answer)
                ends = [is_done(one.job) for one in self.outcomes.values()]
                # of a run that is kept nothing is lost by an end before what would come next
                if not any(ends) or (all(ends) and self.how.keeper is not None):
                    raise KeyboardInterrupt(f"interrupted. {self._kept()}") from None
        if self.workers.hanging:
            self._give_up(self.workers.hanging)
        return [one if is_done(one.job) else None for one in self.outcomes.values()]

    def _take(self, name: str, answer: Answer | None) -> None:
        """What came of one task, if its course was there, and the next one of the same chain."""
        self._keep(name, answer)
        if not is_done(self.outcomes[name].job):
            self._submit(name, takes_course=answer is None)

    def _submit(self, name: str, *, takes_course: bool = False) -> None:
        if self.n_losses < self.workers.n_losses:  # whoever comes in their place knows nothing
            self.n_losses, self.to_send = self.workers.n_losses, self.workers.n
        takes_course = takes_course or self.to_send > 0
        self.to_send -= 1
        job = self.outcomes[name].job
        self.workers.submit(name, Task(self.course, job, SECONDS, takes_course))

    def _keep(self, name: str, answer: Answer | None) -> None:
        if answer is None:
            return
        one = self.outcomes[name]
        before, (now, part) = one.job, answer
        one.job = now
        if part is not None:
            one.parts.append(part)
        self.course.thing.work.add(now.n_evaluations - before.n_evaluations)
        if self.how.keeper is not None:
            self.how.keeper.store_chain(name, now, part)
        if now.n_done > before.n_done:
            self.report(now.n_done - before.n_done)

    def _restored(self, name: str, job: Any) -> Outcome:
        """A chain as it was kept, or at its start."""
        kept = None if self.how.keeper is None else self.how.keeper.chain(name)
        if kept is None:
            return Outcome(job)
        self.course.thing.work.add(kept[0].n_evaluations)
        return Outcome(job.resumed(kept[0]), kept[1])

    def _give_up(self, names: Sequence[str]) -> None:
        limit = self.how.time_limit
        which = ", ".join(map(repr, names[:4])) + (", and others" if len(names) > 4 else "")
        sentence = f"{which} did not respond within time_limit={limit} seconds"
        if not any(is_done(one.job) for one in self.outcomes.values()):
            raise TimeoutError(
                f"{sentence}, and none is finished: the likelihood hangs, or is slower than that "
                f"for one block of moves. {self._kept()}"
            )
        warn(f"{sentence}, and what was not finished is left out")

    def _kept(self) -> str:
        """What is not lost, in a sentence."""
        if self.how.keeper is None:
            return "Nothing was stored; with checkpoint= the progress would have been stored."
        return progress_in(self.how.keeper.path)
