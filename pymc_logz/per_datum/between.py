"""A path from the posterior of one model to that of another one of the same variables.

Rows are annealed from the prior of the other model to its posterior, and on from there along ::

    (prior x likelihood of the other)**(1 - beta) * (prior x likelihood of the model)**beta

so that the weights of the second part are about the ratio of the two log Z, which is the log Bayes
factor: models that are alike are a few temperatures apart, however far both are from their priors.
Rows keep the weights that they have at the other posterior, so that nothing rests on draws of it.

References
----------
Carlson, Stinson, Pakman & Paninski (2016), section 2.1, arXiv 1603.01912, for tempering; Gelman &
Meng (1998), Simulating normalizing constants, doi 10.1214/ss/1028905934.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
import xarray as xr
from pytensor.graph.replace import clone_replace

from pymc_logz.checks.missed_modes import mode_doubts
from pymc_logz.errors import ModelError
from pymc_logz.graphs.kept import Kept
from pymc_logz.hais.directions import (
    Directions,
    bayes_factor,
    factor_dataset,
    forward_estimate,
    of_model,
)
from pymc_logz.hais.judging import doubts_of, doubts_of_run
from pymc_logz.hais.run import Chains, collect, run_chains
from pymc_logz.hais.settings import HaisSettings
from pymc_logz.kernels.compose import for_variables
from pymc_logz.loop.frozen import Planned, n_followed, refine, walk
from pymc_logz.loop.planning import block_for, plan_run
from pymc_logz.loop.stored_plans import Subject
from pymc_logz.models.density import RowDensity
from pymc_logz.models.flat import FlatModel, model_path
from pymc_logz.models.preparation import Prepared, prepare
from pymc_logz.references.reference import Reference
from pymc_logz.runners.anneal import Annealed
from pymc_logz.runners.block import Block
from pymc_logz.runners.moves_of_rows import Stopwatch
from pymc_logz.runners.progress import progress_bar, report_beta
from pymc_logz.runners.running import AnnealCourse, Running, anneal_all
from pymc_logz.seeds import Generators, generators_from, spawn_generators
from pymc_logz.trees.doubts import Doubt, doubted
from pymc_logz.weights import resampled

if TYPE_CHECKING:
    import pymc as pm

FROM_MODEL = Reference("model", "it was asked for: the posterior of another model")


class Other(NamedTuple):
    """The model that the path starts at, and rows of its posterior in its own coordinates."""

    prepared: Prepared
    planned: Planned
    runs: list[Annealed]
    """Chains of weighted rows, which go on."""
    apart: Annealed
    """Rows of which the temperatures between the models are learned."""
    doubts: list[Doubt]
    """What speaks against the rows that go on."""

    def rows_of(self, run: Annealed, flat: FlatModel) -> np.ndarray:
        """Ends of a run as rows of the model that the path leads to, shape (n, d)."""
        rows = np.empty_like(run.position)
        position = of_model(run, self.planned.reference).position
        rows[:, order_of(flat, self.prepared.flat)] = position
        return rows


def run_between(
    model: "pm.Model",
    settings: HaisSettings,
    *,
    other: "pm.Model",
    random_seed: Any = None,
    progressbar: bool = True,
    compile_kwargs: Mapping[str, Any] | None = None,
) -> xr.DataTree:
    """Anneal to the other model, on to the model, and collect."""
    remedy = "leave it out, or run sample_hais for each of the two with it, and compare_evidence"
    settings.running.refuse(f"where reference is a model: {remedy}", "checkpoint")
    watch, rngs = Stopwatch(), generators_from(random_seed)
    prepared, of_other = (prepare(one, rngs.checks, integers=True) for one in (model, other))
    flat = joined_models(prepared.flat, of_other.flat)
    if any(np.exp(one.prior.log_share(rngs.checks)[0]) < 1.0 for one in (prepared, of_other)):
        raise ModelError(
            "a transform restricts the prior of this model, whose constant a path between two "
            "models does not know: run sample_hais for each, and compare_evidence"
        )
    with progress_bar(progressbar) as progress:
        start = _anneal_other(of_other, settings, rngs, progress, compile_kwargs)
        rows, log_weight = start.rows_of(start.apart, flat), start.apart.log_weight

        def draw(rng: np.random.Generator, n: int) -> np.ndarray:
            return rows[resampled(log_weight, rng, n, shuffled=True)]

        path = replace(model_path(flat, of_other.prior), sample_reference=draw)
        kernel = for_variables(settings.kernel_for(path.n_dims), flat.owners, flat.sites)
        kernel = kernel.resolved(path.n_dims)
        block = settings.within_memory(Block(path, kernel, settings.pilot_rows, compile_kwargs))
        first = path.sample_reference(rngs.pilot, n_followed(block))
        stages = walk(block, settings, first, rngs.pilot, report_beta(progress))
        planned, _ = refine(block, settings, stages, rngs.pilot, FROM_MODEL)
        watch.end("tuning_time")
        pilot_work = block.work.done
        planned, runs = _go_on_twice(planned, start, flat, settings, rngs.run)
    factor, directions = bayes_factor(start.runs, runs), Directions(runs, FROM_MODEL)
    doubts = [
        *start.doubts,
        *doubts_of(factor, planned, runs),
        *_modes_of_its_own(prepared, directions, compile_kwargs, rngs.checks),
    ]
    watch.end("sampling_time")
    work = block.work.record(pilot_work, block.kernel)
    cost = {"compile_time": 0.0, **watch.seconds, **work}
    subject = Subject.of_model(prepared, planned.block)
    tree = collect(subject, planned, directions, settings, rngs.run, cost, doubts)
    other_log_z = forward_estimate(Directions(start.runs, start.planned.reference))
    [factor], [other_log_z] = doubted([factor], doubts), doubted([other_log_z], start.doubts)
    tree["bayes_factor"] = xr.DataTree(factor_dataset(factor, other_log_z))
    return tree


def _modes_of_its_own(
    prepared: Prepared,
    directions: Directions,
    compile_kwargs: Mapping[str, Any] | None,
    rng: np.random.Generator,
) -> list[Doubt]:
    """Whether the model has modes that the other one lacks, from which no row gets there."""
    log_z = forward_estimate(directions).log_z
    if prepared.flat.sites or not np.isfinite(log_z):
        return []
    position = np.concatenate([run.position for run in directions.forward])
    log_weight = np.concatenate([run.log_weight for run in directions.forward])
    density = RowDensity(prepared.flat, compile_kwargs)
    return mode_doubts(prepared, density, position[resampled(log_weight, rng)], log_z, rng)


def joined_models(flat: FlatModel, other: FlatModel) -> FlatModel:
    """The model with the other one's density in the place of its prior."""
    ours, theirs = (dict(zip(one.value_names, one.shapes, strict=True)) for one in (flat, other))
    if ours != theirs or [site[1:] for site in flat.sites] != [site[1:] for site in other.sites]:
        only = [
            sorted(set(a.items()) - set(b.items())) for a, b in ((ours, theirs), (theirs, ours))
        ]
        raise ValueError(
            "reference is a model of other variables: names on the unconstrained scale, shapes and "
            f"bounds must be the same, but the model alone has {only[0]} and the reference alone "
            f"{only[1]}; compare their log Z instead (pymc_logz.compare_evidence)"
        )
    point = flat.point[order_of(flat, other)]
    [log_other] = clone_replace(
        [other.log_prior + other.log_ratio], {other.point: point}, rebuild_strict=False
    )
    inputs = dict(zip([*flat.inputs, *other.inputs], [*flat.values, *other.values], strict=True))
    log_own = flat.log_prior + flat.log_ratio
    return replace(
        flat,
        log_prior=log_other,
        log_ratio=pt.switch(pt.eq(log_own, -np.inf), -np.inf, log_own - log_other),
        entries=None,
        inputs=tuple(inputs),
        values=tuple(inputs.values()),
        kept=Kept(),
    )


