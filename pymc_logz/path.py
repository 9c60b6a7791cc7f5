"""The path from a reference to a target, and what a batch of rows is worth on it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_logz.batching import batch


class Evaluation(NamedTuple):
    """What the path is worth at a batch of n rows in d dimensions; everything else follows."""

    log_reference: TensorVariable
    """Log density of the reference, shape (n,)."""
    log_ratio: TensorVariable
    """Log target minus log reference, shape (n,)."""
    grad_log_reference: TensorVariable
    """Gradient of ``log_reference``, shape (n, d)."""
    grad_log_ratio: TensorVariable
    """Gradient of ``log_ratio``, shape (n, d)."""


def log_density(evaluation: Evaluation, beta: TensorVariable) -> TensorVariable:
    """Log density at ``beta`` (a scalar or one per row): the geometric path, NaN read as -inf."""
    # at beta = 0 a row outside the target's support still has the reference's density
    tempered = pt.switch(pt.eq(beta, 0), 0.0, beta * evaluation.log_ratio)
    value = evaluation.log_reference + tempered
    return pt.switch(pt.isnan(value), -np.inf, value)


def grad_log_density(evaluation: Evaluation, beta: TensorVariable) -> TensorVariable:
    """Gradient of `log_density`, shape (n, d); 0 where it is not finite.

    Kernels stay exact whatever replaces the gradient, since any function of the position gives a
    reversible and volume-preserving kick.
    """
    column = beta if beta.ndim == 0 else beta[:, None]
    tempered = pt.switch(pt.eq(column, 0), 0.0, column * evaluation.grad_log_ratio)
    value = evaluation.grad_log_reference + tempered
    return pt.switch(pt.abs(value) < np.inf, value, 0.0)


@dataclass(frozen=True)
class AnnealingPath:
    """Joins a reference that can be sampled to a target, in d unconstrained dimensions."""

    n_dims: int
    """d, the length of a row."""
    evaluate: Callable[[TensorVariable], Evaluation]
    """From a symbolic batch of rows (n, d) to its symbolic `Evaluation`."""
    sample_reference: Callable[[np.random.Generator, int], np.ndarray]
    """``(rng, n)`` to n exact draws of the reference, shape (n, d)."""
    log_z_reference: float = 0.0
    """Known log normalising constant of the reference, in nats."""
    batching: str = "vector"
    """How rows are batched: ``"vector"`` or ``"row"`` (see `pymc_logz.batching`)."""


def make_path(
    point: TensorVariable,
    log_reference: TensorVariable,
    log_ratio: TensorVariable,
    *,
    n_dims: int,
    sample_reference: Callable[[np.random.Generator, int], np.ndarray],
    log_z_reference: float = 0.0,
    batching: str = "auto",
) -> AnnealingPath:
    """Path from the two scalar log densities of one symbolic point of length d.

    Parameters
    ----------
    point
        Symbolic vector, shape (d,).
    log_reference, log_ratio
        Scalars that depend on ``point``, in nats.
    n_dims
        d.
    sample_reference
        ``(rng, n)`` to exact draws (n, d) of the reference.
    log_z_reference
        Known log normalising constant of ``exp(log_reference)``.
    batching
        ``"vector"``, ``"row"`` or ``"auto"``.

    Returns
    -------
    AnnealingPath
    """
    outputs = [log_reference, log_ratio]
    outputs += [
        pt.grad(value, point, disconnected_inputs="ignore", return_disconnected="zero")
        for value in (log_reference, log_ratio)
    ]
    evaluate_rows, how = batch(point, outputs, n_dims, batching)
    return AnnealingPath(
        n_dims=n_dims,
        evaluate=lambda rows: Evaluation(*evaluate_rows(rows)),
        sample_reference=sample_reference,
        log_z_reference=log_z_reference,
        batching=how,
    )
