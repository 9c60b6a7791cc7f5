"""From the graph of one point to the graph of a batch of rows, in one of two ways.

``"vector"`` rewrites the graph so that every operation works on the whole batch, which is fastest
where the work is elementwise or a matrix product. ``"row"`` keeps the graph of one point inside
an Op and maps it over rows (``jax.vmap`` on JAX, a compiled loop on NUMBA, a Python loop
elsewhere), which is the only good way where vectorising falls back on loops: Scan, Cholesky, Split
and the like.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Apply
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import Op
from pytensor.graph.replace import clone_replace, vectorize_graph
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.graph.traversal import applys_between
from pytensor.link.jax.linker import JAXLinker
from pytensor.link.numba.linker import NumbaLinker
from pytensor.scan.op import Scan
from pytensor.tensor.basic import Alloc, ARange
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.math import Dot
from pytensor.tensor.subtensor import AdvancedIncSubtensor, IncSubtensor
from pytensor.tensor.variable import TensorVariable

from pymc_logz.arguments import check_choice
from pymc_logz.graphs.functions import compile_kwargs_for, function_for, one_at_a_time
from pymc_logz.graphs.host_calls import HostCall, calls_host
from pymc_logz.graphs.jax_calls import jax_host_call
from pymc_logz.graphs.simplify import BranchlessSoftplus, jax_softplus

REWRITTEN = (Dot, ARange, Alloc, IncSubtensor, AdvancedIncSubtensor)
"""Operations that PyTensor or a backend rewrites from a Blockwise into a batched form."""


def batch(
    point: TensorVariable,
    outputs: list[TensorVariable],
    n_dims: int,
    batching: str,
    data: TensorVariable | None = None,
    parameters: Sequence[TensorVariable] = (),
) -> tuple[Callable[..., list[TensorVariable]], str]:
    """Function from a batch of rows (and of their data) to the batched outputs, and how it is made.

    ``outputs`` are scalars, and vectors of static length or of length d, that depend on ``point``
    (d,). ``batching`` is "vector", "row", or "auto" to choose from the graph. Symbolic ``data``
    (D,) are batched along with the point; ``parameters`` are the same for all rows, and stay inputs
    of the graph.
    """
    check_choice(("auto", "vector", "row"), batching=batching)
    inputs = [point] if data is None else [point, data]
    if batching == "row" or (batching == "auto" and not vectorizes_well(inputs, outputs, n_dims)):
        return _row_evaluator(inputs, outputs, n_dims, parameters), "row"

    together: dict[tuple[Any, ...], OpFromGraph] = {}

    def evaluate(*batches: TensorVariable) -> list[TensorVariable]:
        types = tuple(batch.type for batch in batches)
        if types not in together:
            fresh = [of_batch() for of_batch in types]
            vectorized = vectorize_graph(outputs, dict(zip(inputs, fresh, strict=True)))
            wide = [
                new if new.ndim > old.ndim else pt.zeros((fresh[0].shape[0], *[1] * new.ndim)) + new
                for old, new in zip(outputs, vectorized, strict=True)
            ]
            # most backends take it apart again; others compile it apart from what is around it
            together[types] = OpFromGraph([*fresh, *parameters], wide, inline=True)
        return together[types](*batches, *parameters, return_list=True)

    return evaluate, "vector"


def vectorizes_well(
    inputs: list[TensorVariable], outputs: list[TensorVariable], n_dims: int
) -> bool:
    """Whether the vectorised graph is free of loops over the batch."""
    # what loops over one point's matrices loops over the batch too
    if _loops(inputs, outputs):
        return False
    widths = (n_dims, *(var.type.shape[0] for var in inputs[1:]))
    batches = [
        pt.matrix("rows", shape=(None, width), dtype=var.dtype)
        for var, width in zip(inputs, widths, strict=True)
    ]
    try:
        vectorized = vectorize_graph(outputs, dict(zip(inputs, batches, strict=True)))
        if not _loops(batches, vectorized):
            return True
        # rewriting removes more Blockwise operations that have a batched form of their own
        vectorized = rewrite_graph(
            vectorized, include=("canonicalize", "specialize"), exclude=("cxx_only", "BlasOpt")
        )
    except (NotImplementedError, ValueError):
        return False
    return not _loops(batches, vectorized)


def _loops(inputs: list[TensorVariable], outputs: list[TensorVariable]) -> bool:
    ops = [node.op for node in applys_between(inputs, outputs)]
    cores = [op.core_op for op in ops if isinstance(op, Blockwise)]
    # a black box is called for one row after the other whichever way
    looping = not all(isinstance(core, (*REWRITTEN, HostCall)) for core in cores)
    return looping or any(isinstance(op, Scan) for op in ops)


def _row_evaluator(
    inputs: list[TensorVariable],
    outputs: list[TensorVariable],
    n_dims: int,
    parameters: Sequence[TensorVariable],
) -> Callable[..., list[TensorVariable]]:
    """Batched outputs through one `RowMap` whose single output holds them side by side."""
    flat = [out.reshape((1,)) if out.ndim == 0 else out for out in outputs]
    widths = [1 if out.ndim == 0 else out.type.shape[0] or n_dims for out in outputs]
    joined = pt.specify_shape(pt.concatenate(flat).astype(pytensor.config.floatX), (sum(widths),))
    point, *data = inputs
    if data:  # behind the point, as one vector
        both = pt.tensor("row", dtype=point.dtype, shape=(n_dims + data[0].type.shape[0],))
        parts = {point: both[:n_dims], data[0]: both[n_dims:].astype(data[0].dtype)}
        point, [joined] = both, clone_replace([joined], parts, rebuild_strict=False)
    row_map = RowMap(point, joined, parameters)
    ends = np.cumsum(widths)

    def evaluate(*batches: TensorVariable) -> list[TensorVariable]:
        rows = pt.concatenate(batches, axis=1) if len(batches) > 1 else batches[0]
        result = row_map(rows, *parameters)
        return [
            result[:, end - 1] if out.ndim == 0 else result[:, end - width : end]
            for out, width, end in zip(outputs, widths, ends, strict=True)
        ]

    return evaluate


class RowMap(Op):
    """Maps the graph of one row, (d,) to (k,), over a matrix (n, d), with common parameters."""

    def __init__(
        self,
        point: TensorVariable,
        output: TensorVariable,
        parameters: Sequence[TensorVariable] = (),
    ) -> None:
        self.fgraph = FunctionGraph([point, *parameters], [output], clone=True)

    def make_node(self, rows: Any, *parameters: Any) -> Apply:
        """Node for a matrix of rows and the parameters."""
        inputs = [pt.as_tensor(value) for value in (rows, *parameters)]
        [output] = self.fgraph.outputs
        batched = pt.tensor(dtype=output.dtype, shape=(None, *output.type.shape))
        return Apply(self, inputs, [batched])

    @cached_property
    def _one_row(self) -> Callable[..., np.ndarray]:
        # a black box takes the time, whatever is compiled around it
        mode = "FAST_COMPILE" if calls_host(self.fgraph.outputs) else "CVM"
        kwargs = compile_kwargs_for(mode, {"trust_input": True, "on_unused_input": "ignore"})
        one_row = function_for(self.fgraph.inputs, self.fgraph.outputs[0], **kwargs)
        return one_at_a_time(one_row)

    def perform(self, node: Apply, inputs: Sequence[Any], outputs: Any) -> None:
        """Python loop over rows, for backends without a form of their own."""
        rows, *parameters = inputs
        rows = np.ascontiguousarray(rows)
        outputs[0][0] = np.stack([self._one_row(row, *parameters) for row in rows])

    def optimized(self, mode_name: str, *excluding: str) -> FunctionGraph:
        """Copy of the inner graph, rewritten for a backend."""
        fgraph = self.fgraph.clone()
        mode = compile_kwargs_for(mode_name, {})["mode"]
        mode.excluding(*excluding).optimizer.rewrite(fgraph)
        return fgraph


def teach_own_ops(linker: Any) -> None:
    """Tell a backend of a `RowMap`, and JAX of those that others compute by themselves."""
    # only one backend, since importing NUMBA takes a second
    if isinstance(linker, NumbaLinker):
        from pytensor.link.numba.dispatch import numba_funcify

        numba_funcify.register(RowMap)(_numba_row_map)
    elif isinstance(linker, JAXLinker):
        from pytensor.link.jax.dispatch import jax_funcify

        jax_funcify.register(RowMap)(_jax_row_map)
        jax_funcify.register(HostCall)(jax_host_call)
        jax_funcify.register(BranchlessSoftplus)(jax_softplus)


def _jax_row_map(op: RowMap, **_: Any) -> Callable:
    import jax
    from pytensor.link.jax.dispatch import jax_funcify

    one_row = jax_funcify(op.optimized("JAX"))
    in_axes = (0, *[None] * (len(op.fgraph.inputs) - 1))
    return jax.vmap(lambda *inputs: one_row(*inputs)[0], in_axes)


def _numba_row_map(op: RowMap, **_: Any) -> Callable:
    from pytensor.link.numba.dispatch import numba_funcify
    from pytensor.link.numba.dispatch.basic import numba_njit

    # the loop hands out views of the rows, which the inner graph must not overwrite
    one_row = numba_funcify(op.optimized("NUMBA", "inplace"), squeeze_output=True)
    width = op.fgraph.outputs[0].type.shape[0]

    @numba_njit
    def row_map(rows, *parameters):  # type: ignore[no-untyped-def]
        out = np.empty((rows.shape[0], width))
        for i in range(rows.shape[0]):
            out[i] = one_row(rows[i], *parameters)
        return out

    return row_map
