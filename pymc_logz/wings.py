"""Names whose modules load when first asked for, as those of wings: the core imports no wing."""

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

HOMES = {
    "ConstrainedHMC": "manifold.step_method",
    "begin_long_run": "long_runs.running",
    "likelihood_form": "manifold.likelihood_form",
    "manifold_bridge": "manifold.evidence",
    "run_between": "per_datum.between",
}
"""What the core looks up in a wing when it needs it."""


def from_wing(name: str) -> Any:
    """A function or class of a wing, which is imported now if it was not."""
    return getattr(import_module(f"pymc_logz.{HOMES[name]}"), name)


def lazily(space: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a namespace, by the imports of its stub.

    The stub, ``__init__.pyi``, is what editors and type checkers see: SPEC 1 of Scientific Python.
    """
    stub = Path(__file__).parent.joinpath(*space.split(".")[1:], "__init__.pyi")
    imports = [
        node for node in ast.parse(stub.read_text()).body if isinstance(node, ast.ImportFrom)
    ]
    homes = {alias.name: str(node.module) for node in imports for alias in node.names}

    def look_up(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {space!r} has no attribute {name!r}")
        if homes[name] == space:
            return import_module(f"{space}.{name}")
        return getattr(import_module(homes[name]), name)

    return look_up, lambda: sorted(homes), sorted(homes)
