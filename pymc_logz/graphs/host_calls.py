"""Black boxes: operations that compute in Python, called from whatever a model is compiled for.

A user's own Op is known to PyTensor by its ``perform`` alone. A `HostCall` takes its place, which
every backend can call: JAX by one callback for all rows of a batch, the others row by row. What it
raises is handed on as it was.
"""

import itertools
import logging
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from pytensor.compile.ops import FromFunctionOp
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import HasMultipleInnerGraph, Op, _NoPythonOp
from pytensor.graph.replace import _vectorize_node
from pytensor.graph.traversal import toposort
from pytensor.tensor.type import TensorType

from pymc_logz.errors import logger
from pymc_logz.graphs.functions import cheaply_compiled
from pymc_logz.graphs.threads import AT_ONCE, FOR_MAIN, ONE_AT_A_TIME

KNOWN_PACKAGES = frozenset({"pytensor", "pymc", "pymc_extras", "pymc_logz"})
"""Packages whose operations backends know, or do not without being told."""
DISPATCHES = {
    "pytensor.link.jax.dispatch.basic": "jax_funcify",
    "pytensor.link.numba.dispatch.basic": "numba_funcify",
}
"""Where a user may have told a backend how to compute an Op of their own."""
Shape = tuple[int, ...]


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
        examples = dict(zip(known, values, strict=False))
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

    def _called(self, node: Apply, inputs: Sequence[Any]) -> list[np.ndarray]:
        # copies, since an Op may write into its inputs, and those of JAX are read-only
        given = zip(inputs, node.inputs, strict=True)
        arrays = [np.array(value, dtype=var.type.dtype) for value, var in given]
        storage: list[list[Any]] = [[None] for _ in node.outputs]
        try:
            started = time.perf_counter()
            self.op.perform(self.own_node(node), arrays, storage)
            self._log_duration(time.perf_counter() - started)
        except Exception as error:
            error.add_note(f"raised by {self.op}, an Op of the model, at {list(inputs)}")
            raise
        seen = self._shapes and self._shapes.get(tuple(array.shape for array in arrays))
        shapes = seen or [out.type.shape for out in node.outputs]
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
        array = np.array(value)  # a copy, of what may be read-only, or overwritten by the next call
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
        """Shapes of the outputs for inputs of these shapes; by a call where nothing says them."""
        if self.core is not None:
            core: Any = self.core.op
            pairs = zip(shapes, self.core.inputs, strict=True)
            cuts = [(shape, len(shape) - var.type.ndim) for shape, var in pairs]
            lead = np.broadcast_shapes(*(shape[:n] for shape, n in cuts))
            single = tuple(shape[n:] for shape, n in cuts)
            return tuple((*lead, *shape) for shape in core.output_shapes(self.core, single))
        declared = tuple(out.type.shape for out in node.outputs)
        if not any(None in shape for shape in declared):
            return declared
        if shapes not in self._shapes:
            if self.examples is None:
                raise NotImplementedError(
                    f"{self.op} does not say what shape it computes: declare it, as in "
                    'otypes=[pt.TensorType("float64", shape=(10,))]'
                )
            inputs = list(map(np.resize, self.examples, shapes))
            self._shapes[shapes] = tuple(out.shape for out in self.called(node, inputs))
        return self._shapes[shapes]

    def called_for_rows(self, node: Apply, *batches: Any) -> tuple[np.ndarray, ...]:
        """Outputs for inputs with the axes of a batch in front, of length 1 where all share it."""
        arrays = [np.asarray(batch) for batch in batches]
        n_axes = arrays[0].ndim - node.inputs[0].type.ndim
        lead = np.broadcast_shapes(*(array.shape[:n_axes] for array in arrays))
        n = int(np.prod(lead, dtype=int))
        shapes = [array.shape[n_axes:] for array in arrays]
        varies = [array.shape[:n_axes] == lead for array in arrays]
        wide = [
            array.reshape(n, *shape) if own else np.broadcast_to(array.reshape(shape), (n, *shape))
            for array, shape, own in zip(arrays, shapes, varies, strict=True)
        ]
        # a block of too few rows is filled up with the last one, which need not be computed again
        flat = [array.reshape(n, -1) for array, own in zip(wide, varies, strict=True) if own]
        new = np.arange(n) == 0
        for array in flat:
            new[1:] |= (array[1:] != array[:-1]).any(axis=1)
        found = self._called_for_each(node, list(zip(*(array[new] for array in wide), strict=True)))
        columns = [np.array(column) for column in zip(*found, strict=True)]
        if not new.all():
            columns = [column[np.cumsum(new) - 1] for column in columns]
        return tuple(column.reshape((*lead, *column.shape[1:])) for column in columns)

    def _called_for_each(
        self, node: Apply, rows: Sequence[Sequence[Any]]
    ) -> list[list[np.ndarray]]:
        calls = AT_ONCE if is_thread_safe(self.op) else ONE_AT_A_TIME
        what = f"{self.op}, an Op of the model,"
        return calls.each(what, lambda row: self._called(node, row), rows)


