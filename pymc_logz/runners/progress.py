"""PyMC's progress bar, and what runners report to it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from pymc_logz.runners.outlook import Outlook

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
    reached: list[float] = []

    def report(beta: float) -> None:
        if reached and beta <= reached[-1]:
            reached.clear()  # the pilot starts again
        reached.append(beta)
        # betas grow by about the same factor from stage to stage
        share = np.log1p(beta / reached[0]) / np.log1p(1.0 / reached[0])
        where = f"{description}: beta={beta:.3g}, stage {len(reached)}"
        progress.update(task, refresh=True, completed=int(STEPS * share), description=where)

    return report


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
) -> Callable[[int], None]:
    """A new line of the bar, told of how much was done since the last call.

    Parameters
    ----------
    progress
        The bar.
    description
        What is done.
    total
        How much there is to do.
    cheaper
        What would take less time, for a sentence where there is a long time to go; "" for none.
    """
    advance = partial(progress.advance, progress.add_task(description, completed=0, total=total))
    if not cheaper:
        return advance
    outlook = Outlook(description, total, cheaper)

    def report(n_done: int) -> None:
        advance(n_done)
        outlook(n_done)

    return report
