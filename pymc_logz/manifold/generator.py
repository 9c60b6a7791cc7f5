"""From a model with exact observations to symbolic functions of its flat unconstrained inputs."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.logprob.abstract import MeasurableOp
from pymc.pytensorf import rewrite_pregrad
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.replace import graph_replace, vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.scan.op import Scan
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.subtensor import Subtensor, get_constant_idx, get_idx_list

from pymc_logz.errors import ModelError
from pymc_logz.graphs.functions import cheaply_compiled, known_shapes
from pymc_logz.graphs.gradients import NO_GRADIENT
from pymc_logz.manifold.backends import SymbolicSystem
from pymc_logz.manifold.generator_form import check_shape
from pymc_logz.models.cache import kept_for, with_data_inputs
from pymc_logz.models.exact import exact_observations, is_exact
from pymc_logz.models.flat import FlatModel
from pymc_logz.models.guards import check_model
from pymc_logz.models.rows import at_symbolic_row, starting_point


def without_recurrence(observations: Sequence[Variable]) -> list[Variable]:
    """Outputs of exact observations, with what was observed of earlier steps in place of those.

    Outputs that are not all states of a loop from its first step on are left as they are.
    """
    outputs, observed = zip(*(one.owner.inputs for one in observations), strict=True)
    places, result = [_place(output) for output in outputs], list(outputs)
    observed_at = dict(zip(places, observed, strict=True))
    for i, place in enumerate(places):
        if place is None:
            continue
        node, state = place
        states = [(node, one) for one in range(node.op.info.n_sit_sot)]
        if observed_at.keys() >= set(states):
            with suppress(NotImplementedError, ValueError):  # the loop computes the same
                others = [observed_at[one] for one in states]
                result[i] = _with_known_shapes(_vectorized_over_steps(node, state, others))
    return result


def _with_known_shapes(output: Variable) -> Variable:
    """The same graph, without what matters by its known shape alone, as noise of another state."""
    drawn = [one for one in ancestors([output]) if isinstance(one.owner_op, MeasurableOp)]
    known = known_shapes(ancestors([output], blockers=drawn))
    return graph_replace(output, known) if known else output


def _place(output: Variable) -> tuple[Apply, int] | None:
    """The loop and the number of the state that an output is, from its first step to its last."""
    while output.owner is not None and _only_reshapes(output.owner):
        output = output.owner.inputs[0]
    if not isinstance(output.owner_op, Subtensor):
        return None
    trace = output.owner.inputs[0]
    if not isinstance(trace.owner_op, Scan):
        return None
    index = get_constant_idx(
        output.owner.op.idx_list,
        output.owner.inputs,
        allow_partial=True,
        only_process_constants=True,
    )
    info = trace.owner.op.info
    other = info.as_while or info.mit_mot_in_slices or info.mit_sot_in_slices
    states = trace.owner.op.outer_sitsot_outs(trace.owner.outputs)
    if other or trace not in states or index != [slice(1, None)]:
        return None
    return trace.owner, states.index(trace)


def _only_reshapes(node: Apply) -> bool:
    """Whether an operation is about the shape only, or takes all there is."""
    if isinstance(node.op, Subtensor):
        index = get_idx_list(node.inputs, node.op.idx_list)
        return all(part == slice(None) for part in index)
    return isinstance(node.op, SpecifyShape)


def _vectorized_over_steps(node: Apply, state: int, observed: list[Variable]) -> Variable:
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


@dataclass(frozen=True)
class Generator(SymbolicSystem):
    """A model with exact observations, seen as a density of inputs and constraints on them."""

    flat: FlatModel
    """Inputs u: log prior with Jacobians of the transforms, and log likelihood plus potentials."""
    observed: np.ndarray
    """What was observed, shape (m,)."""
    labels: tuple[str, ...]
    """Name of each entry of the output."""
    noise: tuple[int, ...]
    """Entries of u declared to reach one entry of the output each; empty if none were declared."""


def make_generator(model: pm.Model) -> Generator:
    """Inputs, their density and the constraints of a model with exact observations."""
    observations = exact_observations(model)
    if not observations:
        raise ModelError(
            "the model has no exact observation; declare one by lz.ExactObservation(name, output, "
            "observed), or sample it with pm.NUTS and the like"
        )
    check_model(model)
    outputs = model.replace_rvs_by_values(without_recurrence(observations))
    potentials = [term for term in model.potentials if not is_exact(term)]
    terms = [pt.sum(term) for term in model.replace_rvs_by_values(potentials)]
    log_ratio = model.observedlogp + pt.sum(terms) if terms else model.observedlogp
    densities = [rewrite_pregrad(model.varlogp), rewrite_pregrad(log_ratio)]
    observed = model.replace_rvs_by_values([one.owner.inputs[1] for one in observations])
    # everything as a function of one flat vector of static length, data constant
    start = starting_point(model)
    shapes = {var.name: start[var.name].shape for var in model.value_vars}
    point, everything = at_symbolic_row(model, [*densities, *outputs, *observed])
    everything, _ = with_data_inputs(everything, kept_for(model), constant=True)
    log_prior, log_ratio, *rest = everything
    flat = FlatModel(model, shapes, point, log_prior, log_ratio)
    outputs, observed = rest[: len(outputs)], rest[len(outputs) :]
    arrays = [np.asarray(value) for value in cheaply_compiled([], observed)()]
    for observation, array, output in zip(observations, arrays, outputs, strict=True):
        if not np.all(np.isfinite(array)):
            name = observation.name
            raise ModelError(f"observed of {name!r} has entries that are not finite numbers")
        check_shape(str(observation.name), output, array.shape)
    residual = pt.concatenate(
        [(out - value).ravel() for out, value in zip(outputs, arrays, strict=True)]
    )
    labels = tuple(
        str(observation.name) + (str(list(index)) if index else "")
        for observation, array in zip(observations, arrays, strict=True)
        for index in np.ndindex(array.shape)
    )
    noise = {name for observation in observations for name in observation.owner.op.noise}
    if unknown := noise - set(model.named_vars):
        raise ModelError(f"noise={sorted(unknown)} are no variables of the model")
    generator = Generator(
        point,
        pt.specify_shape(residual.astype(pytensor.config.floatX), (len(labels),)),
        log_prior + log_ratio,
        flat,
        np.concatenate([value.ravel() for value in arrays]),
        labels,
        tuple(i for i, owner in enumerate(flat.owners) if owner in noise),
    )
    _check(generator)
    return generator


def _check(generator: Generator) -> None:
    m, d = generator.n_outputs, generator.n_dims
    names = sorted({label.split("[")[0] for label in generator.labels})
    if m >= d:
        raise ModelError(
            f"{m} outputs are observed exactly, but the model has only {d} unconstrained inputs, "
            "which leaves no freedom; observe fewer outputs, or give the simulator its noise as "
            "free variables"
        )
    try:
        pt.grad(generator.residual.sum(), generator.flat.point, disconnected_inputs="raise")
    except NO_GRADIENT as error:
        raise ModelError(
            f"an exact observation out of {names} is not differentiable in the inputs "
            f"({str(error)[:300]}); write the output without operations that have no gradient"
        ) from error
    except pytensor.gradient.DisconnectedInputError as error:
        raise ModelError(
            f"the exact observations {names} do not depend on any free variable"
        ) from error
