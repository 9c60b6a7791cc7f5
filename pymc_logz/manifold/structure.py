"""Which inputs reach which constraints, and where that may be read off a few Jacobians."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from pytensor.graph.basic import Variable
from pytensor.graph.op import Op
from pytensor.graph.traversal import applys_between, graph_inputs
from pytensor.scalar import basic as scalar
from pytensor.scan.op import Scan
from pytensor.tensor.basic import ARange, Split
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.math import Dot, Sum
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import IncSubtensor, Subtensor

from pymc_logz.errors import ModelError

# what is known to be analytic wherever it is finite; all else counts as not
ANALYTIC_SCALARS = (
    scalar.Add,
    scalar.Sub,
    scalar.Mul,
    scalar.TrueDiv,
    scalar.Neg,
    scalar.Sqr,
    scalar.Sqrt,
    scalar.Exp,
    scalar.Expm1,
    scalar.Log,
    scalar.Log1p,
    scalar.Sin,
    scalar.Cos,
    scalar.Tan,
    scalar.Tanh,
    scalar.Sinh,
    scalar.Cosh,
    scalar.ArcTan,
    scalar.Reciprocal,
    scalar.Pow,
    scalar.Identity,
    scalar.Second,
)
ANALYTIC_OPS = (
    ARange,
    DimShuffle,
    Dot,
    IncSubtensor,
    Reshape,
    SpecifyShape,
    Split,
    Subtensor,
    Sum,
)
ANALYTIC_NAMES = {"Join", "MakeVector", "Alloc", "AllocEmpty", "Shape_i", "Shape", "Sigmoid"}
ANALYTIC_NAMES |= {"TensorFromScalar", "ScalarFromTensor", "Softplus", "Unbroadcast", "ViewOp"}
# an index that depends on the inputs needs a cast to integers, which is not analytic
ANALYTIC_NAMES |= {"AdvancedSubtensor", "AdvancedSubtensor1", "AdvancedIncSubtensor"}


class Structure(NamedTuple):
    """Inputs that reach any number of constraints, and those that reach one each."""

    common: np.ndarray
    """Indices of inputs, shape (L,)."""
    local: np.ndarray
    """Indices of inputs that reach constraint i only, row i of (m, k); -1 where none."""


def is_analytic(inputs: Sequence[Variable], outputs: Sequence[Variable]) -> bool:
    """Whether the outputs are known to be analytic functions of the inputs.

    A derivative of an analytic function that is zero at a random point is zero everywhere, so that
    the pattern of zeros of a few Jacobians is the pattern of all of them.
    """
    return all(_is_analytic(node.op) for node in applys_between(inputs, outputs))


def _is_analytic(op: Op) -> bool:
    if isinstance(op, Elemwise):
        return _is_analytic_scalar(op.scalar_op)
    if isinstance(op, CAReduce):
        return isinstance(op, Sum)
    if isinstance(op, Scan):
        inner = op.fgraph
        return not op.info.as_while and is_analytic(inner.inputs, inner.outputs)
    if type(op).__name__ == "Blockwise":
        return _is_analytic(op.core_op)
    return isinstance(op, ANALYTIC_OPS) or type(op).__name__ in ANALYTIC_NAMES


def _is_analytic_scalar(op: Op) -> bool:
    if isinstance(op, scalar.Composite):
        return all(_is_analytic_scalar(node.op) for node in op.fgraph.apply_nodes)
    if isinstance(op, scalar.Cast):
        return op.o_type.dtype.startswith("float")
    return isinstance(op, ANALYTIC_SCALARS) or type(op).__name__ in ANALYTIC_NAMES


def find_structure(
    jacobians: np.ndarray, noise: Sequence[int], labels: Sequence[str], *, analytic: bool
) -> Structure | None:
    """Structure of Jacobians (n, m, d) at random points; None where none helps.

    ``noise`` are inputs that were declared to reach one constraint each, if any were; if the
    functions are ``analytic`` zeros may be trusted without a declaration. A ModelError is raised if
    a declared input reaches several constraints.
    """
    reached = np.any(jacobians != 0.0, axis=0)
    n_reached = reached.sum(axis=0)
    n_outputs, n_dims = reached.shape
    if noise:
        wrong = [entry for entry in noise if n_reached[entry] > 1]
        if wrong:
            names = [labels[i] for i in np.flatnonzero(reached[:, wrong[0]])[:5]]
            raise ModelError(
                f"an entry of the declared noise reaches {int(n_reached[wrong[0]])} entries of the "
                f"output ({', '.join(names)}, ...), but may reach one; leave out noise=, or write "
                "the output with the observed values of earlier entries in place of simulated ones"
            )
        is_local = np.isin(np.arange(n_dims), [entry for entry in noise if n_reached[entry]])
        # an input that reached nothing here may reach something elsewhere
        common = np.flatnonzero(~is_local)
    elif analytic and n_outputs >= 8:  # the dense Gram matrix of fewer costs next to nothing
        is_local = n_reached == 1
        common = np.flatnonzero(n_reached > 1)
    else:
        return None
    local = _local_table(reached, np.flatnonzero(is_local))
    if np.any(local[:, :1] < 0) or not 0 < common.size <= n_outputs:
        return None
    if common.size > n_outputs // 2 and not _well_conditioned(jacobians, common, is_local):
        return None
    return Structure(common, local)


def _well_conditioned(
    jacobians: np.ndarray, common: np.ndarray, is_local: np.ndarray, least: float = 1e-4
) -> bool:
    """Whether the diagonal part of the Gram matrix is not lost beside the part of low rank.

    Of many common inputs the latter may have full rank by itself, which the dense form then makes
    use of.
    """
    of_common, of_local = (
        np.linalg.norm(jacobians[:, :, columns], axis=2) for columns in (common, is_local)
    )
    return bool(np.all(of_local > least * of_common))


def _local_table(reached: np.ndarray, entries: np.ndarray) -> np.ndarray:
    """Entries that reach each constraint, shape (m, k), filled up with -1."""
    rows: list[list[int]] = [[] for _ in range(len(reached))]
    for entry in entries:
        rows[int(np.argmax(reached[:, entry]))].append(int(entry))
    width = max(1, max(map(len, rows)))
    return np.array([row + [-1] * (width - len(row)) for row in rows])


def needs_loop(outputs: Sequence[Variable]) -> bool:
    """Whether a graph has a Scan, which is differentiated best row by row."""
    nodes = applys_between(list(graph_inputs(outputs)), outputs)
    return any(isinstance(node.op, Scan) for node in nodes)
