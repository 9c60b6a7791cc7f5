"""Integers: each value of an entry is scored and one of them drawn, or the entry walks."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_logz.arguments import check_integer
from pymc_logz.kernels.base import (
    MAX_STEPS,
    KernelInfo,
    KernelState,
    Move,
    column,
    draw_log_uniform,
    metropolis,
)
from pymc_logz.kernels.tuning import KernelDefaults
from pymc_logz.paths.geometric import AnnealingPath, Evaluation, Site, log_density, most_values


class OfIntegers(KernelDefaults):
    """What kernels that move integers have in common: nothing of them is tuned, nor has a scale."""

    needs_gradient: ClassVar[bool] = False
    moves_integers: ClassVar[bool] = True
    step_size: ClassVar[float] = 1.0
    scale: ClassVar[None] = None
    dense: ClassVar[bool] = False


@dataclass(frozen=True)
class Gibbs(OfIntegers):
    """Settings of a kernel that draws integers given all the rest of the row.

    A step visits each entry once. All of its values are scored at the beta of the row in one batch,
    and one is drawn by inversion. Entries are visited first to last or last to first with equal
    probability, so that the step is its own time reversal, as reverse annealing needs. It costs as
    many evaluations as the entries have values together, without gradients. Momentum is carried
    along.

    Entries that the model's graph shows to be independent given all the rest, as labels of a
    mixture are, are drawn together: as many evaluations as one of them has values.

    Parameters
    ----------
    sites
        The entries, each with a known smallest and largest value; empty for those of the variables
        that the kernel is given to.
    together
        Whether these entries are independent, and drawn together. None finds out from the model.

    References
    ----------
    Geman & Geman (1984), Stochastic relaxation, Gibbs distributions, and the Bayesian restoration
    of images, doi 10.1109/TPAMI.1984.4767596.

    Examples
    --------
    >>> from pymc_logz.kernels import Compose, Gibbs, IntegerWalk
    >>> kernel = Compose({"switch": Gibbs(), "count": IntegerWalk()})
    """

    sites: tuple[Site, ...] = ()
    together: bool | None = None

    def evaluations_per_move(self, n_dims: int) -> int:
        """Evaluations of the path: one for each value of each entry, or of one where all are."""
        return (1 if self.together else len(self.sites)) * most_values(self.sites)

    def draw_noise(self, rng: np.random.Generator, n_moves: int, n_rows: int, n_dims: int) -> Any:
        """Uniforms for the order and the values."""
        each = (n_moves, n_rows)
        return rng.random(each), rng.random((*each, len(self.sites)))

    def step(
        self, path: AnnealingPath, state: KernelState, move: Move, noise: Any
    ) -> tuple[KernelState, KernelInfo]:
        """Visit each entry; leaves the density at ``move.beta`` invariant, and gradients stale.

        The acceptance rate is 1, since what is drawn is never rejected.
        """
        path, (backward, uniform) = path.without_gradients(), noise
        visit, sequences = self._visit, [in_order(backward, len(self.sites)), uniform.T]
        if self.together:
            visit, sequences = self._visit_all, [uniform[None]]
        constants = [move.beta, move.step_size]
        [end] = visits(partial(visit, path), sequences, state, constants)
        return end, KernelInfo(pt.ones_like(state.evaluation.log_ratio))

    def _visit_all(self, path: AnnealingPath, *args: Any) -> list[Any]:
        """Rows with entries drawn that are independent given the rest, and their densities."""
        uniform, position, _, _, beta, step_size = args
        entries = path.entries
        if entries is None or entries.sites != self.sites:
            raise ValueError("together=True needs a path on which these entries are independent")
        k, m = most_values(self.sites), len(self.sites)
        found = path.evaluate_entries(position)
        rest = found[0], found[2]
        pieces = [part.reshape((-1, k, m)) for part in (found[1], found[3])]
        beta = beta[:, None, None] if beta.ndim else beta
        density = log_density(Evaluation(pieces[0], pieces[1], None, None), beta)
        drawn_now = drawn(density.swapaxes(1, 2).reshape((-1, k)), uniform.ravel())
        columns = np.array([site.column for site in self.sites])
        lower = np.array([site.lower or 0 for site in self.sites])
        before = pt.cast(pt.clip(position[:, columns] - lower, 0, k - 1), "int64")
        possible = (density.max(axis=1) > -np.inf).all(axis=1)
        moves = ((step_size > 0) & possible)[:, None]
        chosen = pt.switch(moves, drawn_now.reshape((-1, m)), before)
        is_there = pt.eq(np.arange(k)[:, None], chosen[:, None, :])
        reference, ratio = (
            base + pt.switch(is_there, part, 0.0).sum(axis=(1, 2))
            for base, part in zip(rest, pieces, strict=True)
        )
        return [pt.set_subtensor(position[:, columns], lower + chosen), reference, ratio]

    def _visit(self, path: AnnealingPath, *args: Any) -> list[Any]:
        """Rows with one entry drawn given all the rest, and their densities."""
        which, uniform, position, _, _, beta, step_size = args
        table, k = table_of(self.sites, path.n_dims), most_values(self.sites)
        here, lower, upper = (part[which] for part in table)
        values = pt.minimum(lower[:, None] + np.arange(k), upper[:, None])
        exists = lower[:, None] + np.arange(k) <= upper[:, None]
        rows = pt.switch(here[:, None, :], values[:, :, None], position[:, None, :])
        if path.row_data is not None:  # which each copy of a row brings along
            copies = pt.repeat(path.row_data[:, None, :], k, axis=1)
            path = path.given(copies.reshape((-1, path.row_data.type.shape[1])))
        found = path.evaluate(rows.reshape((-1, path.n_dims)))
        references, ratios = (part.reshape((-1, k)) for part in found[:2])
        # as a density of k columns, whose beta is that of the row
        density = log_density(Evaluation(references, ratios, None, None), column(beta))
        chosen = drawn(pt.switch(exists, density, -np.inf), uniform)
        before = pt.switch(here, position, 0.0).sum(axis=1)
        stays = pt.cast(pt.clip(before - lower, 0, k - 1), "int64")
        # a step of size 0 stays, and so does a row that has no density at any value
        moves = (step_size > 0) & (density.max(axis=1) > -np.inf)
        is_new = pt.eq(np.arange(k), pt.switch(moves, chosen, stays)[:, None])
        value, reference, ratio = (
            pt.switch(is_new, part, 0.0).sum(axis=1) for part in (values, references, ratios)
        )
        return [pt.switch(here, value[:, None], position), reference, ratio]


@dataclass(frozen=True)
class IntegerWalk(OfIntegers):
    """Settings of a Metropolis walk on integers, bounded or not.

    A step visits each entry ``n_tries`` times. It proposes to jump up or down by an integer
    whose logarithm is uniform between 0 and that of ``1 + 4 s``, where s is the spread of the entry
    among the rows of the pilot: short jumps and long ones alike. The proposal is symmetric, also
    at bounds, beyond which the density is zero. Entries with a fixed sum, as the counts of a
    ``pm.Multinomial``, jump along with another one of them, which gives way. Momentum is carried
    along.

    Parameters
    ----------
    n_tries
        Proposals for each entry in a step, 1 to 64.
    sites
        The entries; empty for those of the variables that the kernel is given to.

    References
    ----------
    Metropolis et al. (1953), doi 10.1063/1.1699114.

    Examples
    --------
    >>> from pymc_logz.kernels import IntegerWalk
    >>> IntegerWalk(n_tries=8)
    IntegerWalk(n_tries=8, sites=())
    """

    n_tries: int = 4
    sites: tuple[Site, ...] = ()

    def __post_init__(self) -> None:
        check_integer(1, MAX_STEPS, n_tries=self.n_tries)

    def evaluations_per_move(self, n_dims: int) -> int:
        """Evaluations of the path: one for each proposal."""
        return self.n_tries * len(self.sites)

    @property
    def _has_ties(self) -> bool:
        return any(site.tied is not None for site in self.sites)

    def draw_noise(self, rng: np.random.Generator, n_moves: int, n_rows: int, n_dims: int) -> Any:
        """Uniforms for the order, the jumps and the decisions."""
        each = (n_moves, n_rows, self.evaluations_per_move(n_dims))
        backward, length, side = rng.random(each[:2]), rng.random(each), rng.random(each)
        noise = backward, length, side, draw_log_uniform(rng, each)
        # which entry of a fixed sum gives way
        return (*noise, rng.random(each)) if self._has_ties else noise

    def step(
        self, path: AnnealingPath, state: KernelState, move: Move, noise: Any
    ) -> tuple[KernelState, KernelInfo]:
        """Propose jumps; leaves the density at ``move.beta`` invariant, and gradients stale."""
        path, n_visits = path.without_gradients(), self.evaluations_per_move(path.n_dims)
        here_of, lower, upper = table_of(self.sites, path.n_dims)
        columns = [site.column for site in self.sites]
        lowest, highest = np.full(path.n_dims, -np.inf), np.full(path.n_dims, np.inf)
        lowest[columns], highest[columns] = lower.data, upper.data
        partner_of = _partners(self.sites, path.n_dims) if self._has_ties else None

        def visit(*args: Any) -> list[Any]:
            which, length, side, log_uniform, *partner = args[: 4 + self._has_ties]
            position, reference, ratio, rate, beta, step_size, spread = args[-7:]
            here = here_of[which % len(self.sites)]
            own_spread = pt.switch(here, spread, 0.0).sum(axis=1)
            # four spreads cross all rows in one jump
            jump = pt.floor((1.0 + 4.0 * own_spread) ** length)
            jump = pt.switch(step_size > 0, pt.switch(side < 0.5, -jump, jump), 0.0)
            along = pt.cast(here, "float64")
            if partner_of is not None:
                along = along - partner_of(which % len(self.sites), partner[0])
            proposed = position + along * jump[:, None]
            inside = pt.and_(proposed >= lowest, proposed <= highest).all(axis=1)
            # a value that is none may be an index that is none
            proposed = pt.switch(inside[:, None], proposed, position)
            found = path.evaluate(proposed)
            before = Evaluation(reference, ratio, *found[2:])
            log_accept = log_density(found, beta) - log_density(before, beta)
            new, info = metropolis(
                pt.switch(inside, log_accept, -np.inf),
                log_uniform,
                state._replace(position=proposed, evaluation=found),
                state._replace(position=position, evaluation=before),
            )
            return [new.position, *new.evaluation[:2], rate + info.acceptance_rate / n_visits]

        # spread of each entry, shape (d,), or (n, d) where settings are those of each row
        is_vector = move.scale.ndim == move.step_size.ndim + 1
        spread_of_all = move.scale if is_vector else pt.sqrt((move.scale**2).sum(axis=-1))
        backward, *of_visits = noise
        sequences = [in_order(backward, n_visits), *(part.T for part in of_visits)]
        constants = [move.beta, move.step_size, spread_of_all]
        none = pt.zeros_like(state.evaluation[0])
        end, rate = visits(visit, sequences, state, constants, none)
        return end, KernelInfo(rate)


def table_of(sites: tuple[Site, ...], n_dims: int) -> list[Any]:
    """Of each of m entries: true in its column, shape (m, d), and its ends or infinities (m,)."""
    columns = np.array([site.column for site in sites])
    lower = [-np.inf if site.lower is None else site.lower for site in sites]
    upper = [np.inf if site.upper is None else site.upper for site in sites]
    parts = columns[:, None] == np.arange(n_dims), np.array(lower), np.array(upper)
    return [pt.constant(part) for part in parts]


def drawn(log_density: TensorVariable, uniform: TensorVariable) -> TensorVariable:
    """Which of k values is drawn by inversion, shape (n,), from log densities (n, k)."""
    top = log_density.max(axis=1, keepdims=True)
    weight = pt.exp(log_density - pt.switch(top > -np.inf, top, 0.0))
    below = pt.cumsum(weight, axis=1)
    # the first value whose sum is beyond, which has a weight of its own
    return pt.cast((below[:, :-1] <= (uniform * below[:, -1])[:, None]).sum(axis=1), "int64")


def in_order(backward: TensorVariable, n_visits: int) -> TensorVariable:
    """Which entry a row visits when, first to last or last to first, shape (m, n)."""
    each = np.arange(n_visits)[:, None]
    return pt.switch(backward < 0.5, n_visits - 1 - each, each)


def visits(
    visit: Any, sequences: list[Any], state: KernelState, constants: list[Any], *sums: Any
) -> list[Any]:
    """State after a loop over visits, the first axis of sequences, and sums that begin as these.

    A visit takes its part of the sequences, rows, their densities, the sums, and the constants.
    """
    carried = [state.position, *state.evaluation[:2], *sums]
    if sequences[0].type.shape[0] == 1:
        ends = visit(*(part[0] for part in sequences), *carried, *constants)
    else:
        every = pytensor.scan(
            visit,
            sequences=sequences,
            outputs_info=carried,
            non_sequences=constants,
            return_updates=False,
            # not strict: the path may hold data of the rows, which come along
        )
        ends = [end[-1] for end in every]
    position, reference, ratio, *totals = ends
    evaluation = Evaluation(reference, ratio, *state.evaluation[2:])
    return [state._replace(position=position, evaluation=evaluation), *totals]


def _partners(
    sites: tuple[Site, ...], n_dims: int
) -> Callable[[TensorVariable, TensorVariable], TensorVariable]:
    """From entries visited and uniforms to ones (n, d) where another of the same sum gives way."""
    others = [
        [two.column for two in sites if two.tied == one.tied is not None and two is not one]
        for one in sites
    ]
    columns = np.zeros((len(sites), max(map(len, others))), dtype=int)
    for row, own in zip(columns, others, strict=True):
        row[: len(own)] = own
    counts, columns_of = pt.constant(np.array(list(map(len, others)))), pt.constant(columns)

    def partner(which: TensorVariable, uniform: TensorVariable) -> TensorVariable:
        n_others = counts[which]
        chosen = pt.cast(pt.floor(uniform * n_others), "int64")
        there = pt.eq(np.arange(n_dims), columns_of[which, chosen][:, None])
        return pt.switch((n_others > 0)[:, None], pt.cast(there, "float64"), 0.0)

    return partner
