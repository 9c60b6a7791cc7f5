"""PyMC's progress bar, what runners report to it, and how long a run will take."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar

import numpy as np

BAR_LENGTH = 1000
"""Resolution of a bar that follows beta."""


logger = logging.getLogger("pymc.pymc_logz")


@contextmanager
def progress_bar(shown: bool) -> Iterator[Any]:
    """PyMC's simple progress bar while it is in use; it does nothing where none is wanted."""
    from pymc.progress_bar import create_simple_progress

    progress = create_simple_progress(shown)
    with progress:
        yield progress


def report_beta(progress: Any, description: str = "Pilot") -> Callable[[float], None]:
    """A new line of the bar, called with each beta on the way to 1."""
    task = progress.add_task(description, completed=0, total=BAR_LENGTH)
    reached: list[float] = []

    def report(beta: float) -> None:
        if reached and beta <= reached[-1]:
            reached.clear()  # the pilot starts again
        reached.append(beta)
        # betas grow by about the same factor from stage to stage
        share = np.log1p(beta / reached[0]) / np.log1p(1.0 / reached[0])
        where = f"{description}: beta={beta:.3g}, stage {len(reached)}"
        progress.update(task, refresh=True, completed=int(BAR_LENGTH * share), description=where)

    return report


def report_rounds(progress: Any, description: str) -> Callable[[int], None]:
    """A new line of the bar, which counts how often it is called."""
    task, done = progress.add_task(description, completed=0, total=None), 0

    def report(n_iterations: int) -> None:
        nonlocal done
        done += 1
        progress.advance(task, n_iterations)
        progress.update(task, refresh=True, description=f"{description}: round {done}")

    return report


def report_count(
    progress: Any, description: str, total: int, cheaper: str = ""
) -> Callable[[int], None]:
    """A new line of the bar, called with how much of the total was done since the last call.

    ``cheaper`` is what would take less time, for a sentence where there is a long time to go; ""
    for none.
    """
    advance = partial(progress.advance, progress.add_task(description, completed=0, total=total))
    if not cheaper:
        return advance
    time_left = TimeLeft(description, total, cheaper)

    def report(n_done: int) -> None:
        advance(n_done)
        time_left(n_done)

    return report


class TimeLeft:
    """Watches a run, and says how long it will take and what is ``cheaper``, if that is long.

    ``what`` is done, as the progress bar has it, in ``total`` parts that will be reported;
    ``clock`` gives seconds since any time.
    """

    long: ClassVar[float] = 60.0
    """Seconds to come from which on a sentence is due."""
    patience: ClassVar[float] = 3.0
    """Seconds after which the speed of a run is known; a pilot moves rows of another number."""

    def __init__(
        self, what: str, total: int, cheaper: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.what, self.left, self.cheaper = what, total, cheaper
        self._clock, self._started = clock, -1.0
        self._done, self._said, self._lock = 0, False, threading.Lock()

    def __call__(self, n_done: int) -> None:
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
    if minutes < 1.5:
        return "a minute"
    return f"{minutes:.0f} minutes" if minutes < 90 else f"{minutes / 60.0:.1f} hours"
