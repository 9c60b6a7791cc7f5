"""An operation that maps the graph of one row over rows, as each backend does it best."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import Op
from pytensor.link.jax.linker import JAXLinker
from pytensor.link.numba.linker import NumbaLinker
from pytensor.tensor.variable import TensorVariable

from pymc_logz.graphs.host_calls import HostCall, calls_host
from pymc_logz.graphs.jax_host_calls import jax_host_call
from pymc_logz.graphs.kept import one_at_a_time
from pymc_logz.graphs.modes import compile_kwargs_for


class RowMap(Op):
    """Maps the graph of one row, (d,) to (k,), over a matrix (n, d), with common parameters."""

    __props__ = ()

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

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    @cached_property
    def _one_row(self) -> Callable[..., np.ndarray]:
        # a black box takes the time, whatever is compiled around it
        mode = "FAST_COMPILE" if calls_host(self.fgraph.outputs) else "CVM"
        kwargs = compile_kwargs_for(mode, {"trust_input": True, "on_unused_input": "ignore"})
        one_row = pytensor.function(self.fgraph.inputs, self.fgraph.outputs[0], **kwargs)
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


def teach_row_maps(linker: Any) -> None:
    """Tell a backend of a `RowMap`, and JAX of a `HostCall`, which others call by themselves."""
    # only one backend, since importing NUMBA takes a second
    if isinstance(linker, NumbaLinker):
        from pytensor.link.numba.dispatch import numba_funcify

        numba_funcify.register(RowMap)(_numba_row_map)
    elif isinstance(linker, JAXLinker):
        from pytensor.link.jax.dispatch import jax_funcify

        jax_funcify.register(RowMap)(_jax_row_map)
        jax_funcify.register(HostCall)(jax_host_call)


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
