"""Graphs within operations: of a Scan, of an OpFromGraph, of a single row of a Blockwise."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import HasMultipleInnerGraph, Op
from pytensor.graph.traversal import toposort
from pytensor.scan.op import Scan
from pytensor.tensor.blockwise import Blockwise


def ops_within(outputs: Sequence[Variable]) -> Iterator[Op]:
    """Operations of graphs, and those within them."""
    for node in toposort(outputs):
        yield from ops_of(node.op)


def ops_of(op: Any) -> Iterator[Op]:
    """An operation, and those within it."""
    yield op
    core = getattr(op, "core_op", None)
    if core is not None:
        yield from ops_of(core)
    inner = list(op.inner_graphs.values()) if isinstance(op, HasMultipleInnerGraph) else []
    graph = getattr(op, "fgraph", None)  # as of a RowMap
    for one in inner or ([] if graph is None else [graph]):
        yield from ops_within(one.outputs)


def inner_graph(node: Apply) -> tuple[Sequence[Variable], Sequence[Variable]]:
    """Inputs and outputs of a copy of the graph within an operation, or of one of its rows."""
    op: Any = node.op
    if isinstance(op, Blockwise):
        given: Any = node.inputs
        core, inputs = op._create_dummy_core_node(given, return_dummy_inputs=True)
        return inputs, core.outputs
    graph = op.fgraph.unfreeze()
    return graph.inputs, graph.outputs


def values_within(
    node: Apply, inputs: Sequence[Variable], values: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Values of the inputs of an inner graph, at the first row or time, by those of a node."""
    places: Any = range(len(inputs))
    if isinstance(node.op, Scan):
        by_place = node.op.get_oinp_iinp_iout_oout_mappings()["outer_inp_from_inner_inp"]
        places = [by_place[i] for i in places]
    found = []
    for var, place in zip(inputs, places, strict=True):
        n_axes = values[place].ndim - getattr(var.type, "ndim", 0)
        found.append(values[place][(0,) * n_axes])
    return found
