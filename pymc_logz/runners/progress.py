"""PyMC's progress bar, and what runners report to it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

STEPS = 1000
"""Resolution of a bar that follows beta."""


@contextmanager
def progress_bar(shown: bool) -> Iterator[Any]:
    """PyMC's simple progress bar while it is in use; it does nothing where none is wanted."""
    from pymc.progress_bar import create_simple_progress

    progress = create_simple_progress(shown)
    with progress:
        yield progress


def report_beta(progress: Any, description: str = "Pilot") -> Callable[[float], None]:
    """A new line of the bar, told of each beta that is reached on the way to 1."""
    task = progress.add_task(description, completed=0, total=STEPS)

    def report(beta: float) -> None:
        progress.update(task, refresh=True, completed=int(STEPS * beta))

    return report


def report_count(progress: Any, description: str, total: int | None) -> Callable[[int], None]:
    """A new line of the bar, told of how much was done since the last call."""
    return partial(progress.advance, progress.add_task(description, completed=0, total=total))
