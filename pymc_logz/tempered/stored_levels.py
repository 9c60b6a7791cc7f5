"""Levels and a warm-up, read from where a run is kept; a run that is not kept makes them."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pymc_logz.models.preparation import Prepared
from pymc_logz.pilot.reference import Reference
from pymc_logz.pilot.stored_plans import once
from pymc_logz.runners.anneal import Plan
from pymc_logz.runners.block import Block
from pymc_logz.runners.temper import TemperBlock
from pymc_logz.tempered.chains import Frozen, walking_block
from pymc_logz.tempered.settings import TemperedSettings
from pymc_logz.tempered.warm_up import Rounds

Placed = tuple[Block, Plan, Reference]
"""The path, its levels, and what it starts from."""


def placed_once(
    place: Callable[[], Placed],
    prepared: Prepared,
    block: Block,
    settings: TemperedSettings,
    rng: np.random.Generator,
) -> Placed:
    """Levels that are placed, or were placed before, if they were kept.

    Parameters
    ----------
    place
        Places them.
    prepared
        The model.
    block
        Moves along the path from the prior.
    settings
        What the user asked for.
    rng
        Generator of the pilot.
    """
    keeper = settings.running.keeper
    if keeper is None:
        return place()

    def make() -> dict[str, Any]:
        _, plan, reference = place()
        return {"plan": plan, "reference": reference.without_draws()}

    made = once(keeper, "levels", make, prepared, block, rng)
    reference = made["reference"].with_draws(prepared.prior)
    return reference.start(block), made["plan"], reference


def warmed_once(
    warm_up: Callable[[], Frozen],
    block: Block,
    plan: Plan,
    settings: TemperedSettings,
    rng: np.random.Generator,
    compile_kwargs: Mapping[str, Any] | None,
    prepared: Prepared | None = None,
) -> Frozen:
    """What a warm-up freezes, or has frozen before, if it was kept.

    Parameters
    ----------
    warm_up
        Does it.
    block, plan, settings, rng, compile_kwargs
        As in `pymc_logz.tempered.run.warm_up`.
    prepared
        The model; None for an energy.
    """
    keeper = settings.running.keeper
    if keeper is None:
        return warm_up()
    frozen: list[Frozen] = []

    def make() -> Rounds:
        frozen.append(warm_up())
        return frozen[0].rounds

    rounds = once(keeper, "warm-up", make, prepared, block, rng)
    if frozen:
        return frozen[0]
    started = time.perf_counter()
    walking: TemperBlock = walking_block(block, plan, settings, compile_kwargs)
    return Frozen(walking, rounds, time.perf_counter() - started)
