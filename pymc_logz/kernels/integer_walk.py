"""A walk on whole numbers that have too many values to score each, or no end of them."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_logz.arguments import check_whole
from pymc_logz.kernels.base import KernelInfo, KernelState, Move, draw_log_uniform
from pymc_logz.kernels.defaults import KernelDefaults
from pymc_logz.kernels.gibbs import SiteTable, in_order, visits
from pymc_logz.paths.geometric import AnnealingPath, Evaluation, log_density
from pymc_logz.paths.sites import Site

MAX_TRIES = 64
REACH = 4.0
"""Longest jump, in units of the spread that the rows have: far enough to cross them at once."""


class WalkNoise(NamedTuple):
    """The randomness of integer walks; shapes are those of one step, after the axis of steps."""

    backward: Any
    """Uniforms, shape (n,): rows below a half visit their entries last to first."""
    length: Any
    """Uniforms, shape (n, visits): how far a jump goes."""
    side: Any
    """Uniforms, shape (n, visits): up or down."""
    log_uniform: Any
    """Logarithms of uniforms that decide, shape (n, visits)."""


@dataclass(frozen=True)
class IntegerWalk(KernelDefaults):
    """Settings of a Metropolis walk on whole numbers, bounded or not.

    A step visits each entry ``n_tries`` times. It proposes to jump up or down by a whole number
    whose logarithm is uniform between 0 and that of ``1 + 4 s``, where s is the spread of the entry
    among the rows of the pilot: short jumps and long ones alike. The proposal is symmetric, also
    at bounds, beyond which the density is zero. Momentum is carried along.

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

    needs_gradient: ClassVar[bool] = False
    moves_integers: ClassVar[bool] = True
    step_size: ClassVar[float] = 1.0
    scale: ClassVar[None] = None
    dense: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_whole(1, MAX_TRIES, n_tries=self.n_tries)

    def resolved(self, n_dims: int) -> Self:
        """The same settings."""
        return self

    def evaluations_per_move(self, n_dims: int) -> int:
        """Evaluations of the path: one for each proposal."""
        return self._n_visits

    def acceptance_for(self, target_accept: float) -> float:
        """Acceptance rate to tune for: nothing is tuned."""
        return 0.0

    @property
    def _n_visits(self) -> int:
        return self.n_tries * len(self.sites)

    def draw_noise(
        self, rng: np.random.Generator, n_moves: int, n_rows: int, n_dims: int
    ) -> WalkNoise:
        """Uniforms for the order, the jumps and the decisions."""
        each = (n_moves, n_rows, self._n_visits)
        return WalkNoise(
            rng.random(each[:2]), rng.random(each), rng.random(each), draw_log_uniform(rng, each)
        )

    def step(
        self, path: AnnealingPath, state: KernelState, move: Move, noise: WalkNoise
    ) -> tuple[KernelState, KernelInfo]:
        """Propose jumps; leaves the density at ``move.beta`` invariant, and gradients stale."""
        path = path.without_gradients()
        table = SiteTable.of(self.sites, path.n_dims)

        def visit(*args: Any) -> list[Any]:
            which, length, side, log_uniform, position, reference, ratio, rate = args[:8]
            beta, step_size, spread = args[8:]
            here, lower, upper = (part[which % len(self.sites)] for part in table)
            reach = pt.switch(here, spread, 0.0).sum(axis=1)
            jump = pt.floor((1.0 + REACH * reach) ** length)
            jump = pt.switch(step_size > 0, pt.switch(side < 0.5, -jump, jump), 0.0)
            proposed = position + pt.switch(here, jump[:, None], 0.0)
            value = pt.switch(here, proposed, 0.0).sum(axis=1)
            inside = (value >= lower) & (value <= upper)
            # a value that is none may be an index that is none
            proposed = pt.switch(inside[:, None], proposed, position)
            found = path.evaluate(proposed)
            before = log_density(Evaluation(reference, ratio, None, None), beta)
            log_accept = pt.switch(inside, log_density(found, beta) - before, -np.inf)
            log_accept = pt.switch(pt.isnan(log_accept), -np.inf, log_accept)
            accepted = log_uniform < log_accept
            return [
                pt.switch(accepted[:, None], proposed, position),
                pt.switch(accepted, found.log_reference, reference),
                pt.switch(accepted, found.log_ratio, ratio),
                rate + pt.exp(pt.minimum(log_accept, 0.0)) / self._n_visits,
            ]

        noise_of_visits = [part.T for part in noise[1:]]
        position, reference, ratio, rate = visits(
            visit,
            [in_order(noise.backward, self._n_visits), *noise_of_visits],
            [state.position, *state.evaluation[:2], pt.zeros_like(state.evaluation[0])],
            [move.beta, move.step_size, spread_of(move)],
        )
        evaluation = state.evaluation._replace(log_reference=reference, log_ratio=ratio)
        return KernelState(position, state.momentum, evaluation), KernelInfo(rate)


def spread_of(move: Move) -> TensorVariable:
    """Spread of each entry, shape (d,), or (n, d) where settings are those of each row."""
    if move.scale.ndim == move.step_size.ndim + 1:
        return move.scale
    return pt.sqrt((move.scale**2).sum(axis=-1))
