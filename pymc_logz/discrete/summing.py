"""Discrete variables summed out of a model, where its graph shows how.

Three routes, which may meet. Entries of which each piece of the density has one at most are
independent given all the rest, as labels of a mixture are: for each of them alone the density is
summed over its values. Entries that pieces have two of, as states of a hidden Markov chain, are
summed one after the other, see `pymc_logz.discrete.elimination`. Others are summed over all their
values together, if there are few, as the year of a change is. What is left has continuous variables
x only::

    log p(x) = log sum_c exp( rest(x, c) + log sum_v prod_i piece_i(x, c, v_i) prod_ij piece_ij )

The path from the prior of x to the sum is not that of the whole model. Its ends are those of the
whole model with all discrete variables summed out, so that log Z is the same.

Where discrete variables are moved instead, the same pieces serve a Gibbs step that draws all
independent entries together: over m labels of K values it costs K evaluations in place of K m.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.replace import clone_replace
from scipy.special import logsumexp, softmax

from pymc_logz.discrete.elimination import NUMERIC, SYMBOLIC, Ops, drawn_back, eliminated
from pymc_logz.discrete.independence import data_that_decide
from pymc_logz.discrete.pieces import Pieces, Sums, add_up, pieces_of, sums_of
from pymc_logz.discrete.plan import SumPlan, independent_plan, sum_plan
from pymc_logz.graphs.kept import Kept
from pymc_logz.models.cache import kept_for
from pymc_logz.models.data_rows import DataInputs, starting_point, with_data_inputs
from pymc_logz.models.discrete import is_discrete, row_variable, split_row
from pymc_logz.models.flat import FlatModel, cheaply_compiled
from pymc_logz.models.preparation import NotSummed
from pymc_logz.paths.geometric import Entries


@dataclass(frozen=True)
class InPieces:
    """The density of a model in pieces, compiled, and checked against the whole."""

    plan: SumPlan
    sums: Sums
    """Symbolic."""
    others: list[Any]
    """Further graphs of the same inputs."""
    data: DataInputs
    function: Callable[..., list[Any]]

    def at(self, row: np.ndarray) -> Sums:
        """The pieces at a row, as numbers."""
        return Sums(*map(np.asarray, self.function(row, *self.data.values())))


@dataclass(frozen=True)
class Summed:
    """Discrete variables that were summed out of a model."""

    whole: FlatModel
    """The model with all of its variables."""
    pieces: InPieces

    @property
    def route(self) -> str:
        """Which variables are summed how, in words."""
        return self.pieces.plan.route

    def log_target(self, row: np.ndarray) -> float:
        """Log of the sum over all discrete variables at a row of continuous ones."""
        of_point, _ = _eliminated(self.pieces.plan, self.pieces.at(row), NUMERIC, with_ratio=True)
        return float(logsumexp(of_point))

    def filled(self, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Rows (n, D) of the whole model: discrete variables drawn given continuous rows (n, d)."""
        plan, full = self.pieces.plan, np.empty((len(rows), self.whole.n_dims))
        full[:, self.whole.continuous] = rows
        others, alone = plan.columns
        for row, target in zip(rows, full, strict=True):
            of_point, tables = _eliminated(plan, self.pieces.at(row), NUMERIC, with_ratio=True)
            c = int(rng.choice(len(of_point), p=softmax(of_point)))
            chosen = drawn_back(plan.rounds, tables, c, rng)
            target[others] = plan.points[c]
            target[alone] = plan.values[chosen, np.arange(len(alone))]
        return full


def summed_out(whole: FlatModel) -> FlatModel | NotSummed:
    """A model without its discrete variables, with data of its own, or why that cannot be."""
    made = kept_for(whole.model).get("summed", lambda: _summed(whole))
    if isinstance(made, NotSummed):
        return made
    flat, summed = made
    return replace(flat, values=summed.pieces.data.values(), summed=summed)


def with_entries(whole: FlatModel) -> FlatModel:
    """The model with pieces of the density for entries that are independent, if several are."""
    made = kept_for(whole.model).get("entries", lambda: _with_entries(whole))
    if made is None:
        return whole
    flat, data = made
    return replace(flat, values=data.values())


