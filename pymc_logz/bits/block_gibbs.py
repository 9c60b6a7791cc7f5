"""Block Gibbs moves of bits that interact in pairs."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytensor.tensor as pt

from pymc_logz.bits.paths import BinaryPath
from pymc_logz.kernels.base import KernelInfo, KernelState, Move, column
from pymc_logz.kernels.defaults import KernelDefaults
from pymc_logz.paths.geometric import AnnealingPath


class Uniforms(NamedTuple):
    """The randomness of sweeps, drawn by the runner."""

    uniform: Any
    """One for each site, shape (n, d) in a step, (m, n, d) for m steps."""


@dataclass(frozen=True)
class BlockGibbs(KernelDefaults):
    """Settings of a sweep that draws block after block of sites given all others, the last first.

    The sites of a block do not interact, so that they are drawn together: one matrix product for
    all rows. There is nothing to tune. Of a restricted Boltzmann machine, hidden units are drawn
    before visible ones; of an Ising model on a torus, the two colours of a checkerboard by turns.
    It moves the energies of ``pymc_logz.energies`` that are made of bits, and is what moves them
    unless something else is asked for.

    References
    ----------
    Geman & Geman (1984), doi 10.1109/TPAMI.1984.4767596; block Gibbs along a path to a restricted
    Boltzmann machine: Salakhutdinov & Murray (2008), doi 10.1145/1390156.1390266.

    Examples
    --------
    >>> from pymc_logz.kernels import BlockGibbs
    >>> BlockGibbs().evaluations_per_move(10)
    1
    """

    needs_gradient: ClassVar[bool] = False
    step_size: ClassVar[float] = 1.0
    scale: ClassVar[float] = 1.0
    dense: ClassVar[bool] = False

    def draw_noise(
        self, rng: np.random.Generator, n_moves: int, n_rows: int, n_dims: int
    ) -> Uniforms:
        """A uniform for each site."""
        return Uniforms(rng.random((n_moves, n_rows, n_dims)))

    def step(
        self, path: AnnealingPath, state: KernelState, move: Move, noise: Uniforms
    ) -> tuple[KernelState, KernelInfo]:
        """Draw each block given the others; leaves the density at ``move.beta`` invariant."""
        if not isinstance(path, BinaryPath):
            raise TypeError(
                "BlockGibbs() moves energies that are made of bits, such as "
                "pymc_logz.energies.bernoulli_rbm(...); for a PyMC model use another kernel"
            )
        beta, moves = column(move.beta), column(move.step_size) > 0
        parts, uniforms = path.parts(state.position), path.parts(noise.uniform)
        for k in reversed(range(len(parts))):
            at_reference, by_beta = path.log_odds(k, parts)
            drawn = uniforms[k] < pt.sigmoid(at_reference + beta * by_beta)
            parts[k] = pt.switch(moves, pt.cast(drawn, "float64"), parts[k])
        found = path.evaluated(parts)
        # gradients are zero as they were: to write them anew is a twentieth of a sweep
        evaluation = state.evaluation._replace(
            log_reference=found.log_reference, log_ratio=found.log_ratio
        )
        new = KernelState(pt.concatenate(parts, axis=1), state.momentum, evaluation)
        return new, KernelInfo(pt.ones_like(found.log_ratio))