def order_of(flat: FlatModel, other: FlatModel) -> np.ndarray:
    """Column of a row of the first model that each column of the second one's is, shape (d,)."""
    ends = np.cumsum([np.prod(shape, dtype=int) for shape in flat.shapes])
    columns = dict(zip(flat.value_names, np.split(np.arange(flat.n_dims), ends[:-1]), strict=True))
    return np.concatenate([columns[name] for name in other.value_names])


def _anneal_other(
    prepared: Prepared,
    settings: HaisSettings,
    rngs: Generators,
    progress: Any,
    compile_kwargs: Mapping[str, Any] | None,
) -> Other:
    """Rows of the other model's posterior, as `sample_hais` makes them by default."""
    own = replace(settings, betas="adaptive", reference=None, target_mcse=None)
    block = own.within_memory(block_for(prepared, own, compile_kwargs))
    block.compile()
    plan = partial(plan_run, prepared, block, own, rngs.pilot, report_beta(progress))
    planned, runs = Chains(own, rngs.run, progress).twice(plan(direct=True), [plan])
    n_rows = max(own.draws, n_followed(block))
    [apart] = run_chains(planned, [rngs.pilot], n_rows, Running(), None)
    directions = Directions(runs, planned.reference)
    doubts = doubts_of_run(prepared, block, planned, directions, rngs.checks)
    return Other(prepared, planned, runs, apart, doubts)


def _go_on_twice(
    planned: Planned,
    start: Other,
    flat: FlatModel,
    settings: HaisSettings,
    rng: np.random.Generator,
) -> tuple[Planned, list[Annealed]]:
    """All rows annealed on; again, along a longer ladder, if their weights are not good."""
    starts = [start.rows_of(run, flat) for run in start.runs]

    def annealed_on(planned: Planned) -> list[Annealed]:
        generators = spawn_generators(rng, len(starts))
        course = AnnealCourse(planned.block, planned.plan)
        runs = anneal_all("on", course, starts, generators, settings.how)
        return [
            after._replace(log_weight=before.log_weight + after.log_weight)
            for before, after in zip(start.runs, runs, strict=True)
        ]

    runs, longer = annealed_on(planned), planned.longer(4)
    is_fixed = settings.ladder() is not None or longer.plan is planned.plan
    if is_fixed or forward_estimate(Directions(runs, FROM_MODEL)).status == "ok":
        return planned, runs
    return longer, annealed_on(longer)
