"""Recurrent outputs that are observed in full, without the recurrence.

A simulator computes each state from the one before. Where all states are observed exactly, the
observed values may stand in for the simulated ones: the inputs that give the observation are the
same, and since the two Jacobians differ by a unit triangular factor, so is the determinant of J J'.
What was a loop becomes one function of all steps at once, in which the noise of a step reaches the
state of that step only (Graham & Storkey 2017, appendix C, arXiv 1605.07826).
"""

from collections.abc import Sequence
from typing import Any

import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.scan.op import Scan
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.subtensor import Subtensor, get_idx_list


def without_recurrence(outputs: Sequence[Variable], observed: Sequence[Variable]) -> list[Variable]:
    """Outputs with the observed value of each earlier step in place of the simulated one.

    Outputs that are not all states of a loop from its first step on are left as they are.
    """
    places = [_place(output) for output in outputs]
    result = list(outputs)
    for i, place in enumerate(places):
        if place is None:
            continue
        node, state = place
        others = {
            other[1]: value
            for other, value in zip(places, observed, strict=True)
            if other is not None and other[0] is node
        }
        if len(others) == node.op.info.n_sit_sot:
            try:
                result[i] = _all_steps_at_once(node, state, others)
            except (NotImplementedError, ValueError):
                continue  # the loop computes the same
    return result


def _place(output: Variable) -> tuple[Apply, int] | None:
    """The loop and the number of the state that an output is, from its first step to its last."""
    while output.owner is not None and _changes_nothing(output.owner):
        output = output.owner.inputs[0]
    if output.owner is None or not isinstance(output.owner.op, Subtensor):
        return None
    trace = output.owner.inputs[0]
    if trace.owner is None or not isinstance(trace.owner.op, Scan):
        return None
    index = get_idx_list(output.owner.inputs, output.owner.op.idx_list)
    info = trace.owner.op.info
    plain = not (info.as_while or info.mit_mot_in_slices or info.mit_sot_in_slices)
    plain = plain and all(tuple(taps) == (-1,) for taps in info.sit_sot_in_slices)
    states = trace.owner.op.outer_sitsot_outs(trace.owner.outputs)
    if not plain or trace not in states or not _is_all_but_first(index):
        return None
    return trace.owner, states.index(trace)


def _changes_nothing(node: Apply) -> bool:
    """Whether an operation is about the shape only, or takes all there is."""
    if isinstance(node.op, Subtensor):
        index = get_idx_list(node.inputs, node.op.idx_list)
        return all(part == slice(None) for part in index)
    return isinstance(node.op, SpecifyShape)


def _is_all_but_first(index: Sequence[Any]) -> bool:
    """Whether an index is ``[1:]``."""
    if len(index) != 1 or not isinstance(index[0], slice):
        return False
    start, stop, step = index[0].start, index[0].stop, index[0].step
    start = start.data if isinstance(start, Constant) else start
    return start is not None and start == 1 and stop is None and step is None


def _all_steps_at_once(node: Apply, state: int, observed: dict[int, Variable]) -> Variable:
    op = node.op
    graph = op.fgraph.unfreeze()
    inner, outer = graph.inputs, node.inputs
    step = op.inner_sitsot_outs(graph.outputs)[state]
    n_steps = observed[state].shape[0]
    batched = dict(zip(op.inner_non_seqs(inner), op.outer_non_seqs(outer), strict=True))
    batched |= {
        one: many[:n_steps]
        for one, many in zip(op.inner_seqs(inner), op.outer_seqs(outer), strict=True)
    }
    starts = op.outer_sitsot(outer)
    for number, one in enumerate(op.inner_sitsot(inner)):
        first = starts[number][:1].astype(one.dtype)
        batched[one] = pt.concatenate([first, observed[number][:-1].astype(one.dtype)])
    [steps] = vectorize_graph([step], batched)
    if steps.ndim == step.ndim:
        raise ValueError("a step that depends on nothing is the same each time")
    return steps
