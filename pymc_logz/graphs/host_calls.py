"""Black boxes: operations that compute in Python, called from whatever a model is compiled for.

A user's own Op is known to PyTensor by its ``perform`` alone. A `HostCall` takes its place, which
every backend can call: JAX by one callback for all rows of a batch, the others row by row. What it
raises is handed on as it was.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.ops import FromFunctionOp
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import HasMultipleInnerGraph, Op, _NoPythonOp
from pytensor.graph.replace import _vectorize_node, vectorize_graph
from pytensor.graph.traversal import toposort
from pytensor.scalar.basic import ScalarOp
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.type import TensorType

from pymc_logz.errors import logger
from pymc_logz.graphs.functions import cheaply_compiled
from pymc_logz.graphs.inner_graphs import inner_graph, ops_of, ops_within, values_within
from pymc_logz.graphs.threads import AT_ONCE, ONE_AT_A_TIME

KNOWN_PACKAGES = frozenset({"pytensor", "pymc", "pymc_extras", "pymc_logz"})
"""Packages whose operations backends know, or do not without being told."""
DISPATCHES = {
    "pytensor.link.jax.dispatch.basic": "jax_funcify",
    "pytensor.link.numba.dispatch.basic": "numba_funcify",
}
"""Where a user may have told a backend how to compute an Op of their own."""
Shape = tuple[int, ...]
OpenShape = tuple[int | None, ...]


class HostCall(Op):
    """Computes another Op by its ``perform``, and checks the shapes of what it computes.

    Calls are made one at a time, whatever threads a run has, as few libraries allow more. An Op
    that says ``thread_safe = True`` is called for several rows at once, by as many threads as there
    are processors, or as the run allows. ``examples`` have a value of each input, to find the
    shapes of outputs with where the Op does not declare them; ``core`` is the node of a single row,
    of an Op that takes batches.
    """

    __props__ = ("op",)

    def __init__(
        self,
        op: Op,
        examples: Sequence[np.ndarray] | None = None,
        core: Apply | None = None,
    ) -> None:
        self.op, self.examples, self.core = op, examples, core
        self._shapes: dict[tuple[Shape, ...], tuple[Shape, ...]] = {}
        self._n_calls = 0

    def __str__(self) -> str:
        return str(self.op)

    def make_node(self, *inputs: Any) -> Apply:
        """Node of the Op's own inputs and types."""
        node = self.op.make_node(*inputs)
        return Apply(self, node.inputs, [out.type() for out in node.outputs])

    def own_node(self, node: Apply) -> Apply:
        """The node as the Op itself has it."""
        own: Apply | None = getattr(node.tag, "own_node", None)
        if own is None:
            own = Apply(self.op, node.inputs, [out.type() for out in node.outputs])
            node.tag.own_node = own  # building one takes as long as many an Op
        return own

    def pullback(
        self, inputs: Sequence[Variable], outputs: Sequence[Variable], cotangents: Sequence[Any]
    ) -> list[Variable]:
        """The Op's own, whose operations may be black boxes too."""
        if not has_gradient(self.op):
            raise NotImplementedError(f"pullback not implemented for {self.op}")
        own = self.own_node(outputs[0].owner)
        found = self.op.pullback(inputs, own.outputs, cotangents)
        known = [*inputs, *own.outputs, *cotangents]
        values: list[Any] = []
        if self.examples is not None:
            with suppress(Exception):  # what it raises is told of when a run calls it
                called = self.called(outputs[0].owner, self.examples)
                values = [*self.examples, *called, *map(np.ones_like, called)]
        tensors = [var for var in found if isinstance(var.type, TensorType)]
        by_call = dict(zip(own.outputs, outputs, strict=True))
        pairs = zip(known, values, strict=False)
        examples = {var: value for var, value in pairs if not isinstance(var, Constant)}
        made = iter(with_host_calls(tensors, examples, known, by_call))
        return [next(made) if isinstance(var.type, TensorType) else var for var in found]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """Which outputs depend on which inputs: as the Op says, or all on all."""
        pattern: Any = getattr(self.op, "connection_pattern", None)
        every = [[True] * len(node.outputs) for _ in node.inputs]
        return every if pattern is None else pattern(self.own_node(node))

    def do_constant_folding(self, fgraph: Any, node: Apply) -> bool:
        """As the Op says."""
        return self.op.do_constant_folding(fgraph, self.own_node(node))

    def perform(self, node: Apply, inputs: Sequence[Any], outputs: Any) -> None:
        """One call."""
        for storage, value in zip(outputs, self.called(node, inputs), strict=True):
            storage[0] = value

    def called(self, node: Apply, inputs: Sequence[Any]) -> list[np.ndarray]:
        """Outputs as arrays of the types that the Op declares; a ValueError if of other shapes."""
        return self._called_for_each(node, [inputs])[0]

    def _called(
        self, node: Apply, inputs: Sequence[Any], shapes: Sequence[OpenShape]
    ) -> list[np.ndarray]:
        # copies, since an Op may write into its inputs, and those of JAX are read-only
        given = zip(inputs, node.inputs, strict=True)
        arrays = [np.array(value, dtype=var.type.dtype) for value, var in given]
        storage: list[list[Any]] = [[None] for _ in node.outputs]
        try:
            started = time.perf_counter()
            self.op.perform(self.own_node(node), arrays, storage)
            self._log_duration(time.perf_counter() - started)
        except StopIteration as error:  # would end the loop that it gets to
            raise RuntimeError(
                f"{self.op}, an Op of the model, raised {error!r} at {list(inputs)}"
            ) from error
        except BaseException as error:
            with suppress(Exception):  # of the user's own methods, which would hide the first one
                error.add_note(f"raised by {self.op}, an Op of the model, at {list(inputs)}")
            raise
        return [
            self._checked(value, out.type.dtype, shape)
            for (value,), out, shape in zip(storage, node.outputs, shapes, strict=True)
        ]

    def _log_duration(self, seconds: float) -> None:
        """Say how long calls take, by the second one: what the first takes may be what it loads."""
        self._n_calls += 1
        if self._n_calls != 2 or seconds < 0.005:
            return
        safe = is_thread_safe(self.op)
        at_once = AT_ONCE.n_at_once if safe else 1
        logger.info(
            "One call of the Op %s takes %.2g s, so 10,000 evaluations of a row take %.0f minutes, "
            "on %d core(s)%s.",
            self.op,
            seconds,
            np.ceil(10_000 * seconds / at_once / 60),
            at_once,
            "" if safe else "; with thread_safe = True in an Op they are made on all cores",
        )

    def _checked(self, value: Any, dtype: str, shape: Sequence[int | None]) -> np.ndarray:
        """A value as an array, if it has the shape and kind of numbers that were declared."""
        try:
            array = np.array(value)  # a copy, of what the next call may overwrite
        except Exception as error:
            raise ValueError(
                f"{self.op}, an Op of the model, computed what NumPy makes no array of ({error})"
            ) from error
        fits = len(shape) == array.ndim and all(
            want in (None, n) for want, n in zip(shape, array.shape, strict=True)
        )
        if value is None or not fits:
            found = "nothing" if value is None else f"an array of shape {array.shape}"
            wanted = ", ".join("any" if n is None else str(n) for n in shape)
            raise ValueError(
                f"{self.op}, an Op of the model, computed {found}; by its output type, or what it "
                f"computed before, it must have shape ({wanted})"
            )
        if not np.can_cast(array.dtype, dtype, "same_kind"):
            raise ValueError(
                f"{self.op}, an Op of the model, computed an array of type {array.dtype}; by its "
                f"output type it must be {dtype}"
            )
        return array.astype(dtype, copy=False)

    def output_shapes(self, node: Apply, shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
        """Shapes of the outputs for inputs of these shapes."""
        found = self._expected(node, shapes)
        if any(None in shape for shape in found):
            raise NotImplementedError(
                f"{self.op} does not say what shape it computes: declare it, as in "
                'otypes=[pt.TensorType("float64", shape=(10,))]'
            )
        return found  # type: ignore[return-value]

    def _expected(self, node: Apply, shapes: tuple[Shape, ...]) -> tuple[OpenShape, ...]:
        """The same, by a call where nothing says them; None where it cannot be made."""
        if self.core is not None:
            core: Any = self.core.op
            pairs = zip(shapes, self.core.inputs, strict=True)
            cuts = [(shape, len(shape) - var.type.ndim) for shape, var in pairs]
            lead = np.broadcast_shapes(*(shape[:n] for shape, n in cuts))
            single = tuple(shape[n:] for shape, n in cuts)
            return tuple((*lead, *shape) for shape in core._expected(self.core, single))
        declared = tuple(out.type.shape for out in node.outputs)
        if self.examples is None or not any(None in shape for shape in declared):
            return declared
        if shapes not in self._shapes:
            inputs = list(map(np.resize, self.examples, shapes))
            [found] = self._calls(node, [inputs], declared)
            self._shapes[shapes] = tuple(out.shape for out in found)
        return self._shapes[shapes]

    def called_for_rows(self, node: Apply, *batches: Any) -> tuple[np.ndarray, ...]:
        """Outputs for inputs with the axes of a batch in front, of length 1 where shared."""
        arrays = [np.asarray(batch) for batch in batches]
        n_axes = arrays[0].ndim - node.inputs[0].type.ndim
        lead = np.broadcast_shapes(*(array.shape[:n_axes] for array in arrays))
        n = int(np.prod(lead, dtype=int))
        pairs = [(array, array.shape[n_axes:]) for array in arrays]
        # of what is shared no copies, as all rows of it are one
        wide = [np.broadcast_to(one, (*lead, *own)).reshape(n, *own) for one, own in pairs]
        varies = [array.shape[:n_axes] != (1,) * n_axes for array in arrays]
        # a block of too few rows is filled up with others, which need not be computed again
        told_apart = [array for array, own in zip(wide, varies, strict=True) if own]
        keys = [b"".join(array[i].tobytes() for array in told_apart) for i in range(n)]
        rows = dict(zip(keys, zip(*wide, strict=True), strict=True))
        found = dict(zip(rows, self._called_for_each(node, list(rows.values())), strict=True))
        columns = map(np.array, zip(*(found[key] for key in keys), strict=True))
        return tuple(column.reshape((*lead, *column.shape[1:])) for column in columns)

    def _called_for_each(
        self, node: Apply, rows: Sequence[Sequence[Any]]
    ) -> list[list[np.ndarray]]:
        shapes: tuple[OpenShape, ...] = tuple(out.type.shape for out in node.outputs)
        with suppress(Exception):  # an Op need not compute what it is called with to find shapes
            shapes = self._expected(node, tuple(map(np.shape, rows[0])))
        return self._calls(node, rows, shapes)

    def _calls(
        self, node: Apply, rows: Sequence[Sequence[Any]], shapes: tuple[OpenShape, ...]
    ) -> list[list[np.ndarray]]:
        calls = AT_ONCE if is_thread_safe(self.op) else ONE_AT_A_TIME
        what = f"{self.op}, an Op of the model,"
        return calls.each(what, lambda row: self._called(node, row, shapes), rows)


def is_thread_safe(op: Op) -> bool:
    """Whether an Op says that several threads may call it at once."""
    return bool(getattr(op, "thread_safe", False))


def _own(op: Op) -> tuple[Any, Any]:
    """What computes an operation, entry by entry if so, and PyTensor's class of all such."""
    return (op.scalar_op, ScalarOp) if isinstance(op, Elemwise) else (op, Op)


def has_gradient(op: Op) -> bool:
    """Whether an Op has a gradient of its own, by whichever of PyTensor's names."""
    own, base = _own(op)
    names = "pullback", "L_op", "grad"
    return any(getattr(type(own), name) is not getattr(base, name) for name in names)


def is_box_without_gradient(node: Apply) -> bool:
    """Whether a node is, or has within it, a black box without a gradient."""
    return any(isinstance(op, HostCall) and not has_gradient(op.op) for op in ops_of(node.op))


def _is_foreign(op: Op) -> bool:
    """Whether an operation is computed in Python, and no backend was told how else."""
    if isinstance(op, HostCall | HasMultipleInnerGraph | _NoPythonOp):
        return False
    own, base = _own(op)
    kind = type(own)
    known = kind.__module__.split(".")[0] in KNOWN_PACKAGES
    if known and not isinstance(op, FromFunctionOp):
        return False
    if base is ScalarOp and (kind.impl is ScalarOp.impl or getattr(own, "nfunc_spec", None)):
        return False  # it is written in C, or NumPy has it
    for module, name in DISPATCHES.items():  # what was not imported was told nothing
        dispatch = getattr(sys.modules.get(module), name, None)
        if dispatch is not None and dispatch.dispatch(kind) is not dispatch.dispatch(base):
            return False
    return True


def is_foreign(node: Apply) -> bool:
    """Whether a node computes arrays in Python, and no backend was told how else."""
    both = *node.inputs, *node.outputs
    of_arrays = bool(node.inputs) and all(isinstance(var.type, TensorType) for var in both)
    return of_arrays and _is_foreign(node.op)


def with_host_calls(
    outputs: Sequence[Variable],
    values: Mapping[Variable, Any],
    inputs: Sequence[Variable] = (),
    replaced: Mapping[Variable, Variable] | None = None,
) -> list[Variable]:
    """The same graphs, up to ``inputs``, with a `HostCall` for each Op that no backend knows."""
    # values of the inputs are there to find shapes with
    made: dict[Variable, Variable] = dict(replaced or {})
    for node in toposort(outputs, blockers=inputs):
        op, given = node.op, [made.get(var, var) for var in node.inputs]
        if is_foreign(node):
            is_open = any(None in var.type.shape for var in node.outputs)
            new = _called(op, node, given, values, is_open or has_gradient(op))
        elif _has_foreign_within(op):
            own = getattr(op, "pullback_overrides", None) or type(op).pullback
            if isinstance(op, OpFromGraph) and own is OpFromGraph.pullback:
                ends = [*inputs, *node.inputs]
                new = with_host_calls(op.fgraph.bind(node.inputs), values, ends, made)
            else:
                new = _with_calls_within(node, given, values)
        elif given != node.inputs:
            new = node.clone_with_new_inputs(given).outputs
        else:
            continue
        made.update(zip(node.outputs, new, strict=True))
    return [made.get(var, var) for var in outputs]


def _called(
    op: Op, node: Apply, given: list[Variable], values: Mapping[Variable, Any], with_examples: bool
) -> list[Variable]:
    """Outputs of a node, of which an Op that computes them is called."""
    examples = _examples(node, values) if with_examples else None
    return Apply(HostCall(op, examples), given, [var.type() for var in node.outputs]).outputs


def _has_foreign_within(op: Op) -> bool:
    within = any(_is_foreign(one) for one in ops_of(op) if one is not op)
    return within and (isinstance(op, Blockwise) or hasattr(op, "clone_with_inner_graph"))


def _with_calls_within(
    node: Apply, given: list[Variable], values: Mapping[Variable, Any]
) -> list[Variable]:
    """Outputs of a node that has other nodes within it, for some of which there are calls."""
    op: Any = node.op
    inputs, outputs = inner_graph(node)
    examples = _examples(node, values)
    known: dict[Variable, Any] = {}
    with suppress(IndexError):  # of no rows, or times, there is no first one
        if examples is not None:
            known = dict(zip(inputs, values_within(node, inputs, examples), strict=True))
    called = with_host_calls(outputs, known, inputs)
    if isinstance(op, Blockwise):
        return vectorize_graph(called, dict(zip(inputs, given, strict=True)))
    new = op.clone_with_inner_graph(FunctionGraph(inputs, called, clone=False))
    if isinstance(op, OpFromGraph):
        return _called(new, node, given, values, with_examples=True)
    return Apply(new, given, [var.type() for var in node.outputs]).outputs


def _examples(node: Apply, values: Mapping[Variable, Any]) -> list[np.ndarray] | None:
    """Values of the inputs of a node; None if they are not to be had."""
    try:
        found = cheaply_compiled(list(values), node.inputs)(*values.values())
    except Exception:  # of the Ops before it, which tell of it when a run calls them
        return None
    return list(map(np.asarray, found))


def calls_host(outputs: Sequence[Variable]) -> bool:
    """Whether graphs have a `HostCall`, in inner graphs too."""
    return any(isinstance(op, HostCall) for op in ops_within(outputs))


@_vectorize_node.register(HostCall)
def _vectorized(op: HostCall, node: Apply, *batched: Variable) -> Any:
    """As PyTensor was told for the Op, which then takes whole batches; or one row at a time."""
    vectorize = _vectorize_node.dispatch(type(op.op))
    if vectorize is _vectorize_node.dispatch(Op):
        return vectorize(op, node, *batched)
    made = vectorize(op.op, op.own_node(node), *batched)
    [whole] = [made] if isinstance(made, Apply) else {out.owner for out in made}
    types = [out.type() for out in whole.outputs]
    return Apply(HostCall(whole.op, core=node), whole.inputs, types)
