"""Makes the graph of a model cheaper to evaluate, before rows are batched and a backend is chosen.

Of ``switch(y, log p, log(1 - p))``, the log likelihood of binary data, both branches are computed
and one is thrown away. Of ``switch(year <= change, early, late)``, the mean of a count, a logarithm
is taken for each year. XLA makes slow code of PyTensor's four-branch softplus, so a form of equal
accuracy without branches takes its place there. A distribution's parameter check becomes log
density -inf here already: once rows are batched, one check would stand for all of them.

One form is more exact, not cheaper: on the log scale ``(a - 1) x``, of a gamma density, and ``x``,
of its Jacobian, are ``a x``; a shape of 1e-17 is lost in ``a - 1``.
"""

from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import (
    EquilibriumGraphRewriter,
    SubstitutionNodeRewriter,
    node_rewriter,
)
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.graph.traversal import graph_inputs
from pytensor.scalar.basic import (
    GE,
    LE,
    Add,
    Expm1,
    Log,
    Log1p,
    Mul,
    Neg,
    Sub,
    Switch,
    upgrade_to_float,
)
from pytensor.scalar.math import Softplus
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import All, Sum
from pytensor.tensor.variable import TensorVariable

from pymc_logz.graphs.functions import parameter_checks


class BranchlessSoftplus(Softplus):
    """Softplus whose JAX form has no branches; on other backends it is PyTensor's own."""


LOGARITHMS = (Log, Log1p)
"""Functions that are applied to all that a switch chooses from, if that is few: of those that would
overflow where nothing chooses them, as exp, the gradient would be NaN."""
branchless_softplus = Elemwise(BranchlessSoftplus(upgrade_to_float, name="softplus"))
softplus_without_branches = SubstitutionNodeRewriter(pt.softplus, branchless_softplus)


def jax_softplus(op: BranchlessSoftplus, **_: Any) -> Callable:
    """What JAX computes for it."""
    import jax.numpy as jnp

    return lambda x: jnp.maximum(x, 0) + jnp.log1p(jnp.exp(-jnp.abs(x)))


def _parts(value: Variable) -> tuple[type | None, list[Variable]]:
    """Kind of the elementwise function that a value is of, and what of; None of anything else."""
    node = value.owner
    if node is None or not isinstance(node.op, Elemwise):
        return None, []
    return type(node.op.scalar_op), list(node.inputs)


def _is(value: Variable, number: float) -> bool:
    return isinstance(value, Constant) and bool(np.all(value.data == number))


def _of_switch(value: Variable) -> list[Variable]:
    """Condition and branches of what a switch chooses; nothing of anything else."""
    kind, parts = _parts(value)
    return parts if kind is Switch else []


