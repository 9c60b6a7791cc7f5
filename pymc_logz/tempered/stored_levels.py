"""What is tempered; its levels and warm-up, read from where a run is kept, or made."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_logz.loop.stored_plans import once
from pymc_logz.models.preparation import Prepared
from pymc_logz.references.reference import Reference
from pymc_logz.runners.anneal import Plan
from pymc_logz.runners.block import Block
from pymc_logz.tempered.settings import TemperedSettings

Placed = tuple[Block, Plan, Reference]
"""The path, its levels, and what it starts from."""


@dataclass(frozen=True)
class Target:
    """What is tempered: a model that is prepared, or an energy."""

    what: Any
    block: Block
    """Compiled moves along the path from its own beta = 0."""
    place: Callable[..., Placed]
    """From these, settings, a generator and a progress bar to the path and its levels."""
    named: Callable[[np.ndarray], Mapping[str, np.ndarray]]
    """Values by name, shape (..., *shape of the variable), of rows (..., d)."""
    labels: Mapping[str, Any]
    """``coords`` and ``dims`` of these."""
    record: Mapping[str, Any]
    """What is noted beside the settings of the run."""

    @property
    def prepared(self) -> Prepared | None:
        """The model, if it is one."""
        return self.what if isinstance(self.what, Prepared) else None

    def placed(self, settings: TemperedSettings, rng: np.random.Generator, progress: Any) -> Placed:
        """The path and its levels as they are placed, or were placed before, if they were kept."""
        keeper, prepared = settings.running.keeper, self.prepared

        def make() -> dict[str, Any]:
            _, plan, reference = self.place(self.block, settings, rng, progress)
            return {"plan": plan, "reference": reference.without_draws()}

        if keeper is None:
            return self.place(self.block, settings, rng, progress)
        made = once(keeper, "levels", make, prepared, self.block, rng)
        reference: Reference = made["reference"]
        if prepared is None:
            return self.block, made["plan"], reference
        reference = reference.with_draws(prepared.prior)
        return reference.start(self.block), made["plan"], reference
