"""Discrete variables summed out of a model, where its graph shows how.

Two routes, which may meet. Entries of which each piece of the density has one at most are
independent given all the rest, as labels of a mixture are: for each of them alone the density is
summed over its values. Other entries are summed over all their values together, if there are few,
as the year of a change is. What is left has continuous variables x only::

    log p(x) = log sum_c exp( rest(x, c) + sum_i log sum_v exp piece_i(x, c, v) )

The path from the prior of x to the sum is not that of the whole model. Its ends are those of the
whole model with all whole numbers summed out, so that log Z is the same.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable
from scipy.special import logsumexp, softmax

from pymc_logz.graphs.kept import Kept
from pymc_logz.models.data_inputs import DataInputs, starting_point, with_data_inputs
from pymc_logz.models.discrete import is_discrete, split_row
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
            of_entry = sums.prior_of_entry + sums.ratio_of_entry
            of_point = sums.prior + sums.ratio + logsumexp(of_entry, axis=1).sum(axis=1)
            c = rng.choice(len(of_point), p=softmax(of_point))
            weight = np.cumsum(softmax(of_entry[c], axis=0), axis=0)
            chosen = (weight[:-1] <= rng.random(len(alone)) * weight[-1]).sum(axis=0)
            target[others] = plan.points[c]
            target[alone] = plan.values[chosen, np.arange(len(alone))]
        return full


def summed_out(whole: FlatModel) -> FlatModel | NotSummed:
    """A model without its whole numbers, or why that cannot be.

    Parameters
    ----------
    whole
        The model, with data of its own.
    """
    model = whole.model
    kept = kept_for(model)
    made = kept.get("summed", lambda: _made(whole, kept))
    if isinstance(made, NotSummed):
        return made
    flat, summed = made
    return replace(flat, values=summed.data.values(), summed=summed)


def _made(whole: FlatModel, kept: KeptForModel) -> tuple[FlatModel, Summed] | NotSummed:
    model = whole.model
    start = starting_point(model)
    left = [var for var in model.value_vars if not is_discrete(var)]
    shapes = tuple(start[var.name].shape for var in left)
    if not whole.continuous.size:
        return NotSummed("no continuous variable is left")
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
    log_prior = _total(sums.prior, sums.prior_of_entry)
    log_target = _total(sums.prior + sums.ratio, sums.prior_of_entry + sums.ratio_of_entry)
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


def _total(together: Any, of_entry: Any) -> TensorVariable:
    """Log of the sum over all whole numbers."""
    return pt.logsumexp(together + pt.logsumexp(of_entry, axis=1).sum(axis=1))
