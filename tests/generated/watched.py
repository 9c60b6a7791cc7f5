"""What each check says of a call, what it costs, and what it alone has seen."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

from pymc_logz.estimators import LogZEstimate

if TYPE_CHECKING:
    from generated.search import Outcome

PLACES = ("hais.run", "tempered.run", "posterior.bridging", "pilot.population")
CLASSES = ("Stages",)
"""Those that have checks of their own."""
CHECKS = (
    "tail_doubts",
    "symmetry_doubts",
    "larger",
    "log_z_from_prior",
    "walker_doubts",
    "exceeds",
)
"""Those that speak for a status, one that `larger` speaks for, and one that makes the plan another
one."""
COLUMNS = ("check", "ran", "spoke", "of a wrong number", "it alone", "of a right one", "seconds")


class Seen(dict[str, list[float]]):
    """How often each check ran and spoke, and its seconds."""

    def watch(self, name: str, check: Callable[..., Any]) -> Callable[..., Any]:
        """The check, which is counted."""

        @wraps(check)
        def counted(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            found = check(*args, **kwargs)
            one = self.setdefault(name, [0, 0, 0.0])
            one[0] += 1
            one[1] += bool(found) and not isinstance(found, LogZEstimate)
            one[2] += round(time.perf_counter() - began, 4)
            return found

        return counted


@contextmanager
def watched() -> Iterator[Seen]:
    """All checks, wherever a call looks them up."""
    seen = Seen()
    with ExitStack() as stack:
        for place in PLACES:
            module = import_module(f"pymc_logz.{place}")
            for owner in (module, *(vars(module)[one] for one in CLASSES if one in vars(module))):
                for name in set(CHECKS) & set(vars(owner)):
                    counted = seen.watch(name, vars(owner)[name])
                    stack.enter_context(patch.object(owner, name, counted))
        yield seen


def table_of_checks(found: "Sequence[Outcome]") -> list[str]:
    """Lines of a table by check, in Markdown.

    A number is wrong that is off by more than four errors, whatever its status.
    """
    whole = sum(one.seconds for one in found)
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    for name in CHECKS:
        own = [one for one in found if name in one.checks]
        told = [one for one in own if one.checks[name][1] and np.isfinite(one.log_z)]
        off = [one for one in told if one.is_off]
        alone = [one for one in off if sum(spoke > 0 for _, spoke, _ in one.checks.values()) == 1]
        spoke = sum(one.checks[name][1] > 0 for one in own)
        share = sum(one.checks[name][2] for one in own) / max(whole, 1e-9)
        cells = (f"`{name}`", len(own), spoke, len(off), len(alone), len(told) - len(off))
        lines.append("| " + " | ".join(map(str, cells)) + f" | {share:.1%} |")
    return lines
