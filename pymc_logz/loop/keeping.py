"""A run that is kept as it goes: who it is, and what its pilot came to."""

import hashlib
import json
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import xarray as xr

from pymc_logz.kernels.base import KernelState
from pymc_logz.kernels.compose import Compose
from pymc_logz.kernels.gibbs import Gibbs
from pymc_logz.kernels.hamiltonian import Hamiltonian, Langevin
from pymc_logz.kernels.integer_walk import IntegerWalk
from pymc_logz.kernels.one_of import OneOf
from pymc_logz.kernels.random_walk import RandomWalk
from pymc_logz.kernels.slice import Slice
from pymc_logz.loop.frozen import Planned
from pymc_logz.loop.planning import plan_run
from pymc_logz.models.identity import digest_of, identity_of_model, told
from pymc_logz.models.preparation import Prepared
from pymc_logz.paths.clusters import Clusters
from pymc_logz.paths.elliptical import Elliptical
from pymc_logz.paths.foreign import ForeignModel
from pymc_logz.paths.funnels import Features, Funnel
from pymc_logz.paths.geometric import Evaluation
from pymc_logz.paths.mixture import Mixture
from pymc_logz.pilot.population import Stages, TargetRows
from pymc_logz.pilot.settings import RunSettings
from pymc_logz.references.blend import Blend, Component, Prior, target_of
from pymc_logz.references.conditional import ConditionalNormal
from pymc_logz.references.directions import IndependentDirections
from pymc_logz.references.reference import Reference
from pymc_logz.runners.anneal import Plan, Tally, Underway
from pymc_logz.runners.asked import SEED
from pymc_logz.runners.block import Block
from pymc_logz.runners.checkpoint import Keeper
from pymc_logz.runners.jobs import AnnealJob
from pymc_logz.runners.records import Codec
from pymc_logz.runners.running import Running

CLASSES = (
    AnnealJob,
    Blend,
    Clusters,
    Component,
    ConditionalNormal,
    Elliptical,
    Evaluation,
    Features,
    Funnel,
    IndependentDirections,
    KernelState,
    Mixture,
    Plan,
    Prior,
    Reference,
    Stages,
    Tally,
    TargetRows,
    Underway,
)
"""What the records of annealed runs are made of."""
KERNELS = (
    Compose,
    Gibbs,
    Hamiltonian,
    IntegerWalk,
    Langevin,
    OneOf,
    RandomWalk,
    Slice,
)
"""Kernels that a run can be begun with and added to."""
ASKED = "asked"
"""Record of what the user asked for."""
LIBRARIES = ("pymc-logz", "pymc", "pytensor", "numpy", "scipy", "jax", "jaxlib", "numba")
"""Those on whose versions bits may depend."""


@contextmanager
def kept[S: RunSettings](
    settings: S,
    what: Prepared | ForeignModel,
    block: Block,
    rng: np.random.Generator,
    arrays: Mapping[str, np.ndarray | None] | None = None,
    *,
    classes: tuple[type, ...] = CLASSES,
) -> Iterator[S]:
    """Settings by which chains are kept, if a checkpoint is asked for.

    Parameters
    ----------
    settings
        What the user asked for.
    what
        What the run is of.
    block
        Compiled moves.
    rng
        Generator of the run, before it was used.
    arrays
        What the run is given beside them, by name: draws that reverse rows start from, say.
    classes
        What the records are made of.

    Raises
    ------
    CheckpointError
        If the checkpoint is of another run.
    """
    running = settings.running
    if running.checkpoint is None:
        yield settings
        return
    block.compile()
    given = {name: digest_of(one) for name, one in (arrays or {}).items() if one is not None}
    identity = {**identity_of_run(settings, what, block, rng), **given}
    codec = Codec((*classes, *KERNELS, *kernels_of(what)))
    asked = {} if given else asked_for(settings, block.compile_kwargs, codec)
    begun = {SEED: running.seed, ASKED: asked}
    with keeping(running, codec, identity, begun) as running:
        yield replace(settings, running=running)


def kernels_of(what: Any) -> tuple[type, ...]:
    """Kernels that a target which is no PyMC model brings along."""
    return what.runs.KERNELS if isinstance(what, ForeignModel) else ()


@contextmanager
def keeping(
    running: Running, codec: Codec, identity: Mapping[str, Any], begun: Mapping[str, Any]
) -> Iterator[Running]:
    """The same with what keeps it, until it is at its end.

    Parameters
    ----------
    running
        How units of work are run, in a checkpoint.
    codec, identity, begun
        As in `Keeper.opened`.

    Raises
    ------
    CheckpointError
        If the checkpoint is of another run.
    """
    assert running.checkpoint is not None
    with Keeper.opened(running.checkpoint, codec, identity, begun) as keeper:
        yield replace(running, keeper=keeper)
        keeper.finish()