def is_thread_safe(op: Op) -> bool:
    """Whether an Op says that several threads may call it at once."""
    return bool(getattr(op, "thread_safe", False))


def has_gradient(op: Op) -> bool:
    """Whether an Op has a gradient of its own, by whichever of PyTensor's names."""
    names = "pullback", "L_op", "grad"
    return any(getattr(type(op), name) is not getattr(Op, name) for name in names)


def is_box_without_gradient(node: Apply) -> bool:
    """Whether a node is a black box without a gradient."""
    op = getattr(node.op, "core_op", node.op)
    return isinstance(op, HostCall) and not has_gradient(op.op)


def is_foreign(node: Apply) -> bool:
    """Whether a node computes arrays in Python, and no backend was told how else."""
    op = node.op
    if isinstance(op, HostCall | HasMultipleInnerGraph | _NoPythonOp):
        return False
    known = type(op).__module__.split(".")[0] in KNOWN_PACKAGES
    if known and not isinstance(op, FromFunctionOp):
        return False
    if not all(isinstance(var.type, TensorType) for var in (*node.inputs, *node.outputs)):
        return False
    for module, name in DISPATCHES.items():  # what was not imported was told nothing
        dispatch = getattr(sys.modules.get(module), name, None)
        if dispatch is not None and dispatch.dispatch(type(op)) is not dispatch.dispatch(object):
            return False
    return bool(node.inputs)


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
        given = [made.get(var, var) for var in node.inputs]
        if is_foreign(node):
            is_open = any(None in var.type.shape for var in node.outputs)
            wanted = is_open or has_gradient(node.op)
            examples = _examples(node, values) if wanted else None
            new = Apply(HostCall(node.op, examples), given, [v.type() for v in node.outputs])
        elif given != node.inputs:
            new = node.clone_with_new_inputs(given)
        else:
            continue
        made.update(zip(node.outputs, new.outputs, strict=True))
    return [made.get(var, var) for var in outputs]


def _examples(node: Apply, values: Mapping[Variable, Any]) -> list[np.ndarray] | None:
    """Values of the inputs of a node; None if they are not to be had."""
    try:
        found = cheaply_compiled(list(values), node.inputs)(*values.values())
    except Exception:  # of the Ops before it, which tell of it when a run calls them
        return None
    return list(map(np.asarray, found))


def calls_host(outputs: Sequence[Variable]) -> bool:
    """Whether graphs have a `HostCall`, in inner graphs too."""
    return any(map(_is_host, toposort(outputs)))


def _is_host(node: Apply) -> bool:
    op: Any = node.op
    inner = list(op.inner_graphs.values()) if isinstance(op, HasMultipleInnerGraph) else []
    graph = getattr(op, "fgraph", None)  # as of a RowMap
    graphs = [*inner, *([] if graph is None else [graph])]
    at_core = isinstance(getattr(op, "core_op", None), HostCall)
    return isinstance(op, HostCall) or at_core or any(calls_host(g.outputs) for g in graphs)


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


_tokens = itertools.count()
_exceptions: dict[str, Exception] = {}


def jax_host_call(op: HostCall, node: Apply, **_: Any) -> Callable:
    """A function of JAX's that calls an Op in Python, once for all rows that it is mapped over."""
    import jax

    def call(*args: Any) -> Any:
        shapes = op.output_shapes(node, tuple(arg.shape for arg in map(jax.numpy.asarray, args)))
        types = [
            jax.ShapeDtypeStruct(shape, out.type.dtype)
            for shape, out in zip(shapes, node.outputs, strict=True)
        ]

        def of_rows(*batches: Any) -> tuple[np.ndarray, ...]:
            try:
                return op.called_for_rows(node, *batches)
            except Exception as error:
                name = f"pymc_logz call {next(_tokens)} of an Op failed"
                _exceptions[name] = error
                raise _Token(name) from error

        found = jax.pure_callback(of_rows, tuple(types), *args, vmap_method="expand_dims")
        return found[0] if len(types) == 1 else found

    return call


class _Token(RuntimeError):
    """Stands for what an Op raised, of which JAX hands on no more than text."""


# what will be raised where the run is, JAX need not print
logging.getLogger("jax._src.callback").addFilter(
    lambda record: record.exc_info is None or not isinstance(record.exc_info[1], _Token)
)


def with_original_exception(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of JAX's that waits for its results, and raises what an Op raised, as it was."""
    import jax

    def waited(values: tuple[Any, ...]) -> Any:
        return jax.block_until_ready(function(*values))

    def call(*values: Any) -> Any:
        try:
            if threading.current_thread() is threading.main_thread():
                return FOR_MAIN.each("compiled code", waited, [values])[0]
            return waited(values)
        except Exception as error:  # of several classes, as it fails at once or in the background
            name = re.search(r"pymc_logz call \d+ of an Op failed", str(error))
            raised = None if name is None else _exceptions.pop(name.group(), None)
            if raised is None:
                raise
            raise raised from None

    return call
