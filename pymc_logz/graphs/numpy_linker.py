"""A backend that compiles nothing: one NumPy call after the other, with little in between.

PyTensor's own interpreter takes 15 microseconds around each operation, which is most of the time
for a few hundred rows; a plain Python function of the same calls takes one.
"""

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.mode import Mode, optdb
from pytensor.conditional.op import IfElse
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import HasInnerGraph, Op
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.graph.traversal import toposort
from pytensor.link.basic import JITLinker
from pytensor.link.utils import fgraph_to_python
from pytensor.scalar.basic import Cast, Clip, Identity, Second
from pytensor.scalar.math import Log1mexp, Softplus
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.utils import import_func_from_string

from pymc_logz.graphs.batching import RowMap
from pymc_logz.graphs.functions import one_at_a_time
from pymc_logz.graphs.host_calls import HostCall
from pymc_logz.graphs.inner_graphs import ops_within

INLINING = ("inline_ofg_expansion", "inline_ofg_expansion_xtensor")
"""Rewrites that take what a model computes apart again."""
Compile = Callable[[list[Variable], list[Variable]], Callable[..., Any]]

UNNAMED: dict[type, Callable[..., Any]] = {
    Cast: np.array,
    Clip: np.clip,
    Identity: np.array,
    Second: lambda shaped, value: np.broadcast_arrays(shaped, value)[1],
    Softplus: partial(np.logaddexp, 0.0),
    Log1mexp: lambda x: np.where(x < -np.log(2.0), np.log1p(-np.exp(x)), np.log(-np.expm1(x))),
}
"""Functions of elementwise operations for which PyTensor names none."""


