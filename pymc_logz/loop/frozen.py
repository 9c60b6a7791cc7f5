"""A frozen plan along a path whose reference is chosen, and what it was read from."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from pymc_logz.estimators import LogZEstimate
from pymc_logz.paths.elliptical import RIDGE
from pymc_logz.pilot.ladder import choose_plan, most_temperatures
from pymc_logz.pilot.population import Stages, run_pilot
from pymc_logz.pilot.settings import RunSettings
from pymc_logz.references.blend import Blend, Target
from pymc_logz.references.reference import ASKED_FOR, Reference
from pymc_logz.runners.anneal import Annealed, Plan
from pymc_logz.runners.block import Block


@dataclass(frozen=True)
class Planned:
    """What a run is made of, frozen."""

    block: Block
    """Compiled moves on the path from the reference that is taken."""
    plan: Plan
    reference: Reference
    stages: Stages | None = None
    """What the plan is a refinement of; None where the user fixed the ladder."""
    blend: Blend | None = None
    """What rows are drawn from, and weighted by, where no path is needed."""
    target: Target | None = None
    """What these are weighted for, or what may be planned in another way if this one fails."""
    given_up: tuple[LogZEstimate, ...] = ()
    """By trials of what was planned before."""
    from_prior: tuple[float, float] | None = None
    """Log Z and its error by the particles that walked from the prior, before it was planned."""
    ran: tuple[Annealed, ...] = ()
    """Chains of a run of it, once there is one."""

    def record(self) -> dict[str, float]:
        """For the attributes of a result."""
        names = "from_prior_log_z", "from_prior_mcse"
        return dict(zip(names, self.from_prior or (), strict=False))

    def longer(self, factor: int) -> "Planned":
        """The same with so many times the temperatures, if these are allowed, or rows to choose."""
        if self.blend is not None:
            return replace(self, blend=replace(self.blend, tries=factor * self.blend.tries))
        if self.stages is None:
            return self
        n = min(factor * self.plan.n_temperatures, most_temperatures(self.block))
        return self if n <= self.plan.n_temperatures else replace(self, plan=self.stages.plan(n))


def n_followed(block: Block) -> int:
    """Rows of a pilot whose stages a run follows: two portions, or one of those with data."""
    return block.n_rows if block.row_data else 2 * block.n_rows


def make_plan(
    block: Block,
    settings: RunSettings,
    start: np.ndarray,
    rng: np.random.Generator,
    reference: Reference = ASKED_FOR,
) -> Planned:
    """Freeze the temperatures and the kernel's settings on a path whose reference is given.

    The pilot walks from rows of the reference, ``start``, shape (n, d).
    """
    ladder = settings.ladder()
    if ladder is not None and (plan := fixed_plan(block, ladder)) is not None:
        return Planned(block, plan, reference)
    stages = run_pilot(block, start, rng, settings)
    stages.warn_of_stuck()
    return refine(block, settings, stages, rng, reference)[0]


def walk(block: Block, settings: RunSettings, rng: np.random.Generator) -> Stages:
    """A pilot from fresh rows of the reference, as many as a run follows."""
    start = block.path.sample_reference(rng, n_followed(block))
    return run_pilot(block, start, rng, settings)


def refine(
    block: Block,
    settings: RunSettings,
    stages: Stages,
    rng: np.random.Generator,
    reference: Reference,
    target_rows: np.ndarray | None = None,
    limit: float = np.inf,
) -> tuple[Planned, Annealed | None]:
    """Plan along stages, and the trial rows that it was read from if it was not given.

    Where a run would make more moves than a limit, no longer ladder is tried.
    """
    ladder = settings.ladder()
    if ladder is not None:
        return Planned(block, stages.plan_for(ladder), reference), None
    n_rows = n_followed(block) if target_rows is None else block.n_rows
    draw_start = partial(block.path.sample_reference, rng, n_rows)
    aim = settings.aim.with_integers(block.cost_of_move) if block.path.sites else settings.aim
    aim = replace(aim, limit=limit)
    plan, trial = choose_plan(block, stages, draw_start, rng, aim, target_rows)
    return Planned(block, plan, reference, stages), trial


def fixed_plan(block: Block, betas: np.ndarray) -> Plan | None:
    """Plan of a kernel that leaves nothing to the pilot; None if it leaves something."""
    step_size, scale = block.kernel.step_size, block.kernel.scale
    if step_size is None or scale is None:
        return None
    scale = np.broadcast_to(scale, block.path.n_dims).astype(float)
    return Plan(betas, np.full(betas.size, float(step_size)), scale)


def plan_of_one_step(block: Block, rows: np.ndarray) -> Plan:
    """From 0 to 1 in one step; moves at its end, if there are any, are as wide as rows (n, d)."""
    ends, d = np.array([0.0, 1.0]), rows.shape[1]
    scale = np.maximum(rows.std(axis=0), 1e-300)
    dense: list[np.ndarray] = []
    if len(block.scale_shape) == 2:
        correlation = np.corrcoef(rows.T) + RIDGE * np.eye(d)
        dense = [np.tile(np.linalg.cholesky(correlation), (2, 1, 1)), ends]
    return Plan(ends, np.full(2, d**-0.25), scale, *dense)
