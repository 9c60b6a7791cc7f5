"""Discrete variables summed out of a model, where its graph shows how.

Three routes, which may meet. Entries of which each piece of the density has one at most are
independent given all the rest, as labels of a mixture are: for each of them alone the density is
summed over its values. Entries that pieces have two of, as states of a hidden Markov chain, are
summed one after the other, see `pymc_logz.models.elimination`. Others are summed over all their
values together, if there are few, as the year of a change is. What is left has continuous variables
x only::

    log p(x) = log sum_c exp( rest(x, c) + log sum_v prod_i piece_i(x, c, v_i) prod_ij piece_ij )

The path from the prior of x to the sum is not that of the whole model. Its ends are those of the
whole model with all whole numbers summed out, so that log Z is the same.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from scipy.special import logsumexp, softmax

from pymc_logz.graphs.kept import Kept
from pymc_logz.models.data_inputs import DataInputs, starting_point, with_data_inputs
from pymc_logz.models.discrete import is_discrete, split_row
from pymc_logz.models.elimination import NUMERIC, SYMBOLIC, Ops, drawn_back, eliminated
from pymc_logz.models.flat import FlatModel, cheaply_compiled
from pymc_logz.models.independence import data_that_decide
from pymc_logz.models.keeping import KeptForModel, kept_for
from pymc_logz.models.pieces import Sums, add_up, pieces_of, sums_of
from pymc_logz.models.sum_plan import NotSummed, SumPlan, sum_plan


@dataclass(frozen=True)
class Summed:
    """Whole numbers that were summed out of a model."""

    whole: FlatModel
    """The model with all of its variables."""
    plan: SumPlan
    function: Any
    """From a row (d,) of continuous variables and data to `Sums`."""
    data: DataInputs

    def sums(self, row: np.ndarray) -> Sums:
        """The pieces at a row of continuous variables, as numbers."""
        return Sums(*map(np.asarray, self.function(row, *self.data.values())))

    def log_target(self, row: np.ndarray) -> float:
        """Log of the sum over all whole numbers at a row of continuous variables."""
        of_point, _ = _eliminated(self.plan, self.sums(row), NUMERIC, with_ratio=True)
        return float(logsumexp(of_point))

    def filled(self, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Rows of the whole model: whole numbers drawn from their law given continuous rows.

        Parameters
        ----------
        rows
            Continuous variables, shape (n, d).
        rng
            Generator of the draws.

        Returns
        -------
        np.ndarray
            Shape (n, D).
        """
        plan, full = self.plan, np.empty((len(rows), self.whole.n_dims))
        full[:, self.whole.continuous] = rows
        columns = np.array([site.column for site in plan.sites], dtype=int)
        others, alone = (columns[list(part)] for part in (plan.others, plan.alone))
        for row, target in zip(rows, full, strict=True):
            sums = self.sums(row)
            of_point, tables = _eliminated(plan, sums, NUMERIC, with_ratio=True)
            c = int(rng.choice(len(of_point), p=softmax(of_point)))
            chosen = drawn_back(plan.rounds, tables, c, rng)
            target[others] = plan.points[c]
            target[alone] = plan.values[chosen, np.arange(len(alone))]
        return full


def summed_out(whole: FlatModel, *, whatever_is_left: bool = False) -> FlatModel | NotSummed:
    """A model without its whole numbers, or why that cannot be.

    Parameters
    ----------
    whole
        The model, with data of its own.
    whatever_is_left
        Whether it is fine if no variable is left.
    """
    model = whole.model
    kept = kept_for(model)
    made = kept.get("summed", lambda: _made(whole, kept))
    if isinstance(made, NotSummed):
        return made
    if not whole.continuous.size and not whatever_is_left:
        return NotSummed(
            "no continuous variable is left, and sample_hais(sum_out=True) has log Z as the sum"
        )
    flat, summed = made
    return replace(flat, values=summed.data.values(), summed=summed)


def _made(whole: FlatModel, kept: KeptForModel) -> tuple[FlatModel, Summed] | NotSummed:
    model = whole.model
    start = starting_point(model)
    left = [var for var in model.value_vars if not is_discrete(var)]
    shapes = tuple(start[var.name].shape for var in left)
    pieces = pieces_of(model)
    kept.bake_in(data_that_decide([*pieces[0], *pieces[1]]))
    row = pt.tensor("row", dtype="float64", shape=(whole.continuous.size,))
    try:
        plan = sum_plan(model, whole.sites, whole.owners, [*pieces[0], *pieces[1]], start)
        if isinstance(plan, NotSummed):
            return plan
        given = split_row(row, left, start)
        made, data = with_data_inputs(sums_of(model, given, pieces, plan, start), kept)
    except (NotImplementedError, ValueError, TypeError) as error:
        return NotSummed(f"its graph is not understood ({str(error)[:100]})")
    sums = Sums(*made)
    function = cheaply_compiled([row, *data.inputs], list(sums))
    summed = Summed(whole, plan, function, data)
    if not add_up(whole, plan, lambda row: summed.sums(row[whole.continuous])):
        return NotSummed("the pieces of its density do not add up to it")
    log_prior, log_target = (
        pt.logsumexp(_eliminated(plan, sums, SYMBOLIC, with_ratio=both)[0])
        for both in (False, True)
    )
    flat = FlatModel(
        model,
        tuple(var.name for var in left),
        shapes,
        row,
        log_prior,
        log_target - log_prior,
        inputs=data.inputs,
        kept=Kept(),
    )
    return flat, summed


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
