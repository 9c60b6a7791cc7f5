"""Gradients put together from parts of a vector are those by the vector."""

from collections.abc import Callable

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.traversal import applys_between
from pytensor.tensor.variable import TensorVariable
from support.checks import make_rng

from pymc_logz.graphs.gradients import gradients_of

D = 6
VALUES: dict[str, Callable[[TensorVariable], TensorVariable]] = {
    "all taken": lambda x: pt.exp(x[0]) * (x[1:4] ** 3).sum() + x[4:].prod(),
    "gaps": lambda x: (x[1:3] ** 2).sum() * pt.sin(x[4]),
    "overlaps": lambda x: (x[:4] ** 2).sum() + x[2:].prod() + x[3] ** 3,
    "whole too": lambda x: pt.dot(x, np.arange(6.0)) ** 2 + pt.exp(x[2:4]).sum(),
    "from the end": lambda x: x[-1] * (x[-3:-1] ** 2).sum(),
    "steps": lambda x: (x[::2] ** 3).sum() + x[1] ** 2,
    "taken by indices": lambda x: (x[np.array([0, 0, 5])] ** 3).sum() * x[0],
    "one entry": lambda x: x[3],
    "nothing": lambda x: pt.constant(2.5),
    "empty": lambda x: x[3:3].sum() + x[1] ** 2,
}


@pytest.mark.parametrize("name", VALUES)
def test_gradient_by_parts_is_the_gradient(name: str) -> None:
    """Catches a part at another place, counted twice, or left out."""
    point = pt.tensor("point", dtype="float64", shape=(D,))
    value = VALUES[name](point)
    [by_parts] = gradients_of([value], point)
    whole = pt.grad(value, point, disconnected_inputs="ignore", return_disconnected="zero")
    function = pytensor.function(
        [point], [by_parts, whole], mode="FAST_COMPILE", on_unused_input="ignore"
    )
    one, other = function(make_rng("gradients", name).normal(size=D))
    assert one.shape == (D,)
    np.testing.assert_allclose(one, other, rtol=1e-14)


def test_gradients_of_several_values_are_apart() -> None:
    """Catches a value whose gradient is another's."""
    point = pt.tensor("point", dtype="float64", shape=(D,))
    gradients = gradients_of([point[0] ** 2, pt.exp(point[1:]).sum()], point)
    first, second = pytensor.function([point], gradients, mode="FAST_COMPILE")(np.arange(6.0))
    np.testing.assert_allclose(first, np.zeros(6))
    np.testing.assert_allclose(second, [0.0, *np.exp(np.arange(1.0, 6.0))])


def test_variables_are_joined_in_one_operation() -> None:
    """Catches one operation for each variable, which XLA takes its time for."""
    point = pt.tensor("point", dtype="float64", shape=(D,))
    value = sum((point[i : i + 1] ** 2).sum() for i in range(D))
    [gradient] = gradients_of([value], point)
    names = [str(node.op) for node in applys_between([point], [gradient])]
    assert not any("Inc" in name for name in names)
    assert sum("Join" in name for name in names) == 1
