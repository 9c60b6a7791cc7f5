"""PyMC's progress bar, what runners report to it, and how long a run will take."""

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from pymc_logz.errors import logger

BAR_LENGTH = 1000
"""Resolution of a bar that follows beta."""
BRIDGE = "lz.evidence(idata, model) with draws of pm.sample, which needs no pilot"
"""What is cheaper where a pilot, or what follows it, is slow."""


@dataclass
class Shown:
    """The bar of the call that is under way, and the line of its pilots, if it has one."""

    progress: Any
    pilots: "Pilots | None" = None


_shown: ContextVar[Shown | None] = ContextVar("shown", default=None)


@contextmanager
def progress_bar(shown: bool) -> Iterator[Any]:
    """PyMC's progress bar, or that of the call around; does nothing where none is wanted."""
    from pymc.progress_bar import create_simple_progress

    around = _shown.get()
    if shown and around is not None:
        yield around.progress
        return
    progress = create_simple_progress(shown)
    with progress:
        token = _shown.set(Shown(progress) if shown else None)
        # what is logged appears above the bar, which draws itself over what it knows nothing of
        handlers = [
            one
            for one in logging.getLogger("pymc").handlers
            if shown and isinstance(one, logging.StreamHandler) and one.stream is sys.__stderr__
        ]
        for one in handlers:
            one.setStream(sys.stderr)
        try:
            yield progress
        finally:
            for one in handlers:
                one.setStream(sys.__stderr__)
            _shown.reset(token)


def is_shown() -> bool:
    """Whether the call that is under way shows its progress."""
    return _shown.get() is not None


@contextmanager
def line(doing: str, cheaper: str = "") -> Iterator[None]:
    """A line of the bar while something takes that cannot be counted, and what is cheaper."""
    shown, started = _shown.get(), time.monotonic()
    text = "%s is slow on this model. Cheaper: %s."
    watch = threading.Timer(TimeLeft.long / 2, logger.info, (text, doing, cheaper))
    watch.daemon = True
    if cheaper:
        watch.start()
    if shown is not None:
        task = shown.progress.add_task(doing, completed=0, total=None)
    try:
        yield
    finally:
        watch.cancel()
        if shown is not None:
            # the line of what nobody has waited for goes
            took = time.monotonic() - started
            shown.progress.update(task, refresh=True, completed=1, total=1, visible=took >= 1)


class Pilots:
    """The line of the bar that pilots of a call share."""

    def __init__(self, progress: Any) -> None:
        # it shows once there is something to report: what comes before has lines of its own
        task = progress.add_task("Pilot", completed=0, total=BAR_LENGTH, visible=False)
        self.show = partial(progress.update, task, visible=True)
        self.reached: list[float] = []
        self.n_moves, self.started, self.is_slow = 0, time.monotonic(), False

    def count_beta(self, beta: float) -> None:
        """Another inverse temperature on the way to 1."""
        if self.reached and beta <= self.reached[-1]:
            self.reached.clear()  # a pilot starts again
        self.reached.append(beta)
        self.n_moves = 0
        # betas grow by about the same factor from stage to stage
        share = np.log1p(beta / self.reached[0]) / np.log1p(1.0 / self.reached[0])
        completed = int(BAR_LENGTH * share)
        self.show(refresh=True, completed=completed, description=self.where())

    def count_moves(self, n_moves: int) -> None:
        """More moves at the temperature where it is."""
        self.n_moves += n_moves
        self.show(refresh=False, description=self.where())
        if not self.is_slow and time.monotonic() - self.started > TimeLeft.long / 2:
            self.is_slow = True
            logger.info(
                "The pilot, which looks for modes, step sizes and temperatures, is slow on this "
                "model. Cheaper: %s.",
                BRIDGE,
            )

    def where(self) -> str:
        """Its text."""
        reached = self.reached
        at = f"beta={reached[-1]:.3g}, stage {len(reached)}" if reached else "start"
        return f"Pilot: {at}" + (f", {self.n_moves} moves" if self.n_moves else "")


def show_pilots() -> None:
    """A new line of the bar, if one is shown, for the pilots from here on."""
    if (shown := _shown.get()) is not None:
        shown.pilots = Pilots(shown.progress)


def pilots() -> Pilots | None:
    """Who is to be told of what a pilot does, if anyone."""
    shown = _shown.get()
    return None if shown is None else shown.pilots


def report_rounds(progress: Any, description: str) -> Callable[[int], None]:
    """A new line of the bar, which counts how often it is told of anything."""
    task, done = progress.add_task(description, completed=0, total=None), 0

    def report(n_iterations: int) -> None:
        nonlocal done
        done += 1
        progress.advance(task, n_iterations)
        progress.update(task, refresh=True, description=f"{description}: round {done}")

    return report


def report_count(
    progress: Any, description: str, total: int, cheaper: str = ""
) -> Callable[[float], None]:
    """A new line of the bar, told how much of the total was done; a sentence of what is cheaper."""
    advance = partial(progress.advance, progress.add_task(description, completed=0, total=total))
    if not cheaper:
        return advance
    time_left = TimeLeft(description, total, cheaper)

    def report(n_done: float) -> None:
        advance(n_done)
        time_left(n_done)

    return report


class TimeLeft:
    """Watches a run in ``total`` parts, and says what is ``cheaper`` if it will take long."""

    long: ClassVar[float] = 30.0
    """Seconds to come from which on a sentence is due."""
    patience: ClassVar[float] = 3.0
    """Seconds after which the speed of a run is known; a pilot moves rows of another number."""

    def __init__(
        self, what: str, total: int, cheaper: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.what, self.left, self.cheaper = what, float(total), cheaper
        self._clock, self._started = clock, -1.0
        self._done, self._said, self._lock = 0.0, False, threading.Lock()

    def __call__(self, n_done: float) -> None:
        """Count parts that are done; chains call it from threads of their own."""
        with self._lock:
            now, self.left = self._clock(), self.left - n_done
            if self._started < 0:
                # the first part took as long as compiling for a new number of rows
                self._started = now
                return
            self._done += n_done
            seconds = now - self._started
            to_come = seconds * self.left / self._done
            if self._said or seconds < self.patience or to_come < self.long:
                return
            self._said = True
        logger.info("%s: about %s to go. Cheaper: %s.", self.what, duration(to_come), self.cheaper)


def duration(seconds: float) -> str:
    """Seconds in words, as roughly as they are known."""
    minutes = seconds / 60.0
    if minutes < 0.75:
        return "half a minute"
    if minutes < 1.5:
        return "a minute"
    return f"{minutes:.0f} minutes" if minutes < 90 else f"{minutes / 60.0:.1f} hours"
