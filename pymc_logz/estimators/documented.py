"""Docstrings of what takes a tempered run: the sections that they share are written once."""

import inspect
import re
from collections.abc import Callable
from typing import Any

EXAMPLE = """Examples
--------
Walkers with exponential log ratios, drawn exactly, with log Z = -log(1 + beta):

>>> import numpy as np
>>> from pymc_logz.estimators import {names}
>>> rng, betas = np.random.default_rng(1), np.linspace(0, 1, 5)
>>> level = rng.integers(5, size=(20, 200))
>>> log_ratio = -rng.exponential(1 / (1 + betas[level]))
>>> draws = TemperedDraws(level, log_ratio, betas, np.zeros(5), -np.log1p(betas))
"""


def documented[T: Any](*names: str, parameters: str = "", returns: str = "") -> Callable[[T], T]:
    """Decorator that completes a docstring: its ``Examples`` begin with the draws of a run.

    ``names`` are what the example imports, beside `TemperedDraws` and what is documented.
    ``parameters`` and ``returns`` are the text of these sections, put before all others; empty for
    those that it has.
    """

    def complete(given: T) -> T:
        text = inspect.cleandoc(given.__doc__ or "")
        for heading, body in (("Returns", returns), ("Parameters", parameters)):
            first = re.search(r"^\w+\n-+$", text, re.MULTILINE)
            if body and first:
                before, after = text[: first.start()], text[first.start() :]
                text = f"{before}{heading}\n{'-' * len(heading)}\n{body}\n\n{after}"
        own = [] if isinstance(given, type) else [given.__name__]
        imported = {"TemperedDraws", *own, *names}
        example = EXAMPLE.format(names=", ".join(sorted(imported)))
        given.__doc__ = text.replace("Examples\n--------\n", example)
        return given

    return complete
