"""From a prepared model to a frozen plan: pilot, ladder, checks."""

from functools import partial
from typing import Any

import numpy as np

from pymc_logz.errors import says_if_interrupted
from pymc_logz.pilot.checks import lost_part, stuck_stages, warn_of_lost_part, warn_of_stuck
from pymc_logz.pilot.ladder import choose_plan
from pymc_logz.pilot.population import Stages, run_pilot
from pymc_logz.pilot.settings import RunSettings
from pymc_logz.runners.anneal import Plan
from pymc_logz.runners.block import Block

TARGET_VARIANCE = 0.1
"""Variance of the log weight that the adaptive ladder aims at: weight ESS of about 90%."""
MORE_ROWS = 4
"""Factor in the rows of a pilot that is repeated."""


@says_if_interrupted("the pilot was choosing temperatures and step sizes")
def make_plan(
    block: Block,
    settings: RunSettings,
    start: np.ndarray,
    rng: np.random.Generator,
    report: Any = None,
    target_variance: float = TARGET_VARIANCE,
) -> Plan:
    """Freeze the temperatures and the kernel's settings.

    Parameters
    ----------
    block
        Compiled moves.
    settings
        What the user asked for, and left open.
    start
        Rows of the reference for the pilot, shape (n, d).
    rng
        Generator of the pilot and of trial rows.
    report
        Told of each beta that the pilot reaches.
    target_variance
        Variance of the log weight that an adaptive ladder aims at.
    """
    draw_start = partial(block.path.sample_reference, rng, block.n_rows)
    ladder = settings.ladder()
    if ladder is not None and (plan := fixed_plan(block, ladder)) is not None:
        return plan
    walk = partial(
        run_pilot, block, target_accept=settings.target_accept, tune=settings.tune, report=report
    )
    stages: Stages = walk(start, rng)
    if ladder is None:
        plan, trial = choose_plan(block, stages, draw_start, rng, target_variance)
        if block.n_groups == 1 and lost_part(stages, trial):
            # a mode died out by chance, which is less likely among more rows
            stages = walk(block.path.sample_reference(rng, MORE_ROWS * block.n_rows), rng)
            plan, trial = choose_plan(block, stages, draw_start, rng, target_variance)
            warn_of_lost_part(lost_part(stages, trial))
    else:
        plan = stages.plan_for(ladder)
    warn_of_stuck(stuck_stages(stages))
    return plan


def fixed_plan(block: Block, betas: np.ndarray) -> Plan | None:
    """Plan of a kernel that leaves nothing to the pilot; None if it leaves something."""
    step_size, scale = block.kernel.step_size, block.kernel.scale
    if step_size is None or scale is None:
        return None
    scale = np.broadcast_to(scale, (betas.size, block.path.n_dims)).astype(float)
    return Plan(betas, np.full(betas.size, float(step_size)), scale)
