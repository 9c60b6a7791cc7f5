"""What the core looks up in a wing when it needs it, and by which name: it imports no wing."""

from importlib import import_module
from typing import Any

HOMES = {
    "ConstrainedHMC": "manifold.step_method",
    "begin_long_run": "long_runs.running",
    "likelihood_form": "manifold.likelihood_form",
    "manifold_bridge": "manifold.evidence",
    "run_between": "per_datum.between",
}


def from_wing(name: str) -> Any:
    """A function or class of a wing, which is imported now if it was not."""
    return getattr(import_module(f"pymc_logz.{HOMES[name]}"), name)
