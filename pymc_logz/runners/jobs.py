"""Chains as jobs: pieces of data that whoever has time carries on with, and hands back."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from pymc_logz.graphs.parcels import Part, Store
from pymc_logz.paths.geometric import AnnealingPath
from pymc_logz.runners.anneal import Annealed, Plan, Underway, arrived, go_on, set_out
from pymc_logz.runners.block import Block, no_draws
from pymc_logz.runners.sample import stay_at_end
from pymc_logz.runners.work import Work

Enough = Callable[[], bool]
"""Asked at the end of each block whether to hand back what there is."""


class Course(Protocol):
    """What all chains of a run have in common: it goes to a process once, and is compiled there."""

    @property
    def work(self) -> Work:
        """Where evaluations are counted."""

    def compile(self) -> None:
        """Compile now."""

    def counted(self, work: Work) -> Self:
        """The same, counting elsewhere."""


class Job(Protocol):
    """One chain: arrays and numbers only, so that it can be sent, stored, and gone on with."""

    @property
    def n_done(self) -> int:
        """Moves or iterations made."""

    @property
    def n_total(self) -> int:
        """Those of the whole chain."""

    def resumed(self, kept: Self) -> Self:
        """A chain as it was kept, to be as long as this one."""

    def advance(self, course: Any, enough: Enough | None, report: Any = None) -> tuple[Self, Any]:
        """The chain further on, and what it leaves behind: None, or a part of its draws.

        The bits of the whole do not depend on where it stops on the way.
        """


def is_done(job: Job) -> bool:
    """Whether a chain is at its end."""
    return job.n_done >= job.n_total


# -- annealing -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class AnnealCourse:
    """Moves and their frozen schedule."""

    block: Block
    plan: Plan

    @property
    def work(self) -> Work:
        """Where evaluations are counted."""
        return self.block.work

    def compile(self) -> None:
        """Compile the moves."""
        self.block.compile()

    def counted(self, work: Work) -> "AnnealCourse":
        """The same, counting elsewhere."""
        return replace(self, block=self.block.counted(work))

    def __getstate__(self) -> dict[str, Any]:
        part = self.block.part()
        moved = changed_values(self.block.asked, part.thing.asked)
        return {"part": part, "values": moved, "plan": self.plan}

    def __setstate__(self, state: dict[str, Any]) -> None:
        block = state["part"]
        values = with_changes(block.asked, state["values"])
        block = block.along(values, sample_reference=no_draws)
        for name, value in (("block", block), ("plan", state["plan"])):
            object.__setattr__(self, name, value)


def changed_values(path: AnnealingPath, base: AnnealingPath) -> dict[int, np.ndarray]:
    """Values of a path's parameters that are not those of another one with the same parameters."""
    pairs = enumerate(zip(path.values, base.values, strict=True))
    return {i: new for i, (new, old) in pairs if not _same(new, old)}


def with_changes(base: AnnealingPath, changes: Mapping[int, np.ndarray]) -> list[np.ndarray]:
    """Values of a path's parameters after these changes."""
    return [changes.get(i, value) for i, value in enumerate(base.values)]


def _same(one: np.ndarray, two: np.ndarray) -> bool:
    if one is two:
        return True
    return one.shape == two.shape and one.dtype == two.dtype and one.tobytes() == two.tobytes()


@dataclass(frozen=True)
class AnnealJob:
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
    """Evaluations of the model so far."""

    @property
    def n_done(self) -> int:
        """Moves made along the plan."""
        return 0 if self.underway is None else self.underway.n_moves

    def resumed(self, kept: "AnnealJob") -> "AnnealJob":
        """A chain as it was kept."""
        return kept

    def advance(
        self, course: AnnealCourse, enough: Enough | None, report: Any = None
    ) -> tuple["AnnealJob", None]:
        """Rows further on; see `Job`."""
        rng, block, plan = generator_at(self.rng), course.block, course.plan
        underway = self.underway
        if self.data is not None:
            n_rows = len(self.start if underway is None else underway.tally.log_weight)  # type: ignore[arg-type]
            block = block.given(self.data, n_rows)
        if underway is None:
            assert self.start is not None
            start = self.start
            if self.n_before:
                start = stay_at_end(block, plan.reverse(), start, self.n_before, rng)
            underway = set_out(block, plan, start)
        underway = go_on(block, plan, underway, rng, report, enough)
        return replace(self, start=None, rng=state_of(rng), underway=underway), None

    def result(self, plan: Plan) -> Annealed:
        """Rows at the end of the plan."""
        assert self.underway is not None
        return arrived(plan, self.underway)


def state_of(rng: np.random.Generator) -> dict[str, Any]:
    """State of a generator: numbers and arrays."""
    return dict(rng.bit_generator.state)


def generator_at(state: Mapping[str, Any]) -> np.random.Generator:
    """Generator with this state."""
    bits = getattr(np.random, state["bit_generator"])()
    bits.state = state
    return np.random.Generator(bits)


# -- errands -------------------------------------------------------------------------------------


class Answer(NamedTuple):
    """What came of an errand."""

    job: Any
    part: Any


class Lacking(NamedTuple):
    """Answer of a process that has not been sent the course."""

    token: str


def carried_on(course: Any, job: Any, seconds: float | None) -> Answer:
    """A job after so many seconds of work at least, or at its end; compiling does not count."""
    course.compile()
    work, deadline = Work(), None if seconds is None else time.monotonic() + seconds
    enough = None if deadline is None else lambda: time.monotonic() >= deadline
    job, part = job.advance(course.counted(work), enough)
    return Answer(replace(job, n_evaluations=job.n_evaluations + work.done), part)


class Errand:
    """A job to be carried on with, here or in another process.

    Called here it uses the course as it is. On its way to another process it takes the course along
    only if it is told to; a process that does not have it answers `Lacking`.

    Parameters
    ----------
    course
        What the job is about.
    job
        Where it is.
    seconds
        How long to work on it; None is to its end.
    takes_course
        Whether the course goes along.
    """

    def __init__(self, course: Part, job: Any, seconds: float | None, takes_course: bool) -> None:
        self.course, self.job, self.seconds, self.takes_course = course, job, seconds, takes_course

    def __call__(self) -> Answer | Lacking:
        """Do it in the process that it was made in."""
        return carried_on(self.course.thing, self.job, self.seconds)

    def __reduce__(self) -> tuple[Any, ...]:
        parcels = dict(self.course.parcels) if self.takes_course else {}
        return ArrivedErrand, (self.course.token, parcels, self.job, self.seconds)


class ArrivedErrand:
    """An errand in another process."""

    store: Store = Store()
    """Courses that this process has."""

    def __init__(
        self, token: str, parcels: Mapping[str, bytes], job: Any, seconds: float | None
    ) -> None:
        self.token, self.parcels, self.job, self.seconds = token, parcels, job, seconds

    def __call__(self) -> Answer | Lacking:
        """Do it, if the course is here."""
        self.store.take_in(self.parcels)
        course = self.store.get(self.token)
        if course is None:
            return Lacking(self.token)
        return carried_on(course, self.job, self.seconds)

    def __reduce__(self) -> tuple[Any, ...]:
        return ArrivedErrand, (self.token, self.parcels, self.job, self.seconds)


def all_of(jobs: Sequence[Any]) -> tuple[int, int]:
    """Moves or iterations made by all chains, and how many there are to make."""
    return sum(job.n_done for job in jobs), sum(job.n_total for job in jobs)
