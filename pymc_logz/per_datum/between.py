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

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytensor.tensor as pt
import xarray as xr
from pytensor.graph.replace import clone_replace

from pymc_logz.checks.missed_modes import larger, log_z_from_prior
from pymc_logz.checks.symmetry import symmetry_doubts
from pymc_logz.errors import ModelError
from pymc_logz.graphs.functions import Kept
from pymc_logz.hais.results import (
    Directions,
    bayes_factor,
    factor_dataset,
    forward_estimate,
    of_model,
)
from pymc_logz.hais.run import Chains, collect, doubts_of_run, run_chains
from pymc_logz.hais.settings import HaisSettings
from pymc_logz.loop.calls import Call, Subject, begun
from pymc_logz.loop.frozen import Planned, n_followed, refine, walk
from pymc_logz.loop.planning import block_for, plan_run
from pymc_logz.models.density import RowDensity
from pymc_logz.models.flat import FlatModel
from pymc_logz.models.preparation import Prepared, prepare
from pymc_logz.references.reference import Reference
from pymc_logz.runners.anneal import Annealed, of_rows
from pymc_logz.runners.block import Block
from pymc_logz.runners.running import AnnealCourse, Running, anneal_each, finished
from pymc_logz.seeds import spawn_generators
from pymc_logz.trees.doubts import Doubt, doubted
from pymc_logz.weights import resampled

if TYPE_CHECKING:
    import pymc as pm

FROM_MODEL = Reference("model", "it was asked for: the posterior of another model")


@dataclass(frozen=True)
class Start:
    """Rows of the other model's posterior, in its own coordinates, that go on to the model."""

    flat: FlatModel
    """The model, with the other one's density in the place of its prior."""
    prepared: Prepared
    """The other model."""
    planned: Planned
    runs: list[Annealed]
    """Chains of weighted rows, which go on."""
    apart: Annealed
    """Rows of which the temperatures between the models are learned."""
    doubts: list[Doubt]
    """What speaks against the rows that go on."""

    def rows(self, run: Annealed) -> np.ndarray:
        """Ends of rows of the other model as rows of the model, shape (n, d)."""
        rows = np.empty_like(run.position)
        order = order_of(self.flat, self.prepared.flat)
        rows[:, order] = of_model(run, self.planned.reference).position
        return rows

    def block(self, call: Call[HaisSettings]) -> Block:
        """Moves along the path, whose start is drawn from rows that do not go on."""
        rows, log_weight = self.rows(self.apart), self.apart.log_weight

        def draw(rng: np.random.Generator, n: int) -> np.ndarray:
            return rows[resampled(log_weight, rng, n, shuffled=True)]

        # it starts at no mixture, which moves would pay for
        onward = replace(self.prepared, flat=self.flat), replace(call.settings, reference="prior")
        block = block_for(*onward, call.compile_kwargs)
        path = replace(block.given_path, sample_reference=draw)
        return call.settings.within_memory(block.changed(given_path=path))

    def go_on(
        self, planned: Planned, call: Call[HaisSettings]
    ) -> tuple[list[Annealed], list[Annealed]]:
        """Rows of chains that got to the model's posterior, before, and with both weights."""
        generators = spawn_generators(call.rngs.run, len(self.runs))
        course = AnnealCourse(planned.block, planned.plan)
        starts = list(map(self.rows, self.runs))
        on = anneal_each("on", course, starts, generators, call.settings.running)
        pairs = finished(
            [
                after and (before, after._replace(log_weight=before.log_weight + after.log_weight))
                for before, after in zip(self.runs, on, strict=True)
            ]
        )
        before, after = zip(*pairs, strict=True)
        return list(before), list(after)