def _in_pieces(
    whole: FlatModel,
    row: Any,
    given: Sequence[Any],
    plan_of: Callable[[list[Any]], SumPlan | NotSummed],
    others_of: Callable[[Pieces, dict[Any, Any]], list[Any]] = lambda pieces, parts: [],
) -> InPieces | NotSummed:
    """The density at a symbolic row of some value variables, for all values of others."""
    model, kept, start = whole.model, kept_for(whole.model), starting_point(whole.model)
    pieces = pieces_of(model)
    both = [*pieces[0], *pieces[1]]
    kept.bake_in(data_that_decide(both))
    try:
        plan = plan_of(both)
        if isinstance(plan, NotSummed):
            return plan
        parts = split_row(row, given, start)
        sums = sums_of(whole, parts, pieces, plan, start)
        outputs = [part.astype(row.dtype) for part in (*sums, *others_of(pieces, parts))]
        made, data = with_data_inputs(outputs, kept)
    except (NotImplementedError, ValueError, TypeError) as error:
        return NotSummed(f"its graph is not understood ({str(error)[:100]})")
    sums = Sums(*made[: len(sums)])
    function = cheaply_compiled([row, *data.inputs], list(sums))
    found = InPieces(plan, sums, made[len(sums) :], data, function)
    columns = whole.continuous if len(given) < len(model.value_vars) else slice(None)
    if not add_up(whole, plan, lambda point: found.at(point[columns])):
        return NotSummed("the pieces of its density do not add up to it")
    return found


def _summed(whole: FlatModel) -> tuple[FlatModel, Summed] | NotSummed:
    model, start = whole.model, starting_point(whole.model)
    left = [var for var in model.value_vars if not is_discrete(var)]
    row = pt.tensor("row", dtype="float64", shape=(whole.continuous.size,))
    pieces = _in_pieces(whole, row, left, lambda both: sum_plan(whole, both, start))
    if isinstance(pieces, NotSummed):
        return pieces
    log_prior, log_target = (
        pt.logsumexp(_eliminated(pieces.plan, pieces.sums, SYMBOLIC, with_ratio=with_ratio)[0])
        for with_ratio in (False, True)
    )
    flat = FlatModel(
        model,
        tuple(var.name for var in left),
        tuple(start[var.name].shape for var in left),
        row,
        log_prior,
        log_target - log_prior,
        inputs=pieces.data.inputs,
    )
    return flat, Summed(whole, pieces)


def _with_entries(whole: FlatModel) -> tuple[FlatModel, DataInputs] | None:
    model, start = whole.model, starting_point(whole.model)
    point = row_variable("row", model, whole.shapes)

    def densities(pieces: Pieces, parts: dict[Any, Any]) -> list[Any]:
        # the densities as they were, whose data are to be the same inputs
        given = (clone_replace(some, parts, rebuild_strict=False) for some in pieces)
        return [sum((one.sum() for one in some), pt.zeros(())) for some in given]

    pieces = _in_pieces(
        whole,
        point,
        model.value_vars,
        lambda both: independent_plan(whole, both, start),
        densities,
    )
    if isinstance(pieces, NotSummed):
        return None
    _, k, m = pieces.plan.shape
    rests, of_entries = (
        [part[0] for part in (pieces.sums.prior, pieces.sums.ratio)],
        [
            pt.specify_shape(part[0].ravel(), (k * m,))
            for part in (pieces.sums.prior_of_entry, pieces.sums.ratio_of_entry)
        ],
    )
    sites = tuple(whole.sites[i] for i in pieces.plan.alone)
    log_prior, log_ratio = pieces.others
    flat = replace(
        whole,
        point=point,
        log_prior=log_prior,
        log_ratio=log_ratio,
        entries=Entries(sites, *zip(rests, of_entries, strict=True)),
        inputs=pieces.data.inputs,
        kept=Kept(),
    )
    return flat, pieces.data


def _eliminated(plan: SumPlan, sums: Sums, ops: Ops, *, with_ratio: bool) -> tuple[Any, Any]:
    """Log of the sum over entries that are summed one by one, shape (C,), and tables of rounds."""
    rest, of_entry, of_pair = sums.prior, sums.prior_of_entry, sums.prior_of_pair
    if with_ratio:
        rest, of_entry, of_pair = (
            rest + sums.ratio,
            of_entry + sums.ratio_of_entry,
            of_pair + sums.ratio_of_pair,
        )
    total, tables = eliminated(plan.rounds, of_entry, of_pair, ops)
    return rest + total, tables
