"""Paths between binary densities whose sites interact in pairs: Boltzmann machines of any shape.

With b bits x in {0, 1}^d in blocks of sites that do not interact with each other, the path is ::

    log reference(x) = base . x - sum softplus(base)
    log target(x)    = bias . x + sum over pairs i < j of A_ij x_i x_j + constant

so that the reference, independent bits, is normalised and can be drawn. Given all other blocks the
sites of a block are independent at every beta, with log odds that are linear in beta.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable
from scipy.special import expit

from pymc_logz.kernels.base import KernelInfo, KernelState, Move, column
from pymc_logz.kernels.tuning import KernelDefaults
from pymc_logz.paths.geometric import AnnealingPath, Evaluation

Parts = Sequence[Any]
"""Rows (n, d) cut into their blocks, shape (n, d_k) each."""


@dataclass(frozen=True, eq=False)
class BinaryPath(AnnealingPath):
    """From independent bits to a density of bits that interact in pairs, block after block.

    The parameters are the couplings, shape (d_1, d_2) for two blocks and (d, d) for more; bias and
    base, shape (d,); and the constant. Two more make the path start at another density of the same
    blocks: its couplings and its constant; base is its bias then.
    """

    is_binary: ClassVar[bool] = True

    sizes: tuple[int, ...] = ()
    """Sites of each block, d_k."""

    @property
    def batching(self) -> str:
        """How rows are batched: as matrix products, written so from the start."""
        return "vector"

    def bytes_of_a_row(self) -> int:
        """Bytes of all that is computed of one row: its bits, odds and noise, a few times each."""
        return 8 * 16 * self.n_dims

    def parts(self, rows: Any) -> list[Any]:
        """Rows (n, d) by block."""
        ends = np.cumsum(self.sizes)
        return [rows[:, end - size : end] for end, size in zip(ends, self.sizes, strict=True)]

    def log_odds(self, k: int, parts: Parts) -> tuple[TensorVariable, TensorVariable]:
        """Log odds that sites of block k are one given the others: at 0 and by beta, (n, d_k)."""
        part = slice(sum(self.sizes[:k]), sum(self.sizes[: k + 1]))
        couplings, bias, base, _, *before = self.parameters
        at_reference = base[part]
        if before:
            at_reference = self.field(k, parts, before[0]) + at_reference
            couplings = couplings - before[0]
        return at_reference, self.field(k, parts, couplings) + (bias - base)[part]

    def field(self, k: int, parts: Parts, couplings: TensorVariable) -> TensorVariable:
        """What couplings to all other blocks add to the log odds of block k, shape (n, d_k)."""
        if len(self.sizes) == 2:
            return parts[1] @ couplings.T if k == 0 else parts[0] @ couplings
        end = sum(self.sizes[: k + 1])
        return pt.concatenate(list(parts), axis=1) @ couplings[:, end - self.sizes[k] : end]

    def pairs(self, parts: Parts, couplings: TensorVariable) -> TensorVariable:
        """What couplings add to the log density; of two blocks, from the product of `field`."""
        if len(self.sizes) == 2:
            return (self.field(0, parts, couplings) * parts[0]).sum(axis=1)
        rows = pt.concatenate(list(parts), axis=1)
        return ((rows @ couplings) * rows).sum(axis=1) / 2

    def evaluated(self, parts: Parts) -> Evaluation:
        """What rows (by block) are worth; of two by the product that the first one's odds take."""
        couplings, bias, base, constant, *before = self.parameters
        rows = pt.concatenate(list(parts), axis=1)
        zeros = pt.zeros_like(rows)
        log_reference, at_reference = rows @ base, -pt.softplus(base).sum()
        if before:
            log_reference = self.pairs(parts, before[0]) + log_reference
            couplings, at_reference = couplings - before[0], before[1]
        log_ratio = self.pairs(parts, couplings) + rows @ (bias - base) + constant - at_reference
        return Evaluation(log_reference + at_reference, log_ratio, zeros, zeros)

    def evaluate(self, rows: TensorVariable) -> Evaluation:
        """From a symbolic batch of rows (n, d) to its symbolic `Evaluation`, without gradients."""
        return self.evaluated(self.parts(rows))


def path_between(first: BinaryPath, second: BinaryPath, rows: np.ndarray) -> BinaryPath:
    """Path from the target of one path, of which these rows are draws, to that of another one."""
    before, base, _, constant_before = first.values
    couplings, bias, _, constant = second.values
    values = (couplings, bias, base, constant, before, constant_before)

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        return rows[rng.integers(len(rows), size=n)]

    return _template(first.sizes, between=True).along(values, draw)


def binary_path(
    sizes: Sequence[int],
    couplings: np.ndarray,
    bias: np.ndarray,
    base: np.ndarray,
    constant: float | np.ndarray = 0.0,
) -> BinaryPath:
    """Path to a density of bits; those of the same blocks share what is compiled."""
    base = np.asarray(base, dtype=float)

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        return (rng.random((n, base.size)) < expit(base)).astype(float)

    return _template(tuple(sizes)).along((couplings, bias, base, constant), draw)


@lru_cache(maxsize=32)
def _template(sizes: tuple[int, ...], *, between: bool = False) -> BinaryPath:
    """The path of these blocks, everything zero: what is compiled for it serves all of its kind."""
    d = sum(sizes)
    shape = sizes if len(sizes) == 2 else (d, d)
    shapes = {"couplings": shape, "bias": (d,), "base": (d,), "constant": ()}
    if between:
        shapes |= {"couplings_before": shape, "constant_before": ()}
    return BinaryPath(
        point=pt.vector("point", dtype="float64", shape=(d,)),
        log_reference=pt.as_tensor(0.0),
        log_ratio=pt.as_tensor(0.0),
        n_dims=d,
        sample_reference=lambda rng, n: rng.integers(2, size=(n, d)).astype(float),
        how="vector",
        has_gradients=False,
        parameters=tuple(pt.tensor(name, dtype="float64", shape=s) for name, s in shapes.items()),
        values=tuple(map(np.zeros, shapes.values())),
        sizes=sizes,
    )


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

    def draw_noise(self, rng: np.random.Generator, n_moves: int, n_rows: int, n_dims: int) -> Any:
        """A uniform for each site."""
        return rng.random((n_moves, n_rows, n_dims))

    def step(
        self, path: AnnealingPath, state: KernelState, move: Move, noise: Any
    ) -> tuple[KernelState, KernelInfo]:
        """Draw each block given the others; leaves the density at ``move.beta`` invariant."""
        if not isinstance(path, BinaryPath):
            raise TypeError(
                "BlockGibbs() moves energies that are made of bits, such as "
                "pymc_logz.energies.bernoulli_rbm(...); for a PyMC model use another kernel"
            )
        beta, moves = column(move.beta), column(move.step_size) > 0
        parts, uniforms = path.parts(state.position), path.parts(noise)
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
