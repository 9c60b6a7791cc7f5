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

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.logprob.utils import replace_rvs_by_values
from pytensor.graph.replace import clone_replace, vectorize_graph
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import Add, Mul, Neg, Sub
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Sum
from scipy.special import logsumexp, softmax

from pymc_logz.discrete.elimination import LOWEST, NUMERIC, SYMBOLIC, Ops, drawn_back, eliminated
from pymc_logz.discrete.independence import NONE, data_that_decide
from pymc_logz.discrete.plan import SumPlan, ends_of, independent_plan, numbered, sum_plan
from pymc_logz.graphs.functions import Kept, cheaply_compiled, wider
from pymc_logz.graphs.host_calls import with_host_calls
from pymc_logz.models.cache import DataInputs, kept_for, with_data_inputs
from pymc_logz.models.flat import FlatModel, function_of_rows
from pymc_logz.models.preparation import NotSummed
from pymc_logz.models.prior import PriorDraws, Sampler
from pymc_logz.models.rows import at_symbolic_row, is_discrete, joined, split_row, starting_point
from pymc_logz.paths.geometric import Entries

Pieces = tuple[list[Any], list[Any]]
"""Arrays that add up to the log prior, and to the log likelihood with potentials."""


class Owned(NamedTuple):
    """A log density at a row of continuous variables, for all discrete values, by what owns it."""

    rest: Any
    """Without what independent entries own, shape (C,)."""
    of_entry: Any
    """What each of them owns, shape (C, K, m); of a prior, -inf beyond the values of an entry."""
    of_pair: Any
    """What pairs of entries own, the first of a pair first, shape (C, K, K, E)."""


Sums = tuple[Owned, Owned]
"""Of the log prior, and of the log likelihood with potentials."""


def pieces_of(model: pm.Model, without: Sequence[Any] = ()) -> Pieces:
    """Arrays that add up to the log prior, and to the log likelihood with potentials.

    The log prior is that of all free variables but those ``without``.
    """
    free = [rv for rv in model.free_RVs if rv not in without]
    prior, ratio = (
        [
            part
            for piece in (wider(model.logp(vars=variables, sum=False)) if variables else [])
            for part in _terms(pt.as_tensor(piece, allow_xtensor_conversion=True))
        ]
        for variables in (free, [*model.observed_RVs, *model.potentials])
    )
    return prior, ratio


def _terms(piece: Any) -> list[Any]:
    """What is added up in an array, of which only the sum over all elements counts."""
    node = piece.owner
    if node is None:
        return [piece]
    op = node.op
    if isinstance(op, CheckAndRaise):
        return [op(part, *node.inputs[1:]) for part in _terms(node.inputs[0])]
    if isinstance(op, Sum):
        return _terms(node.inputs[0])
    if not isinstance(op, Elemwise) or piece.ndim:
        return [piece]
    of_inputs = [_terms(given) for given in node.inputs]
    if isinstance(op.scalar_op, Add):
        return [part for parts in of_inputs for part in parts]
    if isinstance(op.scalar_op, Sub):
        return [*of_inputs[0], *(-part for part in of_inputs[1])]
    if isinstance(op.scalar_op, Neg):
        return [-part for part in of_inputs[0]]
    if isinstance(op.scalar_op, Mul):
        widest = max(range(len(of_inputs)), key=lambda i: max(part.ndim for part in of_inputs[i]))
        others = [given for i, given in enumerate(node.inputs) if i != widest]
        return [pt.mul(*others, part) for part in of_inputs[widest]]
    return [piece]


