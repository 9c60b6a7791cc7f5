"""Discrete variables summed out of a model, where its graph shows how.

Two routes, which may meet. Entries of which each piece of the density has one at most are
independent given all the rest, as labels of a mixture are: for each of them alone the density is
summed over its values. Other entries are summed over all their values together, if there are few,
as the year of a change is. What is left has continuous variables x only::

    log p(x) = log sum_c exp( rest(x, c) + sum_i log sum_v exp piece_i(x, c, v) )

The path from the prior of x to the sum is not that of the whole model. Its ends are those of the
whole model with all whole numbers summed out, so that log Z is the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.replace import clone_replace, vectorize_graph
from pytensor.tensor.variable import TensorVariable
from scipy.special import logsumexp, softmax

from pymc_logz.graphs.kept import Kept
from pymc_logz.models.data_inputs import DataInputs, starting_point, with_data_inputs
from pymc_logz.models.discrete import is_discrete
from pymc_logz.models.flat import FlatModel, cheaply_compiled
from pymc_logz.models.independence import NONE
from pymc_logz.models.keeping import KeptForModel, kept_for
from pymc_logz.models.prior import PriorDraws
from pymc_logz.models.sum_plan import NotSummed, SumPlan, numbered, sum_plan

N_CHECKED = 32
"""Rows at which the pieces are held against the density of the whole model."""
TOLERANCE = 1e-6
"""By which they may differ, relative to the size of the log density."""


class Sums(NamedTuple):
    """Pieces of the log densities at a row of continuous variables, for all whole numbers."""

    prior: Any
    """Log prior without what independent entries own, shape (C,)."""
    prior_of_entry: Any
    """What each of them owns, shape (C, K, m); -inf where it has fewer values than K."""
    ratio: Any
    """The same of log likelihood and potentials, shape (C,)."""
    ratio_of_entry: Any
    """Shape (C, K, m)."""


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
    names = [var for var in model.value_vars if not is_discrete(var)]
    shapes = tuple(start[var.name].shape for var in names)
    if not whole.continuous.size:
        return NotSummed("no continuous variable is left")
    pieces = _pieces(model)
    try:
        plan = sum_plan(model, whole.sites, whole.owners, [*pieces[0], *pieces[1]], start)
        if isinstance(plan, NotSummed):
            return plan
        row = pt.tensor("row", dtype="float64", shape=(whole.continuous.size,))
        made, data = with_data_inputs(_sums(model, row, pieces, plan, start), kept)
    except (NotImplementedError, ValueError, TypeError) as error:
        return NotSummed(f"its graph is not understood ({str(error)[:100]})")
    sums = Sums(*made)
    function = cheaply_compiled([row, *data.inputs], list(sums))
    summed = Summed(whole, plan, function, data)
    if not _add_up(summed):
        return NotSummed("the pieces of its density do not add up to it")
    log_prior = _total(sums.prior, sums.prior_of_entry)
    log_target = _total(sums.prior + sums.ratio, sums.prior_of_entry + sums.ratio_of_entry)
    flat = FlatModel(
        model,
        tuple(var.name for var in names),
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


def _pieces(model: pm.Model) -> tuple[list[Any], list[Any]]:
    """Arrays that add up to the log prior, and to the log likelihood with potentials."""
    prior, ratio = (
        [
            pt.as_tensor(piece, allow_xtensor_conversion=True)
            for piece in (model.logp(vars=variables, sum=False) if variables else [])
        ]
        for variables in ([*model.free_RVs], [*model.observed_RVs, *model.potentials])
    )
    return prior, ratio


def _sums(
    model: pm.Model,
    row: TensorVariable,
    pieces: tuple[list[Any], list[Any]],
    plan: SumPlan,
    start: Mapping[str, np.ndarray],
) -> Sums:
    """Pieces at a symbolic row of the continuous variables, for all values of the others."""
    parts: dict[Any, Any] = {}
    alone: dict[Any, Any] = {}
    others: dict[Any, Any] = {}
    entries, end = numbered(model, start), 0
    for var in model.value_vars:
        shape = start[var.name].shape
        if var not in entries:
            first, end = end, end + int(np.prod(shape, dtype=int))
            part = row[first:end].reshape(shape).astype(var.dtype)
            parts[var] = var.type.filter_variable(part)
            continue
        place, numbers = var.type(), entries[var].ravel()
        parts[var] = place
        is_alone = bool(numbers.size) and numbers[0] in plan.alone
        known = plan.alone if is_alone else plan.others
        table = plan.values if is_alone else plan.points
        columns = [known.index(i) for i in numbers]
        values = table[:, columns].reshape(-1, *shape).astype(var.dtype)
        (alone if is_alone else others)[place] = values
    flat = clone_replace([*pieces[0], *pieces[1]], parts, rebuild_strict=False)
    flat, has_value = _along(flat, alone)
    flat, has_point = _along(flat, others)
    n_points, k, _ = plan.shape
    sized = [
        piece.reshape((n_points if c else 1, k if v else 1, owner.size))
        for piece, owner, v, c in zip(flat, plan.owners, has_value, has_point, strict=True)
    ]
    n, owners = len(pieces[0]), [one.ravel() for one in plan.owners]
    prior, prior_of_entry = _gathered(sized[:n], owners[:n], plan)
    ratio, ratio_of_entry = _gathered(sized[n:], owners[n:], plan)
    exists = pt.constant(plan.exists[None])
    return Sums(prior, pt.switch(exists, prior_of_entry, -np.inf), ratio, ratio_of_entry)


def _along(pieces: list[Any], values: Mapping[Any, Any]) -> tuple[list[Any], list[bool]]:
    """Pieces with an axis more in front, along values of variables, and which depend on these."""
    ranks = [piece.ndim for piece in pieces]
    if values:
        constants = {place: pt.constant(value) for place, value in values.items()}
        pieces = vectorize_graph(pieces, constants)
    depends = [piece.ndim > rank for piece, rank in zip(pieces, ranks, strict=True)]
    pairs = zip(pieces, depends, strict=True)
    return [one if there else pt.expand_dims(one, 0) for one, there in pairs], depends


def _gathered(pieces: Sequence[Any], owners: Sequence[np.ndarray], plan: SumPlan) -> Any:
    """What no entry owns, shape (C,), and what each owns, shape (C, K, m), of flat pieces."""
    n_points, k, m = plan.shape
    free, owned = pt.zeros((n_points,)), pt.zeros((n_points, k, m))
    for piece, owner in zip(pieces, owners, strict=True):
        of_none, of_some = np.flatnonzero(owner == NONE), np.flatnonzero(owner != NONE)
        if of_none.size:
            free = free + piece[:, 0, of_none].sum(axis=-1)
        if of_some.size:
            columns = np.searchsorted(plan.alone, owner[of_some])
            wide = pt.zeros((n_points, k, 1)) + piece[:, :, of_some]
            owned = pt.inc_subtensor(owned[:, :, columns], wide)
    return free, owned


def _add_up(summed: Summed) -> bool:
    """Whether the pieces make the density of the whole model, at draws and where numbers differ."""
    whole, plan = summed.whole, summed.plan
    rng = np.random.default_rng(0)
    rows = np.repeat(PriorDraws(whole.model)(rng, N_CHECKED), 2, axis=0)
    for site in plan.sites:
        rows[::2, site.column] = rng.integers(site.lower or 0, (site.upper or 0) + 1, N_CHECKED)
    density = cheaply_compiled([whole.point, *whole.inputs], [whole.log_prior, whole.log_ratio])
    places = {tuple(point): c for c, point in enumerate(plan.points.tolist())}
    columns = np.array([site.column for site in plan.sites], dtype=int)
    others, alone = (columns[list(part)] for part in (plan.others, plan.alone))
    lower = np.array([plan.sites[i].lower for i in plan.alone], dtype=int)
    for row in rows:
        sums = summed.sums(row[whole.continuous])
        c = places[tuple(row[others].astype(int).tolist())]
        chosen = (c, row[alone].astype(int) - lower, np.arange(alone.size))
        with np.errstate(invalid="ignore"):
            found = np.array(
                [
                    sums.prior[c] + sums.prior_of_entry[chosen].sum(),
                    sums.ratio[c] + sums.ratio_of_entry[chosen].sum(),
                ]
            )
        exact = np.array(density(row, *whole.values), dtype=float)
        if not np.allclose(found, exact, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True):
            return False
    return True
