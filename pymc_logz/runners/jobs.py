"""Chains as jobs: pieces of data that whoever has time carries on with, and hands back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np

from pymc_logz.runners.anneal import Plan, Underway, go_on, set_out, stay_at_end
from pymc_logz.runners.block import Block
from pymc_logz.runners.moves_of_rows import Work

Enough = Callable[[], bool]
"""Asked at the end of each block whether to hand back what there is."""


@dataclass(frozen=True)
class Course:
    """What all chains of a run have in common: it goes to a process once, and is compiled there."""

    block: Any
    """Compiled moves."""

    @property
    def work(self) -> Work:
        """Where evaluations are counted."""
        return self.block.work

    def compile(self) -> None:
        """Compile now."""
        self.block.compile()

    @property
    def keeps_parts(self) -> bool:
        """Whether a chain is of use that has not come to its end."""
        return False

    def counted(self, work: Work) -> Self:
        """The same, counting elsewhere."""
        return replace(self, block=self.block.counted(work))


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
        """The chain further on, with the same bits wherever it stops, and draws that it leaves."""


def is_done(job: Job) -> bool:
    """Whether a chain is at its end."""
    return job.n_done >= job.n_total


@dataclass(frozen=True)
class AnnealCourse(Course):
    """Moves and their frozen schedule."""

    block: Block
    plan: Plan


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


def state_of(rng: np.random.Generator) -> dict[str, Any]:
    """State of a generator: numbers and arrays."""
    return dict(rng.bit_generator.state)


def generator_at(state: Mapping[str, Any]) -> np.random.Generator:
    """Generator with this state."""
    bits = getattr(np.random, state["bit_generator"])()
    bits.state = state
    return np.random.Generator(bits)
