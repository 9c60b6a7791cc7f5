"""How long a run will take: said once, as soon as it can be told, where it will be long."""

import logging
import threading
import time
from collections.abc import Callable

LONG = 30.0
"""Seconds to come from which on a sentence is due."""
PATIENCE = 3.0
"""Seconds after which the speed of a run is known; a pilot's moves rows of another number."""

logger = logging.getLogger("pymc.pymc_logz")


class Outlook:
    """Watches a run, and says how long it will take and what is cheaper, if that is long.

    Parameters
    ----------
    what
        What is done, as the progress bar has it.
    total
        Parts of the work that will be reported.
    cheaper
        What would take less time.
    clock
        Seconds since any time.
    """

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
            if self._said or seconds < PATIENCE or to_come < LONG:
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
