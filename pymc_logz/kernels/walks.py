"""A random walk of real numbers."""

from dataclasses import dataclass
from typing import ClassVar

from pymc_logz.arguments import check_positive
from pymc_logz.kernels.base import KernelInfo, KernelState, Move, Noise, metropolis, strides
from pymc_logz.kernels.tuning import KernelDefaults, check_scale, random_walk_step_size
from pymc_logz.paths.geometric import AnnealingPath, log_density


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

    tuned_step_size = staticmethod(random_walk_step_size)

    def step(
        self, path: AnnealingPath, state: KernelState, move: Move, noise: Noise
    ) -> tuple[KernelState, KernelInfo]:
        """Propose, accept or reject; leaves the density at ``move.beta`` invariant."""
        position = state.position + strides(noise.normal, move)
        proposal = KernelState(position, state.momentum, path.evaluate(position))
        densities = [log_density(at.evaluation, move.beta) for at in (proposal, state)]
        return metropolis(densities[0] - densities[1], noise.log_uniform, proposal, state)
