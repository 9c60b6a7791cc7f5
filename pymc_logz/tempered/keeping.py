"""A tempered run that is kept as it goes: its levels, and what its warm-up came to."""

from collections.abc import Callable
from typing import Any

import numpy as np

from pymc_logz.estimators.running import LevelSums
from pymc_logz.models.preparation import Prepared
from pymc_logz.pilot.keeping import CLASSES as OF_PLANS
from pymc_logz.pilot.keeping import once
from pymc_logz.pilot.reference import Reference
from pymc_logz.runners.anneal import Plan
from pymc_logz.runners.block import Block
from pymc_logz.runners.checkpoint import Keeper
from pymc_logz.runners.temper import Walk, Walkers
from pymc_logz.runners.walking import Walking
from pymc_logz.tempered.chains import TemperJob
from pymc_logz.tempered.sums import WalkSums
from pymc_logz.tempered.warm_up import Climbing, Ladder, Round, Rounds

CLASSES = (
    *OF_PLANS,
    Climbing,
    Ladder,
    LevelSums,
    Round,
    Rounds,
    TemperJob,
    Walk,
    Walkers,
    Walking,
    WalkSums,
)
"""What the records of tempered runs are made of."""

Placed = tuple[Block, Plan, Reference]
"""The path, its levels, and what it starts from."""


def placed_once(
    place: Callable[[], Placed],
    keeper: Keeper | None,
    prepared: Prepared | None,
    block: Block,
    rng: np.random.Generator,
) -> Placed:
    """Levels that are placed on the path of a block, or were placed before, if they were kept."""
    if keeper is None:
        return place()

    def make() -> dict[str, Any]:
        _, plan, reference = place()
        return {"plan": plan, "reference": reference.without_draws()}

    made = once(keeper, "levels", make, prepared, block, rng)
    reference: Reference = made["reference"]
    if prepared is None:
        return block, made["plan"], reference
    reference = reference.with_draws(prepared.prior)
    return reference.start(block), made["plan"], reference
