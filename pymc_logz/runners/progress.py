"""PyMC's progress bar, what runners report to it, and how long a run will take."""

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pymc_logz.errors import logger

BAR_LENGTH = 1000
"""Resolution of a bar that follows beta."""
BRIDGE = "if the posterior has one mode, lz.evidence(idata, model) with draws of pm.sample"
"""What is cheaper where a pilot, or what follows it, is slow, if there are gradients."""


@dataclass
class Shown:
    """The bar of the call that is under way, and the line of its pilot, once it has one."""

    progress: Any
    pilot: "Pilot | None" = None
    n_lines: int = 0
    """Lines within which something is done."""


_shown: ContextVar[Shown | None] = ContextVar("shown", default=None)


@contextmanager
def progress_bar(shown: bool) -> Iterator[None]:
    """PyMC's progress bar, or that of the call around; does nothing where none is wanted."""
    from pymc.progress_bar import create_simple_progress

    if shown and (around := _shown.get()) is not None:
        outer, around.pilot = around.pilot, None
        try:
            yield
        finally:
            around.pilot = outer
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
            yield
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
        shown.n_lines += 1
    try:
        yield
    finally:
        watch.cancel()
        if shown is not None:
            shown.n_lines -= 1
            # the line of what nobody has waited for goes
            took = time.monotonic() - started
            shown.progress.update(task, refresh=True, completed=1, total=1, visible=took >= 1)


class Pilot:
    """A line that says where a pilot is on its way to beta = 1."""

    def __init__(self, progress: Any) -> None:
        self._progress = progress
        self._task = progress.add_task("Pilot", completed=0, total=BAR_LENGTH)
        self._betas: list[float] = []
        self._n_moves, self._started, self._is_slow = 0, time.monotonic(), False

    def reached(self, beta: float) -> None:
        """The pilot got to this beta."""
        if self._betas and beta <= self._betas[-1]:
            self._betas.clear()  # it starts again
        self._betas.append(beta)
        self._n_moves = 0
        # betas grow by about the same factor from stage to stage
        share = np.log1p(beta / self._betas[0]) / np.log1p(1.0 / self._betas[0])
        self._update(refresh=True, completed=int(BAR_LENGTH * share))

    def moved(self, n_moves: int, cheaper: str = BRIDGE) -> None:
        """The pilot made moves at the beta where it is; what is cheaper, if anything."""
        self._n_moves += n_moves
        self._update(refresh=False)
        if not self._is_slow and time.monotonic() - self._started > TimeLeft.long / 2:
            self._is_slow = True
            logger.info(
                "The pilot, which looks for modes, step sizes and temperatures, is slow on this "
                "model.%s",
                f" Cheaper: {cheaper}." if cheaper else "",
            )

    def _update(self, **news: Any) -> None:
        betas = self._betas
        where = f"Pilot: beta={betas[-1]:.3g}, stage {len(betas)}" if betas else "Pilot: start"
        where += f", {self._n_moves} moves" if self._n_moves else ""
        self._progress.update(self._task, description=where, **news)


def shown_pilot() -> Pilot | None:
    """The line of the pilot of the call that is shown; none where there is another one."""
    shown = _shown.get()
    if shown is None or shown.n_lines:
        return None
    if shown.pilot is None:
        shown.pilot = Pilot(shown.progress)
    return shown.pilot


def report_count(
    description: str, total: int | None, cheaper: str = "", needs: "Evaluations | None" = None
) -> Callable[[float], None]:
    """A line of the bar, told how much of the total was done, or of rounds; what is cheaper."""
    shown, n_rounds = _shown.get(), 0
    time_left = TimeLeft(description, total or 0, cheaper, needs=needs)
    if shown is not None:
        task = shown.progress.add_task(description, completed=0, total=total)

    def report(n_done: float) -> None:
        nonlocal n_rounds
        n_rounds += 1
        if shown is not None:
            shown.progress.advance(task, n_done)
            if total is None:
                text = f"{description}: round {n_rounds}"
                shown.progress.update(task, refresh=True, description=text)
        if cheaper:
            time_left(n_done)

    return report


class Evaluations(NamedTuple):
    """Evaluations of a model that are to come, and the seconds of each, or 0 if nobody knows."""

    n: float
    pace: float


class TimeLeft:
    """Watches a run in ``total`` parts, and says what is ``cheaper`` if it will take long.

    It does so before the run where it is known what this ``needs``.
    """

    long: ClassVar[float] = 30.0
    """Seconds to come from which on a sentence is due."""
    patience: ClassVar[float] = 3.0
    """Seconds after which the speed of a run is known; a pilot moves rows of another number."""

    def __init__(
        self,
        what: str,
        total: int,
        cheaper: str,
        clock: Callable[[], float] = time.monotonic,
        needs: Evaluations | None = None,
    ) -> None:
        self.what, self.left, self.cheaper = what, float(total), cheaper
        self._total, self._n = max(1, total), 0.0 if needs is None else needs.n
        self._clock, self._started = clock, -1.0
        self._done, self._lock = 0.0, threading.Lock()
        self._said = needs is not None and says_time_left(
            what, needs.n * needs.pace, needs.n, cheaper
        )

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
            if not self._said and seconds >= self.patience:
                to_come, n = self.left / self._done * seconds, self.left / self._total * self._n
                self._said = says_time_left(self.what, to_come, n, self.cheaper)


def says_time_left(what: str, seconds: float, n_evaluations: float, cheaper: str) -> bool:
    """Say how long something will take, if that is long, and how many evaluations, if any."""
    if seconds < TimeLeft.long:
        return False
    n = f"{float(f'{n_evaluations:.2g}'):,.0f}"
    what_for = f", for about {n} evaluations of the model" if n_evaluations else ""
    text = "%s: about %s to go%s. Cheaper: %s."
    logger.info(text, what, duration(seconds), what_for, cheaper)
    return True


def duration(seconds: float) -> str:
    """Seconds in words, as roughly as they are known."""
    minutes = seconds / 60.0
    if minutes < 0.75:
        return "half a minute"
    if minutes < 1.5:
        return "a minute"
    return f"{minutes:.0f} minutes" if minutes < 90 else f"{minutes / 60.0:.1f} hours"