def sums_of(given: Mapping[Any, Any], pieces: Pieces, plan: SumPlan) -> Sums:
    """Pieces where some value variables are given, for all values of those that are summed over."""
    parts = dict(given)
    alone: dict[Any, Any] = {}
    others: dict[Any, Any] = {}
    for var, entries in numbered(plan.whole).items():
        numbers = entries.ravel()
        is_alone = bool(numbers.size) and numbers[0] in plan.alone
        is_end = bool(numbers.size) and numbers[0] in plan.ends
        if is_end or (var in given and not is_alone and not (numbers.size and plan.points.size)):
            continue
        parts[var] = place = var.type()  # type: ignore[attr-defined]
        known = plan.alone if is_alone else plan.others
        table = plan.combinations if is_alone else plan.points
        columns = [known.index(i) for i in numbers]
        values = table[:, columns].reshape(-1, *entries.shape).astype(place.dtype)
        (alone if is_alone else others)[place] = values
    flat = clone_replace([*pieces[0], *pieces[1]], parts, rebuild_strict=False)
    flat, has_value = _along(flat, alone)
    flat, has_point = _along(flat, others)
    n_points, n_combinations = len(plan.points), plan.n_combinations
    n, owners = len(pieces[0]), [one.reshape(-1, 2) for one in plan.owners]
    sized = [
        piece.reshape((n_points if c else 1, n_combinations if v else 1, len(owner)))
        for piece, owner, v, c in zip(flat, owners, has_value, has_point, strict=True)
    ]
    prior, ratio = (
        _gathered(sized[part], owners[part], has_value[part], plan)
        for part in (slice(n), slice(n, None))
    )
    exists = pt.constant(plan.exists[None])
    return prior._replace(of_entry=pt.switch(exists, prior.of_entry, -np.inf)), ratio


def _along(pieces: list[Any], values: Mapping[Any, Any]) -> tuple[list[Any], list[bool]]:
    """Pieces with an axis more in front, along values of variables, and which depend on these."""
    ranks = [piece.ndim for piece in pieces]
    if values:
        constants = {place: pt.constant(value) for place, value in values.items()}
        pieces = vectorize_graph(pieces, constants)
    depends = [piece.ndim > rank for piece, rank in zip(pieces, ranks, strict=True)]
    pairs = zip(pieces, depends, strict=True)
    return [one if there else pt.expand_dims(one, 0) for one, there in pairs], depends


def _gathered(
    pieces: Sequence[Any], owners: Sequence[np.ndarray], varies: Sequence[bool], plan: SumPlan
) -> Owned:
    """What no entry owns, one owns, and pairs own, of flat pieces."""
    n_points, k, m = plan.shape
    step, key = k**plan.colours, np.array([m, 1])
    keys = np.array(plan.pairs, dtype=int).reshape(-1, 2) @ key
    free, owned = pt.zeros((n_points,)), pt.zeros((n_points, k, m))
    paired = pt.zeros((n_points, k, k, len(plan.pairs)))
    value = np.arange(k)[:, None]
    for piece, owner, differs in zip(pieces, owners, varies, strict=True):
        (low, high), places = owner.T, np.searchsorted(plan.alone, owner)
        of_none, of_pair = np.flatnonzero(low == NONE), np.flatnonzero(low < high)
        of_one = np.flatnonzero((low == high) & (low != NONE))
        if of_none.size:
            free = free + piece[:, 0, of_none].sum(axis=-1)
        if of_one.size:
            place = places[of_one, 0]
            part = piece[:, value * step[place] * differs, of_one[None]]
            owned = pt.inc_subtensor(owned[:, :, place], part + pt.zeros((n_points, 1, 1)))
        if of_pair.size:
            edges = np.searchsorted(keys, places[of_pair] @ key)
            first, second = step[places[of_pair].T]
            combination = (value[:, None] * first + value * second) * differs
            part = piece[:, combination, of_pair[None, None]]
            paired = pt.inc_subtensor(paired[..., edges], part + pt.zeros((n_points, 1, 1, 1)))
    return Owned(free, owned, paired)


def add_up(
    plan: SumPlan, sums_at: Callable[[np.ndarray], Sums], without: Sequence[Any] = ()
) -> bool:
    """Whether pieces make the density of the whole model, at draws and at other values.

    In ``sums_at`` a row the log prior lacks the part of some variables.
    """
    whole, rng, n_draws = plan.whole, np.random.default_rng(0), 32
    rows = np.repeat(PriorDraws(whole.model)(rng, n_draws), 2, axis=0)
    for i in (*plan.alone, *(plan.others if plan.points.size else ())):
        site = plan.whole.sites[i]
        low, high = site.lower or 0, (site.upper or 0) + 1
        rows[::2, site.column] = rng.integers(low, high, n_draws)
    density = cheaply_compiled([whole.point, *whole.inputs], [whole.log_prior, whole.log_ratio])
    places = {tuple(point): c for c, point in enumerate(plan.points.tolist())}
    others, alone = plan.columns
    lower = np.array([plan.whole.sites[i].lower for i in plan.alone], dtype=int)
    lacking = np.zeros(len(rows))
    if without:
        [lacking] = function_of_rows(whole.model, [whole.model.logp(vars=[*without])])(rows)
    for row, missing in zip(rows, lacking, strict=True):
        sums = sums_at(row)
        c = places[tuple(row[others].astype(int).tolist())] if plan.points.size else 0
        value = row[alone].astype(int) - lower
        chosen = (c, value, np.arange(alone.size))
        pairs = np.array(plan.pairs, dtype=int).reshape(-1, 2).T
        edges = (c, *value[pairs], np.arange(len(plan.pairs)))
        with np.errstate(invalid="ignore"):
            found = [
                one.rest[c] + one.of_entry[chosen].sum() + one.of_pair[edges].sum() for one in sums
            ]
        exact = np.array(density(row, *whole.values), dtype=float) - [missing, 0.0]
        if not np.allclose(found, exact, rtol=1e-6, atol=1e-6, equal_nan=True):
            return False
    return True


