"""One call of a method: what it is of, what its stages share, and what of it is kept."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import xarray as xr

from pymc_logz.graphs.threads import calls_limited
from pymc_logz.loop.frozen import Planned
from pymc_logz.loop.planning import block_for
from pymc_logz.models.context import model_labels
from pymc_logz.models.flat import constrain
from pymc_logz.models.preparation import Prepared, prepare
from pymc_logz.pilot.settings import RunSettings
from pymc_logz.references.blend import AT_ONCE, Target
from pymc_logz.runners.block import Block
from pymc_logz.runners.moves_of_rows import Stopwatch, Work
from pymc_logz.runners.progress import Evaluations, line, progress_bar
from pymc_logz.seeds import Generators, generators_from
from pymc_logz.trees.doubts import Doubt, prior_doubts
from pymc_logz.trees.layout import data_datasets, run_attrs

if TYPE_CHECKING:
    import pymc as pm


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
            share, own = self.prepared.prior.finite_fraction, {**own, **self.prepared.record()}
        return run_attrs(block.compiled, block.path.batching, share, cost, **own)

    def data(self) -> dict[str, xr.Dataset]:
        """Groups with the data of a model."""
        if self.prepared is None:
            return {}
        return data_datasets(self.prepared.flat.model, self.prepared.flat.observed)


@dataclass(frozen=True)
class Call[S: RunSettings]:
    """What all stages of one call share, whatever its method."""

    settings: S
    rngs: Generators
    compile_kwargs: Mapping[str, Any] | None = None
    watch: Stopwatch = field(default_factory=Stopwatch)

    def needs(
        self, prepared: Prepared | None, work: Work, n: float, of_checks: float = 1.75 * AT_ONCE
    ) -> Evaluations | None:
        """So many evaluations, and those of checks, at the pace of the pilot's.

        None of a model that runs no Python.
        """
        if prepared is None or not prepared.flat.calls_host:
            return None
        # those of an executor are as fast as its workers
        done = 0 if self.settings.running.executor is not None else work.done - work.n_recalled
        n += of_checks
        return Evaluations(n, self.watch.seconds.get("tuning_time", 0.0) / done if done else 0.0)

    @contextmanager
    def kept(self, what: Any, block: Block, **arrays: np.ndarray | None) -> Iterator[Self]:
        """The same call, whose chains are kept, if that is asked for.

        ``what`` it is of is a model that is prepared, or a target that is none; ``arrays`` are what
        it is given, such as draws that reverse rows start from.
        """
        settings, of = self.settings, what.flat if isinstance(what, Prepared) else what
        with settings.running.kept(settings, of, block, self.rngs.run, **arrays) as running:
            yield replace(self, settings=replace(settings, running=running))

    def planned_once(self, subject: Subject, name: str, make: Callable[[], Planned]) -> Planned:
        """What is planned, or was planned before, if it was kept under this name."""
        prepared, block = subject.prepared, subject.block
        if self.settings.running.keeper is None:
            return make()

        def record() -> dict[str, Any]:
            made = make()
            return {**vars(made), "block": None, "target": made.target is not None}

        made = self.once(name, record, prepared, block)
        target = Target(prepared, block) if made["target"] and prepared is not None else None
        return Planned(**{**made, "block": made["reference"].start(block), "target": target})

    def once(
        self, name: str, make: Callable[[], Any], prepared: Prepared | None, block: Block
    ) -> Any:
        """What is made, or was made and kept, by the pilot's generator.

        Evaluations of ``block`` and draws of the prior of a model, if it is one, are counted once.
        """
        keeper = self.settings.running.keeper
        if keeper is None:
            return make()
        counts: Any = None if prepared is None else prepared.prior
        return keeper.remember(name, make, self.rngs.pilot, work=block.work, prior=counts)


def ready(model: "pm.Model", call: Call, **options: Any) -> Subject:
    """A model that is prepared, with options of `prepare`, and moves of it that are compiled."""
    settings = call.settings
    with line("Compiling the model"):
        prepared = prepare(model, call.rngs.checks, integers=True, **options)
        block = block_for(prepared, settings, call.compile_kwargs)
        block = settings.within_memory(block)
        block.compile()
    return Subject.of_model(prepared, block)


@contextmanager
def begun[S: RunSettings](
    settings: S,
    random_seed: Any = None,
    progressbar: bool = True,
    compile_kwargs: Mapping[str, Any] | None = None,
) -> Iterator[Call[S]]:
    """A call of these settings, by arguments of `pymc_logz.sample_hais`."""
    rngs, running = generators_from(random_seed), settings.running
    limited = calls_limited(running.calls_at_once, running.time_limit)
    with progress_bar(progressbar), limited:
        yield Call(settings, rngs, compile_kwargs)
