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
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable
from scipy.special import expit

from pymc_logz.paths.geometric import AnnealingPath, Evaluation

Parts = Sequence[Any]
"""Rows (n, d) cut into their blocks, shape (n, d_k) each."""


@dataclass(frozen=True, eq=False)
class BinaryPath(AnnealingPath):
    """From independent bits to a density of bits that interact in pairs.

    Rows are zeros and ones, block after block. The parameters are the couplings, shape (d_1, d_2)
    for two blocks and (d, d) for more; bias and base, shape (d,); and the constant.
    """

    sizes: tuple[int, ...] = ()
    """Sites of each block, d_k."""

    @property
    def batching(self) -> str:
        """How rows are batched: as matrix products, written so from the start."""
        return "vector"

    def parts(self, rows: Any) -> list[Any]:
        """Rows (n, d) by block."""
        ends = np.cumsum(self.sizes)
        return [rows[:, end - size : end] for end, size in zip(ends, self.sizes, strict=True)]

    def log_odds(self, k: int, parts: Parts) -> tuple[TensorVariable, TensorVariable]:
        """Log odds that the sites of block k are one given the others, at 0, and by beta.

        Parameters
        ----------
        k
            The block.
        parts
            Of all blocks; that of block k itself is not read.

        Returns
        -------
        TensorVariable, TensorVariable
            Shape (d_k,) in the reference; and shape (n, d_k), by which it grows with beta.
        """
        part = slice(sum(self.sizes[:k]), sum(self.sizes[: k + 1]))
        couplings, bias, base, _ = self.parameters
        if len(self.sizes) == 2:
            field = parts[1] @ couplings.T if k == 0 else parts[0] @ couplings
        else:
            field = _joined(parts) @ couplings[:, part]
        return base[part], field + (bias - base)[part]

    def evaluated(self, parts: Parts) -> Evaluation:
        """What rows are worth; of two blocks it takes the product that the first one's odds take.

        Parameters
        ----------
        parts
            Rows by block.
        """
        couplings, bias, base, constant = self.parameters
        rows, scale = _joined(parts), pt.softplus(base).sum()
        if len(self.sizes) == 2:
            pairs = ((parts[1] @ couplings.T) * parts[0]).sum(axis=1)
        else:
            pairs = ((rows @ couplings) * rows).sum(axis=1) / 2
        zeros = pt.zeros_like(rows)
        log_ratio = pairs + rows @ (bias - base) + constant + scale
        return Evaluation(rows @ base - scale, log_ratio, zeros, zeros)

    def evaluate(self, rows: TensorVariable) -> Evaluation:
        """From a symbolic batch of rows (n, d) to its symbolic `Evaluation`, without gradients."""
        return self.evaluated(self.parts(rows))


def binary_path(
    sizes: Sequence[int],
    couplings: np.ndarray,
    bias: np.ndarray,
    base: np.ndarray,
    constant: float = 0.0,
) -> BinaryPath:
    """Path to a density of bits; those of the same blocks share what is compiled.

    Parameters
    ----------
    sizes
        Sites of each block; no two of a block interact.
    couplings
        A between the two blocks, shape (d_1, d_2); or, of more blocks, symmetric, shape (d, d).
    bias
        Of each site, shape (d,).
    base
        Log odds of each site in the reference, shape (d,).
    constant
        Added to the log target.
    """
    return with_values(_template(tuple(sizes)), (couplings, bias, base, constant))


def with_values(path: BinaryPath, values: Sequence[Any]) -> BinaryPath:
    """The same path at other couplings, bias, base and constant."""
    base = np.asarray(values[2], dtype=float)

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        return (rng.random((n, base.size)) < expit(base)).astype(float)

    moved = path.along(values, draw, 0.0)
    assert isinstance(moved, BinaryPath)
    return moved


@lru_cache(maxsize=16)
def _template(sizes: tuple[int, ...]) -> BinaryPath:
    """The path of these blocks, everything zero: what is compiled for it serves all of its kind."""
    d = sum(sizes)
    shape = sizes if len(sizes) == 2 else (d, d)
    parameters = (
        pt.matrix("couplings", dtype="float64", shape=shape),
        pt.vector("bias", dtype="float64", shape=(d,)),
        pt.vector("base", dtype="float64", shape=(d,)),
        pt.scalar("constant", dtype="float64"),
    )
    point = pt.vector("point", dtype="float64", shape=(d,))
    values = tuple(np.zeros(parameter.type.shape) for parameter in parameters)
    return BinaryPath(
        point=point,
        log_reference=pt.as_tensor(0.0),
        log_ratio=pt.as_tensor(0.0),
        n_dims=d,
        sample_reference=lambda rng, n: rng.integers(2, size=(n, d)).astype(float),
        how="vector",
        has_gradients=False,
        parameters=parameters,
        values=values,
        sizes=sizes,
    )


def _joined(parts: Parts) -> TensorVariable:
    return pt.concatenate(list(parts), axis=1)
