"""Public names whose modules load when the name is first asked for."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(space: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` (PEP 562) of a namespace, given the module of each public name."""

    def look_up(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {space!r} has no attribute {name!r}")
        return getattr(import_module(f"pymc_logz.{homes[name]}"), name)

    return look_up
