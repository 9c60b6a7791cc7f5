"""Random walks: of real numbers, and of integers that have too many values to score each."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_logz.arguments import check_integer, check_positive
from pymc_logz.kernels.base import (
    MAX_STEPS,
    KernelInfo,
    KernelState,
    Move,
    Noise,
    draw_log_uniform,
    metropolis,
    strides,
)
from pymc_logz.kernels.gibbs import OfIntegers, in_order, table_of, visits
from pymc_logz.kernels.tuning import KernelDefaults, check_scale, random_walk_step_size
from pymc_logz.paths.geometric import AnnealingPath, Evaluation, Site, log_density


@dataclass(frozen=True)
class RandomWalk(KernelDefaults):
    """Settings of a Gaussian random walk with a Metropolis decision.

    The proposal is ``x + step_size * scale * noise``. It needs no gradient, so it also serves
    models that have none. Momentum means nothing to it and is carried along.

    Parameters
    ----------
    step_size
        Standard deviation of the proposal in units of ``scale``. None lets the pilot choose it, for
        an acceptance rate of 0.3 whatever ``target_accept`` says.
    scale, dense
        As for `Hamiltonian`.

    Raises
    ------
    ValueError
        If a setting is outside its range.

    References
    ----------
    Metropolis et al. (1953), doi 10.1063/1.1699114. Sohl-Dickstein & Culpepper (2012), section 3,
    arXiv 1205.1925, compare HAIS with it. Acceptance: Roberts, Gelman & Gilks (1997),
    corollary 1.2, doi 10.1214/aoap/1034625254.

    Examples
    --------
    The rival in the paper, whatever the model:

    >>> from pymc_logz.kernels import RandomWalk
    >>> RandomWalk(step_size=0.1, scale=1.0)
    RandomWalk(step_size=0.1, scale=1.0, dense=None)
    """

    step_size: float | None = None
    scale: float | tuple[float, ...] | None = None
    dense: bool | None = None

    needs_gradient: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_positive(one=True, step_size=self.step_size)
        check_scale(self.scale, self.dense)

    def acceptance_for(self, target_accept: float) -> float:
        """Acceptance rate to tune for: near the best of a random walk, not the user's.

        That is 0.44 in one dimension, and 0.234 in many.
        """
        return 0.3

    def tuned_step_size(
        self, step_size: float, acceptance_rate: float, target_accept: float
    ) -> float:
        """Step size expected to have the target acceptance rate, see `random_walk_step_size`."""
        return random_walk_step_size(step_size, acceptance_rate, target_accept)

    def step(
        self, path: AnnealingPath, state: KernelState, move: Move, noise: Noise
    ) -> tuple[KernelState, KernelInfo]:
        """Propose, accept or reject; leaves the density at ``move.beta`` invariant."""
        position = state.position + strides(noise.normal, move)
        proposal = KernelState(position, state.momentum, path.evaluate(position))
        densities = [log_density(at.evaluation, move.beta) for at in (proposal, state)]
        return metropolis(densities[0] - densities[1], noise.log_uniform, proposal, state)


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
        position, reference, ratio, rate = visits(
            visit,
            [in_order(backward, n_visits), *(part.T for part in of_visits)],
            [state.position, *state.evaluation[:2], pt.zeros_like(state.evaluation[0])],
            [move.beta, move.step_size, spread_of_all],
        )
        evaluation = state.evaluation._replace(log_reference=reference, log_ratio=ratio)
        return KernelState(position, state.momentum, evaluation), KernelInfo(rate)


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