def run_between(
    model: "pm.Model", settings: HaisSettings, *, other: "pm.Model", **shown: Any
) -> xr.DataTree:
    """Anneal to the other model, on to the model, and collect; ``shown`` as of `begun`."""
    remedy = "leave it out, or run sample_hais for each of the two with it, and compare_evidence"
    settings.running.refuse(f"where reference is a model: {remedy}", "checkpoint")
    with begun(settings, **shown) as call:
        watch, rngs, compile_kwargs = call.watch, call.rngs, call.compile_kwargs
        prepared, of_other = (prepare(one, rngs.checks, integers=True) for one in (model, other))
        flat = joined_models(prepared.flat, of_other.flat)
        if any(np.exp(one.prior.log_mass(rngs.checks)[0]) < 1.0 for one in (prepared, of_other)):
            raise ModelError(
                "a transform restricts the prior of this model, whose constant a path between two "
                "models does not know: run sample_hais for each, and compare_evidence"
            )
        start = _anneal_other(flat, of_other, call)
        block = start.block(call)
        stages = walk(block, settings, rngs.pilot)
        planned, _ = refine(block, settings, stages, rngs.pilot, FROM_MODEL)
        watch.seconds["compile_time"] = 0.0
        watch.end("tuning_time", block.work)
        before, runs = start.go_on(planned, call)
        # again, along a longer ladder, where their weights are not good
        longer = planned.longer(4)
        can_be_longer = settings.ladder() is None and longer.plan is not planned.plan
        if can_be_longer and forward_estimate(runs, FROM_MODEL).status != "ok":
            planned, (before, runs) = longer, start.go_on(longer, call)
        factor, directions = bayes_factor(before, runs), Directions(runs, FROM_MODEL)
        estimate, doubts = forward_estimate(runs, FROM_MODEL), list(start.doubts)
        if estimate.usable and not prepared.flat.sites:
            # whether it has modes that the other one lacks, from which no row gets there
            position, log_weight = of_rows("position", runs), of_rows("log_weight", runs)
            drawn = position[resampled(log_weight, rngs.checks)]
            told = symmetry_doubts(prepared.flat, RowDensity(prepared.flat, compile_kwargs), drawn)
            look = prepared, estimate, rngs.checks, compile_kwargs
            doubts += told or larger(log_z_from_prior(*look), estimate)
        watch.end("sampling_time")
        subject = Subject.of_model(prepared, planned.block)
        tree = collect(call, subject, planned, directions, doubts)
    other_log_z = forward_estimate(start.runs, start.planned.reference)
    [factor], [other_log_z] = doubted([factor], doubts), doubted([other_log_z], start.doubts)
    tree["bayes_factor"] = xr.DataTree(factor_dataset(factor, other_log_z))
    return tree


def joined_models(flat: FlatModel, other: FlatModel) -> FlatModel:
    """The model with the other one's density in the place of its prior."""
    ours, theirs = dict(flat.shapes), dict(other.shapes)
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
    return replace(
        flat,
        log_prior=log_other,
        log_ratio=pt.switch(
            pt.eq(flat.log_prior + flat.log_ratio, -np.inf),
            -np.inf,
            flat.log_prior + flat.log_ratio - log_other,
        ),
        entries=None,
        inputs=tuple(inputs),
        values=tuple(inputs.values()),
        kept=Kept(),
    )


def order_of(flat: FlatModel, other: FlatModel) -> np.ndarray:
    """Column of a row of the first model that each column of the second one's is, shape (d,)."""
    columns = flat.columns_by_name
    return np.concatenate([columns[name].ravel() for name in other.shapes])


def _anneal_other(flat: FlatModel, prepared: Prepared, call: Call[HaisSettings]) -> Start:
    """Rows of the other model's posterior, as `sample_hais` makes them by default."""
    rngs = call.rngs
    own = replace(call.settings, betas="adaptive", reference=None, target_mcse=None)
    block = own.within_memory(block_for(prepared, own, call.compile_kwargs))
    block.compile()
    plan = partial(plan_run, prepared, block, own, rngs.pilot)
    chains = Chains(replace(call, settings=own))
    planned, runs = chains.twice(plan(direct=True), [plan])
    n_rows = max(own.draws, n_followed(block))
    [apart] = run_chains(planned, [rngs.pilot], n_rows, Running(), None)
    directions = Directions(runs, planned.reference)
    subject = Subject.of_model(prepared, block)
    doubts = doubts_of_run(subject, directions, rngs.checks, chains.before)
    return Start(flat, prepared, planned, runs, apart, doubts)
