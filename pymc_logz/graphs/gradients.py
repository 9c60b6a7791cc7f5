"""Gradients by a flat vector, put together from those by its parts.

A model takes its variables out of the vector as slices. The gradient of a slice is a vector of
zeros with an entry set, and their sum is one more operation for each variable, which XLA compiles
one by one; here the gradients by the slices are joined instead, in one operation.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytensor.tensor as pt
from pytensor.gradient import NullTypeGradError
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors, applys_between
from pytensor.graph.utils import MethodNotDefined
from pytensor.tensor.exceptions import NotScalarConstantError
from pytensor.tensor.subtensor import Subtensor, get_constant_idx
from pytensor.tensor.variable import TensorVariable

from pymc_logz.errors import ModelError
from pymc_logz.graphs.host_calls import is_box_without_gradient

NO_GRADIENT = NotImplementedError, NullTypeGradError, MethodNotDefined
"""What PyTensor raises where an operation has no gradient."""
Part = tuple[int, int, TensorVariable]
"""First entry, end and variable of a slice, or of a single entry, of a vector."""


@contextmanager
def needs_gradients(instead: str) -> Iterator[None]:
    """Raise a `ModelError` with what does without, where there is no gradient."""
    try:
        yield
    except NO_GRADIENT as error:
        raise ModelError(
            f"the model has no gradient ({str(error)[:200]}), which this kernel follows; use one "
            f"that needs none: {instead}"
        ) from error


def gradients_of(
    values: Sequence[TensorVariable],
    point: TensorVariable,
    columns: Sequence[int] | None = None,
) -> list[TensorVariable]:
    """Gradients of scalars by a vector of static length d, shape (d,) each.

    Where only the entries of some ``columns`` are wanted, black boxes without a gradient are taken
    for constants, unless they depend on these; other entries are then of no use. Where there is no
    gradient, PyTensor raises one of `NO_GRADIENT`.
    """
    parts = _disjoint_parts(values, point)
    inputs = [variable.type() for *_, variable in parts]
    slices = [variable for *_, variable in parts]
    apart = clone_replace(list(values), dict(zip(slices, inputs, strict=True)))
    of_inputs = [(*part[:2], variable) for part, variable in zip(parts, inputs, strict=True)]
    boxes = () if columns is None else _boxes(apart, point, of_inputs)
    constants = [out for node, own in boxes if not own & set(columns or ()) for out in node.outputs]
    gradients = [_gradient(value, point, parts, inputs, constants) for value in apart]
    return clone_replace(gradients, dict(zip(inputs, slices, strict=True)))


def columns_of_boxes(values: Sequence[TensorVariable], point: TensorVariable) -> set[int]:
    """Entries of a vector that black boxes without a gradient depend on."""
    boxes = _boxes(values, point, _disjoint_parts(values, point))
    return {column for _, columns in boxes for column in columns}


def _boxes(
    values: Sequence[TensorVariable], point: TensorVariable, parts: list[Part]
) -> Iterator[tuple[Any, set[int]]]:
    """Nodes that are black boxes without a gradient, and the entries that each depends on."""
    variables = [variable for *_, variable in parts]
    for node in applys_between([point, *variables], list(values)):
        if is_box_without_gradient(node):
            ends = set(ancestors(node.inputs, variables))
            own = [part[:2] for part in parts if part[2] in ends]
            ranges = [(0, point.type.shape[0])] if point in ends else own
            yield node, {column for start, stop in ranges for column in range(start, stop)}


def _gradient(
    value: TensorVariable,
    point: TensorVariable,
    parts: list[Part],
    inputs: list[TensorVariable],
    constants: Sequence[Any],
) -> TensorVariable:
    """Gradient of a scalar that depends on some parts of the vector as on inputs of their own."""
    whole, *by_part = pt.grad(
        value,
        [point, *inputs],
        consider_constant=constants,
        disconnected_inputs="ignore",
        return_disconnected="none",
    )
    joined: list[Any] = []
    end = 0
    for (start, stop, _), variable, gradient in zip(parts, inputs, by_part, strict=True):
        if start > end:
            joined.append(pt.zeros(start - end, dtype=point.dtype))
        gradient = pt.zeros_like(variable) if gradient is None else gradient
        joined.append(gradient.reshape((1,)) if gradient.ndim == 0 else gradient)
        end = stop
    if end < point.type.shape[0]:
        joined.append(pt.zeros(point.type.shape[0] - end, dtype=point.dtype))
    if all(gradient is None for gradient in by_part):
        return pt.zeros_like(point) if whole is None else whole
    total = pt.concatenate(joined)
    return total if whole is None else whole + total


def _disjoint_parts(values: Sequence[TensorVariable], point: TensorVariable) -> list[Part]:
    """Slices of the vector that do not overlap, the longer ones first choice, in their order."""
    parts: list[Part] = []
    nodes = applys_between([point], list(values))
    found = [part for node in nodes if (part := _part(node, point)) is not None]
    for start, stop, variable in sorted(found, key=lambda part: part[0] - part[1]):
        if all(stop <= first or end <= start for first, end, _ in parts):
            parts.append((start, stop, variable))
    return sorted(parts, key=lambda part: part[0])


def _part(node: Any, point: TensorVariable) -> Part | None:
    """The part of the vector that a node takes, if that is known and without steps."""
    if not isinstance(node.op, Subtensor) or node.inputs[0] is not point:
        return None
    try:
        [index] = get_constant_idx(node.op.idx_list, node.inputs)
    except NotScalarConstantError:
        return None
    if not isinstance(index, slice):
        start = index % point.type.shape[0]
        return start, start + 1, node.outputs[0]
    start, stop, step = index.indices(point.type.shape[0])
    return (start, stop, node.outputs[0]) if step == 1 and start < stop else None
