"""Processes that PyMC forks for its chains once JAX has run in this one.

JAX warns at each fork that it will likely lead to a deadlock, which is so where the forked process
calls JAX. PyMC starts no such process by fork, unless it is told to, of which it warns itself; and
step methods of this package that need JAX ask the process that has compiled, or refuse. So for
chains of `pm.sample` the warning is a false alarm. It is heard as before at any other fork.
"""

import os
import sys
import warnings
from functools import cache


@cache
def hush_forks_of_chains() -> None:
    """From now on PyMC's chains are forked without the warning; to be called once JAX has run."""
    if not hasattr(os, "register_at_fork"):
        return
    hushed: list[warnings.catch_warnings[None]] = []

    def before() -> None:
        if _starts_a_chain():
            hushed.append(warnings.catch_warnings())
            hushed[-1].__enter__()
            warnings.filterwarnings(
                "ignore", message=r"os\.fork\(\) was called", category=RuntimeWarning
            )

    def after() -> None:
        if hushed:
            hushed.pop().__exit__(None, None, None)

    # hooks run in the reverse order of their registration: before that of JAX, which was first
    os.register_at_fork(before=before, after_in_parent=after, after_in_child=after)


def _starts_a_chain() -> bool:
    """Whether PyMC is starting a process for a chain just now."""
    frame = sys._getframe(1)
    while frame is not None:
        is_parallel = frame.f_globals.get("__name__") == "pymc.sampling.parallel"
        if is_parallel and "step_method" in frame.f_locals:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