@dataclass(frozen=True)
class InPieces:
    """A density in pieces for all values of discrete variables, checked against the whole."""

    plan: SumPlan
    sums: Sums
    """Symbolic."""
    others: list[Any]
    """Further graphs of the same inputs."""
    data: DataInputs
    function: Callable[..., list[Any]]
    ends: Sequence[Any] = ()
    """Variables that nothing depends on, of which it has no part."""

    def at(self, row: np.ndarray) -> Sums:
        """The pieces at a row, as numbers."""
        values = list(map(np.asarray, self.function(row, *self.data.values())))
        return Owned(*values[:3]), Owned(*values[3:])

    def log_target(self, row: np.ndarray) -> float:
        """Log of the sum over all discrete variables at a row of continuous ones."""
        of_point, _ = _eliminated(self.plan, self.at(row), NUMERIC, with_ratio=True)
        return float(logsumexp(of_point))

    def share_at_limits(self, rows: np.ndarray, rng: np.random.Generator) -> float:
        """Share of draws, given continuous rows (n, d), near where a sum without end was ended.

        They have an entry in the upper quarter of the values that were summed.
        """
        sites = [self.plan.whole.sites[i] for i in self.plan.limited]
        if not sites:
            return 0.0
        columns, lower, upper, _ = np.array(sites).T
        values = self.filled(rows, rng)[:, columns.astype(int)]
        return float(np.mean(np.any(4 * (upper - values) < upper - lower, axis=1)))

    def filled(self, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Rows (n, D) of the whole model: discrete variables drawn given continuous rows (n, d)."""
        plan, whole = self.plan, self.plan.whole
        full = np.empty((len(rows), whole.n_dims))
        full[:, whole.continuous] = rows
        others, alone = plan.columns
        for row, target in zip(rows, full, strict=True):
            of_point, tables = _eliminated(plan, self.at(row), NUMERIC, with_ratio=True)
            # where none has a likelihood, or an infinite one, as at a row that is to be shown, any
            # one is as good
            most = np.max(of_point)
            of_point = of_point if np.isfinite(most) else np.where(of_point == most, 0, LOWEST)
            c = int(rng.choice(len(of_point), p=softmax(of_point)))
            chosen = drawn_back(plan.rounds, tables, c, rng)
            target[others] = plan.points[c]
            target[alone] = plan.values[chosen, np.arange(len(alone))]
        return self._with_ends(full, rng) if self.ends else full

    def _with_ends(self, full: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Rows with draws, given all the rest, of the variables that nothing depends on."""
        model = self.plan.whole.model
        of_values = self.plan.whole.columns_by_name
        own = [of_values[model.rvs_to_values[rv].name].ravel() for rv in self.ends]
        with self._ends_given_rest.lock:
            self._ends_given_rest.seed(rng)
            for row in full:
                [row[np.concatenate(own)]] = self._ends_given_rest(row)
        return full

    @cached_property
    def _ends_given_rest(self) -> Sampler:
        """Function that draws them at a row of the whole model."""
        model = self.plan.whole.model
        given = {rv: value for rv, value in model.rvs_to_values.items() if rv not in self.ends}
        drawn = replace_rvs_by_values(
            [*self.ends], rvs_to_values=given, rvs_to_transforms=model.rvs_to_transforms
        )
        row, drawn = at_symbolic_row(model, drawn)
        return Sampler([row], [pt.concatenate([one.ravel() for one in drawn])])


def _in_pieces(
    whole: FlatModel,
    row: Any,
    given: Sequence[Any],
    plan_of: Callable[[list[Any]], SumPlan | NotSummed],
    others_of: Callable[[Pieces, dict[Any, Any]], list[Any]] = lambda pieces, parts: [],
    without: Sequence[Any] = (),
) -> InPieces | NotSummed:
    """The density at a symbolic row of some value variables, for all values of others.

    It is that ``without`` variables on which nothing depends.
    """
    model, kept = whole.model, kept_for(whole.model)
    pieces = pieces_of(model, without)
    both = [*pieces[0], *pieces[1]]
    kept.bake_in(data_that_decide(both))
    try:
        plan = plan_of(both)
        if isinstance(plan, NotSummed):
            return plan
        start = starting_point(model)
        parts = split_row(row, given, start)
        sums = sums_of(parts, pieces, plan)
        outputs = [*sums[0], *sums[1], *others_of(pieces, parts)]
        outputs = [part.astype(row.dtype) for part in outputs]
        outputs = with_host_calls(outputs, {row: joined(start, given, row.dtype)})
        made, data = with_data_inputs(outputs, kept)
    except (NotImplementedError, ValueError, TypeError) as error:
        return NotSummed(f"its graph is not understood ({str(error)[:100]})")
    function = cheaply_compiled([row, *data.inputs], made[:6])
    found = InPieces(plan, (Owned(*made[:3]), Owned(*made[3:6])), made[6:], data, function, without)
    columns = whole.continuous if len(given) < len(model.value_vars) else slice(None)
    if not add_up(plan, lambda point: found.at(point[columns]), without):
        return NotSummed("the pieces of its density do not add up to it")
    return found


def summed_out(whole: FlatModel) -> tuple[FlatModel, DataInputs] | NotSummed:
    """A model without its discrete variables, with data of its own, or why that cannot be."""
    model, start = whole.model, starting_point(whole.model)
    left = [var for var in model.value_vars if not is_discrete(var)]
    row = pt.tensor("row", dtype="float64", shape=(whole.continuous.size,))
    ends = ends_of(model)
    plan_of = partial(sum_plan, whole, without=[model.rvs_to_values[rv] for rv in ends])
    pieces = _in_pieces(whole, row, left, plan_of, without=ends)
    if isinstance(pieces, NotSummed):
        return pieces
    log_prior, log_target = (
        pt.logsumexp(_eliminated(pieces.plan, pieces.sums, SYMBOLIC, with_ratio=with_ratio)[0])
        for with_ratio in (False, True)
    )
    flat = FlatModel(
        model,
        {var.name: start[var.name].shape for var in left},
        row,
        log_prior,
        log_target - log_prior,
        inputs=pieces.data.inputs,
        summed=pieces,
    )
    return flat, pieces.data


def with_entries(whole: FlatModel) -> tuple[FlatModel, DataInputs] | NotSummed:
    """The model with pieces of the density for entries that are independent, if several are."""
    point = whole.point.type("row")

    def densities(pieces: Pieces, parts: dict[Any, Any]) -> list[Any]:
        # the densities as they were, whose data are to be the same inputs
        given = (clone_replace(some, parts, rebuild_strict=False) for some in pieces)
        return [sum((one.sum() for one in some), pt.zeros(())) for some in given]

    given, plan_of = whole.model.value_vars, partial(independent_plan, whole)
    pieces = _in_pieces(whole, point, given, plan_of, densities)
    if isinstance(pieces, NotSummed):
        return pieces
    _, k, m = pieces.plan.shape
    apart = [
        (one.rest[0], pt.specify_shape(one.of_entry[0].ravel(), (k * m,))) for one in pieces.sums
    ]
    sites = tuple(whole.sites[i] for i in pieces.plan.alone)
    log_prior, log_ratio = pieces.others
    flat = replace(
        whole,
        point=point,
        log_prior=log_prior,
        log_ratio=log_ratio,
        entries=Entries(sites, *apart),
        inputs=pieces.data.inputs,
        kept=Kept(),
    )
    return flat, pieces.data


def _eliminated(plan: SumPlan, sums: Sums, ops: Ops, *, with_ratio: bool) -> tuple[Any, Any]:
    """Log of the sum over entries that are summed one by one, shape (C,), and tables of rounds."""
    own = Owned(*map(operator.add, *sums)) if with_ratio else sums[0]
    total, tables = eliminated(plan.rounds, own.of_entry, own.of_pair, ops)
    return own.rest + total, tables
