"""Names whose modules load when first asked for, as those of wings: the core imports no wing."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

HOMES = {
    "ConstrainedHMC": "manifold.step_method",
    "begin_long_run": "long_runs.running",
    "likelihood_form": "manifold.likelihood_form",
    "manifold_bridge": "manifold.evidence",
    "run_between": "per_datum.between",
}
"""What the core looks up in a wing when it needs it."""


def lazily(space: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` (PEP 562) of a namespace, given the module of each public name."""

    def look_up(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {space!r} has no attribute {name!r}")
        return getattr(import_module(f"pymc_logz.{homes[name]}"), name)

    return look_up


def from_wing(name: str) -> Any:
    """A function or class of a wing, which is imported now if it was not."""
    return lazily("wings", HOMES)(name)
