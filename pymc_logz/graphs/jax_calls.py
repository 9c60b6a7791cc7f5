"""Black boxes within functions that JAX compiles: one call for all rows of a batch.

JAX hands on no more than the text of what a call raises; here it is raised as it was.
"""

import itertools
import logging
import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply

from pymc_logz.graphs.host_calls import HostCall
from pymc_logz.graphs.threads import FOR_MAIN

_tokens = itertools.count()
_exceptions: dict[str, BaseException] = {}


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
            except BaseException as error:
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
            context = raised.__context__
            try:
                raise raised
            finally:  # what was handled where it was raised, not here
                raised.__context__ = context

    return call