def asked_for(
    settings: RunSettings,
    compile_kwargs: Mapping[str, Any] | None,
    codec: Codec,
) -> dict[str, Any]:
    """What a run was asked for, as a record; empty if it is more than numbers and names."""
    apart = ("running", "cores")
    given = {
        one.name: getattr(settings, one.name) for one in fields(settings) if one.name not in apart
    }
    record = {"settings": given, "compile_kwargs": dict(compile_kwargs or {})}
    try:
        codec.encode(record)
    except TypeError:  # a kernel of the user's own, a mode, draws for a reference
        return {}
    return record


def identity_of_run(
    settings: RunSettings, what: Prepared | ForeignModel, block: Block, rng: np.random.Generator
) -> dict[str, Any]:
    """All that the bits of a run depend on."""
    every = {one.name: getattr(settings, one.name) for one in fields(settings)}
    given = {
        name: told(np.asarray(value) if isinstance(value, list) else value)
        for name, value in every.items()
        if isinstance(value, list | np.ndarray | xr.DataTree)
    }
    given |= {"kernel": told(settings.kernel), "compile_kwargs": told(block.compile_kwargs or {})}
    if block.most_rows is not None:
        given["particles that max_memory has room for"] = block.most_rows
    if isinstance(what, ForeignModel):
        of_what = {"name": what.name, "values": [digest_of(value) for value in block.path.values]}
    else:
        of_what = identity_of_model(what.flat)
    record = {name: value for name, value in settings.record().items() if name != "more"}
    return identity_of_call({**_plain(record), **given}, of_what, rng, block.compiled.backend)


def identity_of_call(
    settings: Mapping[str, Any], of_what: Any, rng: np.random.Generator, backend: str
) -> dict[str, Any]:
    """All that the bits of a call depend on.

    Parameters
    ----------
    settings
        What it was asked for, as numbers and strings.
    of_what
        The model, in nested dicts of strings.
    rng
        Its generator, before it was used.
    backend
        What computes.
    """
    seed = json.dumps(rng.bit_generator.state, default=lambda array: array.tolist())
    return {
        "settings": dict(settings),
        "model": of_what,
        "random_seed": hashlib.blake2b(seed.encode(), digest_size=8).hexdigest(),
        "backend": backend,
        "machine": platform.machine(),
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Versions of libraries on which bits may depend."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def planned_once(
    prepared: Prepared,
    block: Block,
    settings: RunSettings,
    rng: np.random.Generator,
    report: Any,
    name: str,
    *,
    direct: bool = False,
) -> Planned:
    """What `plan_run` plans, or has planned before, if it was kept under this name.

    Parameters
    ----------
    prepared, block, settings, rng, report, direct
        As in `plan_run`.
    name
        Of the record.
    """

    def plan() -> Planned:
        return plan_run(prepared, block, settings, rng, report, direct=direct)

    keeper = settings.running.keeper
    if keeper is None:
        return plan()
    made = once(keeper, name, lambda: _written(plan()), prepared, block, rng)
    reference = made["reference"].with_draws(prepared.prior)
    planned = Planned(reference.start(block), made["plan"], reference, made["stages"])
    if made["blend"] is None:
        return planned
    return replace(planned, blend=made["blend"], target=target_of(prepared, block))


def once(
    keeper: Keeper | None,
    name: str,
    make: Callable[[], Any],
    prepared: Prepared | None,
    block: Block,
    rng: np.random.Generator,
) -> Any:
    """What is made, or was made and kept; evaluations and draws of the prior are counted once.

    Parameters
    ----------
    keeper
        Where it is kept; None makes it now.
    name
        Of the record.
    make
        Makes a record.
    prepared
        The model; None for an energy.
    block
        What counts evaluations.
    rng
        What it draws from.
    """
    if keeper is None:
        return make()
    was_made = False

    def counted() -> Any:
        nonlocal was_made
        was_made, before = True, block.work.done
        value = make()
        return {"value": value, "work": block.work.done - before, "draws": _counts(prepared)}

    made = keeper.remember(name, counted, rng)
    if not was_made:
        block.work.add(made["work"])
        if prepared is not None:
            prior = prepared.prior
            prior.n_drawn, prior.n_outside, prior.n_rounded = made["draws"]
    return made["value"]


def _counts(prepared: Prepared | None) -> list[int]:
    if prepared is None:
        return []
    prior = prepared.prior
    return [prior.n_drawn, prior.n_outside, prior.n_rounded]


def _written(planned: Planned) -> dict[str, Any]:
    """A plan as a record."""
    reference = planned.reference.without_draws()
    made = {"plan": planned.plan, "stages": planned.stages, "reference": reference}
    return {**made, "blend": planned.blend}


def _plain(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record of settings as text, numbers stay numbers."""
    return {
        key: value if isinstance(value, bool | int | float | str | None) else str(value)
        for key, value in record.items()
    }
