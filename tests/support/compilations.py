"""Counts what is compiled, in place of the seconds that it takes."""

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import pytensor
import pytest

XLA_EVENT = "/jax/core/compile/backend_compile_duration"
"""What JAX reports once for each program that XLA compiles."""


@dataclass
class Compilations:
    """How much was compiled."""

    by_pytensor: int = 0
    by_xla: int = 0

    @property
    def total(self) -> int:
        """Of both."""
        return self.by_pytensor + self.by_xla


_counting: "weakref.WeakSet[_Key]" = weakref.WeakSet()


class _Key:
    """A count that is still going on."""

    def __init__(self, count: Compilations) -> None:
        self.count = count


def _listen(event: str, *_: Any, **__: Any) -> None:
    if event == XLA_EVENT:
        for key in _counting:
            key.count.by_xla += 1


jax.monitoring.register_event_duration_secs_listener(_listen)


@contextmanager
def counted_compilations() -> Iterator[Compilations]:
    """Count all functions that PyTensor compiles, and all programs that XLA does."""
    count, compile_one = Compilations(), pytensor.function
    key = _Key(count)

    def counting(*args: Any, **kwargs: Any) -> Any:
        count.by_pytensor += 1
        return compile_one(*args, **kwargs)

    _counting.add(key)
    with pytest.MonkeyPatch.context() as patch:
        # PyMC too calls it as an attribute of the module
        patch.setattr(pytensor, "function", counting)
        yield count
    _counting.discard(key)