@node_rewriter([Elemwise])
def switch_before_function(fgraph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """``switch(c, f(a, k), f(b, k))`` becomes ``f(switch(c, a, b), k)`` for an elementwise f."""
    if not (parts := _of_switch(node.outputs[0])):
        return None
    condition, *branches = parts
    first, second = (branch.owner for branch in branches)
    if first is None or second is None or first is second or first.op != second.op:
        return None
    if len(first.inputs) != len(second.inputs):  # products and sums of any number
        return None
    pairs = list(zip(first.inputs, second.inputs, strict=True))
    unequal = [
        i
        for i, (one, other) in enumerate(pairs)
        if one is not other and not (isinstance(one, Constant) and one.equals(other))
    ]
    if not isinstance(first.op, Elemwise) or len(unequal) != 1:
        return None
    if all(_is_smaller(branch, node.outputs[0]) for branch in branches):
        return None  # few numbers to apply it to, as it is
    inputs = list(first.inputs)
    inputs[unequal[0]] = pt.switch(condition, *pairs[unequal[0]])
    chosen = first.op(*inputs)
    return [chosen] if node.outputs[0].type.is_super(chosen.type) else None


@node_rewriter([Elemwise])
def logarithm_before_switch(fgraph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """``log(switch(c, a, b))`` is ``switch(c, log(a), log(b))`` if a and b have fewer entries."""
    is_one = type(node.op.scalar_op) in LOGARITHMS
    chosen = _before_switch(node.op, node.inputs[0]) if is_one else None
    return None if chosen is None or not node.outputs[0].type.is_super(chosen.type) else [chosen]


def _before_switch(function: Elemwise, value: Variable) -> Variable | None:
    """The function of a switch, or of switches within it, applied to all that they choose from."""
    if not (parts := _of_switch(value)):
        return None
    condition, *branches = parts
    applied = [
        function(branch) if _is_smaller(branch, value) else _before_switch(function, branch)
        for branch in branches
    ]
    return None if None in applied else pt.switch(condition, *applied)


def _is_smaller(part: Variable, whole: Variable) -> bool:
    """Whether one entry of it stands for many of the whole."""
    pairs = zip(part.type.shape, whole.type.shape, strict=True)
    return any(one == 1 and other != 1 for one, other in pairs)


@node_rewriter([All])
def sigmoid_is_a_probability(fgraph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """``all(sigmoid(x) >= 0)`` and ``all(sigmoid(x) <= 1)`` are true."""
    kind, parts = _parts(node.inputs[0])
    limit = {GE: 0, LE: 1}.get(kind)
    if limit is None:
        return None
    value, bound = parts
    is_sigmoid = value.owner is not None and value.owner.op == pt.sigmoid
    if not is_sigmoid or not _is(bound, limit) or node.outputs[0].ndim > 0:
        return None
    return [pt.constant(True, dtype="bool")]


@node_rewriter([Elemwise])
def jacobian_into_power(fgraph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """``f((a - 1) x) + x`` becomes ``f(a x)`` where f chooses, adds and subtracts."""
    kind, terms = _parts(node.outputs[0])
    if kind is not Add:
        return None
    for one, other in permutations(range(len(terms)), 2):
        negated, inside = _parts(terms[one])
        sign, x = (-1, inside[0]) if negated is Neg else (1, terms[one])
        joined = None if isinstance(x, Constant) else _with_added(terms[other], x, sign)
        if joined is not None:
            rest = [term for k, term in enumerate(terms) if k not in (one, other)]
            found = pt.add(joined, *rest) if rest else joined
            return [found] if node.outputs[0].type.is_super(found.type) else None
    return None


def _with_added(value: Variable, x: Variable, sign: int, depth: int = 10) -> Variable | None:
    """A value and plus or minus x, if it is made of a product of x and something less one.

    A log density is so within a few steps; a recurrence that is written out has thousands.
    """
    kind, parts = _parts(value) if depth else (None, [])
    if kind is Mul and x in parts:
        parts.remove(x)
        signs = [part for part in parts if _is(part, -1)]
        others = [part for part in parts if not _is(part, -1)]
        more = _one_more(others[0]) if len(others) == 1 and (-1) ** len(signs) == sign else None
        return None if more is None else sign * more * x
    if kind is Switch:
        joined = [_with_added(part, x, sign, depth - 1) for part in parts[1:]]
        if joined == [None, None]:
            return None
        pairs = zip(joined, parts[1:], strict=True)
        branches = [
            one if one is not None else part if _is(part, -np.inf) else part + sign * x
            for one, part in pairs
        ]
        return pt.switch(parts[0], *branches)
    for i, part in enumerate(parts if kind is Add else parts[:1] if kind is Sub else []):
        if (one := _with_added(part, x, sign, depth - 1)) is not None:
            return value.owner.op(*parts[:i], one, *parts[i + 1 :])
    return None


def _one_more(value: Variable) -> Variable | None:
    """A value that is something less one, and one more: without a difference."""
    if value.owner is not None and isinstance(value.owner.op, DimShuffle):
        inside = _one_more(value.owner.inputs[0])
        return None if inside is None else value.owner.op(inside)
    kind, parts = _parts(value)
    if kind is Expm1:
        return pt.exp(parts[0])
    if kind is Sub:
        return -parts[1] if _is(parts[0], -1) else parts[0] if _is(parts[1], 1) else None
    rest = [part for part in parts if not _is(part, -1)]
    if kind is not Add or len(rest) != len(parts) - 1:
        return None
    return pt.add(*rest) if len(rest) > 1 else rest[0]


def impossible_data_after_sum(data: Sequence[Variable]) -> Any:
    """Rewrite by which ``sum(switch(c, -inf, f))`` becomes ``switch(any(c), -inf, sum(f))``.

    Only for a condition c on data alone, such as whole numbers being out of range: it then leaves
    the loop over entries, rows and their gradients. Of data that are constants it is folded anyway.
    """

    @node_rewriter([Sum])
    def impossible_data(fgraph: FunctionGraph, node: Apply) -> list[Variable] | None:
        if node.outputs[0].ndim > 0 or not (parts := _of_switch(node.inputs[0])):
            return None
        condition, masks, values = parts
        is_mask = _is(masks, -np.inf)
        needed = {var for var in graph_inputs([condition]) if not isinstance(var, Constant)}
        # where one value stands for all entries of a condition, their sum is more
        shapes = zip(condition.type.shape, values.type.shape, strict=True)
        widens = any(one != 1 and two == 1 for one, two in shapes)
        if not is_mask or not needed <= set(data) or widens:
            return None
        return [pt.switch(pt.any(pt.neq(condition, 0)), -np.inf, node.op(values))]

    return impossible_data


ALWAYS = ("canonicalize", "stabilize", "specialize")
"""All, and here already: some stable forms are only found among special ones, and not any more
once axes are added for rows, as log(1 - sigmoid)."""

NEVER = ("local_pow_to_nested_squaring",)
"""Rewrites that leave operations without a gradient, as that of ``x**4``."""


def simplify(
    outputs: Sequence[TensorVariable], data: Sequence[Variable] = ()
) -> list[TensorVariable]:
    """The same outputs from a cheaper graph of the same inputs; ``data`` among them stay."""
    fgraph = FunctionGraph(outputs=list(outputs), clone=True, copy_inputs=False)
    then = softplus_without_branches, logarithm_before_switch, impossible_data_after_sum(data)
    first = switch_before_function, sigmoid_is_a_probability, jacobian_into_power
    for rewrites in (first, then):
        rewrite_graph(fgraph, include=(*ALWAYS, *parameter_checks()), exclude=NEVER)
        EquilibriumGraphRewriter(rewrites, max_use_ratio=10).rewrite(fgraph)
    return list(fgraph.outputs)
