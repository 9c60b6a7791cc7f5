"""What a pilot came to, read from where a run is kept; a run that is not kept makes it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from pymc_logz.loop.frozen import Planned
from pymc_logz.loop.planning import plan_run
from pymc_logz.models.preparation import Prepared
from pymc_logz.pilot.settings import RunSettings
from pymc_logz.references.blend import Target
from pymc_logz.runners.block import Block


@contextmanager
def kept[S: RunSettings](
    settings: S,
    what: Any,
    block: Block,
    rng: np.random.Generator,
    **arrays: np.ndarray | None,
) -> Iterator[S]:
    """Settings by which chains are kept, if that is asked for.

    ``what`` the run is of is a model that is prepared, or a target that is none; ``rng`` is its
    generator before it was used, and ``arrays`` are what it is given, such as draws that reverse
    rows start from.
    """
    of = what.flat if isinstance(what, Prepared) else what
    with settings.running.kept(settings, of, block, rng, **arrays) as running:
        yield replace(settings, running=running)


def planned_once(
    prepared: Prepared,
    block: Block,
    settings: RunSettings,
    rng: np.random.Generator,
    report: Any,
    name: str,
    tried: Planned | None = None,
    *,
    direct: bool = False,
) -> Planned:
    """What `plan_run` plans, or has planned before, if it was kept under this name.

    Arguments but the ``name`` of the record are those of `plan_run`.
    """

    def plan() -> Planned:
        return plan_run(prepared, block, settings, rng, report, tried, direct=direct)

    keeper = settings.running.keeper
    if keeper is None:
        return plan()
    made = once(keeper, name, lambda: _written(plan()), prepared, block, rng)
    reference = made["reference"].with_draws(prepared.prior)
    planned = Planned(reference.start(block), made["plan"], reference, made["stages"])
    if made["blend"] is None:
        return planned
    return replace(planned, blend=made["blend"], target=Target(prepared, block))


def once(
    keeper: Any,
    name: str,
    make: Callable[[], Any],
    prepared: Prepared | None,
    block: Block,
    rng: np.random.Generator,
) -> Any:
    """What is made, or was made and kept; evaluations and draws of the prior are counted once.

    Without a ``keeper`` it is made now; ``prepared`` is None for a target that is no model.
    Evaluations are those of ``block``, and draws are from ``rng``.
    """
    if keeper is None:
        return make()
    counts: Any = None if prepared is None else prepared.prior
    return keeper.remember(name, make, rng, work=block.work, prior=counts)


def _written(planned: Planned) -> dict[str, Any]:
    """A plan as a record."""
    reference = planned.reference.without_draws()
    made = {"plan": planned.plan, "stages": planned.stages, "reference": reference}
    return {**made, "blend": planned.blend}
