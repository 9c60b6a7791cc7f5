"""What every estimator returns, and how its docstring is completed."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pymc_logz.errors import STATUS_SENTENCES, USABLE_STATUSES


@dataclass(frozen=True)
class LogZEstimate:
    """A log normalising constant with its method, its error, and how far both can be trusted.

    Attributes
    ----------
    method
        Name of the estimator, an entry of the dimension ``estimator`` of ``/evidence``.
    log_z
        Log normalising constant in nats; NaN when ``status`` says that there is none to report.
    mcse
        Monte Carlo standard error of ``log_z`` in nats.
    weight_ess
        Effective number of rows that carry the estimate, ``(sum w)**2 / sum w**2``.
    khat
        Pareto shape of the upper tail of the weights.
    status
        A key of ``pymc_logz.errors.STATUS_SENTENCES``.
    details
        Further numbers by name.

    Raises
    ------
    ValueError
        If ``status`` is none of those.

    Examples
    --------
    >>> from pymc_logz.estimators import LogZEstimate
    >>> print(LogZEstimate("importance", -3.2, 0.01, 900.0, 0.1, "ok"))
    log Z = -3.200 ± 0.010 (importance, ok)
    """

    method: str
    log_z: float
    mcse: float
    weight_ess: float
    khat: float
    status: str
    details: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.status not in STATUS_SENTENCES:
            raise ValueError(f"status={self.status!r} is not one of {sorted(STATUS_SENTENCES)}")

    @property
    def usable(self) -> bool:
        """Whether there is a number to report."""
        return self.status in USABLE_STATUSES

    def __str__(self) -> str:
        """Value, error, method and status in one line."""
        return f"log Z = {self.log_z:.3f} ± {self.mcse:.3f} ({self.method}, {self.status})"

    def less(self, log_constant: float, error: float) -> "LogZEstimate":
        """The estimate without a factor of Z that is known up to an error, such as a prior's."""
        if error == 0.0:
            return self
        mcse = float(np.hypot(self.mcse, error))
        return replace(self, log_z=self.log_z - log_constant, mcse=mcse)


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


def documented[T: Any](
    *names: str, parameters: str = "", returns: str = "", shows: str = ""
) -> Callable[[T], T]:
    """Decorator that completes a docstring: first sections, and the draws that ``Examples`` use.

    ``names`` are imported by the example beside `TemperedDraws` and what is documented. An
    estimator needs no example but what it ``shows`` for these draws.
    """

    def complete(given: T) -> T:
        text = inspect.cleandoc(given.__doc__ or "")
        for heading, body in (("Returns", returns), ("Parameters", parameters)):
            first = re.search(r"^\w+\n-+$", text, re.MULTILINE)
            if body and first:
                before, after = text[: first.start()], text[first.start() :]
                text = f"{before}{heading}\n{'-' * len(heading)}\n{body}\n\n{after}"
        if shows:
            call = f">>> print({given.__name__}(draws).estimate)  # true: -log(2) = -0.693"
            text += f"\n\nExamples\n--------\n{call}\n{shows}"
        own = [] if isinstance(given, type) else [given.__name__]
        imported = {"TemperedDraws", *own, *names}
        example = EXAMPLE.format(names=", ".join(sorted(imported)))
        given.__doc__ = text.replace("Examples\n--------\n", example)
        return given

    return complete
