"""What a run is of; and what its pilot came to, read from where the run is kept, or made now."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from pymc_logz.loop.frozen import Planned
from pymc_logz.models.context import model_labels
from pymc_logz.models.flat import constrain
from pymc_logz.models.preparation import Prepared
from pymc_logz.pilot.settings import RunSettings
from pymc_logz.references.blend import Target
from pymc_logz.runners.block import Block
from pymc_logz.trees.doubts import Doubt, prior_doubts
from pymc_logz.trees.layout import data_datasets, run_attrs


@dataclass(frozen=True)
class Subject:
    """What a run is of: a model that is prepared, or an energy."""

    what: Any
    block: Block
    """Moves along the path from its own beta = 0."""
    named: Callable[[np.ndarray], Mapping[str, np.ndarray]]
    """Values by name, shape (..., *shape of the variable), of rows (..., d)."""
    labels: Mapping[str, Any]
    """``coords`` and ``dims`` of these."""
    record: Mapping[str, Any]
    """What is noted beside the settings of the run."""

    @classmethod
    def of_model(cls, prepared: Prepared, block: Block) -> "Subject":
        """A model that is prepared."""
        named = partial(constrain, prepared.flat)
        return cls(prepared, block, named, model_labels(prepared.flat.model), {})

    @property
    def prepared(self) -> Prepared | None:
        """The model, if it is one."""
        return self.what if isinstance(self.what, Prepared) else None

    def prior_doubts(self) -> list[Doubt]:
        """Doubts about the priors of a model, of which their check has warned."""
        return [] if self.prepared is None else prior_doubts(self.prepared.prior_doubt)

    def attrs(self, block: Any, cost: Mapping[str, float], **own: float | str) -> dict[str, Any]:
        """Attributes of the group ``evidence`` of a run by moves that were compiled."""
        share = 1.0
        if self.prepared is not None:
            share, own = self.prepared.prior.finite_share, {**own, **self.prepared.record()}
        return run_attrs(block.compiled, block.path.batching, share, cost, **own)

    def data(self) -> dict[str, xr.Dataset]:
        """Groups with the data of a model."""
        return {} if self.prepared is None else data_datasets(self.prepared.flat)


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
    subject: Subject,
    settings: RunSettings,
    rng: np.random.Generator,
    name: str,
    make: Callable[[], Planned],
) -> Planned:
    """What is planned, or was planned before, if it was kept under this name."""
    keeper, prepared, block = settings.running.keeper, subject.prepared, subject.block
    if keeper is None:
        return make()

    def record() -> dict[str, Any]:
        made = make()
        found = {name: getattr(made, name) for name in ("plan", "stages", "blend")}
        return {**found, "reference": made.reference.without_draws()}

    made = once(keeper, name, record, prepared, block, rng)
    reference = made["reference"]
    if prepared is not None:
        reference = reference.with_draws(prepared.prior)
    planned = Planned(reference.start(block), made["plan"], reference, made["stages"])
    if made["blend"] is None or prepared is None:
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
