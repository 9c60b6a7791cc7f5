"""Forks by ``pm.sample`` of a process that has loaded JAX, where nothing forked will call JAX.

JAX warns at each fork that it will likely lead to a deadlock. Chains of a step method whose source
answers from the process that has compiled (`pymc_logz.step_methods.sources.base`) only ask it, so
that for those the warning is a false alarm. It is heard as before at any other fork.
"""

import os
import sys
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

STARTER = "pymc.sampling.parallel"
"""Module of PyMC that starts processes for chains."""
MESSAGE = r"os\.fork\(\) was called"


@cache
def hush_forks_for(is_safe: Callable[[Any], bool]) -> None:
    """From now on, forks for chains of a step method that is safe are made without the warning.

    Parameters
    ----------
    is_safe
        Whether a step method makes no use of JAX in the processes of its chains.
    """
    if not hasattr(os, "register_at_fork"):
        return
    hushed: list[warnings.catch_warnings[None]] = []

    def before() -> None:
        if is_safe(_step_to_be_started()):
            hushed.append(warnings.catch_warnings())
            hushed[-1].__enter__()
            warnings.filterwarnings("ignore", message=MESSAGE, category=RuntimeWarning)

    def after() -> None:
        if hushed:
            hushed.pop().__exit__(None, None, None)

    # hooks run in the reverse order of their registration: before that of JAX, which was first
    os.register_at_fork(before=before, after_in_parent=after, after_in_child=after)


def _step_to_be_started() -> Any:
    """Step method for whose chain PyMC is starting a process just now; None if it is not."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") == STARTER and "step_method" in frame.f_locals:
            return frame.f_locals["step_method"]
        frame = frame.f_back  # type: ignore[assignment]
    return None