class NumpyLinker(JITLinker):
    """Turns a graph into a Python function of NumPy calls, made for one thread at a time.

    What a model computes for a batch of rows, if it is apart, is handed to ``compiled``: from
    inputs and outputs to a function.
    """

    # for compiled code, and those by which an operation would overwrite what it is given
    incompatible_rewrites = ("cxx_only", "BlasOpt", "fusion", "inplace", "scan_make_inplace")

    def __init__(self, compiled: Compile | None = None) -> None:
        super().__init__()
        self.compiled = compiled

    def fgraph_convert(
        self, fgraph: Any, order: Any = None, *_: Any, storage_map: Any = None, **__: Any
    ) -> Callable[..., Any]:
        """The Python function."""
        functions: dict[Op, Callable[..., Any]] = {}

        def call_of(op: Op, node: Apply, **_: Any) -> Callable[..., Any]:
            compiled = self.compiled if _is_of_model(op) else None
            if compiled is None and not isinstance(op, OpFromGraph):
                return _call_of(op, node)
            if op not in functions:
                inputs = [var.type() for var in node.inputs]
                functions[op] = (
                    fgraph_to_python(op.fgraph, call_of, fgraph_name="in_numpy")
                    if compiled is None
                    else compiled(inputs, op(*inputs, return_list=True))
                )
            function = functions[op]
            return lambda *values: _one_or_all(function(*values))

        return fgraph_to_python(
            fgraph, call_of, order=order, storage_map=storage_map, fgraph_name="in_numpy"
        )

    def create_thunk_inputs(self, storage_map: Any) -> list[Any]:
        """Where the function finds its inputs."""
        return [storage_map[var] for var in self.fgraph.inputs]

    def jit_compile(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """The function, silent about what overflows, as compiled ones are."""
        # some operations of PyTensor keep in themselves what they compute
        return one_at_a_time(np.errstate(all="ignore")(fn))


def numpy_mode(compiled: Compile | None = None) -> Mode:
    """Mode that compiles nothing at all, or, by ``compiled``, only what a model computes."""
    # the second is there once labelled arrays are imported, and must not be asked for before
    without = [name for name in INLINING if name in optdb and compiled is not None]
    # makes fourth powers a function that PyTensor's interpreter calls for each number
    without.append("local_pow_to_nested_squaring")
    return Mode(NumpyLinker(compiled), RewriteDatabaseQuery(include=["fast_run"], exclude=without))


def suits_numpy(outputs: Sequence[Variable], but_models: bool = False) -> bool:
    """Whether NumPy computes graphs without a Python loop over rows, entries or times."""
    return all(_suits_numpy(node, but_models) for node in toposort(outputs))


def _suits_numpy(node: Apply, but_models: bool) -> bool:
    if but_models and _is_of_model(node.op):
        return True
    if isinstance(node.op, Elemwise):
        return _elementwise(node.op, node) is not None
    if isinstance(node.op, OpFromGraph):
        return suits_numpy(node.op.inner_outputs)
    return not isinstance(node.op, RowMap | HasInnerGraph)


def has_row_loops(outputs: Sequence[Variable]) -> bool:
    """Whether NumPy computes a part of graphs one row after the other, as factors of matrices."""
    return any(
        isinstance(op, Blockwise)
        and not (op.gufunc_spec or getattr(op.core_op, "gufunc_spec", None))
        for op in ops_within(outputs)
    )


def _is_of_model(op: Op) -> bool:
    """Whether it holds what a model computes for a batch of rows, rather than one function."""
    return isinstance(op, RowMap) or (isinstance(op, OpFromGraph) and op.is_inline)


def _call_of(op: Op, node: Apply) -> Callable[..., Any]:
    if isinstance(op, Elemwise):
        function = _elementwise(op, node)
        if function is not None:
            dtype = np.dtype(node.outputs[0].type.dtype)
            if _makes_arrays(function, node, dtype):
                return function
            return lambda *values: np.asarray(function(*values), dtype)
    if isinstance(op, DimShuffle):
        return _dim_shuffle(op)
    if isinstance(op, Dot):
        return np.matmul
    if isinstance(op, IfElse):
        return lambda condition, *values: _one_or_all(
            values[: op.n_outs] if condition else values[op.n_outs :]
        )
    if isinstance(op, Blockwise) and isinstance(op.core_op, HostCall):
        box, core = op.core_op, op._create_dummy_core_node(node.inputs)
        return lambda *values: _one_or_all(box.called_for_rows(core, *values))
    return _performed(op, node)


def _dim_shuffle(op: DimShuffle) -> Callable[..., Any]:
    order = op._transposition
    kept = (None if new == "x" else slice(None) for new in op.new_order)
    index = (*kept, *[0] * len(op.drop))  # what is dropped is last by then
    if list(order) == sorted(order):
        return lambda array: array[index]
    return lambda array: array.transpose(order)[index]


def _one_or_all(found: Any) -> Any:
    return found[0] if len(found) == 1 else found


def _elementwise(op: Elemwise, node: Apply) -> Callable[..., Any] | None:
    """NumPy's or SciPy's function for an elementwise operation; None if there is none."""
    scalar, n_inputs = op.scalar_op, len(node.inputs)
    for kind, function in UNNAMED.items():
        if isinstance(scalar, kind):
            return function
    name, n_taken, n_made = getattr(scalar, "nfunc_spec", None) or ("", 0, 0)
    if not name or n_made != 1:
        return None
    function = import_func_from_string(name)
    if n_inputs == n_taken:
        kinds = {var.type.dtype[0] for var in node.inputs}
        of_integers = node.outputs[0].type.dtype == "float64" and kinds & {"i", "u", "b"}
        # NumPy would compute some of these in half precision
        is_half = of_integers and isinstance(function, np.ufunc)
        return partial(function, dtype=np.float64) if is_half else function
    return (lambda *values: reduce(function, values)) if n_taken == 2 and n_inputs else None


def _makes_arrays(function: Callable[..., Any], node: Apply, dtype: np.dtype) -> bool:
    """Whether what a function returns is an array of this dtype as it is."""
    if not isinstance(function, np.ufunc) or node.outputs[0].type.ndim == 0:
        return False
    given = (np.dtype(var.type.dtype) for var in node.inputs)
    return function.resolve_dtypes((*given, None))[-1] == dtype


def _performed(op: Op, node: Apply) -> Callable[..., Any]:
    """What PyTensor's interpreter calls."""
    op.prepare_node(node, None, None, "py")

    def call(*values: Any) -> Any:
        storage: list[list[Any]] = [[None] for _ in node.outputs]
        op.perform(node, list(values), storage)
        return _one_or_all([cell[0] for cell in storage])

    return call
